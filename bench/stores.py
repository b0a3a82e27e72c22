"""This compares gamed on PostgreSQL with gamed on SQLite, in turns on the same processors.

python -m bench.stores [--only read] [--rounds 7] [--seconds 2] [--smoke] [--json FILE]

gamed has one processor; wrk and PostgreSQL share the other, as if they were other machines. PostgreSQL is started for
this, with its usual settings, on the disk of TMPDIR. The figures are gamed's own processor time per request and its
rate; `two` are two processes of gamed on the same processor, with twice the connections, compared with one. The ratios
are medians of the rounds of SQLite's processor time to PostgreSQL's, and of PostgreSQL's rate to SQLite's: more than 1
is better than SQLite. The spread is the distance of the quartiles. Where wrk and PostgreSQL need their whole processor,
they limit the rate.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from bench.compare import LOADS, Contender
from bench.machine import lines, state
from bench.process import CLIENT_CPU, ROOT
from bench.report import target_status
from bench.rounds import Ratio
from bench.workers import SameState, read_options
from bench.wrk import Load, Measured
from tests.support.postgresql import Cluster

WANTED = {"read": 0.8, "read-304": 0.8, "put-1": 0.4, "put-16": 0.4, "put-64": 0.4, "refresh": 0.4}
"""The wanted ratios by processor time."""
TWO = 1.1
"""The wanted ratio of two processes' processor time per read to one's, at most."""
SERVER = {"shared_buffers": "128MB", "synchronous_commit": "on"}


class Round(Struct, frozen=True):
    """One run of each contender."""

    sqlite: Measured
    one: Measured
    two: Measured


class Found(Struct, frozen=True):
    """All rounds of a path."""

    path: str
    rounds: Sequence[Round]

    @property
    def cpu(self) -> Ratio:
        return Ratio([each.sqlite.cpu_us / max(1.0, each.one.cpu_us) for each in self.rounds])

    @property
    def rate(self) -> Ratio:
        return Ratio([each.one.per_second / each.sqlite.per_second for each in self.rounds])

    @property
    def two(self) -> Ratio:
        return Ratio([each.two.cpu_us / max(1.0, each.one.cpu_us) for each in self.rounds])

    def line(self) -> str:
        """Return the figures in one line."""
        each = "; ".join(
            f"{name} {median(run.per_second for run in runs):,.0f}/s {median(run.cpu_us for run in runs):.0f} us "
            f"p99 {median(run.p99_ms for run in runs):.1f} ms"
            for name, runs in (
                ("SQLite", [each.sqlite for each in self.rounds]),
                ("PostgreSQL", [each.one for each in self.rounds]),
                ("two", [each.two for each in self.rounds]),
            )
        )
        foreign = median(run.foreign for each in self.rounds for run in (each.sqlite, each.one, each.two))
        wanted = WANTED[self.path]
        return (
            f"{self.path:10} processor {self.cpu.median:.2f} (spread {self.cpu.spread:.0%}), wanted {wanted}: "
            f"{target_status(self.cpu, wanted)}; rate {self.rate.median:.2f} (spread {self.rate.spread:.0%}); "
            f"two {self.two.median:.2f} (spread {self.two.spread:.0%}), wanted at most {TWO}; {each}; "
            f"other load {foreign:.2f}"
        )


def measure(path: str, contenders: Mapping[str, Contender], rounds: int, seconds: float, *, warm: bool) -> Found:
    """Measure all in each round, in an alternating order; with `warm` a first round warms up and does not count."""
    found = []
    for number in range(0 if warm else 1, rounds + 1):
        order = list(contenders) if number % 2 else list(reversed(contenders))
        runs = {name: contenders[name].run(_load(path, name), seconds if number else 1) for name in order}
        found.append(Round(**runs))
    return Found(path, found[-rounds:])


def _load(path: str, contender: str) -> Load:
    """Return the load of a contender: each process has as many connections as the others."""
    load = LOADS[path]
    return replace(load, connections=2 * load.connections) if contender == "two" else load


def start_cluster(base: str | None = None) -> Cluster:
    """Start PostgreSQL on wrk's processor, with its data on the disk of TMPDIR or in the folder `base`."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CLIENT_CPU})
    try:
        return Cluster(settings=SERVER, base=base or tempfile.gettempdir())
    finally:
        os.sched_setaffinity(0, allowed)


def main() -> None:
    """Measure, and print a line per path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = read_options(parser, WANTED, seconds=2)
    with tempfile.TemporaryDirectory(prefix="gamed-bench-") as name:
        folder = Path(name)
        machine = state(folder)
        print("\n".join(lines(machine)), flush=True)
        cluster = start_cluster()
        contenders: dict[str, Contender] = {}
        try:
            contenders["sqlite"] = SameState(ROOT, folder / "sqlite")
            contenders["one"] = SameState(ROOT, folder / "one", store=cluster.database().url)
            arguments = ("--workers=2",)
            contenders["two"] = SameState(ROOT, folder / "two", store=cluster.database().url, arguments=arguments)
            found = []
            for path in options.only or WANTED:
                found.append(measure(path, contenders, options.rounds, options.seconds, warm=not options.smoke))
                print(found[-1].line(), flush=True)
        finally:
            for contender in contenders.values():
                contender.stop()
            cluster.close()
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": machine, "paths": to_builtins(found)}, indent=1))


if __name__ == "__main__":
    main()
