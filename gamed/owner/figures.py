"""The figures of a day: each process adds its requests; the one that notifies the owner counts players and saves."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from gamed.database.connection import STATE, Connection, attributed
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseError
from gamed.http.access_log import Tally
from gamed.owner import tables
from gamed.owner.model import DAY_MS, DailyFigure
from gamed.players.tables import count_players
from gamed.saves.tables import total_usage
from gamed.sessions.tables import count_active
from gamed.timestamps import Now

FIGURES_SECONDS: Final = 600
"""The pause between two counts: the most requests that a killed process leaves out."""


class DailyFigures:
    """The figures to which this process adds the requests of its access log."""

    def __init__(
        self, databases: Databases, now_ms: Now, notifies: Callable[[], Awaitable[bool]], tally: Tally
    ) -> None:
        """`notifies` returns whether this process counts what all share."""
        self._databases = databases
        self._now_ms = now_ms
        self._notifies = notifies
        self._tally = tally

    async def write(self) -> None:
        """Add the requests to the day, and count what is stored if that is another number by now.

        Keep the requests if that fails; raise DatabaseError. An idle server writes once a day.
        """
        requests, refusals = self._tally.requests, self._tally.refusals
        if requests:
            add = partial(tables.add_requests, now_ms=self._now_ms(), requests=requests, refusals=refusals)
            await self._databases.auth.submit(add)
            # Only now: what could not be written is counted the next time. More may have come meanwhile.
            self._tally.requests -= requests
            self._tally.refusals -= refusals
        if await self._notifies():
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
