"""One exchange: a judged head, a body that went to its sink, a handler, one answer."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import NO_BODY_CODES
from twisted.web.http import Request as TwistedRequest

from gamed.web.fields import AnswerFields, Fields, Prepared
from gamed.web.gates import NO_BODY, Head, Sink
from gamed.web.raw_head import RawHead
from gamed.web.server import Route, Server
from gamed.web.steps import Steps
from gamed.web.traces import trace

_log = Logger()
_STATUS = {status.value: b"%d %b\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus}
"""The end of a status line; Twisted's own table of phrases lacks 421, 428 and 431."""
CLIENT_LEFT = 499
"""The status in the log of a request whose client left before its answer."""


class Request(TwistedRequest):
    """Handlers use `head`, `sink`, `request_id`, setResponseCode, getCookie, notifyFinish, and setHeader, setHeaders
    and beginHeaders.

    A handler that streams sets Content-Length, registers a producer, and returns None when all is written. When the
    client leaves, the handler is cancelled. `args`, `content`, `path` and `uri` of Twisted's request stay empty: the
    first mixes bodies into queries, and a path or query must never reach a log.
    """

    head: Head
    sink: Sink = NO_BODY
    route: Route
    requestHeaders: Fields
    responseHeaders: AnswerFields  # type: ignore[assignment]  # more of the same, for less
    channel: Any
    refusal: BaseException | None = None
    """Why there will be no handler."""
    _work: Deferred[Any] | Steps | None = None
    whole = False
    """Whether all of the body was read; if not, the connection cannot go on."""
    problem = ""
    """The code of the problem that is answered."""
    received_cookies: dict[bytes, bytes]
    parseCookies: Any  # these are not typed in Twisted
    uri = path = b"-"
    clientproto = b"HTTP/1.1"
    addCookie: Any = None
    """A cookie is a field like others: see Guard.keep()."""
    queued = False
    _cleanup: Any

    def __init__(self, channel: Any, server: Server) -> None:
        super().__init__(channel, queued=False)
        self.requestHeaders = Fields()
        self.responseHeaders = AnswerFields()
        self._server = server
        self.request_id = server.request_id()
        self.began = server.seconds()
        self.route = server.nowhere
        self.head = Head("-", "", b"", {}, self.requestHeaders, 0, "")

    def __repr__(self) -> str:
        return f"<Request {self.request_id} {self.route.template}>"

    # the head

    def begin(self, raw: RawHead, length: int | None) -> None:
        """The head is complete. The gate decides; the body waits in the channel meanwhile."""
        self.method, self.clientproto = raw.method, raw.version
        for name, value in raw.fields:
            self.requestHeaders.addRawHeader(name, value)
        try:
            self._server.judge(self, raw, length)
        except Exception as e:
            self.refuse(e)
            self.channel.admit(self)
        else:
            Deferred.fromCoroutine(self._pass_gate())

    async def _pass_gate(self) -> None:
        try:
            self.sink = await self.route.gate.admit(self.head)
        except Exception as e:
            self.refuse(e)
        if self._disconnected:
            self.sink.abort()
        else:
            self.channel.admit(self)

    def getCookie(self, name: bytes) -> bytes | None:
        """Read when it is asked for: only pages do."""
        self.received_cookies = {}
        self.parseCookies()
        return self.received_cookies.get(name)

    # the body

    def handleContentChunk(self, data: bytes) -> Deferred[None] | None:
        """Called by the channel's decoder; what it returns is to be waited for before more is read."""
        try:
            return self.sink.write(data)
        except Exception as e:
            self.refuse(e)
            return None

    def refuse(self, error: BaseException) -> None:
        """There will be no handler. What still arrives of the body goes nowhere."""
        if self.refusal is None:
            self.refusal = error
            self.sink.abort()
            self.sink = _Nowhere()

    def proceed(self) -> None:
        """The body is whole, or nobody wants the rest: answer."""
        if self.refusal is not None:
            self.fail(self.refusal)
            return
        self._work = maybeDeferred(self.route.call, self)
        self._work.addCallback(self.respond).addErrback(self._failed)

    # the answer

    def setHeader(self, name: str, value: str) -> None:
        """Replaces what was set before."""
        self.responseHeaders.set(name, value)

    def beginHeaders(self, prepared: Prepared) -> None:
        """As setHeaders(), where many answers begin alike."""
        self.responseHeaders.begin(prepared)

    def setHeaders(self, values: Mapping[str, str]) -> None:
        """As many times setHeader()."""
        self.responseHeaders.update(values)

    def setResponseCode(self, code: int, message: bytes | None = None) -> None:
        """The phrase is always the code's own."""
        self.code = code

    def respond(self, result: object) -> None:
        """A handler's result; None after a streamed answer."""
        if self._disconnected or self.finished:
            return
        if not self.startedWriting:
            body = body_of(result)
            self.setHeader("Content-Length", str(len(body)))
            self.write(body)
        self.finish()

    def fail(self, error: BaseException) -> None:
        """Answer an error; nothing that a handler set before it failed is kept."""
        if self.startedWriting:
            self._tell("an answer broke off", error)
            self.channel.forceAbortClient()
            return
        self.responseHeaders = AnswerFields()
        try:
            self.respond(self.route.answer_error(self, error))
        except Exception as e:
            self._tell("no answer", e)
            self.channel.forceAbortClient()
        error.__traceback__ = None  # its frames know the request, which knows the error: garbage for each refusal

    def write(self, data: bytes) -> None:
        """The first time, the head and `data` in one piece. Of an answer without a body, `data` goes nowhere."""
        if self._disconnected:
            return
        if self.code in NO_BODY_CODES or self.method == b"HEAD":
            data = b""
        if self.startedWriting:
            self.channel.write(data)
        else:
            self._seal()
            head = b"%b %b%b\r\n" % (self.clientproto, _STATUS[self.code], self.responseHeaders.block())
            self.startedWriting = 1  # what cannot be written has not begun
            self.channel.send(head, data)
        self.sentLength += len(data)

    def finish(self) -> None:
        """All is written."""
        if not self._disconnected:
            self._work = None
            self._server.done(self, self.code)
            self.finished = 1
            self._cleanup()

    def _seal(self) -> None:
        self._server.seal(self)
        if self.code in NO_BODY_CODES:
            self.responseHeaders.remove("Content-Length")
            self.responseHeaders.remove("Content-Type")
        elif self.responseHeaders.get("Content-Length") is None:
            raise RuntimeError("an answer without Content-Length")
        if self.clientproto == b"HTTP/1.1" and not (self.whole and self.channel.persistent):
            self.setHeader("Connection", "close")

    # the end

    def connectionLost(self, reason: Failure) -> None:
        """The client left: what it was still sending goes, and the handler is cancelled."""
        self._server.done(self, CLIENT_LEFT)
        if not self.whole:
            self.sink.abort()
        TwistedRequest.connectionLost(self, reason)
        work, self._work = self._work, None
        if work is not None:
            work.cancel()

    def _failed(self, failure: Failure) -> None:
        if failure.value is not None:
            self._broke(failure.value)

    def _broke(self, error: BaseException) -> None:
        """The handler raised, or its answer cannot be given."""
        if not self._disconnected:
            self.fail(error)
            return
        if not isinstance(error, CancelledError):
            self._tell("failed after the client left", error)
        error.__traceback__ = None  # as in fail()

    def _tell(self, what: str, error: BaseException) -> None:
        _log.error("{what}, request {request_id}\n{trace}", what=what, request_id=self.request_id, trace=trace(error))


def body_of(result: object) -> bytes:
    """Of what a handler returned."""
    body = result.encode() if isinstance(result, str) else b"" if result is None else result
    if not isinstance(body, bytes):
        raise TypeError(f"a handler returned {type(result).__name__}")
    return body


class _Nowhere:
    """Takes what nobody wants."""

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...
