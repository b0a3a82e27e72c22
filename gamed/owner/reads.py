"""The reads of the owner's page: players by id and by name, invites, events, saves and figures.

Names are sealed, so a search unseals every player's. It runs in the read queue's thread, in slices: other requests get
their turn between two of them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct

from gamed.account.link_model import Invite
from gamed.account.link_tables import page_of_invites
from gamed.audit import WARNINGS, SecurityEvent
from gamed.config.game import SaveLimits
from gamed.crypto import Keys, Sealer
from gamed.database.connection import STATE, Connection, attributed, is_storable
from gamed.database.errors import DatabaseError
from gamed.database.event_counts import EventCount
from gamed.database.queues import ReadQueue
from gamed.database.security_events import KEPT_MS, LATEST_MS, list_activity, page_of_events, page_of_kinds
from gamed.owner.model import (
    AT_ONCE,
    FOUND_CHARACTERS,
    DailyFigure,
    PeoplePage,
    Person,
    PersonDetails,
    PersonGone,
    PersonSaves,
    SavesTotals,
    players_in,
)
from gamed.owner.tables import list_figures
from gamed.players import owner_tables, tables
from gamed.players.errors import PlayerUnknown
from gamed.players.model import NamedPlayer
from gamed.players.owner_tables import OwnerPageSwitch
from gamed.saves import responses
from gamed.saves.limits import Usage
from gamed.saves.store import read_history, read_sides, read_slots
from gamed.saves.tables import bytes_of, find_player, largest_players, total_usage
from gamed.sessions.browser_tables import list_browsers
from gamed.sessions.tables import count_sessions, list_sessions
from gamed.structs import Component
from gamed.timestamps import Now

T = TypeVar("T")
SEARCHED: Final = 200
"""The players whose names one transaction unseals: 3 to 7 ms."""
SCANNED: Final = 4000
"""The events that one transaction of a filtered page searches, of which SQL returns those that fit."""
PERSON_EVENTS: Final = 20
LARGEST: Final = 10
LAST_VERSION: Final = 10**18


class EventFilter(Struct, frozen=True):
    """The events of a page: `kinds` is None for all."""

    name: str
    kinds: frozenset[str] | None


FILTERS: Mapping[str, EventFilter] = {
    each.name: each
    for each in (
        EventFilter("all", None),
        EventFilter("sign-ins", frozenset({"sign_in", "sign_in_refused", "signed_out", "invite_used"})),
        EventFilter("owner", frozenset({SecurityEvent.COMMAND.value})),
        EventFilter("alarming", frozenset(each.value for each in WARNINGS)),
    )
}


class EventPage(Struct, frozen=True):
    """Events, the latest first, with the names of their players and owners; `more` is the place of the next page."""

    events: Sequence[EventCount]
    names: Mapping[str, str | None]
    more: tuple[int, int] | None = None


class InvitePage(Struct, frozen=True):
    """Open invites, the newest first; `more` is the place of the next page."""

    invites: Sequence[Invite]
    more: tuple[int, str] | None = None


class OwnerReads(Component, frozen=True, kw_only=True):
    """The reads; each may raise DatabaseError. Parts of state.db are left out while it cannot be read."""

    reads: ReadQueue
    keys: Keys
    now_ms: Now
    limits: SaveLimits

    async def switch(self) -> OwnerPageSwitch | None:
        return await self.reads.submit(owner_tables.read_switch)

    async def people(self, after: str) -> PeoplePage:
        """Return the players behind this id."""

        def read(connection: Connection) -> PeoplePage:
            found = tables.players_after(connection, self.keys.sealer, after, AT_ONCE + 1)
            more = found[AT_ONCE - 1].player.player_id if len(found) > AT_ONCE else None
            shown = self._rows(connection, found[:AT_ONCE])
            return PeoplePage(shown, more, tables.count_players(connection))

        return await self._with_bytes(await self.reads.submit(read))

    async def find(self, text: str, after: str = "") -> PeoplePage:
        """Return the players behind this id who have the text in a name, or have it as their id or approval code."""
        wanted = " ".join(text[:FOUND_CHARACTERS].split()).casefold()
        found: list[NamedPlayer] = []
        while wanted and len(found) <= AT_ONCE:
            read = partial(matching, sealer=self.keys.sealer, after=after, wanted=wanted)
            fitting, after = await self.reads.submit(read)
            found += fitting
            if not after:
                break
        more = found[AT_ONCE - 1].player.player_id if len(found) > AT_ONCE else None
        rows = await self.reads.submit(partial(self._rows, found=found[:AT_ONCE]))
        return await self._with_bytes(PeoplePage(rows, more))

    async def person(self, player_id: str) -> PersonDetails:
        """Return a player; raise PersonGone."""
        now_ms = self.now_ms()

        def read(connection: Connection) -> PersonDetails:
            named = self._named(connection, player_id)
            return PersonDetails(
                named,
                tables.note_of(connection, self.keys.sealer, player_id) or "",
                tables.sign_in_methods(connection, player_id),
                list_sessions(connection, player_id, now_ms),
                list_browsers(connection, player_id, now_ms),
                list_activity(connection, player_id, PERSON_EVENTS),
            )

        details = await self.reads.submit(read)
        usage = await self._state(lambda connection: find_player(connection, player_id).usage, None)
        return PersonDetails(
            details.named, details.note, details.methods, details.devices, details.browsers, details.activity, usage
        )

    async def named(self, player_id: str) -> NamedPlayer:
        """Return a player; raise PersonGone."""
        return await self.reads.submit(partial(self._named, player_id=player_id))

    async def invites(self, after: tuple[int, str] | None) -> InvitePage:
        place = after or (LATEST_MS, "")
        read = partial(page_of_invites, keys=self.keys, now_ms=self.now_ms(), after=place, rows=AT_ONCE + 1)
        found = await self.reads.submit(read)
        last = found[AT_ONCE - 1] if len(found) > AT_ONCE else None
        return InvitePage(found[:AT_ONCE], None if last is None else (last.created_ms, last.invite_id))

    async def events(self, chosen: EventFilter, before: tuple[int, int] | None) -> EventPage:
        """Return events of the last 90 days behind this place; a rare kind is searched for in slices."""
        since_ms, rows, place = self.now_ms() - KEPT_MS, AT_ONCE + 1, before
        found: list[tuple[int, EventCount]] = []
        if chosen.kinds is None:
            found = await self.reads.submit(partial(page_of_events, since_ms=since_ms, before=before, rows=rows))
        else:
            kinds = sorted(chosen.kinds)
            while len(found) <= AT_ONCE:
                of_kinds = partial(
                    page_of_kinds, since_ms=since_ms, before=place, rows=rows, kinds=kinds, searched=SCANNED
                )
                fitting, place = await self.reads.submit(of_kinds)
                found += fitting
                if place is None:
                    break
        shown = found[:AT_ONCE]
        more = (shown[-1][1].last_ms, shown[-1][0]) if len(found) > AT_ONCE else None
        events = [each for _, each in shown]
        return EventPage(events, await self.names(events), more)

    async def names(self, events: Sequence[EventCount]) -> Mapping[str, str | None]:
        """Return the names of the players in these events, and of the owners who acted, by id."""
        ids = list(dict.fromkeys(each for event in events for each in players_in(event)))
        found = await self.reads.submit(partial(tables.named_players, sealer=self.keys.sealer, player_ids=ids))
        return {each.player.player_id: each.shown for each in found}

    async def totals(self) -> SavesTotals:
        """Return the totals of all saves."""

        def read(connection: Connection) -> tuple[Usage, list[tuple[str, int]]]:
            return total_usage(connection), largest_players(connection, LARGEST)

        usage, largest = await self.reads.submit(attributed(STATE, read))
        ids = [player_id for player_id, _ in largest]
        found = await self.reads.submit(partial(tables.named_players, sealer=self.keys.sealer, player_ids=ids))
        names = {each.player.player_id: each.shown for each in found}
        return SavesTotals(usage, [(player_id, names.get(player_id), size) for player_id, size in largest])

    async def saves(self, player_id: str, after: str) -> PersonSaves:
        """Return the saves of a player behind this slot; raise PersonGone if there is neither player nor save."""
        try:
            named: NamedPlayer | None = await self.named(player_id)
        except PersonGone:
            named = None
        read = partial(read_slots, player_id=player_id, limits=self.limits, after=after, limit=AT_ONCE + 1)
        slots = await self.reads.submit(attributed(STATE, read)) if is_storable(player_id) else []
        if named is None and not slots:
            raise PersonGone
        more = slots[AT_ONCE - 1].slot if len(slots) > AT_ONCE else None
        return PersonSaves(named, player_id, slots[:AT_ONCE], more)

    async def versions(self, player_id: str, slot: str, before: int) -> tuple[dict[str, object], dict[str, object]]:
        """Return a page of the versions of a save, and those to choose from; see SaveService.versions().

        Raise PersonGone if there never was such a save.
        """
        below = before or LAST_VERSION
        free: Callable[[str], None] = lambda player_id: None  # noqa: E731  the owner's requests have no limit of a player

        def read(connection: Connection) -> tuple[dict[str, object], dict[str, object]] | None:
            place = {"player_id": player_id, "limits": self.limits, "slot": slot}
            listed = read_history(connection, **place, before=below, limit=AT_ONCE, count=free)  # type: ignore[arg-type]
            if not listed.state.exists:
                return None
            sides = read_sides(connection, **place)  # type: ignore[arg-type]
            return (
                responses.version_list(self.limits, slot, listed),
                responses.version_list(self.limits, slot, sides),
            )

        found = await self.reads.submit(attributed(STATE, read)) if is_storable(player_id) else None
        if found is None:
            raise PersonGone
        return found

    async def figures(self) -> Sequence[DailyFigure]:
        return await self.reads.submit(partial(list_figures, now_ms=self.now_ms()))

    def _named(self, connection: Connection, player_id: str) -> NamedPlayer:
        try:
            # A name that looks like an id is nobody's id; see tables.find_named().
            if not player_id.startswith("ply_") or not is_storable(player_id):
                raise PersonGone
            named = tables.find_named(connection, self.keys, player_id)
        except PlayerUnknown:
            raise PersonGone from None
        if named.player.player_id != player_id:
            raise PersonGone
        return named

    def _rows(self, connection: Connection, found: Sequence[NamedPlayer]) -> Sequence[Person]:
        ids = [each.player.player_id for each in found]
        ways, devices = tables.ways_of(connection, ids), count_sessions(connection, ids, self.now_ms())
        return [
            Person(each, ways.get(player_id, ()), devices.get(player_id, 0))
            for player_id, each in zip(ids, found, strict=True)
        ]

    async def _with_bytes(self, page: PeoplePage) -> PeoplePage:
        ids = [each.named.player.player_id for each in page.people]
        sizes: dict[str, int] | None = await self._state(partial(bytes_of, player_ids=ids), None)
        if sizes is None:
            return page
        rows = [
            Person(each.named, each.ways, each.devices, sizes.get(each.named.player.player_id, 0))
            for each in page.people
        ]
        return PeoplePage(rows, page.more, page.count)

    async def _state(self, read: Callable[[Connection], T], otherwise: T | None) -> T | None:
        try:
            return await self.reads.submit(attributed(STATE, read))
        except DatabaseError:
            return otherwise


def matching(connection: Connection, sealer: Sealer, after: str, wanted: str) -> tuple[list[NamedPlayer], str]:
    """Search SEARCHED players behind an id; return those who fit and the last id, "" if no player is behind it."""
    read = tables.players_after(connection, sealer, after, SEARCHED)
    found = [each for each in read if _has(each, wanted)]
    return found, read[-1].player.player_id if len(read) == SEARCHED else ""


def _has(named: NamedPlayer, wanted: str) -> bool:
    player = named.player
    if wanted in (player.player_id.casefold(), player.approval_code):
        return True
    return any(wanted in name.casefold() for name in (named.name, named.display_name) if name)
