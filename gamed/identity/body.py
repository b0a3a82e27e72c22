"""A response's body: whole and small, or an error and an aborted connection."""

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IConsumer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.iweb import IBodyProducer, IResponse
from zope.interface import implementer

from gamed.identity.wire import AnswerTooLarge

MAX_BODY_BYTES = 64 * 1024


class _Reader(Protocol):
    def __init__(self, most: int) -> None:
        self.whole: Deferred[bytes] = Deferred(lambda _: self._leave())
        self._body = bytearray()
        self._most = most

    def connectionMade(self) -> None:
        if self._most < 0:
            self._leave()

    def dataReceived(self, data: bytes) -> None:
        self._body += data[: self._most + 1]
        if len(self._body) > self._most:
            self._leave()
            self._settle(Failure(AnswerTooLarge()))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        # Without a length the end of the connection is the end of the body; JSON that was cut short does not parse.
        self._settle(bytes(self._body) if reason.check(ResponseDone, PotentialDataLoss) else reason)

    def _leave(self) -> None:
        if self.transport is not None:
            self.transport.loseConnection()

    def _settle(self, result: bytes | Failure) -> None:
        if not self.whole.called:
            self.whole.callback(result)  # a Failure makes it an errback


def read_body(response: IResponse) -> "Deferred[bytes]":
    """At most MAX_BODY_BYTES, or AnswerTooLarge; cancelling it aborts the connection."""
    reader = _Reader(MAX_BODY_BYTES)
    response.deliverBody(reader)
    return reader.whole


def discard_body(response: IResponse) -> None:
    """Hang up: nothing of the body is wanted."""
    reader = _Reader(-1)
    reader.whole.addErrback(lambda _: None)
    response.deliverBody(reader)


@implementer(IBodyProducer)
class WholeBody:
    """A small body, written at once."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.length = len(body)

    def startProducing(self, consumer: IConsumer) -> "Deferred[None]":
        consumer.write(self._body)
        return succeed(None)

    def pauseProducing(self) -> None: ...

    def resumeProducing(self) -> None: ...

    def stopProducing(self) -> None: ...
