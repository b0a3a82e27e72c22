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
from functools import partial
from typing import Any, Protocol, cast

from klein import Klein
from werkzeug.routing import UnicodeConverter

from gamed.http.bodies import BodyPolicy, SmallBodyPolicy
from gamed.http.problems import HTTP_ERRORS, ErrorTable, Problem, RenderedError, Renderer, merge_tables, render_json

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

    def __init__(
        self,
        errors: ErrorTable = HTTP_ERRORS,
        render_problem: Renderer = render_json,
        failure_page: FailurePage | None = None,
    ) -> None:
        """Let `failure_page` make the pages that need more than a status and a code, such as a form."""
        super().__init__()
        # Klein's map only has to know the names; the patterns that decide are those of gamed.http.route_compiler.
        self.url_map.converters.update(token=UnicodeConverter, text=UnicodeConverter)
        self.errors, self.render_problem, self.failure_page = errors, render_problem, failure_page

    def __get__(self, instance: Any, owner: object) -> "BaseApp":
        """Bind the app to one route group: Klein makes a new app that has the same routes, but nothing of ours."""
        bound = cast(BaseApp, super().__get__(instance, owner))
        bound.errors, bound.render_problem, bound.failure_page = self.errors, self.render_problem, self.failure_page
        return bound


class JsonApp(BaseApp):
    """An app whose errors are application/problem+json."""

    cors_families = ("/auth/", "/game/", "/assets/")
    default_body_policy = SmallBodyPolicy("application/json")


class HtmlApp(BaseApp):
    """An app of browser routes, whose errors are pages."""

    render_page: Callable[[Any, Problem, Any], RenderedError]
    """Gets the route group, the problem and the request."""
    default_body_policy = SmallBodyPolicy("application/x-www-form-urlencoded")
    answers_head = False

    def __get__(self, instance: Any, owner: object) -> "BaseApp":
        bound = super().__get__(instance, owner)
        bound.render_problem = partial(self.render_page, instance)
        return bound


def make_app(*errors: ErrorTable) -> JsonApp:
    """Return the app of a group of JSON routes that may raise these errors, besides those of HTTP."""
    return JsonApp(merge_tables(errors))


def make_html_app(
    render_page: Callable[[Any, Problem, Any], RenderedError],
    *errors: ErrorTable,
    failure_page: FailurePage | None = None,
) -> HtmlApp:
    """Return the app of a group of browser routes; all its handlers are coroutines if it has a failure page."""
    app = HtmlApp(merge_tables(errors), failure_page=failure_page)
    app.render_page = render_page
    return app
