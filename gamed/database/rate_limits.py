"""The `limit_bucket` table: one instant per bucket, found by an index that tells no address (PROTOCOL 3.9)."""

from collections.abc import Mapping
from sqlite3 import Connection

from gamed.crypto import Index
from gamed.rate_limit import RateLimit

CLEANUP_ROWS = 1000
PASSING_ROWS = 4
"""How many buckets one request clears away: more than it can add, so that those which limit nobody do not pile up."""
FOREIGN_MS = 3_600_000
"""No limit fills a bucket this far ahead: it is of a clock that was set back since."""


def acquire(connection: Connection, buckets: Mapping[Index, RateLimit], now_ms: int) -> None:
    """One request against all of them, or RateLimited and none was touched."""
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
    delete_idle(connection, now_ms, PASSING_ROWS)


def delete_idle(connection: Connection, now_ms: int, rows: int = CLEANUP_ROWS) -> int:
    """Forget buckets that limit nobody, up to `rows` that are empty and as many of another clock; how many."""
    query = """
        DELETE FROM limit_bucket WHERE bucket_index IN (
            SELECT bucket_index FROM limit_bucket WHERE arrival_ms {since} LIMIT :rows)
    """
    values = {"now_ms": now_ms, "foreign_ms": now_ms + FOREIGN_MS, "rows": rows}
    sides = ("<= :now_ms", "> :foreign_ms")
    return sum(connection.execute(query.format(since=side), values).rowcount for side in sides)
