"""A real HTTP server on this machine that receives messages, and answers as a test wants."""

from typing import Any

from msgspec import Struct
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IListeningPort
from twisted.trial.unittest import TestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

PATH = "/hush-hush"


class Received(Struct, frozen=True):
    """A message that arrived."""

    headers: dict[str, str]
    body: bytes


class Receiver(Resource):
    """A webhook; `answers` has the next ones as status and header fields, after them each is 204."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.received: list[Received] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.silent = False
        """Whether it answers nothing at all."""
        self.flood = 0
        """How many bytes of content follow each answer, in pieces, until the client leaves."""
        self.flooded = 0
        self._port: IListeningPort | None = None

    def listen(self, test: TestCase) -> "Receiver":
        port = reactor.listenTCP(0, Site(self, timeout=None), interface="127.0.0.1")  # type: ignore[attr-defined]
        test.addCleanup(port.stopListening)
        self._port = port
        return self

    @property
    def url(self) -> str:
        assert self._port is not None
        return f"http://127.0.0.1:{self._port.getHost().port}{PATH}"  # type: ignore[attr-defined]

    def render(self, request: Any) -> Any:
        headers = {
            name.decode().lower(): values[0].decode() for name, values in request.requestHeaders.getAllRawHeaders()
        }
        self.received.append(Received(headers, request.content.read()))
        if self.silent:
            request.notifyFinish().addErrback(lambda _: None)
            return NOT_DONE_YET
        status, fields = self.answers.pop(0) if self.answers else (204, {})
        request.setResponseCode(status)
        for name, value in fields.items():
            request.setHeader(name, value)
        if self.flood:
            self._pour(request)
            return NOT_DONE_YET
        return b""

    def _pour(self, request: Any) -> None:
        """Send pieces of content while the client takes them."""
        gone: list[object] = []
        request.notifyFinish().addBoth(gone.append)

        def piece() -> None:
            if gone:
                return
            request.write(b"x" * 65536)
            self.flooded += 65536
            if self.flooded < self.flood:
                reactor.callLater(0, piece)  # type: ignore[attr-defined]
            else:
                request.finish()

        piece()


def pause(seconds: float) -> "Deferred[None]":
    """Return a Deferred that fires after a while of the real clock."""
    waiting: Deferred[None] = Deferred()
    reactor.callLater(seconds, waiting.callback, None)  # type: ignore[attr-defined]
    return waiting
