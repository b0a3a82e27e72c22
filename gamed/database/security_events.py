"""The table `security_event` keeps security events for 90 days, for the operator (docs/owners/monitoring.md).

Equal events share a row, which counts them (gamed.database.event_counts): a flood of events needs few rows. The table
never has more than 300,000 rows. Most make room when there are 100,000 newer ones, which players can add in a day who
sign up by the thousand; warnings, commands and events of the server itself stay longer. The table has no addresses,
sessions, passkeys or request ids; those of them that may be logged are in the log.

The server logs its events before it writes them. A command has no log: its row has `logged` = 0 until a server has
logged it. Each command has a line in the log with its own instant, so a row cannot stand for two that wait: a repeat in
the same hour, which the first row counts, gets a row with `times` = 0, which is deleted when it is logged.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import asdict, replace

from gamed.audit import WARNINGS, SecurityEvent
from gamed.database.connection import Connection, rows_in
from gamed.database.event_counts import MERGE_MS, EventCount, EventKey

KEPT_MS = 90 * 24 * 3_600_000
ROWS = 100_000
SPARED_TIMES = 3
"""Rows of SPARED events make room when there are ROWS newer ones, times this."""
CLEANUP_ROWS = 1000
SEARCHED_ROWS = 4 * CLEANUP_ROWS
"""So many rows behind the newest ROWS are searched for rows to delete; the others there are SPARED ones."""
LOGGED_ROWS = 200
"""How many commands one transaction marks as logged, in a few milliseconds."""
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999: behind every event."""
LATEST_ROWS = 1000
"""How many different events latest_of() returns; there are fewer than 100 in fact."""
SPARED = WARNINGS | {
    SecurityEvent.COMMAND,
    SecurityEvent.DISK_HAS_ROOM,
    SecurityEvent.OWNER_NOTIFIED,
}
"""Warnings, and events that no player causes."""
_NEWEST = "(SELECT max(number) FROM security_event)"
_SPARED = ", ".join(f"'{event.value}'" for event in sorted(SPARED))


def write_events(connection: Connection, events: Iterable[EventCount], now_ms: int, rows: int = ROWS) -> None:
    """Add events to their rows, then delete rows that are too old, and the oldest of more than `rows`.

    The end of an erasure comes last, after the player's rows that were written since these were deleted. Events that
    another process kept about a player who was erased meanwhile are left out.
    """
    for each in sorted(events, key=lambda each: each.key.event == SecurityEvent.ERASED.value):
        key = each.key
        if key.event == SecurityEvent.ERASED.value:
            delete_player(connection, key.player_id, CLEANUP_ROWS)
        elif key.event != SecurityEvent.COMMAND.value and _is_erased(connection, key.player_id):
            continue
        if not _add_to_row(connection, each):
            _insert(connection, each, logged=1)
    delete_old(connection, now_ms, rows)


def _add_to_row(connection: Connection, event: EventCount) -> bool:
    """Add events to the row of their hour; return False if there is none."""
    query = """
        UPDATE security_event SET times = times + :times,
            last_ms = CASE WHEN :last_ms > last_ms THEN :last_ms ELSE last_ms END
        WHERE player_id = :player_id AND hour = :hour AND event = :event AND detail = :detail AND times > 0
    """
    return connection.execute(query, {**asdict(event.key), "times": event.times, "last_ms": event.last_ms}).rowcount > 0


def _insert(connection: Connection, event: EventCount, logged: int) -> None:
    # A plain INSERT, since no other writer can add the row after _add_to_row(): these transactions have no keys, so
    # each is alone (gamed/database/engine.py). ON CONFLICT would take a number of PostgreSQL's for each repeat, and
    # delete_old() counts rows by their numbers.
    query = """
        INSERT INTO security_event (hour, event, player_id, detail, first_ms, last_ms, times, logged)
        VALUES (:hour, :event, :player_id, :detail, :first_ms, :last_ms, :times, :logged)
    """
    counts = {"first_ms": event.first_ms, "last_ms": event.last_ms, "times": event.times}
    connection.execute(query, {**asdict(event.key), **counts, "logged": logged})


def add_command(connection: Connection, command: str, player_id: str | None, ran_by: str, now_ms: int) -> None:
    """Insert a command that waits to be logged, in the transaction of the change that it describes.

    So neither exists without the other. `ran_by` is the system's user, as `uid:1000`.
    """
    key = EventKey.of(SecurityEvent.COMMAND, {"command": command, "player": player_id or "", "by": ran_by}, now_ms)
    event = EventCount(key, now_ms, now_ms, 1)
    _insert(connection, replace(event, times=0) if _add_to_row(connection, event) else event, logged=0)
    delete_old(connection, now_ms)


