"""Rooms: one Klein app each, made here so that every error of every room is answered in the same way.

A room is a part with an app and what the site has to know before a handler runs:

    class SaveRoutes(Part, frozen=True):
        app = make_app()
        prefixes = ("/game/",)
        shelf: Shelf
        gates: Mapping[str, Gate]                      # endpoint name -> gate; {} when all bodies are small

        @app.route("/game/saves/<string:slot>", methods=["GET"])
        async def read_save(self, request: Request, slot: str) -> bytes: ...

Routes declare full paths and methods (Klein answers any method otherwise). An endpoint is named as its method. The
converter `token` is the 22 characters of a login address (PROTOCOL 3.1). A handler returns bytes, text or None, at
once or later; it sets the status and the content type, the rest is done for it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from klein import Klein
from klein._app import KleinErrorMethod
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.routing import BaseConverter

from gamed.web.bearer import credential_sent
from gamed.web.errors import WrongMethod
from gamed.web.gates import Gate, SmallBodyGate
from gamed.web.problems import Problem, plain_problem, problem_of
from gamed.web.request import Request
from gamed.web.traces import trace

_log = Logger()


class Room(Protocol):
    """What the site needs of a room."""

    @property
    def app(self) -> Klein: ...

    @property
    def prefixes(self) -> tuple[str, ...]:
        """`/game/` for all below, `/auth/login` for that path and what follows its next slash; the longest wins.

        `/auth/*/callback`: `*` is any segment, where no other prefix fits.
        """

    @property
    def gates(self) -> Mapping[str, Gate]: ...


class TokenConverter(BaseConverter):
    """22 base64url characters, so that `/auth/login/collect` is never taken for a token."""

    regex = "[A-Za-z0-9_-]{22}"


class App(Klein, ABC):
    """A Klein app that knows how its errors look and which bodies its routes take."""

    default_gate: Gate
    answers_head = True
    """Whether GET routes answer HEAD; the browser routes do not (PROTOCOL 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.url_map.strict_slashes = self.url_map.merge_slashes = False  # no redirects built from Host
        self.url_map.converters["token"] = TokenConverter

    def __get__(self, instance: Any, owner: object) -> "App":
        """The app of one room."""
        return cast(App, super().__get__(instance, owner))

    def answer_error(self, request: Request, error: BaseException) -> bytes:
        """As Klein does it, for errors before the handler too: the first of the app's handlers for that kind."""
        failure = Failure(error)
        for kinds, handler in self._error_handlers:
            if failure.check(*kinds):
                return cast(bytes, self.execute_error_handler(handler, cast(IRequest, request), failure))
        raise error

    def answer_problem(self, request: Request, problem: Problem) -> bytes:
        """Set status and headers; the body."""
        request.problem = problem.code
        request.setResponseCode(problem.status)
        request.setHeader("Cache-Control", "no-store")
        request.setHeaders(problem.headers)
        return self.render_problem(request, problem)

    @abstractmethod
    def render_problem(self, request: Request, problem: Problem) -> bytes:
        """The body, and the headers that belong to it."""


class JsonApp(App):
    """Errors are application/problem+json."""

    default_gate = SmallBodyGate("application/json")

    def render_problem(self, request: Request, problem: Problem) -> bytes:
        request.setHeader("Content-Type", "application/problem+json")
        return problem.to_bytes(request.request_id)


class PagesApp(App):
    """The browser routes: errors are pages."""

    default_gate = SmallBodyGate("application/x-www-form-urlencoded")
    answers_head = False

    def render_problem(self, request: Request, problem: Problem) -> bytes:
        from gamed.web.pages import PAGE_HEADERS, error_page

        request.setHeaders(PAGE_HEADERS)
        return error_page(problem.status, problem.code, problem.detail, request_id=request.request_id)


def make_app() -> App:
    """The app of a JSON room."""
    return _with_handlers(JsonApp())


def make_pages_app() -> App:
    """The app of a room of browser routes."""
    return _with_handlers(PagesApp())


def _with_handlers(app: App) -> App:
    """Three handlers, most specific first: an app inherits none, and Klein's default is HTML."""

    def wrong_method(request: Request, error: MethodNotAllowed) -> Problem:
        return known(request, WrongMethod(list(error.valid_methods or ())))

    def known(request: Request, error: Exception) -> Problem:
        sent = credential_sent(request.requestHeaders)
        return problem_of(error, credential_sent=sent) or _unexpected(request, error)

    for kind, judge in ((MethodNotAllowed, wrong_method), (HTTPException, known), (Exception, known)):
        app.handle_errors(kind)(_klein_handler(app, judge))
    return app


def _klein_handler(app: App, judge: Callable[..., Problem]) -> KleinErrorMethod:
    def answer(*bound: Any) -> bytes:
        request, failure = bound[-2:]  # the room comes first when the app is bound to one
        return app.answer_problem(request, judge(request, failure.value))

    return cast(KleinErrorMethod, answer)


def _unexpected(request: Request, error: Exception) -> Problem:
    _log.error(
        "unexpected error, request {request_id} at {route}\n{trace}",
        request_id=request.request_id,
        route=request.route.template,
        trace=trace(error),
    )
    return plain_problem("internal_error")
