"""A request passes its body to a receiver, runs its handler and writes one response."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.event_log import EventLog
from gamed.http.bodies import DISCARDED_BODY, NO_BODY, BodyReceiver
from gamed.http.errors import RouteNotFound
from gamed.http.headers import PreparedHeaders, ResponseHeaders, credential_sent
from gamed.http.site import Routed, Site
from gamed.http.tracebacks import trace

_log = EventLog(Logger())
_STATUS: Final = {status.value: b"%d %b\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus}
"""The end of each status line."""
NO_CONTENT: Final = frozenset({204, 304})
"""Statuses of responses without content."""
CLIENT_LEFT: Final = 499
"""The status in the access log of a request whose client left before its response."""


class Request:
    """A request as handlers see it: `head`, `body`, `request_id`, and the methods that set up the response.

    A handler returns the content. One that streams sets Content-Length, registers a producer, and returns None when all
    is written. When the client leaves, the handler is cancelled.
    """

    body: BodyReceiver = NO_BODY
    status = 200
    problem = ""
    """The code of the problem that is answered."""
    error: BaseException | None = None
    """Why no handler will run."""
    started = False
    """Whether the response has begun."""
    sent_bytes = 0
    _work: Deferred[Any] | None = None
    _producer: IPushProducer | None = None

    def __init__(self, connection: Any, site: Site, routed: Routed, version: str) -> None:
        """`connection` is the HttpConnection that reads this request; that module imports this one."""
        self._connection = connection
        self._site = site
        self._routed = routed
        self._version = version
        self.head = head = routed.head
        self.complete = head.length == 0
        """Whether the whole body was read; if not, the connection carries no other request."""
        self.request_id = site.new_request_id()
        self.began = site.seconds()
        self.response_headers = ResponseHeaders()

    def __repr__(self) -> str:
        return f"<Request {self.request_id} {self.template}>"

    @property
    def template(self) -> str:
        """The route, as `/game/saves/{slot}`; the only thing that a log may say of the path."""
        return self._routed.match.template

    @property
    def transport(self) -> Any:
        """The transport of the connection, for responses that bypass its buffers; None once the client has left."""
        return None if self._connection is None else self._connection.transport

    @property
    def disconnected(self) -> bool:
        """Whether the client has left."""
        return self._connection is None

    # the body

    def start(self) -> None:
        """Let the body policy decide; the connection holds the body back meanwhile."""
        route = self._routed.match.route
        if self._routed.refusal is not None:
            self.reject(self._routed.refusal)
        elif self._routed.preflight:
            self.body = DISCARDED_BODY
        elif route is not None:
            Deferred.fromCoroutine(route.body_policy.accept(self.head)).addCallbacks(
                self._accepted, self._refused
            ).addErrback(self._failed)
            return
        self._connection.read_body(self)

    def _accepted(self, body: BodyReceiver) -> None:
        self.body = body
        if self.disconnected:
            self._abort_body()
        else:
            self._connection.read_body(self)

    def _refused(self, failure: Failure) -> None:
        if self.disconnected:
            self._failed(failure)
        elif failure.value is not None:
            self.reject(failure.value)
            self._connection.read_body(self)

    def body_received(self, data: bytes) -> Deferred[None] | None:
        """Pass on bytes of the body; nothing more may be read before the returned Deferred has fired."""
        try:
            return self.body.write(data)
        except Exception as e:
            self.reject(e)
            return None

    def reject(self, error: BaseException) -> None:
        """Discard the body; handle() will answer with the first error that is given here."""
        if self.error is None:
            self.error = error
            self._abort_body()

    def _abort_body(self) -> None:
        body, self.body = self.body, DISCARDED_BODY
        try:
            body.abort()
        except Exception as e:  # the connection must still be answered, or forgotten
            self._log_error("body_abort", e)

    # the handler

    def handle(self) -> None:
        """Respond, now that the body is complete or nothing more of it is wanted."""
        match = self._routed.match
        if self.error is not None:
            self.send_error(self.error)
        elif self._routed.preflight:
            self.status = 204
            self.response_headers.update(self._site.preflight_headers(self._routed))
            self.send_result(None)
        elif match.route is None:
            self.send_error(RouteNotFound())
        else:
            try:
                work = match.route.handler(self, **match.kwargs)
            except Exception as e:
                self.send_error(e)
                return
            if isinstance(work, Deferred):
                self._work = work
                work.addCallbacks(self.send_result, self._failed)
            else:
                self.send_result(work)

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if error is None:
            return
        if not self.disconnected:
            self.send_error(error)
        elif not isinstance(error, CancelledError):
            self._log_error("after_disconnect", error)
        failure.cleanFailure()  # its frames refer to the request, which refers to the error: a cycle per error

    # the response

    def setResponseCode(self, code: int) -> None:
        """Set the status; the phrase is always the standard one."""
        self.status = code

    def setHeader(self, name: str, value: str) -> None:
        """Set a response header field, instead of what was set before."""
        self.response_headers.set(name, value)

    def setHeaders(self, values: Mapping[str, str]) -> None:
        """Set several response header fields."""
        self.response_headers.update(values)

    def beginHeaders(self, prepared: PreparedHeaders) -> None:
        """Set the fields that many responses begin with."""
        self.response_headers.begin(prepared)

    def getCookie(self, name: str) -> str | None:
        """Return the value of a cookie; None if the client sent none of that name."""
        pairs = (
            pair.lstrip(" \t").partition("=") for line in self.head.headers.values("cookie") for pair in line.split(";")
        )
        return dict((key, value) for key, mark, value in pairs if mark).get(name)

    def registerProducer(self, producer: IPushProducer, streaming: bool = True) -> None:
        """Let a push producer write the response; it is paused while the transport is full."""
        if self._producer is not None:
            raise RuntimeError("a producer is already registered")
        self._producer = producer
        if self.disconnected:
            producer.stopProducing()
        else:
            self._connection.producer = producer

    def unregisterProducer(self) -> None:
        """Stop asking the producer for more."""
        self._producer = None
        if not self.disconnected:
            self._connection.producer = None

    def pause(self) -> None:
        """Act as if the transport were full: for a producer that has found the socket itself full."""
        if self._connection is not None:
            self._connection.pauseProducing()

    def send_result(self, result: object) -> None:
        """Send a handler's result: text, bytes or None; None also ends a streamed response."""
        if self._connection is None:
            return
        try:
            if not self.started:
                content = result.encode() if isinstance(result, str) else b"" if result is None else result
                if not isinstance(content, bytes):
                    raise TypeError(f"a handler returned {type(result).__name__}")
                self._start_response(content, len(content))
            self._finish()
        except Exception as e:
            self.send_error(e)

    def send_error(self, error: BaseException) -> None:
        """Respond with an error; nothing that a handler set before it failed is kept."""
        if self._connection is None:
            return
        if self.started:
            self._log_error("response_content", error)
            self._connection.abort()
            return
        self.response_headers = ResponseHeaders()
        sent = credential_sent(self.head.headers)
        try:
            response = self._routed.match.app.error_response(
                error, self.request_id, self.template, credential_sent=sent
            )
            self.status, self.problem = response.status, response.code
            self.response_headers.update(response.headers)
            self._start_response(response.body, len(response.body))
            self._finish()
        except Exception as e:
            self._log_error("error_response", e)
            self._connection.abort()
        error.__traceback__ = None  # as in _failed()

    def write(self, data: bytes) -> None:
        """Write content; the first call sends the head with it. A response without content drops the data."""
        if self._connection is None:
            return
        if not self.started:
            self._start_response(data)
        elif self.status not in NO_CONTENT and self.head.method != "HEAD":
            self._connection.transport.write(data)
            self.sent_bytes += len(data)

    def _start_response(self, data: bytes, length: int | None = None) -> None:
        """Send the head and the first data; `length` is that of the content, None if Content-Length is set already."""
        headers, status = self.response_headers, self.status
        if length is not None:
            headers.set("Content-Length", str(length))
        self._site.finish_headers(headers, self._routed, self.request_id)
        if status in NO_CONTENT:
            headers.remove("Content-Length")
            headers.remove("Content-Type")
            data = b""
        elif length is None and headers.get("Content-Length") is None:
            raise RuntimeError("a response without Content-Length")
        if self.head.method == "HEAD":
            data = b""
        if not (self.complete and self._connection.persistent) and self._version == "HTTP/1.1":
            headers.set("Connection", "close")
        head = b"%b %b%b\r\n" % (self._version.encode(), _STATUS[status], headers.encode())
        self.started = True
        self._connection.send(head, data)
        self.sent_bytes += len(data)

    def _finish(self) -> None:
        self._work = None
        self._log_access(self.status)
        connection, self._connection = self._connection, None
        connection.producer = None
        connection.request_done(self)

    # the end

    def client_left(self) -> None:
        """The connection is lost: discard the body and cancel the handler."""
        self._log_access(CLIENT_LEFT)
        self._connection = None
        if not self.complete:
            self._abort_body()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()
        work, self._work = self._work, None
        if work is not None:
            work.cancel()

    def _log_access(self, status: int) -> None:
        self._site.access_log.line(
            request_id=self.request_id,
            method=self.head.method,
            template=self._routed.match.template,
            status=status,
            size=self.sent_bytes,
            seconds=self._site.seconds() - self.began,
            received=(self.head.length or 0) if self.complete else 0,
            code=self.problem,
        )

    def _log_error(self, phase: str, error: BaseException) -> None:
        _log.error(
            "unexpected_error",
            phase=phase,
            error=type(error).__name__,
            route=self.template,
            request=self.request_id,
            below=trace(error),
        )
