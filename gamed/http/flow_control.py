"""This module pauses responses while the transport is full, and closes a connection so that the client can still read
the last response (RFC 9112 9.6).
"""

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.interfaces import IHalfCloseableDescriptor, IPushProducer, IReactorTime, ISSLTransport
from zope.interface import implementer

from gamed.http import direct_socket
from gamed.http.direct_socket import STALL_SECONDS, StalledWrite
from gamed.http.timeouts import Timeout

LINGER_SECONDS: Final = 5
LINGER_BYTES: Final = 32 * 1024 * 1024
"""How long and how much the server reads and discards after it has refused a body, so that a reset does not reach the
client before the response."""
LAST_ANSWER_SECONDS: Final = 0.5
"""Time for the client to close first, after the last response of a service that stops."""


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
            self._stalled = StalledWrite(
                self._clock, lambda: direct_socket.unsent_bytes(self._transport), self._give_up
            )
        self._stalled.start()
        if self.producer is not None:
            self.producer.pauseProducing()
        self._full()

    def resumeProducing(self) -> None:
        """Resume the response, because the transport has room again."""
        self.paused = False
        self.close()
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
        self._transport.unregisterProducer()
        self._transport.loseConnection()

    def linger(self) -> None:
        """Close our side, and read on for a moment."""
        self._lingering = True
        self._timeout.reset(LINGER_SECONDS)
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
        if self._lingering or not self._transport.disconnecting:
            self.close()
        else:
            self._transport.abortConnection()
