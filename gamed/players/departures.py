"""Players who go: erased, or their saves and identities attached to another (PROTOCOL 3.8).

Two files are involved and no transaction writes both, so each step is repeatable and auth.db says what is unfinished:
first auth.db marks (their tokens die), then state.db follows, then auth.db forgets.
"""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from msgspec import Struct

from gamed.audit import UNHEARD, Audit, Event
from gamed.instants import Now
from gamed.structs import Part


class Departure(Struct, frozen=True):
    """A player marked in auth.db, and who gets what was theirs; nobody when it is erased."""

    player_id: str
    heir_id: str | None = None


class Records(Protocol):
    """auth.db; each call is one short transaction."""

    def mark(self, player_id: str, now_ms: int) -> Awaitable[bool]:
        """Erasing from now on, every session ended; False when there is no such player."""

    def unfinished(self) -> Awaitable[Sequence[Departure]]:
        """Every player who is marked, those with an heir first."""

    def forget(self, departure: Departure) -> Awaitable[bool]:
        """Remove some of the rows that are left; whether there are more."""


class Shelves(Protocol):
    """state.db; each call is one transaction, and repeatable."""

    def ready(self) -> Awaitable[None]:
        """StoreError when nothing can be written now."""

    def erase(self, player_id: str, now_ms: int) -> Awaitable[None]: ...
    def hand_over(self, player_id: str, heir_id: str, now_ms: int) -> Awaitable[None]: ...


class Departures(Part, frozen=True):
    _records: Records
    _shelves: Shelves
    _now_ms: Now
    _audit: Audit = UNHEARD

    async def erase(self, player_id: str) -> bool:
        """Everything of a player; False when there is none. Once begun it ends, if need be after a restart."""
        await self._shelves.ready()
        if not await self._records.mark(player_id, self._now_ms()):
            return False
        self._audit.note(Event.ERASE_STARTED, player=player_id)
        for departure in await self._records.unfinished():
            if player_id in (departure.player_id, departure.heir_id):
                await self._finish(departure)
        return True

    async def resume(self) -> int:
        """Finish what was begun, also by another process; how many departures there were."""
        departures = await self._records.unfinished()
        for departure in departures:
            await self._finish(departure)
        return len(departures)

    async def _finish(self, departure: Departure) -> None:
        player_id, heir_id = departure.player_id, departure.heir_id
        if heir_id is None:
            await self._shelves.erase(player_id, self._now_ms())
        else:
            await self._shelves.hand_over(player_id, heir_id, self._now_ms())
        while await self._records.forget(departure):
            pass
        if heir_id is None:
            self._audit.note(Event.ERASED, player=player_id)
        else:
            self._audit.note(Event.PLAYERS_MERGED, player=heir_id, **{"from": player_id})
