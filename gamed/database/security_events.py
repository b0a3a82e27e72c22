"""The table `security_event` keeps security events for 90 days, for the operator (docs/owners/monitoring.md).

Equal events of one hour share a row, which counts them: a flood of events needs few rows. The table never has more than
100,000 rows; the oldest make room. It has no addresses, sessions or request ids; those of them that may be logged are
in the log.
"""

from collections.abc import Iterable, Mapping
from json import dumps, loads

from msgspec import Struct

from gamed.audit import FIELDS, SecurityEvent
from gamed.database.connection import Connection

KEPT_MS = 90 * 24 * 3_600_000
MERGE_MS = 3_600_000
ROWS = 100_000
CLEANUP_ROWS = 1000
VALUE_CHARACTERS = 64
"""The longest value that is stored whole; every value of this project is shorter."""
LEFT_OUT = frozenset({"player", "session", "request", "row", "at"})
"""Values that have a column of their own, or that differ in each event: such events would never share a row."""


class EventKey(Struct, frozen=True):
    """The values by which two events are equal."""

    hour: int
    """The hour since the epoch."""
    event: str
    player_id: str
    """Empty if the event is about no known player."""
    detail: str
    """The other values as a JSON object."""

    @classmethod
    def of(cls, event: SecurityEvent, values: Mapping[str, str], now_ms: int) -> "EventKey":
        """Return the key of an event with the values that gamed.audit.FIELDS lists for it."""
        known = {name: values[name][:VALUE_CHARACTERS] for name in FIELDS[event] if values.get(name)}
        detail = {name: value for name, value in known.items() if name not in LEFT_OUT}
        return cls(now_ms // MERGE_MS, event.value, known.get("player", ""), dumps(detail))


class EventCount(Struct, frozen=True):
    """The equal events of one hour; instants in epoch milliseconds."""

    key: EventKey
    first_ms: int
    last_ms: int
    times: int

    def plus(self, other: "EventCount") -> "EventCount":
        """Return the events of both."""
        first, last = min(self.first_ms, other.first_ms), max(self.last_ms, other.last_ms)
        return EventCount(self.key, first, last, self.times + other.times)

    @property
    def values(self) -> dict[str, str]:
        """Return the values other than the player."""
        values: dict[str, str] = loads(self.key.detail)
        return values


def write_events(connection: Connection, events: Iterable[EventCount], now_ms: int, rows: int = ROWS) -> None:
    """Add events to their rows, then delete rows that are too old, and the oldest of more than `rows`.

    The end of an erasure comes last, after the player's rows that were written since these were deleted. Events that
    another process kept about a player who was erased meanwhile are left out.
    """
    add = """
        UPDATE security_event SET times = times + :times,
            last_ms = CASE WHEN :last_ms > last_ms THEN :last_ms ELSE last_ms END
        WHERE player_id = :player_id AND hour = :hour AND event = :event AND detail = :detail
    """
    insert = """
        INSERT INTO security_event (hour, event, player_id, detail, first_ms, last_ms, times)
        VALUES (:hour, :event, :player_id, :detail, :first_ms, :last_ms, :times)
        ON CONFLICT (player_id, hour, event, detail) DO UPDATE SET
            times = security_event.times + excluded.times,
            last_ms = CASE WHEN excluded.last_ms > security_event.last_ms THEN excluded.last_ms
                           ELSE security_event.last_ms END
    """
    for each in sorted(events, key=lambda each: each.key.event == SecurityEvent.ERASED.value):
        key = each.key
        if key.event == SecurityEvent.ERASED.value:
            delete_player(connection, key.player_id, CLEANUP_ROWS)
        elif key.event != SecurityEvent.COMMAND.value and _is_erased(connection, key.player_id):
            continue
        values = {"hour": key.hour, "event": key.event, "player_id": key.player_id, "detail": key.detail}
        counts = {"first_ms": each.first_ms, "last_ms": each.last_ms, "times": each.times}
        if not connection.execute(add, {**values, **counts}).rowcount:  # a conflict takes a number that no row gets
            connection.execute(insert, {**values, **counts})
    delete_old(connection, now_ms, rows)


def _is_erased(connection: Connection, player_id: str) -> bool:
    """Return whether the events include the erasure of the player; no later player has the same id."""
    query = "SELECT 1 FROM security_event WHERE player_id = :player_id AND event = :erased LIMIT 1"
    values = {"player_id": player_id, "erased": SecurityEvent.ERASED.value}
    return player_id != "" and connection.execute(query, values).fetchone() is not None


def delete_old(connection: Connection, now_ms: int, rows: int = ROWS) -> int:
    """Delete up to CLEANUP_ROWS rows older than 90 days, and as many beyond the newest `rows`; return their number."""
    by_age = """
        DELETE FROM security_event WHERE number IN (
            SELECT number FROM security_event WHERE last_ms < :before_ms LIMIT :most)
    """
    by_number = """
        DELETE FROM security_event WHERE number IN (
            SELECT number FROM security_event
            WHERE number <= (SELECT max(number) FROM security_event) - :rows LIMIT :most)
    """
    values = {"before_ms": now_ms - KEPT_MS, "rows": rows, "most": CLEANUP_ROWS}
    return sum(connection.execute(query, values).rowcount for query in (by_age, by_number))


def list_events(
    connection: Connection, since_ms: int, player_id: str | None = None, rows: int = ROWS
) -> list[EventCount]:
    """Return up to `rows` of the events since then, of one player or of all, the latest first."""
    whose = "" if player_id is None else "AND player_id = :player_id"
    query = f"""
        SELECT hour, event, player_id, detail, first_ms, last_ms, times FROM security_event
        WHERE last_ms >= :since_ms {whose} ORDER BY last_ms DESC, number DESC LIMIT :rows
    """
    values = {"since_ms": since_ms, "player_id": player_id, "rows": rows}
    return [EventCount(EventKey(*row[:4]), *row[4:]) for row in connection.execute(query, values)]


def delete_player(connection: Connection, player_id: str, rows: int) -> int:
    """Delete up to `rows` events of a player who is erased, all but commands; return their number."""
    query = """
        DELETE FROM security_event WHERE number IN (
            SELECT number FROM security_event WHERE player_id = :player_id AND event <> :command LIMIT :rows)
    """
    values = {"player_id": player_id, "command": SecurityEvent.COMMAND.value, "rows": rows}
    return connection.execute(query, values).rowcount
