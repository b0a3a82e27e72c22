"""Where a request's microseconds go: what py-spy sees while wrk asks, by room, in microseconds of processor time.

python -m bench.where [--only read] [--seconds 10] [--json FILE] [--plots FOLDER]     measures; a picture each
python -m bench.where --raw FILE [--each MICROSECONDS] [--picture FILE]               of `py-spy record --format raw`
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

from bench.growth import FEW, USUAL, Stores, loads
from bench.plots import draw_parts
from bench.process import CLIENT_CPU

LANE = "the lane's thread"
ROOMS = {
    "socket, reactor's turn": r"twisted/internet/(tcp|abstract|fdesc|epollreactor|posixbase|base|main|address)\.py",
    "to the lane and back": r"gamed/storage/|twisted/(python/threadpool|_threads/\w+|internet/threads)\.py",
    "log line, counts": r"gamed/ops/|twisted/logger/",
    "writing the answer": r"gamed/web/(request|fields|json_io|sending|file_sending)\.py",
    "handler": r"gamed/(?!web/)|gamed/web/(saves|upload|incoming|policy|bearer|access|detached|steps|conditional)\.py",
    "head, route, gates": r"gamed/web/|twisted/web/",
}
"""In the reactor's thread. The innermost frame in one of these files decides, the first pattern where two would do: so
Deferreds, locks and codecs count to whoever uses them."""
REST = "the rest"
THREAD, MAIN = "thread (", "MainThread"
RATE = 250
"""Looks a second."""
PATHS = ("config", "read", "put")


def room(stack: str) -> str:
    """`stack`: frames such as `read_save (gamed/web/saves.py:80)`, the outermost first, with semicolons between."""
    frames = stack.split(";")
    if frames[0].startswith(THREAD) and MAIN not in frames[0]:
        return LANE
    for frame in reversed(frames):
        file = frame.rpartition("(")[2]
        for name, pattern in ROOMS.items():
            if re.search(pattern, file):
                return name
    return REST


def parts(lines: Iterable[str], whole: float = 100.0) -> Mapping[str, float]:
    """What each room has of the whole."""
    found: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        found[room(stack)] += int(count)
    return {name: whole * found[name] / max(1, found.total()) for name in (*ROOMS, LANE, REST)}


def look(stores: Stores, path: str, seconds: int, folder: Path) -> Mapping[str, float]:
    """First what a request costs, undisturbed; then what of it is where."""
    load, raw = loads(USUAL)[path], folder / f"{path}.raw"
    each = stores.measure(FEW, load, seconds)["cpu_us"]
    spy = subprocess.Popen(
        [
            *("taskset", "-c", str(CLIENT_CPU), str(Path(sys.executable).parent / "py-spy"), "record"),
            *(f"--pid={stores.pid(FEW)}", f"--duration={seconds}", f"--rate={RATE}", "--threads", "--format=raw"),
            *("--nolineno", f"--output={raw}"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stores.measure(FEW, load, seconds + 2)
    if spy.wait():
        raise RuntimeError("py-spy failed: is it there, and may it look into other processes?")
    return parts(raw.read_text().splitlines(), each)


def told(path: str, found: Mapping[str, float], unit: str) -> str:
    whole = f"{path}: {sum(found.values()):.0f} {unit}"
    return "\n".join([whole, *(f"  {name:24} {each:6.1f}" for name, each in found.items())])


def main() -> None:
    options = argparse.ArgumentParser("bench.where", description=__doc__)
    options.add_argument("--only", action="append", choices=PATHS)
    options.add_argument("--seconds", type=int, default=10)
    options.add_argument("--json", type=Path, metavar="FILE")
    options.add_argument("--plots", type=Path, metavar="FOLDER", help="a PNG each; needs matplotlib")
    options.add_argument("--raw", type=Path, metavar="FILE", help="nothing is measured, this is read")
    options.add_argument("--each", type=float, default=100.0, help="what a request costs in that file; else per cent")
    options.add_argument("--picture", type=Path, metavar="FILE")
    given = options.parse_args()
    if given.raw is None:
        measure(given)
        return
    found, unit = parts(given.raw.read_text().splitlines(), given.each), "%" if given.each == 100.0 else "us"
    print(told(given.raw.stem, found, unit))
    if given.picture is not None:
        draw_parts(found, given.raw.stem, unit, given.picture)


def measure(given: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="gamed-bench-"))
    stores, found = Stores(folder), {}
    try:
        stores.open(FEW)
        for path in given.only or PATHS:
            found[path] = look(stores, path, given.seconds, folder)
            print(told(path, found[path], "us"), flush=True)
    finally:
        stores.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))
    for path, each in found.items() if given.plots is not None else ():
        title = f"{path}: {sum(each.values()):.0f} us of processor time per request"
        draw_parts(each, title, "us", given.plots / f"where-{path}.png")


if __name__ == "__main__":
    main()
