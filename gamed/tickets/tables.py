"""The SQL of the table `ticket_key`: when each key that signs tickets is first used.

A server that has never rotated its key has no row.
"""

from gamed.database.connection import Connection
from gamed.tickets.model import KeyPeriod
from gamed.tickets.ticket_rules import DAY_MS, FIRST, next_period, published_periods


def read_periods(connection: Connection) -> tuple[KeyPeriod, ...]:
    """Return the keys in the order of their numbers; at least one."""
    rows = connection.execute("SELECT number, first_use_ms FROM ticket_key ORDER BY number").fetchall()
    return tuple(KeyPeriod(*row) for row in rows) or (FIRST,)


def rotate(connection: Connection, now_ms: int) -> KeyPeriod | None:
    """Publish the next key, which is used from a day later; return None if the next one is published already.

    Rows of keys that are not published any more are deleted. After a rotation while the clock was ahead, its key is the
    next one.
    """
    periods = read_periods(connection)
    latest_ms = now_ms + DAY_MS
    if periods[-1].first_use_ms > latest_ms:
        # Without this no rotation would succeed until then. All such keys: each one is published until a day after its
        # successor's first use.
        query = "UPDATE ticket_key SET first_use_ms = :latest_ms WHERE first_use_ms > :latest_ms"
        connection.execute(query, {"latest_ms": latest_ms})
        return KeyPeriod(periods[-1].number, latest_ms)
    added = next_period(periods, now_ms)
    if added is None:
        return None
    kept = [*published_periods(periods, now_ms), added]
    connection.execute("DELETE FROM ticket_key WHERE number < :first", {"first": kept[0].number})
    query = """
        INSERT INTO ticket_key (number, first_use_ms) VALUES (:number, :first_use_ms) ON CONFLICT (number) DO NOTHING
    """
    for period in kept:  # the first rotation also writes the row of the first key
        connection.execute(query, {"number": period.number, "first_use_ms": period.first_use_ms})
    return added
