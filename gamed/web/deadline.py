"""When something has to have happened on a connection: one timer for all of them, that moves for the price of a number.

A connection sets and clears its time several times per request: the reactor's own calls cost more than the head.
"""

from collections.abc import Callable
from math import ceil

from twisted.internet.interfaces import IDelayedCall, IReactorTime

TICK_SECONDS = 0.125
"""Deadlines are kept rounded up to this: all that fall into one tick share one call of the reactor."""


class Deadlines:
    """A wheel of ticks, and a timer at the earliest of them."""

    def __init__(self, clock: IReactorTime) -> None:
        self.seconds = clock.seconds
        self._clock = clock
        self._wheel: dict[int, dict[Deadline, None]] = {}
        self._timer: IDelayedCall | None = None
        self._next = 0
        """The tick that the timer is set to."""

    def put(self, deadline: "Deadline", tick: int) -> None:
        """Look at it then."""
        self._wheel.setdefault(tick, {})[deadline] = None
        if self._timer is None or tick < self._next:
            self._wait()

    def take(self, deadline: "Deadline", tick: int) -> None:
        """Do not."""
        at_tick = self._wheel[tick]
        del at_tick[deadline]
        if not at_tick:
            del self._wheel[tick]
            if not self._wheel:
                self._wait()

    def _wait(self) -> None:
        """For the earliest tick, if there is one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._wheel:
            self._next = min(self._wheel)
            self._timer = self._clock.callLater(max(0.0, self._next * TICK_SECONDS - self.seconds()), self._look)

    def _look(self) -> None:
        """One at a time: what one does may end others, and if it fails the others have their time all the same."""
        self._timer = None
        now = self.seconds()
        try:
            for tick in sorted(tick for tick in self._wheel if tick * TICK_SECONDS <= now):
                while tick in self._wheel:
                    deadline = next(iter(self._wheel[tick]))
                    self.take(deadline, tick)
                    deadline.look(now)
        finally:
            self._wait()


class Deadline:
    """A moment. Its place on the wheel stays while it moves away; looked at too early, it is put there again."""

    __slots__ = ("_act", "_all", "_at", "_tick")

    def __init__(self, deadlines: Deadlines, act: Callable[[], object]) -> None:
        self._all = deadlines
        self._act = act
        self._at: float | None = None
        self._tick: int | None = None

    def set(self, period: float | None) -> None:
        """So many seconds from now; None: never."""
        if period is None:
            self._at = None
            return
        self._at = at = self._all.seconds() + period
        if self._tick is None:
            self._put()
        elif self._tick * TICK_SECONDS > at + TICK_SECONDS:
            self._all.take(self, self._tick)
            self._put()

    def another(self, act: Callable[[], object]) -> "Deadline":
        """Beside this one."""
        return Deadline(self._all, act)

    def end(self) -> None:
        """Nothing is left of it, nor of what it would have done: the connection goes without a collector."""
        self._at, self._act = None, _nothing
        if self._tick is not None:
            self._all.take(self, self._tick)
            self._tick = None

    def look(self, now: float) -> None:
        """Its tick has come."""
        self._tick = None
        if self._at is None:
            return
        if self._at > now:
            self._put()
        else:
            self._at = None
            self._act()

    def _put(self) -> None:
        assert self._at is not None
        self._tick = ceil(self._at / TICK_SECONDS)
        self._all.put(self, self._tick)


def _nothing() -> None:
    """What follows from a deadline that has ended."""
