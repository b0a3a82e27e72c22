"""This module holds the time limits of a connection, for heads and for bodies."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from twisted.internet.interfaces import IDelayedCall, IReactorTime

HEAD_SECONDS: Final = 10
"""For a whole head, from its first byte."""
WINDOW_SECONDS: Final = 10
WINDOW_BYTES: Final = 10 * 1024
"""An incomplete body must bring at least this in each window: 1 KiB a second."""
OVERHEAD_BYTES: Final = 64 * 1024
OVERHEAD_FACTOR: Final = 3
"""Chunk sizes, extensions and trailers may cost 64 KiB and three times the body; one-byte chunks cost five times."""


class Timeout:
    """A timer that is cheap to move into the future: only when the reactor's call is due, the call is made again.

    A connection sets and clears its timeout several times per request; each callLater() and cancel() of the reactor
    would cost more than reading a head.
    """

    __slots__ = ("_at", "_call", "_clock", "_fire")

    def __init__(self, clock: IReactorTime, fire: Callable[[], object]) -> None:
        self._clock = clock
        self._fire: Callable[[], object] | None = fire
        self._at: float | None = None
        self._call: IDelayedCall | None = None

    def reset(self, seconds: float | None) -> None:
        """Fire so many seconds from now instead of at the time that was set; None: not at all."""
        if seconds is None or self._fire is None:
            self._at = None
            return
        self._at = self._clock.seconds() + seconds
        if self._call is not None and self._call.getTime() > self._at:
            self._call.cancel()
            self._call = None
        if self._call is None:
            self._call = self._clock.callLater(seconds, self._due)

    def cancel(self) -> None:
        """Cancel for good, and keep nothing alive."""
        self._at = self._fire = None
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _due(self) -> None:
        self._call = None
        if self._at is None or self._fire is None:
            return
        left = self._at - self._clock.seconds()
        if left > 0:
            self._call = self._clock.callLater(left, self._due)
        else:
            self._at = None
            self._fire()


class BodyRate(Struct):
    """The counters of one request body: how fast it comes, and how many bytes of framing it costs."""

    upload_seconds: int
    """Limit for the whole body."""
    _windows: int = 0
    _in_window: int = 0
    _body: int = 0
    _received: int = 0

    def add(self, received: int, decoded: int) -> None:
        """Count bytes from the network, and the bytes of the body that were decoded from them."""
        self._received += received
        self._body += decoded
        self._in_window += decoded

    @property
    def overhead_exceeded(self) -> bool:
        return self._received - self._body > OVERHEAD_BYTES + OVERHEAD_FACTOR * self._body

    def too_slow(self) -> bool:
        """Start the next window; return whether the last one was too slow, or the whole body takes too long."""
        slow = self._in_window < WINDOW_BYTES
        self._windows += 1
        self._in_window = 0
        return slow or self._windows * WINDOW_SECONDS >= self.upload_seconds
