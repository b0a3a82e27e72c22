"""wrk runs on the other processor, with a script that chooses random players and sends new bytes."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.machine import busy_seconds, children_seconds
from bench.process import Process

SCRIPT = Path(__file__).parent / "wrk.lua"
SMOKE_SECONDS = 0.1
"""The length of a run that only shows that everything works."""
ENDED_AT_START = 128 + signal.SIGINT
NONE: Mapping[str, Any] = {"wrong": 0, "broken": 0, "requests": 0}


class Load(Struct, frozen=True):
    """A load: its `kind` in wrk.lua, a path, and the number of connections."""

    kind: str
    path: str
    connections: int = 16
    more: tuple[str, ...] = ()


class Measured(Struct, frozen=True):
    """The result of one run; `cpu_us` is the server's processor time for each request in microseconds.

    `client_us` is wrk's. `foreign` is how many of the two processors were busy with other processes meanwhile.
    """

    per_second: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    foreign: float
    client_us: float = 0.0


def run(
    server: Process, load: Load, players: Path, seconds: float, sign_in: Callable[[], None] | None = None
) -> Measured:
    """RuntimeError when one answer was an error, or a connection broke.

    Where a busy machine gave not one answer, it gets longer. `sign_in` renews the credentials before each attempt.
    """
    for longer in (1, 3, 10, 100):
        if sign_in is not None:
            sign_in()
        os.sync()  # do not count what was written before
        before, own, busy = server.cpu_seconds(), children_seconds(), busy_seconds()
        result = _loaded(server, load, players, seconds * longer)
        spent = server.cpu_seconds() - before
        client = children_seconds() - own
        others = max(0.0, busy_seconds() - busy - spent - client)
        if result["wrong"] or result["broken"]:
            break
        if asked := result["requests"]:
            taken = float(result["seconds"])
            cpu_us, client_us = (seconds / asked * 1e6 for seconds in (spent, client))
            return Measured(asked / taken, cpu_us, result["p50_ms"], result["p99_ms"], others / taken, client_us)
    raise RuntimeError(f"{load.kind} {load.path}: {result}")


def _loaded(server: Process, load: Load, players: Path, seconds: float) -> Mapping[str, Any]:
    """Return the figures that wrk's script printed; wrk knows whole seconds, and SIGINT ends it before."""
    words: Sequence[str] = [
        *("taskset", "-c", server.client_cpu, "wrk", "-t1", f"-c{load.connections}", f"-d{ceil(seconds)}s"),
        "--timeout=60s",
        *("-s", str(SCRIPT), f"http://127.0.0.1:{server.port}", "--"),
        *(load.kind, str(players), load.path, *load.more),
    ]
    if seconds % 1:
        words = ["timeout", "--preserve-status", "--signal=INT", str(seconds), *words]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds + 60)
    if done.returncode == ENDED_AT_START:
        return NONE
    done.check_returncode()
    said = done.stdout
    line = next(line for line in said.splitlines() if line.startswith("RESULT "))
    result: Mapping[str, Any] = json.loads(line.removeprefix("RESULT "))
    return result
