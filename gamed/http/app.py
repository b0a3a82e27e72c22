"""The Klein apps with which route groups declare their routes, and the form of their errors.

A route group is what the site needs of one set of routes:

    class SaveRoutes(Component, frozen=True, kw_only=True):
        app = make_app(SAVE_ERRORS)
        prefixes = ("/game/",)
        body_policies: Mapping[str, BodyPolicy]  # by endpoint

        @app.route("/game/saves/<text:slot>", methods=["GET"])
        async def read_save(self, request: Request, slot: str) -> bytes: ...

Routes declare full paths and methods. An endpoint is named as its method. `string` takes one segment without control
characters, `text` one with any characters, which the handler checks, `path` the rest of the path, `token` the 22
characters of a login link (docs/protocol.md: Start). A handler returns bytes, text or None, at once or later; it sets
the status and the content type, the connection does the rest. Klein's part ends when gamed.http.route_compiler has read
the rules and endpoints. Errors are rows of tables (gamed.http.problems), not Klein's error handlers, because most are
raised before a handler runs and must have the same form.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from klein import Klein
from werkzeug.routing import UnicodeConverter

from gamed.http.bodies import BodyPolicy, SmallBodyPolicy
from gamed.http.problems import HTTP_ERRORS, ErrorTable, Renderer, merge_tables, render_json

H = TypeVar("H", bound=Callable[..., Any])
FailurePage = Callable[[Any, Any, Exception], bytes | None]
"""Gets the route group, the request and what a handler raised; returns a page, or None for an error of the tables."""


class RouteGroup(Protocol):
    """A set of routes with one app, under prefixes of its own."""

    @property
    def app(self) -> "BaseApp": ...

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return the paths of this group, in the forms of gamed.http.site.Prefixes."""

    @property
    def body_policies(self) -> Mapping[str, BodyPolicy]: ...


class BaseApp(Klein):
    """A Klein app with the form of its errors and the default body policy of its routes."""

    default_body_policy: BodyPolicy
    cors_families: tuple[str, ...] = ()
    """Prefixes of the paths that answer OPTIONS and pages of other origins; browser routes never do."""
    answers_head = True
    """Whether GET routes answer HEAD; the browser routes do not (docs/protocol.md: Conventions)."""

    def __init__(self, errors: ErrorTable = HTTP_ERRORS, render_problem: Renderer = render_json) -> None:
        super().__init__()
        # Klein's map only has to know the names; the patterns that decide are those of gamed.http.route_compiler.
        self.url_map.converters.update(token=UnicodeConverter, text=UnicodeConverter)
        self.errors = errors
        self.render_problem = render_problem

    def __get__(self, instance: Any, owner: object) -> "BaseApp":
        """Bind the app to one route group: Klein makes a new app that has the same routes, but nothing of ours."""
        bound = cast(BaseApp, super().__get__(instance, owner))
        bound.errors, bound.render_problem = self.errors, self.render_problem
        return bound


class JsonApp(BaseApp):
    """An app whose errors are application/problem+json."""

    cors_families = ("/auth/", "/game/", "/assets/")
    default_body_policy = SmallBodyPolicy("application/json")


class HtmlApp(BaseApp):
    """An app of browser routes, whose errors are pages."""

    default_body_policy = SmallBodyPolicy("application/x-www-form-urlencoded")
    answers_head = False
    failure_page: FailurePage | None = None
    """Makes the pages of errors that need more than a status and a code: the server's name, or a form."""

    def route(self, url: str, **options: Any) -> Callable[[H], H]:  # type: ignore[override]
        """Declare a route, as Klein's decorator does; what its coroutine raises gets the group's failure page."""
        declare, failure_page = super().route(url, **options), self.failure_page
        if failure_page is None:
            return declare

        def decorate(handler: H) -> H:
            @wraps(handler)
            async def handle(group: Any, request: Any, **arguments: str) -> Any:
                try:
                    return await handler(group, request, **arguments)
                except Exception as e:
                    page = failure_page(group, request, e)
                    if page is None:
                        raise
                    return page

            declare(handle)
            return handler

        return decorate


def make_app(*errors: ErrorTable) -> JsonApp:
    """Return the app of a group of JSON routes that may raise these errors, besides those of HTTP."""
    return JsonApp(merge_tables(errors))


def make_html_app(render_problem: Renderer, *errors: ErrorTable, failure_page: FailurePage | None = None) -> HtmlApp:
    """Return the app of a group of browser routes; all its handlers are coroutines if it has a failure page."""
    app = HtmlApp(merge_tables(errors), render_problem)
    app.failure_page = failure_page
    return app