def any_unlogged(connection: Connection) -> bool:
    """Return whether a command waits, so that an idle server writes nothing."""
    return connection.execute("SELECT 1 FROM security_event WHERE logged = 0 LIMIT 1").fetchone() is not None


def mark_logged(connection: Connection) -> list[EventCount]:
    """Mark up to LOGGED_ROWS commands as logged, and return them, the oldest first; each ran at its `first_ms`."""
    query = """
        UPDATE security_event SET logged = 1
        WHERE number IN (SELECT number FROM security_event WHERE logged = 0 ORDER BY number LIMIT :rows)
        RETURNING number, hour, event, player_id, detail, first_ms, last_ms, times
    """
    rows = sorted(connection.execute(query, {"rows": LOGGED_ROWS}).fetchall())
    repeats = [number for number, *_, times in rows if times == 0]
    rows_in(connection, "DELETE FROM security_event WHERE number IN ", repeats)
    return [EventCount(EventKey(*row[1:5]), *row[5:]) for row in rows]


def _is_erased(connection: Connection, player_id: str) -> bool:
    """Return whether the events include the erasure of the player; no later player has the same id."""
    query = "SELECT 1 FROM security_event WHERE player_id = :player_id AND event = :erased AND times > 0 LIMIT 1"
    values = {"player_id": player_id, "erased": SecurityEvent.ERASED.value}
    return player_id != "" and connection.execute(query, values).fetchone() is not None


def delete_old(connection: Connection, now_ms: int, rows: int = ROWS) -> int:
    """Delete up to CLEANUP_ROWS rows older than 90 days, and as many beyond the newest `rows`; return their number.

    SPARED events stay among SPARED_TIMES as many newest ones. Commands that wait to be logged stay: a server that was
    stopped for months logs them at its start.
    """
    by_age = """
        DELETE FROM security_event WHERE number IN (
            SELECT number FROM security_event WHERE last_ms < :before_ms AND logged = 1 LIMIT :most)
    """
    by_number = f"""
        DELETE FROM security_event WHERE number IN (
            SELECT number FROM security_event
            WHERE number <= {_NEWEST} - :rows AND number > {_NEWEST} - :rows - :searched
                AND logged = 1 AND event NOT IN ({_SPARED}) LIMIT :most)
    """
    spared = f"""
        DELETE FROM security_event WHERE number IN (
            SELECT number FROM security_event WHERE number <= {_NEWEST} - :rows AND logged = 1 LIMIT :most)
    """
    deleted = connection.execute(by_age, {"before_ms": now_ms - KEPT_MS, "most": CLEANUP_ROWS}).rowcount
    values = {"rows": rows, "searched": SEARCHED_ROWS, "most": CLEANUP_ROWS}
    deleted += connection.execute(by_number, values).rowcount
    return deleted + connection.execute(spared, {"rows": SPARED_TIMES * rows, "most": CLEANUP_ROWS}).rowcount


def list_events(
    connection: Connection, since_ms: int, player_id: str | None = None, rows: int = ROWS
) -> list[EventCount]:
    """Return up to `rows` of the events since then, of one player or of all, the latest first."""
    whose = "" if player_id is None else "AND player_id = :player_id"
    query = f"""
        SELECT hour, event, player_id, detail, first_ms, last_ms, times FROM security_event
        WHERE last_ms >= :since_ms AND times > 0 {whose} ORDER BY last_ms DESC, number DESC LIMIT :rows
    """
    values = {"since_ms": since_ms, "player_id": player_id, "rows": rows}
    return [EventCount(EventKey(*row[:4]), *row[4:]) for row in connection.execute(query, values)]


KINDS = 6
"""The kinds of events that one search may look for."""
_BEFORE = """
    last_ms >= :since_ms AND last_ms <= :before_ms AND (last_ms < :before_ms OR number < :before_number)
"""
_EVENTS_BEFORE = f"""
    SELECT number, hour, event, player_id, detail, first_ms, last_ms, times FROM security_event WHERE {_BEFORE}
"""


def page_of_events(
    connection: Connection, since_ms: int, before: tuple[int, int] | None, rows: int
) -> list[tuple[int, EventCount]]:
    """Return up to `rows` events since then with their numbers, the latest first, behind an instant and a number."""
    query = f"{_EVENTS_BEFORE} AND times > 0 ORDER BY last_ms DESC, number DESC LIMIT :rows"
    return _numbered(connection, query, {**_between(since_ms, before), "rows": rows})


