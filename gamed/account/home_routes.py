"""The routes of the address that a player enters in the game, opened in a browser."""

from typing import Final

from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import RouteNotFound
from gamed.http.problems import Problem, RenderedError, render_json
from gamed.http.request import Request
from gamed.login.responder import PageResponder
from gamed.login.sentences import Place
from gamed.login.views import home_page
from gamed.pages.model import PAGE_HEADERS
from gamed.structs import Component

_AT_HOME: Final = {
    "Vary": f"Accept, {PAGE_HEADERS['Vary']}",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}


def render_for_any(pages: PageResponder, problem: Problem, request: Request, *, at: str | None = None) -> RenderedError:
    """Return a page for a browser, which asks for HTML by name, and a problem for a program.

    For the server's own address, and for paths that no route has: a game reads the problem there, whatever it asks for.
    See PageResponder.page() for `at`.
    """
    if request.head.method != "GET" or not wants_page(request.head.headers.get("accept") or ""):
        return render_json(problem, request)
    headers, content = pages.problem(problem, request, Place.HOME, at=at)
    return {**headers, **_AT_HOME}, content


def _render_home_problem(group: "HomeRoutes", problem: Problem, request: Request) -> RenderedError:
    return render_for_any(group.pages, problem, request)


class HomeRoutes(Component, frozen=True, kw_only=True):
    """The routes of the address that a player enters in the game, opened in a browser."""

    app = make_html_app(_render_home_problem)
    prefixes = ("/$", "/auth/$")
    body_policies = DEFAULT_BODY_POLICIES
    pages: PageResponder

    @app.route("/", methods=["GET"])
    def show_home(self, request: Request) -> bytes:
        return self._home(request)

    @app.route("/auth/", methods=["GET"])
    def show_sign_in_home(self, request: Request) -> bytes:
        return self._home(request)

    def _home(self, request: Request) -> bytes:
        if not wants_page(request.head.headers.get("accept") or ""):
            raise RouteNotFound
        content = self.pages.page(request, 200, home_page(self.pages.base_url()))
        request.setHeaders(_AT_HOME)
        return content


def wants_page(accept: str) -> bool:
    """Return whether a request asks for HTML by name: `*/*`, as programs send it, does not (RFC 9110 12.5.1)."""
    for each in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in each.split(";"))
        refused = any(part in {"q=0", "q=0.0", "q=0.00", "q=0.000"} for part in parameters)
        if kind == "text/html" and not refused:
            return True
    return False
