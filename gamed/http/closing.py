"""This module closes a connection so that the client can still read the last response (RFC 9112 9.6)."""

from typing import Any, Final

from twisted.internet.interfaces import IHalfCloseableDescriptor, ISSLTransport

from gamed.http.direct_socket import STALL_SECONDS
from gamed.http.timeouts import Timeout

LINGER_SECONDS: Final = 5
LINGER_BYTES: Final = 32 * 1024 * 1024
"""After an answer to a body that was refused: how long and how much is read and discarded, so that a reset does not
overtake the answer."""
LAST_ANSWER_SECONDS: Final = 0.5
"""After the last answer of a service that stops: time for the client to close first."""


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
