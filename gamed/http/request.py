"""A request passes its body to a receiver, runs its handler, and writes the response."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.event_log import EventLog
from gamed.http import direct_socket
from gamed.http.access_log import EndedRequest
from gamed.http.bodies import DISCARDED_BODY, NO_BODY, BodyReceiver
from gamed.http.errors import RouteNotFound
from gamed.http.parser import RequestHeaders
from gamed.http.problems import find_problem, plain_problem
from gamed.http.site import Routed, Site
from gamed.http.tracebacks import redacted_traceback
from gamed.timestamps import http_date

_log = EventLog(Logger())
_STATUS: Final = {status.value: b"%d %b\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus}
"""The end of each status line."""
PROTOCOL: Final = "1.0"
NO_CONTENT: Final = frozenset({204, 304})
"""Statuses of responses without content."""
AUTH_HEADERS: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
"""On every response below `/auth/`, but for Request.storable."""
CLIENT_LEFT: Final = 499
"""The status in the access log of a request whose client left before its response."""


class Request:
    """A request as handlers see it: `head`, `body`, `request_id`, and the methods that set up the response.

    Methods for handlers are spelled like those of twisted.web's Request, which Klein's documentation uses.

    A handler returns the content. One that streams sets Content-Length, registers a producer, and returns None when all
    is written. When the client leaves, the handler is cancelled.
    """

    body: BodyReceiver = NO_BODY
    error: BaseException | None = None
    """Why no handler will run."""
    status = 200
    locale: str | None = None
    """The language of the game for which a page is shown (BCP 47), where the handler knows it."""
    storable: str | None = None
    """The Cache-Control of public content below `/auth/`; None for all else there, which no cache may store."""
    problem = ""
    """The code of the problem that is answered."""
    started = False
    """Whether the response has begun."""
    sent_bytes = 0
    """Bytes of content that were written."""
    _content_length = 0
    """Bytes of content that the head announces; 0 for a response without content."""
    _cookies: Mapping[str, str] | None = None
    _producer: IPushProducer | None = None
    _work: Deferred[Any] | None = None
    """The handler that runs; cancelled when the client leaves."""

    def __init__(self, connection: Any, site: Site, routed: Routed, version: str) -> None:
        """Begin the response on an HttpConnection, whose module imports this one."""
        self._connection = connection
        self._site = site
        self._routed = routed
        self._version = version
        self.head = head = routed.head
        self.complete = head.length == 0
        """Whether the whole body was read; if not, the connection carries no other request."""
        self.request_id = site.new_request_id()
        self.began = site.seconds()
        self._headers = ResponseHeaders()

    def __repr__(self) -> str:
        return f"<Request {self.request_id} {self.template}>"

    @property
    def template(self) -> str:
        """Return the route, as `/game/saves/{slot}`: the only part of a path that may be logged."""
        return self._routed.match.template

    @property
    def transport(self) -> Any:
        """Return the transport, for responses that bypass its buffers; None once the client has left."""
        return None if self._connection is None else self._connection.transport

    # for handlers

    def getCookie(self, name: str) -> str | None:
        """Return the value of a cookie; None if the client sent none of that name."""
        if self._cookies is None:  # a page looks for up to seven, in up to 16 KiB
            lines = self.head.headers.values("cookie")
            pairs = (pair.lstrip(" \t").partition("=") for line in lines for pair in line.split(";"))
            self._cookies = {key: value for key, mark, value in pairs if mark}
        return self._cookies.get(name)

    def setResponseCode(self, code: int) -> None:
        """Set the status; the phrase is always the standard one."""
        self.status = code

    def setHeader(self, name: str, value: str) -> None:
        """Set a response header field, instead of what was set before."""
        self._headers.set(name, value)

    def setHeaders(self, values: Mapping[str, str]) -> None:
        """Set response header fields, each instead of what was set before."""
        self._headers.update(values)

    def beginHeaders(self, prepared: "PreparedHeaders") -> None:
        """Set the first fields of a response; those of a file come from a block that was encoded once."""
        self._headers.begin(prepared)

    def addHeader(self, name: str, value: str) -> None:
        """Add one more line of a response header field, whatever is set."""
        self._headers.add(name, value)

    def removeHeader(self, name: str) -> None:
        """Remove a response header field, if it was set."""
        self._headers.remove(name)

    def write(self, data: bytes) -> None:
        """Write content; the first call sends the head with it. A response without content drops the data."""
        if self._connection is None:
            return
        if not self.started:
            self._start_response(data)
        elif self.status not in NO_CONTENT and self.head.method != "HEAD":
            if self.sent_bytes + len(data) > self._content_length:
                raise RuntimeError("a response is longer than its Content-Length")
            self._connection.transport.write(data)
            self.sent_bytes += len(data)

    def registerProducer(self, producer: IPushProducer, streaming: bool = True) -> None:
        """Let a push producer write the response; it is paused while the transport is full."""
        if self._producer is not None:
            raise RuntimeError("a producer is already registered")
        self._producer = producer
        if self._connection is None:
            producer.stopProducing()
        else:
            self._connection.flow.producer = producer

    def unregisterProducer(self) -> None:
        """Stop asking the producer for more."""
        self._producer = None
        if self._connection is not None:
            self._connection.flow.producer = None

    def pause(self) -> None:
        """Act as if the transport were full: for a producer that has found the socket itself full."""
        if self._connection is not None:
            self._connection.flow.pauseProducing()

    # the body

    def start(self) -> None:
        """Let the body policy decide; the connection holds the body back meanwhile."""
        match, refusal = self._routed.match, self._routed.refusal
        if refusal is None and (self._routed.preflight or match.route is not None):
            policy = match.app.default_body_policy if match.route is None else match.route.body_policy
            Deferred.fromCoroutine(policy.accept(self.head)).addCallbacks(self._accepted, self._refused).addErrback(
                self._failed
            )
            return
        if refusal is not None:
            self.reject(refusal)
        self._connection.read_body(self)

    def _accepted(self, body: BodyReceiver) -> None:
        self.body = body
        if self._connection is None:
            self._abort_body()
        else:
            self._connection.read_body(self)

    def _refused(self, failure: Failure) -> None:
        if self._connection is None:
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
            self._headers.update(self._site.cors.preflight_headers(match.methods, self.head.single("origin")))
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
                if match.route.failure_page is not None:
                    work.addErrback(self._failure_page, match.route.failure_page)
                work.addCallbacks(self.send_result, self._failed)
            else:
                self.send_result(work)

    def _failure_page(self, failure: Failure, page_of: Callable[[Any, Exception], bytes | None]) -> bytes | Failure:
        """Return the page of what the handler raised; pass on what has none."""
        page = page_of(self, failure.value) if isinstance(failure.value, Exception) else None
        return failure if page is None else page

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if error is None:
            return
        if self._connection is not None:
            self.send_error(error)
        elif not isinstance(error, CancelledError):
            self._log_error("after_disconnect", error)
        failure.cleanFailure()  # its frames refer to the request, which refers to the error: a cycle per error

    def client_left(self) -> None:
        """Discard the body and cancel the handler, because the connection is lost."""
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

    # the response

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
        self._headers = ResponseHeaders()
        try:
            content = self._render_error(error)
            self._start_response(content, len(content))
            self._finish()
        except Exception as e:
            self._log_error("error_response", e)
            self._connection.abort()
        error.__traceback__ = None  # its frames refer to the request, which refers to the error: a cycle per error

    def _render_error(self, error: BaseException) -> bytes:
        """Set status and header fields, and return the content; an unexpected error is logged and becomes a 500."""
        app = self._routed.match.app
        problem = find_problem(error, app.errors, credential_sent=credential_sent(self.head.headers))
        if problem is None:
            if not isinstance(error, Exception):
                raise error
            self._log_error("handler", error)
            problem = plain_problem("internal_error")
        self.status, self.problem = problem.status, problem.code  # before the page, which may fail and become a 500
        headers, content = app.render_problem(problem, self)
        self._headers.update({"Cache-Control": "no-store", **problem.headers, **headers})
        return content

    def _start_response(self, data: bytes, length: int | None = None) -> None:
        """Send the head and the first data; `length` is that of the content, None if Content-Length is set already."""
        headers, status = self._headers, self.status
        if length is not None:
            headers.set("Content-Length", str(length))
        self._set_common_headers(headers)
        if status in NO_CONTENT:
            headers.remove("Content-Length")
            headers.remove("Content-Type")
            length = None
        elif length is None:
            announced = headers.get("Content-Length")
            if announced is None:
                raise RuntimeError("a response without Content-Length")
            length = int(announced)
        if length is None or self.head.method == "HEAD":
            data, length = b"", 0
        if len(data) > length:
            raise RuntimeError("a response is longer than its Content-Length")
        self._content_length = length
        if not (self.complete and self._connection.persistent) and self._version == "HTTP/1.1":
            headers.set("Connection", "close")
        head = b"%b %b%b\r\n" % (self._version.encode(), _STATUS[status], headers.encode())
        self.started = True
        direct_socket.write(self._connection.transport, head, data)
        self.sent_bytes += len(data)

    def _set_common_headers(self, headers: "ResponseHeaders") -> None:
        """Set the header fields that every response has, just before its first byte is sent."""
        date = http_date(self._site.now_ms())
        headers.update({"Date": date, "X-Content-Type-Options": "nosniff", "X-Request-Id": self.request_id})
        if self.head.path.startswith("/auth/"):
            headers.update(AUTH_HEADERS)
            if self.storable is not None and not self.problem:
                headers.set("Cache-Control", self.storable)
        if (headers.get("Content-Type") or "").startswith(("application/json", "application/problem+json")):
            headers.set("Gamed-Protocol", PROTOCOL)
        cors = self._site.cors
        if cors.origins and self.head.path.startswith(self._routed.match.app.cors_families):
            headers.add("Vary", "Origin")
            headers.update(cors.response_headers(self.head.headers.single("origin")))

    def _finish(self) -> None:
        if self.sent_bytes != self._content_length:
            raise RuntimeError("a response is shorter than its Content-Length")
        self._work = None
        self._log_access(self.status)
        connection, self._connection = self._connection, None
        connection.flow.producer = None
        connection.request_done(self)

    def _log_access(self, status: int) -> None:
        ended = EndedRequest(
            request_id=self.request_id,
            method=self.head.method,
            template=self._routed.match.template,
            status=status,
            size=self.sent_bytes,
            seconds=self._site.seconds() - self.began,
            received=(self.head.length or 0) if self.complete else 0,
            code=self.problem,
        )
        self._site.access_log.log(ended)

    def _log_error(self, phase: str, error: BaseException) -> None:
        _log.error(
            "unexpected_error",
            phase=phase,
            error=type(error).__name__,
            route=self.template,
            request=self.request_id,
            below=redacted_traceback(error),
        )


def credential_sent(headers: RequestHeaders) -> bool:
    """Return whether any Authorization field carries something to authenticate with, of whichever scheme.

    An empty field and a bare `Bearer` carry nothing, so the 401 must not call a token invalid (RFC 6750 3.1).
    """
    values = headers.values("authorization")
    return any(value.strip(" \t").lower() not in {"", "bearer"} for value in values)


class ResponseHeaders:
    """The header fields of one response: one value for each name, and further lines beside them."""

    __slots__ = ("_added", "_prepared", "_values")

    def __init__(self) -> None:
        self._prepared: PreparedHeaders | None = None
        self._values: dict[str, str] = {}
        self._added: list[tuple[str, str]] = []

    def __repr__(self) -> str:
        """Show no field: some are cookies."""
        return f"<{type(self).__name__}>"

    def set(self, name: str, value: str) -> None:
        """Set a field, instead of what was set before; the name is written as it is given."""
        self._values[name] = value

    def begin(self, prepared: "PreparedHeaders") -> None:
        """Set the first fields of a response, from a block that was encoded once."""
        if self._values or self._prepared is not None:
            self.update(prepared.values)
        else:
            self._prepared = prepared

    def update(self, values: Mapping[str, str]) -> None:
        """Set several fields."""
        self._values.update(values)

    def add(self, name: str, value: str) -> None:
        """Add one more line, whatever is set."""
        self._added.append((name, value))

    def remove(self, name: str) -> None:
        """Remove what was set, if it was."""
        if self._prepared is not None and name in self._prepared.values:
            self._merge_prepared(self._prepared)
        self._values.pop(name, None)

    def get(self, name: str) -> str | None:
        """Return what was set."""
        value = self._values.get(name)
        return value if value is not None or self._prepared is None else self._prepared.values.get(name)

    def encode(self) -> bytes:
        """Return the lines as they are sent, without the empty one; a line end inside a value becomes a blank."""
        prepared = self._prepared
        if prepared is not None and not prepared.values.keys().isdisjoint(self._values):
            self._merge_prepared(prepared)
        lines = [f"{name}: {value}\r\n" for name, value in self._values.items()]
        if self._added:
            lines += [f"{name}: {value}\r\n" for name, value in self._added]
        text = "".join(lines)
        if text.count("\r") == len(lines) == text.count("\n"):
            block = text.encode()
        else:
            block = b"".join(b"%b\r\n" % b" ".join(line.encode().splitlines()) for line in lines)
        return block if self._prepared is None else self._prepared.block + block

    def _merge_prepared(self, prepared: "PreparedHeaders") -> None:
        self._prepared, self._values = None, {**prepared.values, **self._values}


class PreparedHeaders:
    """The fields that many responses begin with, encoded once."""

    __slots__ = ("block", "values")

    def __init__(self, values: Mapping[str, str]) -> None:
        headers = ResponseHeaders()
        headers.update(values)
        self.values, self.block = values, headers.encode()

    def __repr__(self) -> str:
        """Show no field: an etag reveals what a player has."""
        return f"<{type(self).__name__}>"
