"""The routes of the server's address show a browser where it is, and a program that there is nothing.

See docs/protocol.md: Conventions.
"""

from twisted.web.template import tags

from gamed.account.pages.parts import HOME
from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import RouteNotFound
from gamed.http.problems import render_json
from gamed.http.request import Request
from gamed.login.browser_routes import PageResponder
from gamed.login.pages import layout, texts
from gamed.structs import Component


class HomeRoutes(Component, frozen=True, kw_only=True):
    """The routes of the address that a player enters in the game, opened in a browser.

    Their errors are for programs: a browser gets one here only for a request that it never makes.
    """

    app = make_html_app(render_json)
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
        request.setHeader("Vary", "Accept")
        request.setHeader("Cache-Control", "no-store")
        request.setHeader("Referrer-Policy", "no-referrer")
        return self.pages.page(request, 200, home_page(self.pages.server, self.pages.base_url()))


def wants_page(accept: str) -> bool:
    """Return whether a request asks for HTML by name: `*/*`, as programs send it, does not (RFC 9110 12.5.1)."""
    for each in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in each.split(";"))
        refused = any(part in {"q=0", "q=0.0", "q=0.00", "q=0.000"} for part in parameters)
        if kind == "text/html" and not refused:
            return True
    return False


def home_page(server: layout.ServerName, address: str) -> bytes:
    content = (
        layout.paragraph(texts.HOME_LEAD),
        tags.p(address, class_="address"),
        layout.muted(texts.HOME_ACCOUNT),
        tags.a(texts.HOME_ACCOUNT_LINK, href=HOME, class_="button quiet"),
    )
    return layout.page(texts.HOME_TITLE, *content, server=server)
