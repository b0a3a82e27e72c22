"""The routes of the pages of the owner's page that acts; `act_routes` has those of its forms."""

from collections.abc import Mapping
from re import ASCII, Pattern, compile
from typing import Final

from gamed.account.browser import BrowserVisit
from gamed.database.errors import DatabaseError
from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import BadRequest
from gamed.http.json_body import read_query
from gamed.http.request import Request
from gamed.login.csrf import require_top_level_navigation
from gamed.login.problems import LOGIN_ERRORS
from gamed.owner import site_views
from gamed.owner.backups import OwnerBackups
from gamed.owner.files import OwnerFiles
from gamed.owner.model import HOME, OwnerProtected, PersonGone
from gamed.owner.reads import FILTERS, EventFilter
from gamed.owner.report import OwnerReporter
from gamed.owner.responder import NOT_THE_OWNER, OwnerResponder, error_page, problem_page
from gamed.players.problems import PLAYER_ERRORS
from gamed.saves import errors as save_errors
from gamed.saves.problems import SAVE_ERRORS
from gamed.saves.validation import check_slot, page_before
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component

AFTER: Final = "after"
BEFORE: Final = "before"
SHOW: Final = "show"
"""The members of a query; an address never has a name or a text that somebody typed."""
LATEST_EVENTS: Final = 6
_ID = compile(r"ply_[A-Za-z0-9_-]{1,64}", ASCII)
_INVITE_PLACE = compile(r"([0-9]{1,15})-(inv_[A-Za-z0-9_-]{1,64})", ASCII)
_EVENT_PLACE = compile(r"([0-9]{1,15})-([0-9]{1,18})", ASCII)


class OwnerSiteRoutes(Component, frozen=True, kw_only=True):
    """The pages. `started_ms` is when this process began; `backup_seconds` when a backup is too old, None for never."""

    app = make_html_app(
        problem_page, NOT_THE_OWNER, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS, SAVE_ERRORS, failure_page=error_page
    )
    prefixes = (HOME,)
    body_policies = DEFAULT_BODY_POLICIES

    responder: OwnerResponder
    reporter: OwnerReporter
    files: OwnerFiles
    backups: OwnerBackups
    started_ms: int
    backup_seconds: int | None

    @app.route("/auth/owner", methods=["GET"])
    async def show_owner_now(self, request: Request) -> bytes:
        visit = await self._enter(request)
        reads = self.responder.reads
        problems = await self.reporter.problems()
        report = await self.reporter.read(None, problems, players=0, events=LATEST_EVENTS)
        days = await reads.figures()
        own = await self.responder.own(request, visit)
        shown = site_views.now_page(own, report, self.started_ms, self.backup_seconds, days)
        return await self.responder.page(request, shown)

    @app.route("/auth/owner/people", methods=["GET"])
    async def show_owner_people(self, request: Request) -> bytes:
        visit = await self._enter(request)
        after = id_after(read_query(request).get(AFTER))
        found = await self.responder.reads.people(after)
        shown = site_views.people_page(await self.responder.own(request, visit), found, after=after)
        return await self.responder.page(request, shown)

    @app.route("/auth/owner/people/<string:player_id>", methods=["GET"])
    async def show_owner_person(self, request: Request, player_id: str) -> bytes:
        visit = await self._enter(request)
        reads = self.responder.reads
        details = await reads.person(_person(player_id))
        names = await reads.names(details.activity)
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.person_page(own, details, names))

    @app.route("/auth/owner/people/<string:player_id>/erase", methods=["GET"])
    async def ask_before_erasure(self, request: Request, player_id: str) -> bytes:
        """Ask for a new sign-in here already, so that the answer to the question is not lost by it."""
        visit = await self._enter(request)
        self.responder.account.require_recent(visit)
        named = await self.responder.reads.named(_person(player_id))
        if named.player.owner:
            raise OwnerProtected("players erase")
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.ask_page(own, named, None))

    @app.route("/auth/owner/people/<string:player_id>/merge", methods=["GET"])
    async def choose_heir(self, request: Request, player_id: str) -> bytes:
        visit = await self._enter(request)
        after = id_after(read_query(request).get(AFTER))
        named = await self.responder.reads.named(_person(player_id))
        if named.player.owner:
            raise OwnerProtected("players merge")
        found = await self.responder.reads.people(after)
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.people_page(own, found, merging=named, after=after))

    @app.route("/auth/owner/people/<string:player_id>/merge/<string:heir_id>", methods=["GET"])
    async def ask_before_merge(self, request: Request, player_id: str, heir_id: str) -> bytes:
        visit = await self._enter(request)
        self.responder.account.require_recent(visit)
        named, heir = [await self.responder.reads.named(_person(each)) for each in (player_id, heir_id)]
        if named.player.owner or heir.player.owner:
            raise OwnerProtected("players merge")
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.ask_page(own, named, heir))

    @app.route("/auth/owner/invites", methods=["GET"])
    async def show_owner_invites(self, request: Request) -> bytes:
        visit = await self._enter(request)
        match = _match(_INVITE_PLACE, read_query(request).get(AFTER))
        found = await self.responder.reads.invites(None if match is None else (int(match[0]), match[1]))
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.invites_page(own, found))

    @app.route("/auth/owner/activity", methods=["GET"])
    async def show_owner_activity(self, request: Request) -> bytes:
        visit = await self._enter(request)
        query = read_query(request)
        match = _match(_EVENT_PLACE, query.get(BEFORE))
        chosen = _filter(query)
        found = await self.responder.reads.events(chosen, None if match is None else (int(match[0]), int(match[1])))
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.activity_page(own, found, chosen.name))

    @app.route("/auth/owner/saves", methods=["GET"])
    async def show_owner_saves(self, request: Request) -> bytes:
        visit = await self._enter(request)
        try:
            totals = await self.responder.reads.totals()
        except DatabaseError:
            totals = None
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.saves_page(own, totals))

    @app.route("/auth/owner/saves/<string:player_id>", methods=["GET"])
    async def show_owner_slots(self, request: Request, player_id: str) -> bytes:
        visit = await self._enter(request)
        after = _slot(read_query(request).get(AFTER))
        found = await self.responder.reads.saves(_person(player_id), after)
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.slots_page(own, found))

    @app.route("/auth/owner/saves/<string:player_id>/<text:slot>", methods=["GET"])
    async def show_owner_slot(self, request: Request, player_id: str, slot: str) -> bytes:
        visit = await self._enter(request)
        before = _before(read_query(request).get(BEFORE))
        reads, person, name = self.responder.reads, _person(player_id), _existing(slot)
        listed, sides = await reads.versions(person, name, before)
        try:
            named = await reads.named(person)
        except PersonGone:
            named = None
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.slot_page(own, person, named, listed, sides))

    @app.route("/auth/owner/files", methods=["GET"])
    async def show_owner_files(self, request: Request) -> bytes:
        visit = await self._enter(request)
        found = await self.files.overview()
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.files_page(own, found))

    @app.route("/auth/owner/backups", methods=["GET"])
    async def show_owner_backups(self, request: Request) -> bytes:
        visit = await self._enter(request)
        state = await self.backups.state()
        too_old = await self.reporter.backup_too_old(self.backup_seconds)
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.backups_page(own, state, too_old=too_old))

    @app.route("/auth/owner/time", methods=["GET"])
    async def show_owner_time(self, request: Request) -> bytes:
        visit = await self._enter(request)
        days = await self.responder.reads.figures()
        own = await self.responder.own(request, visit)
        return await self.responder.page(request, site_views.time_page(own, days))

    async def _enter(self, request: Request) -> BrowserVisit:
        visit = await self.responder.enter(request)
        require_top_level_navigation(request)
        return visit


