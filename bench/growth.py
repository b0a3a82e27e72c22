"""How cost grows: processor time per request by connections that ask at once and by saves in the store, and waiters.

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

from bench.house import House, Player, disk_probe_ms
from bench.million import SLOTS, fill, player
from bench.plots import draw_growth
from bench.process import Process
from bench.waiters import waiters
from bench.wrk import Load, run

WAITING = "waiters"
FEW = 64
"""Saves of a store that was not filled, each another player's."""
WHOLE = {
    "connections": (1, 4, 16, 64, 256),
    "saves": (FEW, 1_000, 10_000, 100_000),
    WAITING: (100, 1_000, 5_000, 10_000),
}
SMOKE = {"connections": (1, 16), "saves": (FEW, 1_000), WAITING: (20, 50)}
WAITING_ROUNDS = 3
"""At most: the largest take long."""
USUAL = 16
"""Connections, where it is the saves that grow."""
SLOT = "slot050"
SETTLE_LOOKS = 20
SMOKING = 8
"""Measurements at once."""


class Point(Struct, frozen=True):
    """One path at one size; `rounds` grow while it is measured."""

    over: str
    at: int
    path: str
    measure: partial[Mapping[str, float]]
    rounds: list[Mapping[str, float]] = field(default_factory=list)

    def again(self) -> None:
        self.rounds.append(self.measure())

    def figures(self) -> Mapping[str, Sequence[float]]:
        """Of each: the lower quartile, the median, the upper quartile."""
        return {name: quartiles([each[name] for each in self.rounds]) for name in self.rounds[0]}


def quartiles(values: Sequence[float]) -> Sequence[float]:
    if len(values) < 3:
        return [min(values), median(values), max(values)]
    return quantiles(values, n=4, method="inclusive")


class Stores:
    """Services with so many saves, started when they are first asked for."""

    def __init__(self, folder: Path, *, hurried: bool = False) -> None:
        self._folder, self._hurried = folder, hurried
        self._houses: dict[int, House] = {}

    def open(self, saves: int) -> None:
        house, few = House(self._folder / str(saves)).start(), saves == FEW
        if not few:
            house.stop()
            fill(house.data, saves)
            house.start()
        self._houses[saves] = house
        players = house.sign_in([player(number) for number in range(FEW if few else saves // SLOTS)])
        if few:
            _first_saves(house, players)
        lines = [f"{player.access} {player.refresh} -\n" for player in players]
        (house.folder / "players").write_text("".join(lines))

    def measure(self, saves: int, load: Load, seconds: int) -> Mapping[str, float]:
        house = self._houses[saves]
        if not self._hurried:
            settle(house.process)
        found = run(house.process, load, house.folder / "players", seconds)
        return {"cpu_us": found.cpu_us, "per_second": found.per_second, "p99_ms": found.p99_ms}

    def pid(self, saves: int) -> int:
        return self._houses[saves].process.pid

    def stop(self) -> None:
        for house in self._houses.values():
            house.stop()


def settle(process: Process) -> None:
    """Until it has next to nothing to do: what one measurement leaves behind would be counted to the next."""
    for _ in range(SETTLE_LOOKS):
        before = process.cpu_seconds()
        time.sleep(0.25)
        if process.cpu_seconds() - before <= 0.01:
            return


def _first_saves(house: House, players: Sequence[Player]) -> None:
    connection = house.connect()
    for each in players:
        body, condition = os.urandom(1024), {"If-None-Match": "*"}
        House.request(connection, "PUT", f"/game/saves/{SLOT}", each.access, body=body, headers=condition)
    connection.close()


def loads(connections: int) -> Mapping[str, Load]:
    save = f"/game/saves/{SLOT}"
    return {
        "config": Load("plain", "/auth/config", connections),
        "read": Load("read", save, connections),
        "put": Load("write", save, connections),
    }


def requests_of(stores: Stores, connections: Sequence[int], saves: Sequence[int], seconds: int) -> list[Point]:
    """Over both sizes; the smallest store is the one that all connections ask."""
    sizes = [("connections", at, min(saves), at) for at in connections] + [("saves", at, at, USUAL) for at in saves]
    return [
        Point(over, at, path, partial(stores.measure, store, load, seconds))
        for over, at, store, asking in sizes
        for path, load in loads(asking).items()
    ]


def wait(folder: Path, count: int) -> Mapping[str, float]:
    """A service of their own for each time."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        return waiters(Path(own), count)


def take_turns(points: Sequence[Point], rounds: int, at_once: int = 1) -> None:
    """Every point once a round, in an order that turns."""
    with ThreadPoolExecutor(at_once) as threads:
        for number in range(rounds):
            list(threads.map(Point.again, points if number % 2 else points[::-1]))
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)


def lines(points: Sequence[Point]) -> Iterator[str]:
    for point in points:
        figures = point.figures()
        low, middle, high = figures["all_ms" if point.over == WAITING else "cpu_us"]
        unit = "ms until all are woken" if point.over == WAITING else "us of processor time"
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
    parser.add_argument("--smoke", action="store_true", help="as short as it goes: does it still run?")
    parser.add_argument("--only", choices=list(WHOLE))
    parser.add_argument("--rounds", type=int, default=5, help="[%(default)s]")
    parser.add_argument("--seconds", type=int, default=1, help="of one run; wrk knows whole ones [%(default)s]")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="a PNG each; needs matplotlib")
    given = parser.parse_args(words)
    if given.smoke:
        given.rounds, given.seconds = 1, 1
    return given


def main() -> None:
    given = options()
    if shutil.which("wrk") is None:
        sys.exit("bench.growth: wrk is missing; on Debian: apt-get install wrk")
    folder = Path(tempfile.mkdtemp(prefix="gamed-bench-"))
    try:
        machine = {"load": os.getloadavg()[0], "cpus": os.cpu_count(), "flush_ms": disk_probe_ms(folder)}
        points = measure(folder, given)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(", ".join(f"{name} {value:.2g}" for name, value in machine.items() if value is not None))
    print("\n".join(lines(points)))
    found = [{"over": each.over, "at": each.at, "path": each.path, "rounds": each.rounds} for each in points]
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": machine, "points": found}, indent=1))
    if given.plots is not None:
        draw_growth([(each.over, each.path, each.at, each.figures()) for each in points], given.plots)


if __name__ == "__main__":
    main()
