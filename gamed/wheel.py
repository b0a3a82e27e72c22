"""Very many moments behind one timer: all that fall into one tick share it."""

from collections.abc import Callable
from math import ceil
from typing import Protocol


class Due(Protocol):
    """Who is on a wheel, known by itself alone."""

    def due(self) -> None:
        """Its tick has come; it is not on the wheel any more."""


class Call(Protocol):
    """A call that the reactor will make."""

    def cancel(self) -> None: ...


class Wheel:
    """Ticks of `tick_seconds`, and the reactor's timer at the earliest of them."""

    def __init__(
        self, seconds: Callable[[], float], call_later: Callable[[float, Callable[[], None]], Call], tick_seconds: float
    ) -> None:
        self.seconds = seconds
        self._call_later = call_later
        self._tick_seconds = tick_seconds
        self._ticks: dict[int, dict[Due, None]] = {}
        self._timer: Call | None = None
        self._next = 0
        """The tick that the timer is set to."""

    def tick_of(self, at: float) -> int:
        """The first one that is not earlier; in seconds of the same clock."""
        return ceil(at / self._tick_seconds)

    def put(self, who: Due, tick: int) -> None:
        self._ticks.setdefault(tick, {})[who] = None
        if self._timer is None or tick < self._next:
            self._wait()

    def take(self, who: Due, tick: int) -> None:
        """Off the wheel, where it was put at that tick and has not become due."""
        at_tick = self._ticks[tick]
        del at_tick[who]
        if not at_tick:
            del self._ticks[tick]
            if not self._ticks:
                self._wait()

    def _wait(self) -> None:
        """For the earliest tick, if there is one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._ticks:
            self._next = min(self._ticks)
            self._timer = self._call_later(max(0.0, self._next * self._tick_seconds - self.seconds()), self._turn)

    def _turn(self) -> None:
        """One at a time: what one does may take others away, and if it fails they have their time all the same."""
        self._timer = None
        now = self.seconds()
        try:
            for tick in sorted(tick for tick in self._ticks if tick * self._tick_seconds <= now):
                while tick in self._ticks:
                    who = next(iter(self._ticks[tick]))
                    self.take(who, tick)
                    who.due()
        finally:
            self._wait()
