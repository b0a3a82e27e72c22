"""Contenders are measured in turns, so that a disturbance affects all of them, and only their ratio counts."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median, quantiles

from msgspec import Struct
from msgspec.structs import replace

from bench.rows import ETAG, Row, Side
from bench.servers import Missing, Servers
from bench.wrk import Measured, run

WARM_SECONDS = 1
SPENDING = frozenset({"refresh"})
"""Kinds that consume credentials, so that each round needs a new sign-in."""


class Ratio(Struct, frozen=True):
    """The ratio of gamed's rate to that of another server, by round."""

    rounds: Sequence[float]

    @property
    def median(self) -> float:
        return median(self.rounds)

    @property
    def spread(self) -> float:
        """Return the distance of the quartiles as a part of the median."""
        if len(self.rounds) < 3:
            return 0.0
        low, _, high = quantiles(self.rounds, n=4, method="inclusive")
        return (high - low) / self.median


class Outcome(Struct, frozen=True):
    """The measurements of a row; `sides` has all rounds of each contender, gamed's under the row's name."""

    row: Row
    sides: Mapping[str, Sequence[Measured]]

    @property
    def own(self) -> Sequence[Measured]:
        return self.sides[self.row.name]

    def ratio(self, other: str) -> Ratio:
        pairs = zip(self.own, self.sides[other], strict=True)
        return Ratio([mine.per_second / theirs.per_second for mine, theirs in pairs])

    def cost(self, other: str) -> Ratio:
        """Return the ratio of the other's processor time per request to gamed's; other processes do not affect it."""
        pairs = zip(self.own, self.sides[other], strict=True)
        return Ratio([theirs.cpu_us / max(1.0, mine.cpu_us) for mine, theirs in pairs])


def measure(servers: Servers, row: Row, rounds: int, seconds: float, *, warm: bool) -> Outcome:
    """Measure every contender once in each round, in an alternating order.

    A contender that is not installed is left out; raise Missing if none remains, or for gamed's own server.
    """
    row = _installed(servers, row)
    sides = {row.name: Side(row.server, row.load), **row.others}
    if warm:
        for side in sides.values():
            _run(servers, side, WARM_SECONDS)
    found: dict[str, list[Measured]] = {name: [] for name in sides}
    for number in range(rounds):
        names = list(sides)
        for name in names if number % 2 else reversed(names):
            found[name].append(_run(servers, sides[name], seconds))
    return Outcome(row, found)


def _installed(servers: Servers, row: Row) -> Row:
    """Return the row with the contenders that can be started."""
    servers.get(row.server)
    found: dict[str, Side] = {}
    missing: list[Missing] = []
    for name, side in row.others.items():
        try:
            servers.get(side.server)
            found[name] = side
        except Missing as e:
            missing.append(e)
    if not found:
        raise missing[0]
    for error in missing:
        print(f"{row.name}: one contender left out: {error} is not installed")
    return replace(row, others=found)


def _run(servers: Servers, side: Side, seconds: float) -> Measured:
    process = servers.get(side.server)
    sign_in = partial(servers.sign_in, side.server) if side.load.kind in SPENDING else None
    load = side.load
    if load.more == (ETAG,):
        load = replace(load, more=(ETAG, process.entity_tag(load.path)))
    return run(process, load, servers.players(side.server), seconds, sign_in)
