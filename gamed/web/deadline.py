"""One moment that moves with every request, for the price of a number."""

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall


class Deadline:
    """A timer whose call stays where it is while the moment moves away; early, it looks again.

    A connection sets and clears its time several times per request: the reactor's own calls cost more than the head.
    """

    __slots__ = ("_act", "_at", "_call", "_seconds", "call_later")

    def __init__(
        self, call_later: Callable[..., IDelayedCall], seconds: Callable[[], float], act: Callable[[], object]
    ) -> None:
        self.call_later = call_later
        self._seconds = seconds
        self._act = act
        self._at: float | None = None
        self._call: IDelayedCall | None = None

    def set(self, period: float | None) -> None:
        """So many seconds from now; None: never."""
        if period is None:
            self._at = None
            return
        self._at = at = self._seconds() + period
        if self._call is not None and self._call.getTime() > at:
            self._call.cancel()
            self._call = None
        if self._call is None:
            self._call = self.call_later(period, self._look)

    def end(self) -> None:
        """Nothing is left of it."""
        self._at = None
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _look(self) -> None:
        self._call = None
        if self._at is None:
            return
        left = self._at - self._seconds()
        if left > 0:
            self._call = self.call_later(left, self._look)
        else:
            self._at = None
            self._act()
