"""Commands run beside the service; what they did gets into the service's own log (docs/audit.md).

The `command_log` table holds what commands changed, until the service has written it to its log.
"""

from collections.abc import Awaitable, Sequence
from sqlite3 import Connection
from typing import Protocol

from msgspec import Struct

from gamed.audit import AuditLog, SecurityEvent
from gamed.structs import Component
from gamed.timestamps import rfc3339


class LoggedCommand(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def command(self) -> str: ...
    @property
    def player_id(self) -> str | None: ...
    @property
    def ran_by(self) -> str: ...
    @property
    def done_ms(self) -> int: ...


class CommandLog(Protocol):
    def host_actions(self) -> Awaitable[Sequence[LoggedCommand]]:
        """Some of those that are not in the log yet, oldest first."""

    def host_actions_told(self, number: int) -> Awaitable[None]:
        """They are in the log, up to this one."""


class CommandLogForwarder(Component, frozen=True):
    _actions: CommandLog
    _audit: AuditLog

    async def tell(self) -> int:
        """Everything that waits, once each; a process that dies in between may say some of it again."""
        told = 0
        while actions := await self._actions.host_actions():
            for action in actions:
                self._audit.record(
                    SecurityEvent.COMMAND,
                    command=action.command,
                    player=action.player_id or "",
                    by=action.ran_by,
                    at=rfc3339(action.done_ms),
                )
            told += len(actions)
            await self._actions.host_actions_told(actions[-1].number)
        return told


ROWS = 200


class CommandLogEntry(Struct, frozen=True):
    """One command that changed something; the instant in epoch milliseconds."""

    number: int
    command: str
    player_id: str | None
    ran_by: str
    """The system's user, as `uid:1000`."""
    done_ms: int


def add_entry(connection: Connection, command: str, player_id: str | None, ran_by: str, now_ms: int) -> None:
    """In the transaction of what it tells of: neither is there without the other."""
    query = """
        INSERT INTO command_log (command, player_id, ran_by, done_ms) VALUES (:command, :player_id, :ran_by, :now_ms)
    """
    values = {"command": command, "player_id": player_id, "ran_by": ran_by, "now_ms": now_ms}
    connection.execute(query, values)


def waiting_entries(connection: Connection) -> list[CommandLogEntry]:
    """Up to ROWS of them, oldest first."""
    query = "SELECT number, command, player_id, ran_by, done_ms FROM command_log ORDER BY number LIMIT :rows"
    return [CommandLogEntry(*row) for row in connection.execute(query, {"rows": ROWS})]


def mark_forwarded(connection: Connection, number: int) -> None:
    """They are in the log, up to this one."""
    connection.execute("DELETE FROM command_log WHERE number <= :number", {"number": number})
