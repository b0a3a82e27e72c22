"""The owner's page, on the endpoint of `--admin`, shows players, backup, disk, findings and events; it is read-only."""

from re import ASCII, compile

from gamed.database.security_events import EventCount
from gamed.event_log import format_value
from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import BadRequest
from gamed.http.health_routes import Readiness
from gamed.http.json_body import read_query
from gamed.http.problems import Problem, RenderedError
from gamed.http.request import Request
from gamed.login.views import problem_page
from gamed.ops.findings import Level
from gamed.ops.owner_report import EVENTS, OwnerReport, OwnerReporter, Position
from gamed.pages.languages import Languages
from gamed.pages.model import Frame, Page, page
from gamed.pages.render import PageFailed, PageRenderer
from gamed.structs import Component

BEFORE = "before"
_POSITION = compile(r"([0-9]{1,15})-(ply_[A-Za-z0-9_-]{1,64})", ASCII)


def _render_problem(group: "OwnerRoutes", problem: Problem, request: Request) -> RenderedError:
    shown = problem_page(problem, request_id=request.request_id)
    return group.renderer.headers, group.render(request, shown)


class OwnerRoutes(Component, frozen=True, kw_only=True):
    """The route of the owner's page, which the public site never has."""

    app = make_html_app(_render_problem)
    prefixes = ("/$",)
    body_policies = DEFAULT_BODY_POLICIES

    reporter: OwnerReporter
    readiness: Readiness
    renderer: PageRenderer
    languages: Languages

    @app.route("/", methods=["GET"])
    async def show_owner_page(self, request: Request) -> bytes:
        before = parse_position(read_query(request).get(BEFORE))
        report = await self.reporter.read(before, await self.readiness.problems())
        request.setHeaders({**self.renderer.headers, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
        request.setHeader("Cross-Origin-Resource-Policy", "same-origin")
        return self.render(request, owner_page(report), report.now_ms)

    def render(self, request: Request, shown: Page, now_ms: int = 0) -> bytes:
        accepted = ",".join(request.head.headers.values("accept-language"))
        language = self.languages.choose("", None, accepted)
        try:
            return self.renderer.render(shown, Frame(None, request.request_id, now_ms), language)
        except PageFailed as e:
            request.setResponseCode(500)
            return e.plain


def parse_position(text: str | None) -> Position | None:
    """Return the position in the list of players that a link names; raise BadRequest."""
    if text is None:
        return None
    match = _POSITION.fullmatch(text)
    if match is None:
        raise BadRequest(f"{BEFORE} is not a position in the list. Open the page without it.")
    return int(match[1]), match[2]


def owner_page(report: OwnerReport) -> Page:
    """Return the page; its template writes the report in words of people."""
    machine, stored = report.machine, report.stored
    findings = () if machine is None else machine.findings
    wrong = [each for each in findings if each.level in (Level.WARNING, Level.PROBLEM)]
    events = () if stored is None else stored.events
    return page(
        "owner",
        report=report,
        wrong=wrong,
        events=[(each, _details(each)) for each in events],
        all_events=len(events) < EVENTS,
        before=None if report.more is None else f"?{BEFORE}={report.more[0]}-{report.more[1]}",
    )


def _details(each: EventCount) -> str:
    return " ".join(f"{name}={format_value(value)}" for name, value in each.values.items())
