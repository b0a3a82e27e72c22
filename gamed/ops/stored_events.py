"""Security events of the server go from its log to auth.db, those of commands from auth.db to its log.

The server's own wait in memory until they are written together, so that no request waits for that.
"""

from contextlib import suppress
from functools import partial

from twisted.logger import Logger

from gamed.audit import AuditLog, SecurityEvent
from gamed.database.errors import DatabaseError
from gamed.database.event_counts import EventCount, EventKey
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.database.security_events import SPARED, any_unlogged, delete_old, mark_logged, write_events
from gamed.event_log import EventLog
from gamed.structs import Component
from gamed.timestamps import Now, rfc3339

WAITING = 500
"""How many different events may wait; more than the process has in a normal hour, and a short transaction.

As many more that the table spares wait beside them: a flood of other events does not push out warnings.
"""
_log = EventLog(Logger())


class StoringAuditLog:
    """An audit log that also keeps its events in the table `security_event`.

    Commands are left out: each wrote its own row in the transaction of its change (CommandLogger logs them).
    """

    def __init__(self, audit: AuditLog, writes: WriteQueue, now_ms: Now) -> None:
        self._audit = audit
        self._writes = writes
        self._now_ms = now_ms
        self._waiting: dict[EventKey, EventCount] = {}
        self._lost = 0

    def record(self, event: SecurityEvent, **values: str) -> None:
        """Pass the event on and keep it for flush(); see gamed.audit.AuditLog."""
        self._audit.record(event, **values)
        if event is SecurityEvent.COMMAND:
            return
        now = self._now_ms()
        key = EventKey.of(event, values, now)
        if event is SecurityEvent.ERASED:  # the rows of this player are gone, too
            self._waiting = {each: count for each, count in self._waiting.items() if each.player_id != key.player_id}
        self._add(EventCount(key, now, now, 1))

    async def flush(self) -> None:
        """Write the events that wait; keep them if that fails. Raise DatabaseError."""
        if not self._waiting:
            return
        events, self._waiting = self._waiting, {}
        lost, self._lost = self._lost, 0
        if lost:
            _log.warn("security_events_dropped", count=lost)
        try:
            await self._writes.submit(partial(write_events, events=tuple(events.values()), now_ms=self._now_ms()))
        except DatabaseError:
            for count in events.values():
                self._add(count)
            raise

    async def clean_up(self) -> None:
        """Delete rows that are too old, also on a server without events; raise DatabaseError."""
        await self._writes.submit(partial(delete_old, now_ms=self._now_ms()))

    async def close(self) -> None:
        """Write the events that wait, if auth.db can be written."""
        with suppress(DatabaseError):
            await self.flush()

    def _add(self, count: EventCount) -> None:
        before = self._waiting.get(count.key)
        if before is not None:
            self._waiting[count.key] = before.plus(count)
        elif len(self._waiting) < (2 * WAITING if count.key.event in SPARED else WAITING):
            self._waiting[count.key] = count
        else:
            self._lost += count.times


class CommandLogger(Component, frozen=True, kw_only=True):
    """The part of the service that logs what commands changed beside it."""

    reads: ReadQueue
    writes: WriteQueue
    audit: AuditLog

    async def log(self) -> list[str]:
        """Log every command that waits, the oldest first; return the commands. Raise DatabaseError.

        Each is logged by the process that marked its row, and only once that is committed. So several processes never
        log a command twice, and a transaction that is repeated does not either. A process that dies in between loses up
        to LOGGED_ROWS lines of its log; `gamed events` shows these commands.
        """
        commands: list[str] = []
        while await self.reads.submit(any_unlogged):
            for each in await self.writes.submit(mark_logged):
                at = rfc3339(each.first_ms)
                self.audit.record(SecurityEvent.COMMAND, player=each.key.player_id, at=at, **each.values)
                commands.append(each.values["command"])
        return commands
