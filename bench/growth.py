"""This measures how costs grow with connections, saves and waiting games.

python -m bench.growth [--smoke] [--only connections] [--rounds 5] [--json FILE] [--plots FOLDER]
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from msgspec import Struct, field

from bench import machine
from bench.instance import GamedInstance, Player
from bench.million import SLOTS, fill, player
from bench.plots import draw_growth
from bench.process import Process
from bench.waiters import waiters
from bench.wrk import SMOKE_SECONDS, Load, run

WAITING = "waiters"
FEW = 64
"""The saves of a database that was not filled, one for each player."""
WHOLE = {
    "connections": (1, 4, 16, 64, 256),
    "saves": (FEW, 1_000, 10_000, 100_000),
    WAITING: (100, 1_000, 5_000, 10_000),
}
SMOKE = {"connections": (1, 16), "saves": (FEW, 1_000), WAITING: (20, 50)}
WAITING_ROUNDS = 3
"""The maximum, because the largest take long."""
USUAL = 16
"""The connections while the number of saves grows."""
SLOT = "slot050"
SETTLE_CHECKS = 20
SMOKING = 8
"""The number of measurements at once."""


class Point(Struct, frozen=True):
    """One path at one size, with its rounds so far."""

    over: str
    at: int
    path: str
    measure: partial[Mapping[str, float]]
    rounds: list[Mapping[str, float]] = field(default_factory=list)

    def again(self) -> None:
        self.rounds.append(self.measure())

    def figures(self) -> Mapping[str, Sequence[float]]:
        """Return the lower quartile, the median and the upper quartile of each figure."""
        return {name: quartiles([each[name] for each in self.rounds]) for name in self.rounds[0]}


def quartiles(values: Sequence[float]) -> Sequence[float]:
    if len(values) < 3:
        return [min(values), median(values), max(values)]
    return quantiles(values, n=4, method="inclusive")


class Stores:
    """Services by the number of their saves."""

    def __init__(self, folder: Path, *, hurried: bool = False) -> None:
        self._folder, self._hurried = folder, hurried
        self._instances: dict[int, GamedInstance] = {}

    def open(self, saves: int) -> None:
        instance, few = GamedInstance(self._folder / str(saves)).start(), saves == FEW
        if not few:
            instance.stop()
            fill(instance.data, saves)
            instance.start()
        self._instances[saves] = instance
        players = instance.sign_in([player(number) for number in range(FEW if few else saves // SLOTS)])
        if few:
            _first_saves(instance, players)
        lines = [f"{player.access} {player.refresh} -\n" for player in players]
        (instance.folder / "players").write_text("".join(lines))

    def measure(self, saves: int, load: Load, seconds: float) -> Mapping[str, float]:
        instance = self._instances[saves]
        if not self._hurried:
            settle(instance.process)
        found = run(instance.process, load, instance.folder / "players", seconds)
        return {"cpu_us": found.cpu_us, "per_second": found.per_second, "p99_ms": found.p99_ms}

    def pid(self, saves: int) -> int:
        return self._instances[saves].process.pid

    def stop(self) -> None:
        for instance in self._instances.values():
            instance.stop()


def settle(process: Process) -> None:
    """Wait until the process is nearly idle: remaining work would count to the next measurement."""
    for _ in range(SETTLE_CHECKS):
        before = process.cpu_seconds()
        time.sleep(0.25)
        if process.cpu_seconds() - before <= 0.01:
            return


def _first_saves(instance: GamedInstance, players: Sequence[Player]) -> None:
    connection = instance.connect()
    for each in players:
        body, condition = os.urandom(1024), {"If-None-Match": "*"}
        GamedInstance.request(connection, "PUT", f"/game/saves/{SLOT}", each.access, body=body, headers=condition)
    connection.close()


def loads(connections: int) -> Mapping[str, Load]:
    save = f"/game/saves/{SLOT}"
    return {
        "config": Load("plain", "/auth/config", connections),
        "read": Load("read", save, connections),
        "put": Load("write", save, connections),
    }


def requests_of(stores: Stores, connections: Sequence[int], saves: Sequence[int], seconds: float) -> list[Point]:
    """Return the points for both sizes; connections are varied at the smallest database."""
    sizes = [("connections", at, min(saves), at) for at in connections] + [("saves", at, at, USUAL) for at in saves]
    return [
        Point(over, at, path, partial(stores.measure, store, load, seconds))
        for over, at, store, asking in sizes
        for path, load in loads(asking).items()
    ]


def wait(folder: Path, count: int) -> Mapping[str, float]:
    """Measure waiting games of a new service."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        return waiters(Path(own), count)


def take_turns(points: Sequence[Point], rounds: int, at_once: int = 1) -> None:
    """Measure every point once in each round, in an alternating order."""
    with ThreadPoolExecutor(at_once) as threads:
        for number in range(rounds):
            list(threads.map(Point.again, points if number % 2 else points[::-1]))
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)


def lines(points: Sequence[Point]) -> Iterator[str]:
    for point in points:
        figures = point.figures()
        low, middle, high = figures["all_ms" if point.over == WAITING else "cpu_us"]
        unit = "ms until all are answered" if point.over == WAITING else "us of processor time"
        more = f", {figures['kib_each'][1]:.1f} KiB each" if point.over == WAITING else ""
        yield f"{point.at:>7,} {point.over:11} {point.path:8} {middle:7.1f} ({low:.1f} to {high:.1f}) {unit}{more}"


def measure(folder: Path, given: argparse.Namespace) -> list[Point]:
    connections, saves, waiting = (SMOKE if given.smoke else WHOLE).values()
    stores = Stores(folder, hurried=given.smoke)
    asked = [each for each in requests_of(stores, connections, saves, given.seconds) if given.only in (None, each.over)]
    waits = [Point(WAITING, at, WAITING, partial(wait, folder, at)) for at in waiting if given.only in (None, WAITING)]
    try:
        for size in sorted({each.measure.args[0] for each in asked}):
            stores.open(size)
        take_turns(asked, given.rounds, SMOKING if given.smoke else 1)
    finally:
        stores.stop()
    take_turns(waits, min(given.rounds, WAITING_ROUNDS))
    return asked + waits


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("bench.growth", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="the shortest run, to see that it works")
    parser.add_argument("--only", choices=list(WHOLE))
    parser.add_argument("--rounds", type=int, default=5, help="[%(default)s]")
    parser.add_argument("--seconds", type=int, default=1, help="of one run; wrk knows whole ones [%(default)s]")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="a PNG each; needs matplotlib")
    given = parser.parse_args(words)
    if given.smoke:
        given.rounds, given.seconds = 1, SMOKE_SECONDS
    return given


def main() -> None:
    given = options()
    if shutil.which("wrk") is None:
        sys.exit("bench.growth: wrk is missing; on Debian: apt-get install wrk")
    folder = Path(tempfile.mkdtemp(prefix="gamed-bench-"))
    try:
        state = machine.state(folder)
        print("\n".join(machine.lines(state)), flush=True)
        points = measure(folder, given)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(lines(points)))
    found = [{"over": each.over, "at": each.at, "path": each.path, "rounds": each.rounds} for each in points]
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": state, "points": found}, indent=1))
    if given.plots is not None:
        draw_growth([(each.over, each.path, each.at, each.figures()) for each in points], given.plots)


if __name__ == "__main__":
    main()
