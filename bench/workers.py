"""This compares `gamed serve --workers 2` with one process, in turns on the same two processors.

python -m bench.workers [--only read] [--workers 2] [--rounds 7] [--seconds 3] [--smoke]

Servers and wrk share the processors, so wrk takes a part of what the second process could use. `possible` is the ratio
of the rates if the workers and wrk used all the time of both processors at their measured cost per request: no server
reaches more on this machine. The kernel gives a connection to the worker that asks first: `busiest` is the part of the
work that the busiest worker did. The ratios are medians of the rounds; the spread is the distance of the quartiles.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct, to_builtins

from bench.compare import LOADS, PLAYERS, Contender
from bench.machine import lines, state
from bench.process import CPUS, ROOT
from bench.report import target_status
from bench.rounds import Ratio
from bench.wrk import SMOKE_SECONDS, Measured

READS = 1.6
"""The wanted ratio of the rates of reads and assets."""
WRITES, SLOWER = 1.0, 2.0
"""The wanted ratio of the rates of writes, and the largest one of their p99."""
WANTED = {"read": READS, "read-304": READS, "asset-4k": READS, "asset-64k": READS, "put-16": WRITES, "put-64": WRITES}


class SameState(Contender):
    """A contender of this checkout, whose players sign in without a command each."""

    def _sign_in(self) -> None:
        self._write_players(self._instance.sign_in([f"ply_{number:022d}" for number in range(PLAYERS)]))


class Turns(Struct, frozen=True):
    """All rounds of a path: the runs of one process, and those of the workers.

    `busiest` is the busiest worker's part of their processor time.
    """

    path: str
    one: Sequence[Measured]
    workers: Sequence[Measured]
    busiest: Sequence[float]

    @property
    def rates(self) -> Ratio:
        pairs = zip(self.one, self.workers, strict=True)
        return Ratio([many.per_second / one.per_second for one, many in pairs])

    @property
    def slower(self) -> float:
        """Return the ratio of the p99 times."""
        return median(many.p99_ms / one.p99_ms for one, many in zip(self.one, self.workers, strict=True))

    @property
    def possible(self) -> float:
        """Return the largest ratio of the rates that the processors allow."""
        cost_us = median(run.cpu_us + run.client_us for run in self.workers)
        return len(CPUS) * 1e6 / cost_us / median(run.per_second for run in self.one)

    @property
    def status(self) -> str:
        """Return whether the rates have the wanted ratio, and for writes the p99, too; `noisy` if they vary much."""
        wanted = WANTED[self.path]
        status = target_status(self.rates, wanted)
        return "missed" if status == "met" and wanted == WRITES and self.slower > SLOWER else status

    def line(self) -> str:
        """Return the figures in one line."""
        one, many = (
            f"{median(run.per_second for run in runs):,.0f}/s {median(run.cpu_us for run in runs):.0f} us "
            f"p99 {median(run.p99_ms for run in runs):.1f} ms"
            for runs in (self.one, self.workers)
        )
        foreign = median(run.foreign for run in (*self.one, *self.workers))
        client = median(run.client_us for run in self.workers)
        return (
            f"{self.path:10} {self.rates.median:.2f} (spread {self.rates.spread:.0%}), wanted {WANTED[self.path]}, "
            f"possible {self.possible:.2f}, p99 {self.slower:.2f}: {self.status}; one {one}; workers {many}, "
            f"busiest {median(self.busiest):.0%}; wrk {client:.0f} us; foreign {foreign:.2f}"
        )


def measure(path: str, one: Contender, workers: Contender, rounds: int, seconds: float) -> Turns:
    """Measure both in each round, in an alternating order; the first round warms up and does not count."""
    found: Mapping[Contender, list[Measured]] = {one: [], workers: []}
    busiest = []
    for number in range(rounds + 1):
        before = workers.children_cpu_seconds()
        for contender in (one, workers) if number % 2 else (workers, one):
            found[contender].append(contender.run(LOADS[path], seconds if number else min(seconds, 1)))
        spent = [after - begun for begun, after in zip(before, workers.children_cpu_seconds(), strict=True)]
        busiest.append(max(spent) / max(sum(spent), 0.01))
    return Turns(path, found[one][1:], found[workers][1:], busiest[1:])


def read_options(parser: argparse.ArgumentParser, paths: Collection[str], *, seconds: int) -> argparse.Namespace:
    """Add the options of a comparison in rounds, and return all; end the program without wrk."""
    parser.add_argument("--only", action="append", choices=list(paths), help="a path; several are possible [all]")
    parser.add_argument("--rounds", type=int, default=7, help="[%(default)s]")
    parser.add_argument("--seconds", type=int, default=seconds, help="of each contender in each round [%(default)s]")
    parser.add_argument("--smoke", action="store_true", help="the shortest run, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("bench: wrk is missing; on Debian: apt-get install wrk")
    if options.smoke:
        options.rounds, options.seconds = 1, SMOKE_SECONDS
        print("one short round: these figures mean nothing", flush=True)
    return options


def main() -> None:
    """Measure, and print a line per path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="[%(default)s]")
    options = read_options(parser, WANTED, seconds=3)
    with tempfile.TemporaryDirectory(prefix="gamed-bench-") as name:
        folder = Path(name)
        machine = state(folder)
        print("\n".join(lines(machine)), flush=True)
        arguments = (f"--workers={options.workers}",)
        contenders: list[Contender] = []
        try:
            contenders.append(SameState(ROOT, folder / "one", shared_cpus=True))
            contenders.append(SameState(ROOT, folder / "workers", arguments=arguments, shared_cpus=True))
            found = []
            for path in options.only or WANTED:
                found.append(measure(path, *contenders, options.rounds, options.seconds))
                print(found[-1].line(), flush=True)
        finally:
            for contender in contenders:
                contender.stop()
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": machine, "paths": to_builtins(found)}, indent=1))


if __name__ == "__main__":
    main()
