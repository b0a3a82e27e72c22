"""The `command_log` table holds what commands changed, until the service has written it to its log."""

from sqlite3 import Connection

from msgspec import Struct

ROWS = 200


class HostAction(Struct, frozen=True):
    """One command that changed something; the instant in epoch milliseconds."""

    number: int
    command: str
    player_id: str | None
    ran_by: str
    """The system's user, as `uid:1000`."""
    done_ms: int


def add(connection: Connection, command: str, player_id: str | None, ran_by: str, now_ms: int) -> None:
    """In the transaction of what it tells of: neither is there without the other."""
    query = """
        INSERT INTO command_log (command, player_id, ran_by, done_ms) VALUES (:command, :player_id, :ran_by, :now_ms)
    """
    values = {"command": command, "player_id": player_id, "ran_by": ran_by, "now_ms": now_ms}
    connection.execute(query, values)


def waiting(connection: Connection) -> list[HostAction]:
    """Up to ROWS of them, oldest first."""
    query = "SELECT number, command, player_id, ran_by, done_ms FROM command_log ORDER BY number LIMIT :rows"
    return [HostAction(*row) for row in connection.execute(query, {"rows": ROWS})]


def told(connection: Connection, number: int) -> None:
    """They are in the log, up to this one."""
    connection.execute("DELETE FROM command_log WHERE number <= :number", {"number": number})
