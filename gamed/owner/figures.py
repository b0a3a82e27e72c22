"""The figures of a day: each process adds its requests, and the one that cleans up counts players and saves."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from gamed.database.connection import STATE, Connection, attributed
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseError
from gamed.owner import tables
from gamed.owner.model import DailyFigure
from gamed.owner.tables import DAY_MS
from gamed.players.tables import count_players
from gamed.saves.tables import total_usage
from gamed.sessions.tables import count_active
from gamed.timestamps import Now

FIGURES_SECONDS: Final = 600
"""The pause between two counts: the most requests that a killed process leaves out."""
REFUSALS: Final = frozenset({401, 403, 413, 429, 503, 507})
"""Not signed in, not allowed, no room, too often, not well. A game meets 304, 404 and 412 every day."""


class DailyFigures:
    """The counter of this process."""

    def __init__(self, databases: Databases, now_ms: Now, tends: Callable[[], Awaitable[bool]]) -> None:
        """`tends` returns whether this process counts what all share."""
        self._databases = databases
        self._now_ms = now_ms
        self._tends = tends
        self._requests = self._refusals = 0

    def count(  # noqa: PLR0917
        self, template: str, method: str, status: int, seconds: float, size: int, received: int, code: str
    ) -> None:
        """Count a request that has ended; see gamed.http.access_log.Count."""
        self._requests += 1
        self._refusals += status in REFUSALS

    async def write(self) -> None:
        """Add the requests to the day, and count what is stored if that is another number by now.

        Keep the requests if that fails; raise DatabaseError. An idle server writes once a day.
        """
        requests, refusals = self._requests, self._refusals
        if requests:
            self._requests = self._refusals = 0
            add = partial(tables.add_requests, now_ms=self._now_ms(), requests=requests, refusals=refusals)
            try:
                await self._databases.auth.submit(add)
            except DatabaseError:
                self._requests, self._refusals = self._requests + requests, self._refusals + refusals
                raise
        if await self._tends():
            await self._count_stored()

    async def close(self) -> None:
        """Write what is left, if auth.db can be written."""
        with suppress(DatabaseError):
            await self.write()

    async def _count_stored(self) -> None:
        day = self._now_ms() // DAY_MS

        def read(connection: Connection) -> tuple[int, int, list[DailyFigure]]:
            active = count_active(connection, day * DAY_MS)
            return count_players(connection), active, tables.list_figures(connection, self._now_ms())

        players, active, rows = await self._databases.reads.submit(read)
        last = rows[-1] if rows else DailyFigure(0, 0, 0, 0, 0, 0, 0)
        try:
            usage = await self._databases.reads.submit(attributed(STATE, total_usage))
            saves, size = usage.slots, usage.bytes + usage.history_bytes
        except DatabaseError:  # a damaged state.db leaves the last count
            saves, size = last.saves, last.bytes
        counted = DailyFigure(day, players, active, saves, size, 0, 0)
        before = (last.day, last.players, last.active, last.saves, last.bytes)
        if before != (day, players, active, saves, size):
            await self._databases.auth.submit(partial(tables.count_day, figure=counted))
