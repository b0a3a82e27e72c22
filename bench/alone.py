"""Two figures are not rates: time and processor time from start to the first response, and memory at rest."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.instance import GamedInstance
from bench.process import Process
from tests.support.ports import free_port


def start_and_memory(folder: Path, rounds: int) -> Mapping[str, float]:
    """Return what a start costs gamed, a bare twistd (T) and a bare Klein app (K), measured in turns.

    The ratios are to T. Only processor time is a stable one, because the first response comes between two requests.
    """
    instance = GamedInstance(folder / "start")
    instance.start().stop()
    port = free_port()
    tac = Path(__file__).parent / "references" / "bare.py"
    words = [str(Path(sys.executable).parent / "twistd"), "--nodaemon", "--pidfile=", "-y", str(tac)]
    bare = Process(words, port, folder / "bare.log", {"PORT": str(port)})
    klein_port = free_port()
    klein_words = [sys.executable, "-m", "bench.references.klein_ok", str(klein_port)]
    klein = Process(klein_words, klein_port, folder / "klein.log", {})
    found: dict[str, list[Sequence[float]]] = {"": [], "_t": [], "_k": []}
    for _ in range(rounds):
        for name, process in (("", instance.process), ("_t", bare), ("_k", klein)):
            seconds = process.start()
            cpu = _ran_seconds(process)
            time.sleep(1)
            found[name].append((seconds, cpu, process.memory_mib()))
            process.stop()
    figures: dict[str, float] = {}
    for name, each in found.items():
        seconds, cpu, mib = (median(column) for column in zip(*each, strict=True))
        figures |= {f"start_seconds{name}": seconds, f"start_cpu_seconds{name}": cpu, f"memory_mib{name}": mib}
    for name in ("", "_k"):
        pairs = list(zip(found[name], found["_t"], strict=True))
        figures[f"start_ratio{name}"] = median(mine[0] / theirs[0] for mine, theirs in pairs)
        figures[f"start_cpu_ratio{name}"] = median(mine[1] / theirs[1] for mine, theirs in pairs)
        figures[f"memory_mib_more{name}"] = figures[f"memory_mib{name}"] - figures["memory_mib_t"]
    return figures


def _ran_seconds(process: Process) -> float:
    """Return the time for which the process's threads ran; the kernel counts nanoseconds here, elsewhere ticks."""
    threads = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9
