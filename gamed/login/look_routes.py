"""The routes of the owner's picture, and of the choice of a language."""

from typing import Final

from gamed.config.model import Mark
from gamed.http.app import make_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import RouteNotFound
from gamed.http.request import Request
from gamed.login.csrf import require_top_level_navigation
from gamed.login.places import address_of
from gamed.login.responder import LANGUAGE, PageResponder, make_login_app, see_other
from gamed.pages.model import MARK_PATH
from gamed.structs import Component

YEAR_SECONDS: Final = 365 * 24 * 3600
MARK_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LanguageRoutes(Component, frozen=True, kw_only=True):
    """The route by which a person chooses the language of the pages, for this browser."""

    app = make_login_app()
    prefixes = (f"{LANGUAGE}/",)
    body_policies = DEFAULT_BODY_POLICIES

    pages: PageResponder

    @app.route("/auth/language/<string:tag>", methods=["GET"])
    async def choose_language(self, request: Request, tag: str) -> bytes:
        return self._choose(request, tag, "")

    @app.route("/auth/language/<string:tag>/<path:place>", methods=["GET"])
    async def choose_language_of_page(self, request: Request, tag: str, place: str) -> bytes:
        return self._choose(request, tag, f"/{place}")

    def _choose(self, request: Request, tag: str, place: str) -> bytes:
        """Set the cookie and return to the page; raise RouteNotFound for a language or a page that is not there."""
        require_top_level_navigation(request)
        back = address_of(place)
        if back is None or tag not in dict(self.pages.languages.names):
            raise RouteNotFound
        keep_language(request, self.pages.language_cookie, tag)
        return see_other(request, f"{self.pages.base_url()}{back}")


def keep_language(request: Request, cookie: str, tag: str) -> None:
    """Let this browser keep a language for a year, in the cookie of this name."""
    secure = "; Secure" if cookie.startswith("__Host-") else ""
    request.addHeader("Set-Cookie", f"{cookie}={tag}; Path=/{secure}; HttpOnly; SameSite=Lax; Max-Age={YEAR_SECONDS}")


class LookRoutes(Component, frozen=True, kw_only=True):
    """The route of the owner's picture or the built-in one, which only the pages of this server show."""

    app = make_app()
    prefixes = (MARK_PATH,)
    body_policies = DEFAULT_BODY_POLICIES

    mark: Mark

    @app.route(MARK_PATH, methods=["GET"])
    def show_mark(self, request: Request) -> bytes:
        request.setHeaders({**MARK_HEADERS, "Content-Type": self.mark.content_type})
        return self.mark.content
