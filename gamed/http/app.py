"""This module makes the Klein apps with which route groups declare their routes and the form of their errors.

A route group is what the site needs of one set of routes:

    class SaveRoutes(Part, frozen=True):
        app = make_app(SAVE_ERRORS)
        prefixes = ("/game/",)
        service: SaveService
        body_policies: Mapping[str, BodyPolicy]     # endpoint name -> policy; {} when all bodies are small

        @app.route("/game/saves/<string:slot>", methods=["GET"])
        async def read_save(self, request: Request, slot: str) -> bytes: ...

Routes declare full paths and methods. An endpoint is named as its method. `string` takes one segment without control
characters, `text` one with any characters, which the handler checks, `path` the rest of the path, `token` the 22
characters of a login link (PROTOCOL 3.1). A handler returns bytes, text or None, at once or later; it sets the status
and the content type, the connection does the rest. Errors are rows of tables (gamed.http.problems) instead of Klein's
error handlers, because most errors are raised before a handler runs and must have the same form.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar, cast

from klein import Klein
from msgspec import Struct
from twisted.logger import Logger
from werkzeug.routing import BaseConverter, Map, UnicodeConverter

from gamed.event_log import EventLog
from gamed.http.bodies import BodyPolicy, SmallBodyPolicy
from gamed.http.problems import ErrorTable, Problem, find_problem, merge_tables, plain_problem
from gamed.http.tracebacks import redacted_traceback

H = TypeVar("H", bound=Callable[..., Any])
_log = EventLog(Logger())
RenderedError = tuple[Mapping[str, str], bytes]
"""Header fields and body."""


class RouteGroup(Protocol):
    """A set of routes with one app, under prefixes of its own."""

    @property
    def app(self) -> Klein: ...

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return the paths of this group: `/game/` for all below, `/auth/login` for that path and all after its slash.

        The longest prefix wins. In `/auth/*/callback` the `*` is any segment, and only `/auth/` counts as its length:
        it wins over `/auth/`, not over `/auth/login`.
        `/auth/$` is that path alone.
        """

    @property
    def body_policies(self) -> Mapping[str, BodyPolicy]: ...


class TokenConverter(BaseConverter):
    """The 22 base64url characters of a login link, so that `/auth/login/collect` is never taken for one."""

    regex = "[A-Za-z0-9_-]{22}"


class ErrorResponse(Struct, frozen=True):
    """A complete response to an error."""

    status: int
    code: str
    headers: Mapping[str, str]
    body: bytes


class DeclaredRoute(Struct, frozen=True, eq=False):
    """The arguments of one `@app.route(...)`; `methods` has HEAD beside GET, as werkzeug's rules do."""

    rule: str
    methods: frozenset[str]
    endpoint: str
    handler: Callable[..., Any]


class BaseApp(Klein, ABC):
    """A Klein app with the form of its errors and the default body policy of its routes.

    Klein gets the routes when they are first needed, usually with the first request for the app. For each of them
    werkzeug compiles two functions that make URLs; all together would be a fifteenth of the start.
    """

    default_body_policy: BodyPolicy
    cors_families: tuple[str, ...] = ()
    """Prefixes of the paths that answer OPTIONS and pages of other origins; browser routes never do."""
    answers_head = True
    """Whether GET routes answer HEAD; the browser routes do not (PROTOCOL 1)."""

    def __init__(self, errors: ErrorTable | None = None) -> None:
        super().__init__()
        self.declared: list[DeclaredRoute] = []
        self._pending: list[DeclaredRoute] = []
        self.url_map.strict_slashes = self.url_map.merge_slashes = False  # no redirects built from Host
        self.url_map.converters.update(token=TokenConverter, text=UnicodeConverter)
        self.errors: ErrorTable = errors if errors is not None else merge_tables(())

    def __get__(self, instance: Any, owner: object) -> "BaseApp":
        """Return the app bound to one instance of its route group."""
        bound = cast(BaseApp, super().__get__(instance, owner))
        bound.errors = self.errors
        bound.declared, bound._pending = self.declared, self._pending
        return bound

    def route(self, url: str, *, methods: Iterable[str], endpoint: str = "") -> Callable[[H], H]:  # type: ignore[override]
        """Declare a route, as Klein's decorator does; `endpoint` is the handler's name by default."""

        def declare(handler: H) -> H:
            known = frozenset(methods) | ({"HEAD"} if "GET" in methods else set())
            route = DeclaredRoute(url, known, endpoint or handler.__name__, handler)
            self.declared.append(route)
            self._pending.append(route)
            return handler

        return declare

    @property
    def url_map(self) -> Map:
        self._add_pending()
        return super().url_map

    @property
    def endpoints(self) -> dict[str, Callable[..., Any]]:
        self._add_pending()
        return super().endpoints

    def _add_pending(self) -> None:
        while self._pending:
            route = self._pending.pop(0)
            super().route(route.rule, methods=route.methods, endpoint=route.endpoint)(route.handler)

    def error_response(
        self, error: BaseException, request_id: str, template: str, *, credential_sent: bool
    ) -> ErrorResponse:
        """Return the response to an error; log the traceback of an unexpected one, without values (500)."""
        problem = find_problem(error, self.errors, credential_sent=credential_sent)
        if problem is None:
            if not isinstance(error, Exception):
                raise error
            _log.error(
                "unexpected_error",
                phase="handler",
                error=type(error).__name__,
                route=template,
                request=request_id,
                below=redacted_traceback(error),
            )
            problem = plain_problem("internal_error")
        headers, body = self.render_problem(problem, request_id)
        return ErrorResponse(
            problem.status, problem.code, {"Cache-Control": "no-store", **problem.headers, **headers}, body
        )

    @abstractmethod
    def render_problem(self, problem: Problem, request_id: str) -> RenderedError:
        """Return the header fields and the body."""


class JsonApp(BaseApp):
    """An app whose errors are application/problem+json."""

    cors_families = ("/auth/", "/game/", "/assets/")
    default_body_policy = SmallBodyPolicy("application/json")

    def render_problem(self, problem: Problem, request_id: str) -> RenderedError:
        return {"Content-Type": "application/problem+json"}, problem.to_json(request_id)


class HtmlApp(BaseApp):
    """An app of browser routes, whose errors are pages."""

    default_body_policy = SmallBodyPolicy("application/x-www-form-urlencoded")
    answers_head = False
    render_page: Callable[[Problem, str], RenderedError]

    def __get__(self, instance: Any, owner: object) -> "HtmlApp":
        bound = cast(HtmlApp, super().__get__(instance, owner))
        bound.render_page = self.render_page
        return bound

    def render_problem(self, problem: Problem, request_id: str) -> RenderedError:
        return self.render_page(problem, request_id)


def make_app(*errors: ErrorTable) -> JsonApp:
    """Return the app of a group of JSON routes that may raise these errors, besides those of HTTP."""
    return JsonApp(merge_tables(errors))


def make_html_app(render_page: Callable[[Problem, str], RenderedError], *errors: ErrorTable) -> HtmlApp:
    """Return the app of a group of browser routes; `render_page(problem, request_id)` makes its error pages."""
    app = HtmlApp(merge_tables(errors))
    app.render_page = render_page
    return app
