"""Where a request's microseconds go: what py-spy sees while wrk asks, by room, in microseconds of processor time.

python -m bench.where [--only read] [--seconds 10] [--json FILE] [--plots FOLDER] [--raw FOLDER]
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from bench.growth import FEW, USUAL, Stores, loads
from bench.plots import COST, draw_parts
from bench.process import CLIENT_CPU, TICKS

HANDLERS = r"(saves|upload|incoming|policy|bearer|access|detached|conditional)\.py"
ANSWERS = r"gamed/(http/(request|headers)|web/(json_io|sending|file_sending))\.py"
ROOMS = {
    "reactor's turn": r"twisted/internet/(tcp|abstract|fdesc|epollreactor|posixbase|base|main|address)\.py",
    "head, route, gates": rf"(?!{ANSWERS})gamed/(http/|web/(?!{HANDLERS}))",
    "handler": rf"gamed/(?!http/|web/|storage/|ops/)|gamed/web/{HANDLERS}",
    "to the lane and back": r"gamed/storage/|twisted/(python/threadpool|_threads/\w+|internet/threads)\.py",
    "writing the answer": ANSWERS,
    "log line, counts": r"gamed/ops/|twisted/logger/",
}
"""In the main thread. The innermost frame in one of these files decides: so Deferreds and codecs count to whoever
uses them."""
REST = "the rest"
KERNEL, LANES = "kernel: socket, epoll", "the lanes' threads"
WAITS = re.compile(r"\.?(doPoll|doRead|untilConcludes) \(")
"""Where the main thread calls the kernel, or sleeps: py-spy sees both, how much of it is work only the kernel knows."""
MAIN = "MainThread"
SPY = (
    *("taskset", "-c", str(CLIENT_CPU), str(Path(sys.executable).parent / "py-spy"), "record", "--format=raw"),
    *("--rate=250", "--threads", "--nolineno"),
)
PATHS = ("config", "read", "put")
ENOUGH = 50
"""Looks at the main thread at work, below which nothing can be said of its parts."""


class Spent(Struct, frozen=True):
    """Processor time: of the main thread for itself and in the kernel, and of all other threads."""

    user: float
    kernel: float
    lanes: float

    @classmethod
    def so_far(cls, pid: int) -> "Spent":
        user, kernel = _seconds(Path(f"/proc/{pid}/task/{pid}/stat"))
        return cls(user, kernel, sum(_seconds(Path(f"/proc/{pid}/stat"))) - user - kernel)

    def since(self, before: "Spent") -> "Spent":
        return Spent(self.user - before.user, self.kernel - before.kernel, self.lanes - before.lanes)

    def shared(self, whole: float) -> "Spent":
        """In the same proportion, but so much in all."""
        part = whole / (self.user + self.kernel + self.lanes)
        return Spent(self.user * part, self.kernel * part, self.lanes * part)


def _seconds(stat: Path) -> tuple[float, float]:
    fields = stat.read_text().rpartition(")")[2].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def room(stack: str) -> str:
    """`stack`: frames such as `read_save (gamed/saves/routes.py)`, the outermost first, with semicolons between."""
    for frame in reversed(stack.split(";")):
        file = frame.rpartition("(")[2]
        for name, pattern in ROOMS.items():
            if re.search(pattern, file):
                return name
    return REST


def parts(lines: Iterable[str], spent: Spent) -> Mapping[str, float]:
    """The main thread's own time by what was seen of it; the kernel knows its own, and the lanes'."""
    found: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        if MAIN in stack.partition(";")[0] and not WAITS.search(stack.rpartition(";")[2]):
            found[room(stack)] += int(count)
    if found.total() < ENOUGH:
        raise RuntimeError(f"py-spy saw the main thread at work {found.total()} times only; ask for more --seconds")
    rooms = {name: spent.user * found[name] / found.total() for name in (*ROOMS, REST)}
    return {KERNEL: spent.kernel, **rooms, LANES: spent.lanes}


def look(stores: Stores, path: str, seconds: int, raw: Path) -> Mapping[str, float]:
    """First what a request costs, undisturbed; then what of it is where."""
    load, pid = loads(USUAL)[path], stores.pid(FEW)
    before = Spent.so_far(pid)
    each = stores.measure(FEW, load, seconds)["cpu_us"]
    spent = Spent.so_far(pid).since(before).shared(each)
    words = [*SPY, f"--pid={pid}", f"--duration={seconds}", f"--output={raw}"]
    spy = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    stores.measure(FEW, load, seconds + 2)
    if spy.wait():
        raise RuntimeError("py-spy failed: is it there, and may it look into other processes?")
    return parts(raw.read_text().splitlines(), spent)


def told(path: str, found: Mapping[str, float]) -> str:
    whole = f"{path}: {sum(found.values()):.0f} us of processor time per request"
    return "\n".join([whole, *(f"  {name:24} {each:6.1f}" for name, each in found.items())])


def main() -> None:
    options = argparse.ArgumentParser("bench.where", description=__doc__)
    options.add_argument("--only", action="append", choices=PATHS)
    options.add_argument("--seconds", type=int, default=10, help="[%(default)s]")
    options.add_argument("--json", type=Path, metavar="FILE")
    options.add_argument("--plots", type=Path, metavar="FOLDER", help="a PNG each; needs matplotlib")
    options.add_argument("--raw", type=Path, metavar="FOLDER", help="where py-spy's files stay")
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gamed-bench-"))
    stores, found = Stores(folder), {}
    raw = given.raw or folder
    raw.mkdir(parents=True, exist_ok=True)
    try:
        stores.open(FEW)
        for path in given.only or PATHS:
            found[path] = look(stores, path, given.seconds, raw / f"{path}.raw")
            print(told(path, found[path]), flush=True)
    finally:
        stores.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))
    for path, each in found.items() if given.plots is not None else ():
        draw_parts(each, f"{path}: {sum(each.values()):.0f} us in all", COST, given.plots / f"where-{path}.png")


if __name__ == "__main__":
    main()
