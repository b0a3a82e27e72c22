"""Two figures are not rates: the time from start to the first response, and memory at rest."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from bench.instance import GamedInstance
from bench.process import Process, free_port


def start_and_memory(folder: Path, rounds: int) -> Mapping[str, float]:
    """Return the seconds to the first 200 and the MiB at rest of gamed and of a bare twistd (T), measured in turns."""
    instance = GamedInstance(folder / "start")
    instance.start().stop()
    port = free_port()
    tac = Path(__file__).parent / "references" / "bare.py"
    words = [str(Path(sys.executable).parent / "twistd"), "--nodaemon", "--pidfile=", "-y", str(tac)]
    bare = Process(words, port, folder / "bare.log", {"PORT": str(port)})
    times: dict[str, list[float]] = {"gamed": [], "T": []}
    memory: dict[str, list[float]] = {"gamed": [], "T": []}
    for _ in range(rounds):
        for name, process in (("gamed", instance.process), ("T", bare)):
            times[name].append(process.start())
            time.sleep(1)
            memory[name].append(process.memory_mib())
            process.stop()
    ratios = [mine / theirs for mine, theirs in zip(times["gamed"], times["T"], strict=True)]
    return {
        "start_seconds": median(times["gamed"]),
        "start_seconds_t": median(times["T"]),
        "start_ratio": median(ratios),
        "memory_mib": median(memory["gamed"]),
        "memory_mib_t": median(memory["T"]),
        "memory_mib_more": median(memory["gamed"]) - median(memory["T"]),
    }