def _person(player_id: str) -> str:
    if _ID.fullmatch(player_id[:100]) is None:
        raise PersonGone
    return player_id


def id_after(text: str | None) -> str:
    """Return the id behind which a page begins, "" for the first page; raise BadRequest."""
    if text is None:
        return ""
    if _ID.fullmatch(text[:100]) is None:
        raise BadRequest(f"{AFTER} is not an id. Open the page without it.")
    return text


def _match(pattern: Pattern[str], text: str | None) -> tuple[str, str] | None:
    """Return the two parts of the place behind which a page begins, None for the first page; raise BadRequest."""
    if text is None:
        return None
    match = pattern.fullmatch(text[:100])
    if match is None:
        raise BadRequest("That is not a place in the list. Open the page without it.")
    return match[1], match[2]


def _filter(query: Mapping[str, str]) -> EventFilter:
    """Return the chosen events; raise BadRequest."""
    chosen = FILTERS.get(query.get(SHOW, "all"))
    if chosen is None:
        raise BadRequest(f"{SHOW} is not a choice of the page. Open the page without it.")
    return chosen


def _slot(text: str | None) -> str:
    """Return the slot behind which a page begins, "" for the first page; raise BadRequest."""
    try:
        return "" if text is None else check_slot(text)
    except save_errors.SaveError:
        raise BadRequest(f"{AFTER} is not the name of a save. Open the page without it.") from None


def _existing(slot: str) -> str:
    """Return the name of a slot; raise PersonGone for one that no save can have."""
    try:
        return check_slot(slot)
    except save_errors.SaveError:
        raise PersonGone from None


def _before(text: str | None) -> int:
    try:
        return page_before(text)
    except save_errors.SaveError:
        raise BadRequest(f"{BEFORE} is not the number of a version. Open the page without it.") from None
