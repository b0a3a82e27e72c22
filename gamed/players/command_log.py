"""The table `command_log` holds what commands changed beside the service, until the service logs it.

docs/owners/monitoring.md has its lines.

A command writes its row in the transaction of the change, so that neither exists without the other.
"""

from functools import partial
from sqlite3 import Connection
from typing import TYPE_CHECKING

from msgspec import Struct

from gamed.audit import AuditLog, SecurityEvent
from gamed.database.security_events import EventCount, EventKey, write_events
from gamed.structs import Component
from gamed.timestamps import rfc3339

if TYPE_CHECKING:  # commands write rows without the queues, which need Twisted
    from gamed.database.queues import ReadQueue, WriteQueue

ROWS = 200
"""How many rows one transaction reads."""


class CommandLogForwarder(Component, frozen=True):
    """The part of the service that writes the rows of `command_log` to the security log."""

    _reads: "ReadQueue"
    _writes: "WriteQueue"
    _audit: AuditLog

    async def forward(self) -> int:
        """Log and delete every row, the oldest first; return how many there were.

        A process that dies in between logs some rows again at its next start.
        """
        count = 0
        while entries := await self._reads.submit(waiting_entries):
            for entry in entries:
                self._audit.record(
                    SecurityEvent.COMMAND,
                    command=entry.command,
                    player=entry.player_id or "",
                    by=entry.ran_by,
                    at=rfc3339(entry.done_ms),
                )
            count += len(entries)
            await self._writes.submit(partial(delete_entries, last_number=entries[-1].number))
        return count


class CommandLogEntry(Struct, frozen=True):
    """One command that changed something; the instant in epoch milliseconds."""

    number: int
    command: str
    player_id: str | None
    ran_by: str
    """The system's user, as `uid:1000`."""
    done_ms: int


def add_entry(connection: Connection, command: str, player_id: str | None, ran_by: str, now_ms: int) -> None:
    """Insert a row, in the transaction of the change that it describes; the table of security events gets one, too."""
    query = """
        INSERT INTO command_log (command, player_id, ran_by, done_ms) VALUES (:command, :player_id, :ran_by, :now_ms)
    """
    values = {"command": command, "player_id": player_id, "ran_by": ran_by, "now_ms": now_ms}
    connection.execute(query, values)
    key = EventKey.of(SecurityEvent.COMMAND, {"command": command, "player": player_id or "", "by": ran_by}, now_ms)
    write_events(connection, [EventCount(key, now_ms, now_ms, 1)], now_ms)


def waiting_entries(connection: Connection) -> list[CommandLogEntry]:
    """Return up to ROWS rows, the oldest first."""
    query = "SELECT number, command, player_id, ran_by, done_ms FROM command_log ORDER BY number LIMIT :rows"
    return [CommandLogEntry(*row) for row in connection.execute(query, {"rows": ROWS})]


def delete_entries(connection: Connection, last_number: int) -> None:
    """Delete the rows up to this number, which are in the log now."""
    connection.execute("DELETE FROM command_log WHERE number <= :number", {"number": last_number})
