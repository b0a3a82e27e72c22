"""py-spy samples the service while wrk sends requests; this prints the processor time of each part of a request.

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

HANDLERS = r"gamed/http/(background|conditional|health_routes|spool)\.py"
RESPONSES = r"gamed/http/(request|json_body|streaming|direct_socket)\.py"
LOG = r"gamed/ops/|gamed/http/access_log\.py|twisted/logger/"
PARTS = {
    "reactor's turn": r"twisted/internet/(tcp|abstract|fdesc|epollreactor|posixbase|base|main|address)\.py",
    "head, route, body policy": rf"(?!{RESPONSES}|{HANDLERS}|{LOG})gamed/http/",
    "handler": rf"gamed/(?!http/|database/|ops/)|{HANDLERS}",
    "to the database and back": r"gamed/database/|twisted/(python/threadpool|_threads/\w+|internet/threads)\.py",
    "writing the response": RESPONSES,
    "log line, counters": LOG,
}
"""Files of the main thread by part. The innermost frame in one of these files counts, so that the time of Deferreds and
codecs belongs to the part that uses them."""
REST = "the rest"
KERNEL, THREADS = "kernel: socket, epoll", "database threads"
WAITS = re.compile(r"\.?(doPoll|doRead|untilConcludes) \(")
"""Functions in which the main thread calls the kernel or sleeps: py-spy cannot distinguish the two, the kernel can."""
MAIN = "MainThread"
SPY = (
    *("taskset", "-c", str(CLIENT_CPU), str(Path(sys.executable).parent / "py-spy"), "record", "--format=raw"),
    *("--rate=250", "--threads", "--nolineno"),
)
PATHS = ("config", "read", "put")
ENOUGH = 50
"""The number of samples of the main thread below which its parts are not reported."""


class Spent(Struct, frozen=True):
    """The processor time of the main thread outside and inside the kernel, and of all other threads."""

    user: float
    kernel: float
    threads: float

    @classmethod
    def so_far(cls, pid: int) -> "Spent":
        user, kernel = _seconds(Path(f"/proc/{pid}/task/{pid}/stat"))
        return cls(user, kernel, sum(_seconds(Path(f"/proc/{pid}/stat"))) - user - kernel)

    def since(self, before: "Spent") -> "Spent":
        return Spent(self.user - before.user, self.kernel - before.kernel, self.threads - before.threads)

    def shared(self, whole: float) -> "Spent":
        """Return times of the same proportion whose sum is `whole`."""
        part = whole / (self.user + self.kernel + self.threads)
        return Spent(self.user * part, self.kernel * part, self.threads * part)


def _seconds(stat: Path) -> tuple[float, float]:
    fields = stat.read_text().rpartition(")")[2].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def part_of(stack: str) -> str:
    """Return the part that a stack belongs to: frames such as `read_save (gamed/saves/routes.py)`, outermost first."""
    for frame in reversed(stack.split(";")):
        file = frame.rpartition("(")[2]
        for name, pattern in PARTS.items():
            if re.search(pattern, file):
                return name
    return REST


def parts(lines: Iterable[str], spent: Spent) -> Mapping[str, float]:
    """Divide the main thread's own time by its samples; the kernel's time and that of the threads are known."""
    found: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        if MAIN in stack.partition(";")[0] and not WAITS.search(stack.rpartition(";")[2]):
            found[part_of(stack)] += int(count)
    if found.total() < ENOUGH:
        raise RuntimeError(f"py-spy has only {found.total()} samples of the main thread. Use more --seconds")
    own = {name: spent.user * found[name] / found.total() for name in (*PARTS, REST)}
    return {KERNEL: spent.kernel, **own, THREADS: spent.threads}


def sample(stores: Stores, path: str, seconds: int, raw: Path) -> Mapping[str, float]:
    """Measure what a request costs without py-spy, then divide that by the samples."""
    load, pid = loads(USUAL)[path], stores.pid(FEW)
    before = Spent.so_far(pid)
    each = stores.measure(FEW, load, seconds)["cpu_us"]
    spent = Spent.so_far(pid).since(before).shared(each)
    words = [*SPY, f"--pid={pid}", f"--duration={seconds}", f"--output={raw}"]
    spy = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    stores.measure(FEW, load, seconds + 2)
    if spy.wait():
        raise RuntimeError("py-spy failed. Install it, and allow it to trace other processes")
    return parts(raw.read_text().splitlines(), spent)


def describe(path: str, found: Mapping[str, float]) -> str:
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
            found[path] = sample(stores, path, given.seconds, raw / f"{path}.raw")
            print(describe(path, found[path]), flush=True)
    finally:
        stores.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))
    for path, each in found.items() if given.plots is not None else ():
        draw_parts(each, f"{path}: {sum(each.values()):.0f} us in all", COST, given.plots / f"where-{path}.png")


if __name__ == "__main__":
    main()
