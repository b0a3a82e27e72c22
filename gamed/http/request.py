"""A request passes its body to a receiver and runs its handler."""

from typing import Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from gamed.http.bodies import DISCARDED_BODY, NO_BODY, BodyReceiver
from gamed.http.errors import RouteNotFound
from gamed.http.responses import ResponseWriter

CLIENT_LEFT: Final = 499
"""The status in the access log of a request whose client left before its response."""


class Request(ResponseWriter):
    """A request as handlers see it: `head`, `body`, `request_id`, and the methods that set up the response.

    A handler returns the content. One that streams sets Content-Length, registers a producer, and returns None when all
    is written. When the client leaves, the handler is cancelled.
    """

    body: BodyReceiver = NO_BODY
    error: BaseException | None = None
    """Why no handler will run."""

    def __repr__(self) -> str:
        return f"<Request {self.request_id} {self.template}>"

    def getCookie(self, name: str) -> str | None:
        """Return the value of a cookie; None if the client sent none of that name."""
        pairs = (
            pair.lstrip(" \t").partition("=") for line in self.head.headers.values("cookie") for pair in line.split(";")
        )
        return dict((key, value) for key, mark, value in pairs if mark).get(name)

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
            self.response_headers.update(self._site.cors.preflight_headers(match.methods, self.head.single("origin")))
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