def page_of_kinds(
    connection: Connection,
    since_ms: int,
    before: tuple[int, int] | None,
    *,
    rows: int,
    kinds: Sequence[str],
    searched: int,
) -> tuple[list[tuple[int, EventCount]], tuple[int, int] | None]:
    """Search the next `searched` rows for up to KINDS kinds of events; return them as page_of_events() does.

    Also return the place behind which the search goes on, None at the end. Where many fit, only the latest `rows` are
    returned, and the next page begins behind the last one instead.
    """
    end = f"""
        SELECT last_ms, number FROM security_event WHERE {_BEFORE}
        ORDER BY last_ms DESC, number DESC LIMIT 1 OFFSET :searched
    """
    values = _between(since_ms, before)
    last = connection.execute(end, {**values, "searched": searched - 1}).fetchone()
    query = f"""
        {_EVENTS_BEFORE} AND times > 0 AND (last_ms > :last_ms OR (last_ms = :last_ms AND number >= :last_number))
            AND event IN (:kind_0, :kind_1, :kind_2, :kind_3, :kind_4, :kind_5)
        ORDER BY last_ms DESC, number DESC LIMIT :rows
    """
    last_ms, last_number = (since_ms, 0) if last is None else last
    # `since_ms` is a bound of its own, so that the index by instant begins and ends the search.
    values |= {"since_ms": last_ms, "last_ms": last_ms, "last_number": last_number, "rows": rows}
    names = {f"kind_{number}": kinds[min(number, len(kinds) - 1)] for number in range(KINDS)}
    return _numbered(connection, query, {**values, **names}), None if last is None else (last_ms, last_number)


def _between(since_ms: int, before: tuple[int, int] | None) -> dict[str, str | int]:
    before_ms, number = before or (LATEST_MS, LATEST_MS)
    return {"since_ms": since_ms, "before_ms": before_ms, "before_number": number}


def _numbered(connection: Connection, query: str, values: dict[str, str | int]) -> list[tuple[int, EventCount]]:
    found = connection.execute(query, values)
    return [(number, EventCount(EventKey(*row[:4]), *row[4:])) for number, *row in found]


def latest_of(
    connection: Connection, events: Sequence[SecurityEvent], since_ms: int, until_ms: int = LATEST_MS
) -> list[EventCount]:
    """Return the events of up to four kinds in that time that concern no player, the latest last.

    Equal ones are one row. The index by player, hour and event finds them, however many events of players there are.
    """
    query = """
        SELECT max(hour), event, player_id, detail, min(first_ms), max(last_ms), sum(times) FROM security_event
        WHERE player_id = '' AND hour >= :hour AND event IN (:event_1, :event_2, :event_3, :event_4) AND times > 0
            AND last_ms <= :until_ms
        GROUP BY event, player_id, detail ORDER BY max(last_ms), event LIMIT :rows
    """
    first, *others = (each.value for each in events)
    names = dict(zip(("event_1", "event_2", "event_3", "event_4"), [first, *others, *([first] * 3)], strict=False))
    values = {"hour": since_ms // MERGE_MS, "until_ms": until_ms, "rows": LATEST_ROWS}
    found = connection.execute(query, {**names, **values})
    return [EventCount(EventKey(*row[:4]), *map(int, row[4:])) for row in found]


def list_activity(connection: Connection, player_id: str, rows: int) -> list[EventCount]:
    """Return up to `rows` of a player's events, the latest hours first; it reads no other player's."""
    query = """
        SELECT hour, event, player_id, detail, first_ms, last_ms, times FROM security_event
        WHERE player_id = :player_id AND times > 0 ORDER BY hour DESC LIMIT :rows
    """
    found = connection.execute(query, {"player_id": player_id, "rows": rows}).fetchall()
    return sorted((EventCount(EventKey(*row[:4]), *row[4:]) for row in found), key=lambda each: -each.last_ms)


def delete_player(connection: Connection, player_id: str, rows: int) -> int:
    """Delete up to `rows` events of a player who is erased, all but commands; return their number."""
    query = """
        DELETE FROM security_event WHERE number IN (
            SELECT number FROM security_event
            WHERE player_id = :player_id AND event <> :command AND times > 0 LIMIT :rows)
    """
    values = {"player_id": player_id, "command": SecurityEvent.COMMAND.value, "rows": rows}
    return connection.execute(query, values).rowcount
