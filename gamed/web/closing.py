"""How a connection ends: after its last answer, with an answer that must not be lost, or because nobody reads."""

from abc import ABC, abstractmethod
from socket import socket
from typing import Any

from twisted.internet.interfaces import IHalfCloseableDescriptor, IHalfCloseableProtocol, ISSLTransport
from twisted.internet.tcp import Connection
from twisted.web.http import HTTPChannel
from zope.interface import implementer

from gamed.web.deadline import Deadline
from gamed.web.stall import STALL_SECONDS, Stall, unread
from gamed.web.tap import Tap
from gamed.wheel import Wheel

LINGER_SECONDS = 5
LINGER_BYTES = 32 * 1024 * 1024
"""After an answer to a body that nobody wanted: how long and how much is read and thrown away, so that a reset does
not overtake the answer."""
PART_SECONDS = 0.5
"""After the last answer of a service that stops: a client may close first, and others are still to be answered."""
PATIENCE_SECONDS = 5
"""How long an answer may take to begin once the client has closed its side: it may only be done, or be gone."""
TORN = "The request ended before it was whole."


@implementer(IHalfCloseableProtocol)
class ClosingChannel(HTTPChannel, ABC):
    """Twisted's channel with ends of its own; Twisted's own log the peer's address."""

    transport: Any
    _lingering = False
    _discarded = 0
    clearLineBuffer: Any  # not typed in Twisted

    def __init__(self, deadlines: Wheel) -> None:
        HTTPChannel.__init__(self)
        self._deadline = Deadline(deadlines, self.timeoutConnection)
        self._closing = self._said_all = False
        self._stall: Stall | None = None

    def connectionMade(self) -> None:
        HTTPChannel.connectionMade(self)
        self._networkProducer: Any = Tap(self._networkProducer)

    def setTimeout(self, period: float | None) -> None:
        """In place of Twisted's, whose calls cost more than a head."""
        self._deadline.set(period)

    def readConnectionLost(self) -> None:
        """The client sends nothing more; whether it reads on, only an answer can tell."""
        self._said_all = True
        if self._closing:
            self._close()
        else:
            self._judge_end()

    def writeConnectionLost(self) -> None:
        """Our own side is closed, as _linger() does it."""

    @abstractmethod
    def _judge_end(self) -> None:
        """Once the client has said all: what is whole is answered, what is torn is refused, then we close."""

    def _close(self) -> None:
        """What is written goes out, within a minute."""
        self._closing, self._lingering = True, False
        self.setTimeout(STALL_SECONDS)
        HTTPChannel.loseConnection(self)

    def _part(self) -> None:
        """Close in a moment: who was told that this answer is the last may do it now."""
        self._closing = True
        self.setTimeout(PART_SECONDS)

    def _linger(self) -> None:
        """Say that nothing more comes, and read on for a moment."""
        self._closing = self._lingering = True
        self.clearLineBuffer()
        self._dataBuffer = []
        self.setTimeout(LINGER_SECONDS)
        self._networkProducer.resumeProducing()
        transport = self.transport
        if IHalfCloseableDescriptor.providedBy(transport) and not ISSLTransport.providedBy(transport):
            self.transport.loseWriteConnection()

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._lingering and self._discarded > LINGER_BYTES:
            self._close()

    def _closing_timed_out(self) -> None:
        if self._lingering or not self.transport.disconnecting:
            self._close()
        else:
            self.forceAbortClient()

    @property
    def clear(self) -> bool:
        """Whether what is sent now goes to a plain socket at once, behind nothing that waits."""
        return isinstance(self.transport, Connection) and _may_send(self.transport)

    def send(self, head: bytes, body: bytes = b"") -> None:
        """Write to the socket itself while nothing waits in front of it: that is one turn of the reactor less.

        Both in one call, and without a copy of them where the socket takes all.
        """
        sent = _sent(self.transport.socket, head, body) if self.clear else 0
        if sent < len(head) + len(body):
            self.transport.write((head + body)[sent:])

    def forceAbortClient(self) -> None:
        self.transport.abortConnection()

    def pauseProducing(self) -> None:
        """The transport is full: a handler's producer pauses, and so does reading."""
        if self._stall is None:
            self._stall = Stall(self._deadline, lambda: unread(self.transport), self.forceAbortClient)
        self._stall.begin()
        HTTPChannel.pauseProducing(self)

    def resumeProducing(self) -> None:
        self._has_room()
        HTTPChannel.resumeProducing(self)

    def _has_room(self) -> None:
        """What was written is taken, or nobody waits for that any more."""
        if self._stall is not None:
            self._stall.end()
            self._stall = None


def _sent(line: socket, head: bytes, body: bytes) -> int:
    """How many bytes it took. Of a connection that is gone the transport will find it out."""
    try:
        return line.sendmsg((head, body))
    except OSError:
        return 0


def _may_send(transport: Connection) -> bool:
    """Whether a plain socket is open and idle; over TLS the transport is another."""
    queued = transport.dataBuffer or transport._tempDataBuffer
    return bool(transport.connected) and not (transport.TLS or queued or transport.disconnecting)
