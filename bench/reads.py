"""This shows what a read costs gamed on SQLite and on PostgreSQL, by the number of connections.

python -m bench.reads [--connections 16 64 128] [--rounds 3] [--seconds 2] [--busy] [--calls] [--smoke]

As in bench.stores, gamed has one processor, and wrk and PostgreSQL share the other. Each line has the processor time of
a read inside and outside the kernel, and that of the reactor's thread and of the others; how many reads a batch has,
and how often a thread of gamed waited or was interrupted for each read. All are medians of the rounds.

With `--busy` a process without any input or output takes what is left of wrk's processor: what gamed then costs more is
the cost of a processor whose neighbour works. `--calls` counts system calls with strace, which makes all slower.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct
from msgspec.structs import asdict, replace

from bench.compare import LOADS
from bench.machine import lines, state
from bench.process import CLIENT_CPU, ROOT, TICKS
from bench.stores import start_cluster
from bench.workers import SameState
from bench.wrk import SMOKE_SECONDS, Measured
from tests.support.ports import free_port

CONNECTIONS = (16, 64, 128)
BUSY = ("taskset", "-c", str(CLIENT_CPU), "nice", "-n", "19", sys.executable, "-c", "while True: pass")
BATCHES = re.compile(r'^gamed_database_batch_size_(count|sum)\{queue="reads?"\} (\S+)$', re.MULTILINE)
CALLS_SHOWN = 10


class Counted(Struct, frozen=True):
    """The use of a process: seconds by kind of time, and context switches of its threads."""

    user: float
    kernel: float
    reactor: float
    others: float
    waits: float
    interrupts: float
    batches: float = 0.0
    reads: float = 0.0

    def since(self, before: "Counted") -> "Counted":
        return Counted(**{name: value - asdict(before)[name] for name, value in asdict(self).items()})


def counted(pid: int) -> Counted:
    """Return what a process has used."""
    found: dict[str, float] = defaultdict(float)
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        user, kernel = int(fields[11]) / TICKS, int(fields[12]) / TICKS
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        found["user"] += user
        found["kernel"] += kernel
        found["reactor" if task.name == str(pid) else "others"] += user + kernel
        found["waits"] += int(status["voluntary_ctxt_switches"])
        found["interrupts"] += int(status["nonvoluntary_ctxt_switches"])
    return Counted(**{name: found[name] for name in Counted.__struct_fields__[:6]})


class Read(Struct, frozen=True):
    """One run: the rate, and what a read costs, in microseconds."""

    per_second: float
    p99_ms: float
    cpu_us: float
    user_us: float
    kernel_us: float
    reactor_us: float
    others_us: float
    batch: float
    waits: float
    interrupts: float

    @classmethod
    def of(cls, run: Measured, used: Counted) -> "Read":
        each_us = 1e6 / used.reads
        return cls(
            per_second=run.per_second,
            p99_ms=run.p99_ms,
            cpu_us=run.cpu_us,
            user_us=used.user * each_us,
            kernel_us=used.kernel * each_us,
            reactor_us=used.reactor * each_us,
            others_us=used.others * each_us,
            batch=used.reads / used.batches,
            waits=used.waits / used.reads,
            interrupts=used.interrupts / used.reads,
        )


class Watched(SameState):
    """A contender whose reads, batches and threads are counted."""

    def __init__(self, folder: Path, store: str | None) -> None:
        self._admin = free_port()
        super().__init__(ROOT, folder, store=store, arguments=(f"--admin=tcp:{self._admin}:interface=127.0.0.1",))

    def read(self, connections: int, seconds: float) -> Read:
        """Send reads for this many seconds."""
        before = self._counted()
        run = self.run(replace(LOADS["read"], connections=connections), seconds)
        return Read.of(run, self._counted().since(before))

    def system_calls(self, connections: int, seconds: float) -> Mapping[str, float]:
        """Return how many system calls of each name a read has."""
        before = self._counted()
        with tempfile.NamedTemporaryFile(prefix="gamed-bench-") as file:
            words = ("strace", "-c", "-f", "-p", str(self._instance.process.pid), "-o", file.name)
            tracer = subprocess.Popen(words, stderr=subprocess.DEVNULL)
            try:
                self.run(replace(LOADS["read"], connections=connections), seconds)
            finally:
                tracer.terminate()
                tracer.wait()
            text = Path(file.name).read_text()
        reads = self._counted().since(before).reads
        rows = [line.split() for line in text.splitlines()]
        return {
            row[-1]: int(row[3]) / reads for row in rows if len(row) > 4 and row[3].isdigit() and row[-1] != "total"
        }

    def _counted(self) -> Counted:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._admin}/metrics") as answer:
            found = dict(BATCHES.findall(answer.read().decode()))
        used = counted(self._instance.process.pid)
        return replace(used, batches=float(found["count"]), reads=float(found["sum"]))


def line(name: str, connections: int, rounds: Sequence[Read]) -> str:
    """Return the medians in one line."""
    each = {field: median(getattr(run, field) for run in rounds) for field in Read.__struct_fields__}
    return (
        f"{name:10} {connections:4} connections {each['per_second']:6,.0f}/s p99 {each['p99_ms']:5.1f} ms; "
        f"{each['cpu_us']:4.0f} us: {each['user_us']:4.0f} outside and {each['kernel_us']:4.0f} inside the kernel, "
        f"{each['reactor_us']:4.0f} reactor and {each['others_us']:4.0f} other threads; {each['batch']:5.1f} reads a "
        f"batch; {each['waits']:5.2f} waits, {each['interrupts']:5.2f} interruptions a read"
    )


def measure(contenders: Mapping[str, Watched], connections: int, rounds: int, seconds: float, *, warm: bool) -> None:
    """Measure both in turns, and print a line of each; with `warm` a first round warms up and does not count."""
    found: dict[str, list[Read]] = {name: [] for name in contenders}
    for number in range(0 if warm else 1, rounds + 1):
        for name in list(contenders) if number % 2 else reversed(list(contenders)):
            found[name].append(contenders[name].read(connections, seconds if number else 1))
    for name, runs in found.items():
        print(line(name, connections, runs[-rounds:]), flush=True)


def count_calls(contenders: Mapping[str, Watched], connections: int, seconds: float) -> None:
    """Count the system calls of both."""
    for name, contender in contenders.items():
        calls = contender.system_calls(connections, seconds)
        most = sorted(calls, key=lambda call: -calls[call])[:CALLS_SHOWN]
        named = ", ".join(f"{call} {calls[call]:.2f}" for call in most)
        print(f"{name:10} {connections:4} connections: {sum(calls.values()):.1f} system calls a read: {named}")


def main() -> None:
    """Measure, and print lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, nargs="+", default=CONNECTIONS, help="%(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="[%(default)s]")
    parser.add_argument("--seconds", type=int, default=2, help="of each store in each round [%(default)s]")
    parser.add_argument("--busy", action="store_true", help="keep the other processor busy")
    parser.add_argument("--calls", action="store_true", help="count system calls")
    parser.add_argument("--smoke", action="store_true", help="the shortest run, to see that it works")
    options = parser.parse_args()
    for program in ("wrk", *(["strace"] if options.calls else [])):
        if shutil.which(program) is None:
            sys.exit(f"bench: {program} is missing; on Debian: apt-get install {program}")
    if options.smoke:
        options.connections, options.rounds, options.seconds = [16], 1, SMOKE_SECONDS
        print("one short round: these figures mean nothing", flush=True)
    with tempfile.TemporaryDirectory(prefix="gamed-bench-") as name:
        folder = Path(name)
        print("\n".join(lines(state(folder))), flush=True)
        cluster = start_cluster()
        contenders: dict[str, Watched] = {}
        busy = subprocess.Popen(BUSY) if options.busy else None
        try:
            contenders["SQLite"] = Watched(folder / "sqlite", None)
            contenders["PostgreSQL"] = Watched(folder / "postgresql", cluster.database().url)
            for connections in options.connections:
                if options.calls:
                    count_calls(contenders, connections, options.seconds)
                else:
                    measure(contenders, connections, options.rounds, options.seconds, warm=not options.smoke)
        finally:
            for contender in contenders.values():
                contender.stop()
            if busy is not None:
                busy.kill()
                busy.wait()
            cluster.close()


if __name__ == "__main__":
    main()
