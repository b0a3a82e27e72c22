"""The table `command_log` holds what commands changed beside the service, until the service logs it.

docs/owners/monitoring.md has its lines.

A command writes its row in the transaction of the change, so that neither exists without the other.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from gamed.audit import AuditLog, SecurityEvent
from gamed.database.connection import Connection
from gamed.database.security_events import EventCount, EventKey, write_events
from gamed.structs import Component
from gamed.timestamps import rfc3339

if TYPE_CHECKING:  # commands write rows without the queues, which need Twisted
    from gamed.database.queues import ReadQueue, WriteQueue

ROWS = 200
"""How many rows one transaction deletes."""


class CommandLogForwarder(Component, frozen=True):
    """The part of the service that writes the rows of `command_log` to the security log."""

    _reads: "ReadQueue"
    _writes: "WriteQueue"
    _audit: AuditLog

    async def forward(self) -> list[str]:
        """Delete every row, the oldest first, and log what was deleted; return the commands.

        Each row is logged by the process that deleted it, and only once that is committed. So several processes never
        log a row twice, and a transaction that is repeated does not either. A process that dies in between loses up to
        ROWS lines of its log. The table of security events has them: the command wrote them there itself.
        """
        commands: list[str] = []
        while await self._reads.submit(any_entry):
            entries = await self._writes.submit(take_entries)
            for entry in entries:
                self._audit.record(
                    SecurityEvent.COMMAND,
                    command=entry.command,
                    player=entry.player_id or "",
                    by=entry.ran_by,
                    at=rfc3339(entry.done_ms),
                )
            commands += [entry.command for entry in entries]
        return commands


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


def any_entry(connection: Connection) -> bool:
    """Return whether a row waits, so that an idle server writes nothing."""
    return connection.execute("SELECT 1 FROM command_log LIMIT 1").fetchone() is not None


def take_entries(connection: Connection) -> list[CommandLogEntry]:
    """Delete up to ROWS rows and return them, the oldest first."""
    query = """
        DELETE FROM command_log WHERE number IN (SELECT number FROM command_log ORDER BY number LIMIT :rows)
        RETURNING number, command, player_id, ran_by, done_ms
    """
    rows = connection.execute(query, {"rows": ROWS}).fetchall()
    return [CommandLogEntry(*row) for row in sorted(rows)]
