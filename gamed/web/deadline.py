"""When something has to have happened on a connection: a moment that moves for the price of a number.

A connection sets and clears its time several times per request: the reactor's own calls cost more than the head.
"""

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from gamed.wheel import Wheel

TICK_SECONDS = 0.125
"""Deadlines are kept rounded up to this."""


def deadlines(clock: IReactorTime) -> Wheel:
    """For those of all connections."""
    return Wheel(clock.seconds, clock.callLater, TICK_SECONDS)


class Deadline:
    """Its place on the wheel stays while it moves away; there too early, it is put on again."""

    __slots__ = ("_act", "_at", "_tick", "_wheel")

    def __init__(self, wheel: Wheel, act: Callable[[], object]) -> None:
        self._wheel = wheel
        self._act = act
        self._at: float | None = None
        self._tick: int | None = None

    def set(self, period: float | None) -> None:
        """So many seconds from now; None: never."""
        if period is None:
            self._at = None
            return
        self._at = self._wheel.seconds() + period
        tick = self._wheel.tick_of(self._at)
        if self._tick is None or tick < self._tick:
            self._leave()
            self._put(tick)

    def another(self, act: Callable[[], object]) -> "Deadline":
        """Beside this one."""
        return Deadline(self._wheel, act)

    def end(self) -> None:
        """Nothing is left of it, nor of what it would have done: the connection goes without a collector."""
        self._at, self._act = None, _nothing
        self._leave()

    def due(self) -> None:
        """Its tick has come."""
        self._tick = None
        if self._at is None:
            return
        if self._at > self._wheel.seconds():
            self._put(self._wheel.tick_of(self._at))
        else:
            self._at = None
            self._act()

    def _put(self, tick: int) -> None:
        self._tick = tick
        self._wheel.put(self, tick)

    def _leave(self) -> None:
        if self._tick is not None:
            self._wheel.take(self, self._tick)
            self._tick = None


def _nothing() -> None:
    """What follows from a deadline that has ended."""
