"""Limits to how long a client may take: to send heads and bodies, to read responses, and to close.

Responses are paused while the transport is full. A connection is closed so that the client can still read the last
response (RFC 9112 9.6).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Struct
from twisted.internet.interfaces import (
    IDelayedCall,
    IHalfCloseableDescriptor,
    IPushProducer,
    IReactorTime,
    ISSLTransport,
)
from zope.interface import implementer

from gamed.http import direct_socket

HEAD_SECONDS: Final = 10
"""For a whole head, from its first byte: a client that sends a byte now and then gets no more time by it."""
WINDOW_SECONDS: Final = 10
WINDOW_BYTES: Final = 10 * 1024
"""An incomplete body must bring at least this in each window: 1 KiB a second.

In each one, because by the average a client that was fast at first could stop for minutes.
"""
OVERHEAD_BYTES: Final = 64 * 1024
OVERHEAD_FACTOR: Final = 3
"""Chunk sizes, extensions and trailers may cost 64 KiB and three times the body; one-byte chunks cost five times."""
STALL_SECONDS: Final = 60
"""How long a response may stay unread."""
PROGRESS_BYTES: Final = 16 * 1024
"""A client that takes less than this in STALL_SECONDS makes no progress."""
LINGER_SECONDS: Final = 5
LINGER_BYTES: Final = 32 * 1024 * 1024
"""How long and how much the server reads and discards after it has refused a body, so that a reset does not reach the
client before the response."""
LAST_ANSWER_SECONDS: Final = 0.5
"""Time for the client to close first, after the last response of a service that stops."""


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
        # A call that is due earlier stays: _due() makes it again. Only one that is due too late has to be replaced.
        if self._call is not None and self._call.getTime() > self._at:
            self._call.cancel()
            self._call = None
        if self._call is None:
            self._call = self._clock.callLater(seconds, self._due)

    def cancel(self) -> None:
        """Cancel for good; drop the function, which refers to the connection and would keep it until a collection."""
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
        slow = self._in_window < WINDOW_BYTES  # of the body: chunk sizes are no progress
        self._windows += 1
        self._in_window = 0
        return slow or self._windows * WINDOW_SECONDS >= self.upload_seconds


class StalledWrite:
    """A watch over a full transport; it gives up a client that takes too little in STALL_SECONDS.

    The kernel's buffer holds megabytes before the transport has room again, and a slow line may need minutes for them.
    `unsent` returns how many bytes the client has yet to take, or None if that is not known: while they become fewer,
    the client is slow and not gone.
    """

    def __init__(self, clock: IReactorTime, unsent: Callable[[], int | None], give_up: Callable[[], object]) -> None:
        self._timeout = Timeout(clock, self._check)
        self._unsent = unsent
        self._give_up = give_up
        self._before: int | None = None
        self._running = False

    def start(self) -> None:
        """Begin to watch, unless it does already."""
        if not self._running:
            self._running = True
            self._before = self._unsent()
            self._timeout.reset(STALL_SECONDS)

    def close(self) -> None:
        """Stop watching for good."""
        self._timeout.cancel()

    def _check(self) -> None:
        self._running = False
        before, now = self._before, self._unsent()
        if before is None or now is None or before - now < PROGRESS_BYTES:
            self._give_up()
        else:
            self.start()


@implementer(IPushProducer)
class FlowControl:
    """The producer that a connection registers with its transport, on behalf of its responses."""

    __slots__ = ("_clock", "_full", "_give_up", "_stalled", "_transport", "_writable", "paused", "producer")

    def __init__(
        self,
        transport: Any,
        clock: IReactorTime,
        *,
        full: Callable[[], object],
        writable: Callable[[], object],
        give_up: Callable[[], object],
    ) -> None:
        """Call `full` and `writable` when the transport is so, `give_up` for a client that does not read."""
        self._transport = transport
        self._clock = clock
        self._full = full
        self._writable = writable
        self._give_up = give_up
        self._stalled: StalledWrite | None = None
        self.paused = False
        """Whether the transport is full."""
        self.producer: IPushProducer | None = None
        """The producer of the current response."""

    def pauseProducing(self) -> None:
        """Pause the response, because the transport is full."""
        self.paused = True
        if self._stalled is None:
            unsent = partial(direct_socket.unsent_bytes, self._transport)
            self._stalled = StalledWrite(self._clock, unsent, self._give_up)
        self._stalled.start()
        if self.producer is not None:
            self.producer.pauseProducing()
        self._full()

    def resumeProducing(self) -> None:
        """Resume the response, because the transport has room again."""
        self.paused = False
        self.close()
        # The current response first: the connection may start the next request only when this one needs no room.
        if self.producer is not None:
            self.producer.resumeProducing()
        if not self.paused:  # else the producer has filled the transport again
            self._writable()

    def stopProducing(self) -> None:
        """Do nothing: connectionLost() follows."""

    def close(self) -> None:
        """Stop watching the client."""
        if self._stalled is not None:
            self._stalled.close()
            self._stalled = None


class ClosingConnection:
    """A connection after its last response; it discards what the client still sends."""

    def __init__(self, transport: Any, timeout: Timeout) -> None:
        """Use a timeout whose owner calls timed_out()."""
        self._transport = transport
        self._timeout = timeout
        self._lingering = False
        self._discarded = 0

    def close(self) -> None:
        """Close when what is written is sent, within STALL_SECONDS."""
        self._lingering = False
        self._timeout.reset(STALL_SECONDS)
        self._transport.unregisterProducer()  # TLS waits for a producer before it closes
        self._transport.loseConnection()

    def linger(self) -> None:
        """Close our side, and read on for a moment."""
        self._lingering = True
        self._timeout.reset(LINGER_SECONDS)
        # Twisted's TLS has no close of one side: this would end the TCP stream below it, without close_notify.
        if IHalfCloseableDescriptor.providedBy(self._transport) and not ISSLTransport.providedBy(self._transport):
            self._transport.loseWriteConnection()  # type: ignore[attr-defined]  # the interface is not typed

    def await_client(self) -> None:
        """Let the client close first, for a moment."""
        self._timeout.reset(LAST_ANSWER_SECONDS)

    def discard(self, size: int) -> None:
        """Count bytes that the client has sent."""
        self._discarded += size
        if self._lingering and self._discarded > LINGER_BYTES:
            self.close()

    def timed_out(self) -> None:
        # close() first, which sends what is written; abort only if it was called STALL_SECONDS ago.
        if self._lingering or not self._transport.disconnecting:
            self.close()
        else:
            self._transport.abortConnection()
