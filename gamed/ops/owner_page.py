"""The owner's page, on the endpoint of `--admin`, shows players, backup, disk, findings and events; it is read-only."""

from collections.abc import Iterator, Sequence
from re import ASCII, compile

from twisted.web.template import Tag, tags

from gamed.database.security_events import EventCount
from gamed.event_log import format_value
from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import BadRequest
from gamed.http.health_routes import Readiness
from gamed.http.json_body import read_query
from gamed.http.request import Request
from gamed.login.pages.layout import PAGE_HEADERS, Content, bidi_isolated, muted, page, paragraph
from gamed.login.pages.results import error_response
from gamed.ops.findings import Finding, Level
from gamed.ops.owner_report import EVENTS, PLAYERS, ListedPlayer, MachineReport, OwnerReport, OwnerReporter, Position
from gamed.readable import ago, size
from gamed.structs import Component
from gamed.timestamps import rfc3339

TITLE = "Your server"
BEFORE = "before"
_POSITION = compile(r"([0-9]{1,15})-(ply_[A-Za-z0-9_-]{1,64})", ASCII)


class OwnerRoutes(Component, frozen=True, kw_only=True):
    """The route of the owner's page, which the public site never has."""

    app = make_html_app(error_response)
    prefixes = ("/$",)
    body_policies = DEFAULT_BODY_POLICIES

    reporter: OwnerReporter
    readiness: Readiness

    @app.route("/", methods=["GET"])
    async def show_owner_page(self, request: Request) -> bytes:
        before = parse_position(read_query(request).get(BEFORE))
        report = await self.reporter.read(before, await self.readiness.problems())
        request.setHeaders({**PAGE_HEADERS, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
        request.setHeader("Cross-Origin-Resource-Policy", "same-origin")
        return owner_page(report)


def parse_position(text: str | None) -> Position | None:
    """Return the position in the list of players that a link names; raise BadRequest."""
    if text is None:
        return None
    match = _POSITION.fullmatch(text)
    if match is None:
        raise BadRequest(f"{BEFORE} is not a position in the list. Open the page without it.")
    return int(match[1]), match[2]


def owner_page(report: OwnerReport) -> bytes:
    content: list[Content] = [
        *_section("State", *_state(report)),
        *_section("Players", *_players(report)),
        *_section("What happened in the last 7 days", *_events(report)),
        *_section("Versions", _facts([(name, version) for name, version in report.versions.items()])),
    ]
    return page(TITLE, *content, wide=True)


def _section(title: str, *content: Content) -> Iterator[Tag]:
    yield Tag("section")(tags.h2(title), *content, class_="foot")


def _facts(rows: Sequence[tuple[str, Content]]) -> Tag:
    parts = [part for name, value in rows for part in (tags.dt(name), tags.dd(value))]
    return tags.div(tags.dl(*parts), class_="device")


def _state(report: OwnerReport) -> Iterator[Content]:
    for problem in report.problems:
        yield tags.p(problem, class_="refused")
    machine = report.machine
    rows: list[tuple[str, Content]] = [("Last backup", _backup(report))]
    if machine is not None:
        free = "not known" if machine.free_bytes is None else size(machine.free_bytes)
        rows += [("Free on this disk", free), *((name, size(count)) for name, count in machine.file_bytes.items())]
    yield _facts(rows)
    yield from _findings(machine, report.now_ms)


def _backup(report: OwnerReport) -> Content:
    if report.stored is None:
        return "not known: the database does not respond"
    last = report.stored.backup
    if last is None:
        return "none yet. Run: gamed backup DIR"
    return tags.span(_time(last.made_ms, report.now_ms), f", {size(last.bytes)}")


def _findings(machine: MachineReport | None, now_ms: int) -> Iterator[Content]:
    if machine is None:
        yield paragraph("This machine was not checked: its disk does not respond.")
        return
    wrong = [each for each in machine.findings if each.level in (Level.WARNING, Level.PROBLEM)]
    for each in wrong:
        yield _finding(each)
    if not wrong:
        yield paragraph("Files, disk and limits are as they should be.")
    yield muted("Checked {when}. For all checks run: gamed doctor", when=ago(machine.checked_ms, now_ms))


def _finding(finding: Finding) -> Tag:
    return tags.p(f"{finding.check}: {finding.text}. {finding.advice}", class_="refused")


def _players(report: OwnerReport) -> Iterator[Content]:
    if report.stored is None:
        yield paragraph("The players are not known: their database does not respond.")
        return
    if not report.players:
        yield paragraph("No players.")
        return
    yield tags.div(*(_player(each, report.now_ms) for each in report.players), class_="grid")
    if report.more is not None:
        at_ms, player_id = report.more
        yield tags.p(tags.a(f"The next {PLAYERS} players", href=f"/?{BEFORE}={at_ms}-{player_id}"))


def _player(listed: ListedPlayer, now_ms: int) -> Tag:
    named, player = listed.named, listed.named.player
    shown = named.display_name or named.name
    names: list[Content] = [tags.strong(bidi_isolated(shown or player.player_id))]
    if named.name and named.name != shown:
        names += [" ", bidi_isolated(f"({named.name})")]
    state = [] if player.state == "active" else [tags.p(f"State: {player.state}", class_="ago")]
    owner = [tags.p("Owner", class_="ago")] if player.owner else []
    signed_in = _time(player.last_sign_in_ms, now_ms) if player.last_sign_in_ms is not None else "never"
    kept = "saves not known" if listed.bytes is None else size(listed.bytes)
    devices = f"{listed.sessions} device{'' if listed.sessions == 1 else 's'}"
    lines = [tags.p("Signed in ", signed_in, class_="ago"), tags.p(f"{devices}, {kept}", class_="ago")]
    own_id = [tags.p(player.player_id, class_="ago")] if shown else []
    return tags.div(tags.div(*names), *own_id, *state, *owner, *lines, class_="device")


def _events(report: OwnerReport) -> Iterator[Content]:
    if report.stored is None:
        yield paragraph("The events are not known: their database does not respond.")
        return
    if not report.stored.events:
        yield paragraph("Nothing.")
        return
    yield tags.div(*(_event(each, report.now_ms) for each in report.stored.events), class_="grid")
    if len(report.stored.events) >= EVENTS:
        yield muted("These are the latest {count}. For all run: gamed events", count=str(EVENTS))


def _event(each: EventCount, now_ms: int) -> Tag:
    times = "" if each.times == 1 else f", {each.times} times"
    values = " ".join(f"{name}={format_value(value)}" for name, value in each.values.items())
    lines = [tags.p(line, class_="ago") for line in (each.key.player_id, values) if line]
    when = tags.p(_time(each.last_ms, now_ms), class_="ago")
    return tags.div(tags.div(tags.strong(each.key.event), times), *lines, when, class_="device")


def _time(instant_ms: int, now_ms: int) -> Tag:
    """Return an age whose exact instant a pointer shows."""
    exact = rfc3339(instant_ms)
    return Tag("time")(ago(instant_ms, now_ms), datetime=exact, title=exact)
