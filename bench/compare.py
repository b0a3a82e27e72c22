"""This compares two states of gamed in turns on one machine: processor time and rate of each path.

python -m bench.compare --before CHECKOUT [--only config] [--rounds 11] [--seconds 2]

CHECKOUT is a folder with the earlier state (`git worktree add CHECKOUT REVISION`); both run on this Python, with the
libraries that are installed. Each round measures both, in an alternating order. The ratio is the median of the rounds,
the spread the distance of its quartiles; more than 1 is dearer by processor time, less than 1 is slower by rate.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

from msgspec.structs import replace

from bench.instance import GamedInstance, Player
from bench.process import ROOT
from bench.rows import ETAG, ROWS
from bench.servers import saved
from bench.wrk import Load, Measured, run

START = "import runpy, sys; sys.path[0] = {path!r}; runpy.run_module('gamed', run_name='__main__', alter_sys=True)"
NAMES = ("healthz", "config", "read", "read-304", "put-1", "put-16", "put-64", "refresh", "login")
NAMES += ("asset-1m", "asset-64k", "asset-304", "asset-4k")
LOADS = {row.name: row.load for row in ROWS if row.name in NAMES}


PLAYERS = 32
"""At least as many as the connections of a refresh, each of which has a credential of its own."""


class Contender:
    """One state of gamed: a running service with players, their saves and a release."""

    def __init__(
        self,
        checkout: Path,
        folder: Path,
        *,
        arguments: Sequence[str] = (),
        shared_cpus: bool = False,
        store: str | None = None,
    ) -> None:
        self._command = (sys.executable, "-c", START.format(path=str(checkout)))
        self._instance = GamedInstance(
            folder, command=self._command, arguments=arguments, shared_cpus=shared_cpus, store=store
        )
        self._instance.start()
        self._players = folder / "players"
        self._publish(folder / "files")
        self._sign_in()

    def run(self, load: Load, seconds: float) -> Measured:
        """Send requests for this many seconds."""
        if load.more == (ETAG,):
            load = replace(load, more=(ETAG, self._instance.process.entity_tag(load.path)))
        sign_in = self._sign_in if load.kind == "refresh" else None
        return run(self._instance.process, load, self._players, seconds, sign_in)

    def children_cpu_seconds(self) -> list[float]:
        return self._instance.process.children_cpu_seconds()

    def stop(self) -> None:
        self._instance.stop()

    def _publish(self, files: Path) -> None:
        files.mkdir()
        (files / "large.bin").write_bytes(bytes(range(256)) * 4096)
        (files / "small.bin").write_bytes(bytes(range(256)) * 16)
        self._execute("assets", "publish", str(files))

    def _sign_in(self) -> None:
        """Create the players that do not exist, and sign them in, by commands: the two states may differ in tables."""
        names = [f"player-{number}" for number in range(PLAYERS)]
        if not self._players.exists():
            for name in names:
                self._execute("players", "add", name, "--password-stdin", stdin=b"correct horse\n")
        given = [json.loads(self._execute("players", "token", name, "--json")) for name in names]
        self._write_players([Player(each["access_token"], each["refresh_credential"]) for each in given])

    def _write_players(self, players: Sequence[Player]) -> None:
        lines = [f"{player.access} {player.refresh} {saved(self._instance, player)}\n" for player in players]
        self._players.write_text("".join(lines))

    def _execute(self, *words: str, stdin: bytes = b"") -> bytes:
        places = ["--config", str(self._instance.folder / "authentication.json"), "--data", str(self._instance.data)]
        return subprocess.run([*self._command, *places, *words], check=True, capture_output=True, input=stdin).stdout


def ratio(values: list[float]) -> str:
    """Return the median and the spread."""
    low, middle, high = quantiles(values, n=4, method="inclusive") if len(values) > 2 else [median(values)] * 3
    return f"{middle:5.2f} (spread {(high - low) / middle:4.0%})"


def main() -> None:
    """Measure, and print a line per path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the earlier state")
    parser.add_argument("--only", action="append", choices=NAMES, help="a path; several are possible [all]")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=int, default=2, help="of each contender in each round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gamed-bench-") as folder:
        before = Contender(options.before.resolve(), Path(folder) / "before")
        after = Contender(ROOT, Path(folder) / "after")
        try:
            for name in options.only or NAMES:
                found: dict[Contender, list[Measured]] = {before: [], after: []}
                for number in range(options.rounds + 1):  # the first warms up
                    for contender in (before, after) if number % 2 else (after, before):
                        found[contender].append(contender.run(LOADS[name], options.seconds if number else 1))
                pairs = list(zip(found[before][1:], found[after][1:], strict=True))
                cpu = ratio([new.cpu_us / old.cpu_us for old, new in pairs])
                rate = ratio([new.per_second / old.per_second for old, new in pairs])
                p99 = " and ".join(f"{median(run.p99_ms for run in runs[1:]):.1f}" for runs in found.values())
                each = " and ".join(f"{median(run.cpu_us for run in runs[1:]):.0f}" for runs in found.values())
                print(f"{name:10} processor {cpu}: {each} us; rate {rate}; p99 {p99} ms", flush=True)
        finally:
            before.stop()
            after.stop()


if __name__ == "__main__":
    main()
