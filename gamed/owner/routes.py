"""The routes of the owner's page, on the endpoint of `--admin`."""

from collections.abc import Mapping
from re import ASCII, compile
from typing import Final

from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import BadRequest, RouteNotFound
from gamed.http.health_routes import Readiness
from gamed.http.json_body import read_query
from gamed.http.problems import Problem, RenderedError
from gamed.http.request import Request
from gamed.login.csrf import FramedRequest, PrefetchRequest, require_top_level_navigation
from gamed.login.look_routes import keep_language
from gamed.login.responder import PageResponder, see_other
from gamed.login.views import problem_page
from gamed.owner.report import OwnerReporter, Position
from gamed.owner.views import BEFORE, owner_page, position_text
from gamed.pages.language import Language
from gamed.pages.model import Frame, LanguageChoice, Page
from gamed.pages.render import PageFailed
from gamed.structs import Component

LANGUAGE: Final = "/language"
COOKIE: Final = "language"
"""Without the prefix `__Host-`, which needs https: this is the machine's own address."""
_POSITION = compile(r"([0-9]{1,15})-(ply_[A-Za-z0-9_-]{1,64})", ASCII)


def _render_problem(group: "OwnerRoutes", problem: Problem, request: Request) -> RenderedError:
    shown = problem_page(problem, request_id=request.request_id)
    return group.pages.renderer.headers, group.render(request, shown)


class OwnerRoutes(Component, frozen=True, kw_only=True):
    """The routes of the owner's page, which the public site never has; `labels` are the providers' names for people."""

    app = make_html_app(_render_problem)
    prefixes = ("/$", f"{LANGUAGE}/")
    body_policies = DEFAULT_BODY_POLICIES

    reporter: OwnerReporter
    readiness: Readiness
    pages: PageResponder
    labels: Mapping[str, str]

    @app.route("/", methods=["GET"])
    async def show_owner_page(self, request: Request) -> bytes:
        before = parse_position(read_query(request).get(BEFORE))
        report = await self.reporter.read(before, await self.readiness.problems())
        headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
        request.setHeaders({**self.pages.renderer.headers, **headers, "Cross-Origin-Resource-Policy": "same-origin"})
        frame, language = self._surroundings(request, before)
        try:
            return await self.pages.renderer.render_in_turns(
                owner_page(report, self.labels), frame, language, self.pages.pause
            )
        except PageFailed as e:
            request.setResponseCode(500)
            return e.plain

    @app.route("/language/<string:tag>", methods=["GET"])
    def choose_owner_language(self, request: Request, tag: str) -> bytes:
        return self._choose(request, tag, "")

    @app.route("/language/<string:tag>/<string:position>", methods=["GET"])
    def choose_owner_language_of_page(self, request: Request, tag: str, position: str) -> bytes:
        return self._choose(request, tag, position)

    def _choose(self, request: Request, tag: str, position: str) -> bytes:
        """Set the cookie and return to the page; raise RouteNotFound for a language or a position that is not there.

        Another site's page, which may load this address as a picture or a frame, chooses nothing.
        """
        try:
            require_top_level_navigation(request)
        except (FramedRequest, PrefetchRequest):
            raise RouteNotFound from None
        if tag not in dict(self.pages.languages.names) or (position and _POSITION.fullmatch(position) is None):
            raise RouteNotFound
        keep_language(request, COOKIE, tag)
        return see_other(request, f"/?{BEFORE}={position}" if position else "/")

    def render(self, request: Request, shown: Page) -> bytes:
        """Return a page of an error; set the status to 500 if its template fails."""
        try:
            return self.pages.renderer.render(shown, *self._surroundings(request))
        except PageFailed as e:
            request.setResponseCode(500)
            return e.plain

    def _surroundings(self, request: Request, before: Position | None = None) -> tuple[Frame, Language]:
        """Return what is around the content, and the language."""
        accepted = ",".join(request.head.headers.values("accept-language"))
        language = self.pages.languages.choose(request.getCookie(COOKIE) or "", None, accepted)
        place = "" if before is None else f"/{position_text(before)}"
        choices = [LanguageChoice(tag, name, f"{LANGUAGE}/{tag}{place}") for tag, name in self.pages.languages.names]
        return Frame(self.pages.server, request.request_id, self.pages.now_ms(), choices), language


def parse_position(text: str | None) -> Position | None:
    """Return the position in the list of players that a link names; raise BadRequest."""
    if text is None:
        return None
    match = _POSITION.fullmatch(text)
    if match is None:
        raise BadRequest(f"{BEFORE} is not a position in the list. Open the page without it.")
    return int(match[1]), match[2]
