"""The `limit_bucket` table has one instant per bucket, found by an index that reveals no address.

See docs/owners/configuration.md: Limits.
"""

from collections.abc import Mapping

from gamed.crypto import Index
from gamed.database.connection import Connection
from gamed.rate_limit import RateLimit

LIMITS = "limits"
"""The key of this table (gamed.database.engine): each request also deletes buckets of others."""
CLEANUP_ROWS = 1000
IDLE_ROWS = 4
"""How many idle buckets one request deletes: more than it can add, so that they do not pile up."""
CLOCK_MOVED_MS = 24 * 3_600_000
"""No limit fills a bucket further ahead, since the longest one is per day: the clock was set back since."""


def acquire(connection: Connection, buckets: Mapping[Index, RateLimit], now_ms: int) -> None:
    """Count one request in all buckets; raise RateLimited and count it in none if one of them is full."""
    if not buckets:
        return
    query = "SELECT arrival_ms FROM limit_bucket WHERE bucket_index = :bucket_index"
    arrivals: dict[Index, int] = {}
    for bucket, rate in buckets.items():
        row = connection.execute(query, {"bucket_index": bucket}).fetchone()
        arrivals[bucket] = rate.acquire(row and row[0], now_ms)
    upsert = """
        INSERT INTO limit_bucket (bucket_index, arrival_ms) VALUES (:bucket_index, :arrival_ms)
        ON CONFLICT (bucket_index) DO UPDATE SET arrival_ms = excluded.arrival_ms
    """
    for bucket, arrival_ms in arrivals.items():
        connection.execute(upsert, {"bucket_index": bucket, "arrival_ms": arrival_ms})
    delete_idle(connection, now_ms, IDLE_ROWS)


def delete_idle(connection: Connection, now_ms: int, rows: int = CLEANUP_ROWS) -> int:
    """Delete up to `rows` buckets that are empty on all machines, and as many from before the clock moved.

    Return their number. A machine whose clock is ahead would empty buckets that still limit clients of another one; so
    one whose clock was set deletes what is over by both clocks.
    """
    query = """
        DELETE FROM limit_bucket WHERE bucket_index IN (
            SELECT bucket_index FROM limit_bucket WHERE arrival_ms {since} LIMIT :rows)
    """
    ahead_ms = connection.ahead_ms
    values = {
        "now_ms": now_ms - connection.clocks_ms - max(0, ahead_ms),
        "moved_ms": now_ms + CLOCK_MOVED_MS - min(0, ahead_ms),
        "rows": rows,
    }
    sides = ("<= :now_ms", "> :moved_ms")
    return sum(connection.execute(query.format(since=side), values).rowcount for side in sides)
