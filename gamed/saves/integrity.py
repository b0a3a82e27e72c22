"""Checks of the rows of state.db, repairs of counts, and the totals of all players."""

from msgspec import Struct

from gamed.database.connection import Connection

BLOBS = 256
"""How many blobs one transaction checks."""


class ConsistencyCheck(Struct, frozen=True):
    """One consistency rule: `query` returns a row for each error; `repair` is SQL that repairs them, if SQL alone can.

    Repairs run in this order: a slot that is listed again is a change to `player_saves`, so that row must exist.
    """

    description: str
    query: str
    repair: str | None = None


COUNTED = """
    SELECT player_id, slots, live_bytes, kept_bytes, deleted_slots,
           (SELECT count(*) FROM save s WHERE s.player_id = h.player_id AND s.current_version IS NOT NULL) AS slots_now,
           (SELECT coalesce(sum(v.size), 0) FROM save s JOIN save_version v USING (player_id, slot)
            WHERE s.player_id = h.player_id AND v.version = s.current_version) AS live_now,
           (SELECT count(*) FROM save s WHERE s.player_id = h.player_id AND s.current_version IS NULL) AS deleted_now,
           (SELECT coalesce(sum(
                v.size + 512 + coalesce(length(v.ctype), 0)
                + CASE WHEN length(v.meta) BETWEEN 257 AND 1999 THEN 2000 ELSE coalesce(length(v.meta), 0) END
            ), 0)
            FROM save_version v LEFT JOIN save s USING (player_id, slot)
            WHERE v.player_id = h.player_id AND v.version IS DISTINCT FROM s.current_version) AS kept_now
    FROM player_saves h WHERE erasing = 0
"""
OFF = "slots != slots_now OR live_bytes != live_now OR kept_bytes != kept_now OR deleted_slots != deleted_now"
ORPHANED = """
    SELECT player_id, max(seq) AS seq
    FROM (SELECT player_id, seq FROM save UNION ALL SELECT player_id, 0 FROM save_version) k
    WHERE NOT EXISTS (SELECT 1 FROM player_saves h WHERE h.player_id = k.player_id)
    GROUP BY player_id
"""
UNLISTED = """
    SELECT player_id, slot, max(version) AS last_version, max(created_ms) AS newest_ms,
           max(CASE WHEN kind = 'conflict' THEN 0 ELSE version END) AS top
    FROM save_version v
    WHERE NOT EXISTS (SELECT 1 FROM save s WHERE s.player_id = v.player_id AND s.slot = v.slot)
    GROUP BY player_id, slot
"""
REFERENCED = """
    SELECT b.blob_id, b.refs, coalesce(v.refs_now, 0) AS refs_now
    FROM blob b LEFT JOIN (SELECT blob_id, count(*) AS refs_now FROM save_version GROUP BY blob_id) v USING (blob_id)
    WHERE b.refs != coalesce(v.refs_now, 0)
"""
CHECKS = (
    ConsistencyCheck(
        "saves of a player without a row in player_saves",
        ORPHANED,
        f"""
        INSERT INTO player_saves (player_id, epoch, seq)
        SELECT player_id, :epoch, seq FROM ({ORPHANED}) AS orphaned
        """,
    ),
    ConsistencyCheck(
        "a version of a slot that is not listed",
        f"SELECT player_id, slot FROM ({UNLISTED}) AS unlisted",
        f"""
        INSERT INTO save (player_id, slot, current_version, last_version, seq, deleted_ms)
        SELECT u.player_id, u.slot, CASE WHEN v.kind IN ('write', 'restore') THEN v.version END, u.last_version,
               h.seq + 1, CASE WHEN v.kind IN ('write', 'restore') THEN NULL ELSE u.newest_ms END
        FROM ({UNLISTED}) u JOIN player_saves h USING (player_id)
        LEFT JOIN save_version v ON v.player_id = u.player_id AND v.slot = u.slot AND v.version = u.top
        """,
    ),
    ConsistencyCheck(
        "a change later than the last one of its player",
        "SELECT s.player_id, s.slot FROM save s JOIN player_saves h USING (player_id) WHERE s.seq > h.seq",
        """
        UPDATE player_saves AS h SET seq = (SELECT max(seq) FROM save s WHERE s.player_id = h.player_id)
        WHERE seq < (SELECT max(seq) FROM save s WHERE s.player_id = h.player_id)
        """,
    ),
    ConsistencyCheck(
        "a save whose current version is not there",
        """
        SELECT s.player_id, s.slot, s.current_version FROM save s
        LEFT JOIN save_version v ON v.player_id = s.player_id AND v.slot = s.slot AND v.version = s.current_version
        WHERE s.current_version IS NOT NULL AND (v.kind NOT IN ('write', 'restore') OR v.kind IS NULL)
        """,
    ),
    ConsistencyCheck(
        "a save whose last version number is too low",
        """
        SELECT player_id, slot, last_version FROM save s
        WHERE last_version < (
            SELECT max(version) FROM save_version v WHERE v.player_id = s.player_id AND v.slot = s.slot
        )
        """,
        """
        UPDATE save AS s SET last_version = (
            SELECT max(version) FROM save_version v WHERE v.player_id = s.player_id AND v.slot = s.slot
        )
        WHERE last_version < (
            SELECT max(version) FROM save_version v WHERE v.player_id = s.player_id AND v.slot = s.slot
        )
        """,
    ),
    ConsistencyCheck(
        "an old version without the time it was replaced",
        """
        SELECT v.player_id, v.slot, v.version FROM save_version v JOIN save s USING (player_id, slot)
        WHERE v.kind IN ('write', 'restore', 'conflict') AND v.retired_ms IS NULL
          AND v.version IS DISTINCT FROM s.current_version
        """,
        """
        UPDATE save_version AS v SET retired_ms = created_ms
        WHERE kind IN ('write', 'restore', 'conflict') AND retired_ms IS NULL AND version IS DISTINCT FROM (
            SELECT current_version FROM save s WHERE s.player_id = v.player_id AND s.slot = v.slot
        )
        """,
    ),
    ConsistencyCheck(
        "a version whose bytes are recorded as others",
        """
        SELECT v.player_id, v.slot, v.version FROM save_version v LEFT JOIN blob b USING (blob_id)
        WHERE v.kind != 'delete' AND (
            b.sha256 IS DISTINCT FROM v.sha256 OR b.size IS DISTINCT FROM v.size
            OR b.player_id != v.player_id AND NOT EXISTS (
                SELECT 1 FROM save s WHERE s.player_id = v.player_id AND s.slot = v.slot
                    AND s.current_version IS NULL AND s.deleted_ms IS NULL
            )
        )
        """,
    ),
    ConsistencyCheck(
        "bytes with a wrong count of references",
        REFERENCED,
        f"UPDATE blob SET refs = r.refs_now FROM ({REFERENCED}) r WHERE r.blob_id = blob.blob_id",
    ),
    ConsistencyCheck(
        "a player's usage that is counted wrong",
        f"SELECT player_id FROM ({COUNTED}) AS counted WHERE {OFF}",
        f"""
        UPDATE player_saves SET slots = c.slots_now, live_bytes = c.live_now, kept_bytes = c.kept_now,
            deleted_slots = c.deleted_now
        FROM (SELECT * FROM ({COUNTED}) AS counted WHERE {OFF}) AS c WHERE c.player_id = player_saves.player_id
        """,
    ),
)


def find_errors(connection: Connection, check: ConsistencyCheck) -> list[str]:
    return [f"{check.description}: {' '.join(map(str, row))}" for row in connection.execute(check.query)]


def repair(connection: Connection, epoch: str) -> int:
    """Run all repairs; return the number of repaired rows. `epoch` is for players who have none."""
    values = {"epoch": epoch}
    return sum(connection.execute(check.repair, values).rowcount for check in CHECKS if check.repair)


def blobs_after(connection: Connection, blob_id: int) -> list[int]:
    """Return the ids of the next finished blobs."""
    query = "SELECT blob_id FROM blob WHERE blob_id > :blob_id AND sha256 IS NOT NULL ORDER BY blob_id LIMIT :some"
    return [found for (found,) in connection.execute(query, {"blob_id": blob_id, "some": BLOBS})]


def count_blobs(connection: Connection) -> int:
    """Return the number of finished blobs."""
    ((blobs,),) = connection.execute("SELECT count(*) FROM blob WHERE sha256 IS NOT NULL").fetchall()
    return int(blobs)


def users_of(connection: Connection, blob_id: int) -> list[str]:
    """Return the versions whose bytes are in the blob, as text."""
    query = """
        SELECT v.player_id, v.slot, v.version FROM blob b JOIN save_version v USING (player_id, blob_id)
        WHERE b.blob_id = :blob_id ORDER BY 1, 2, 3
    """
    return [" ".join(map(str, row)) for row in connection.execute(query, {"blob_id": blob_id})]


class Totals(Struct, frozen=True):
    """The totals of state.db in bytes; `free_bytes` are what the next writes use first, None if that is not known."""

    players_with_saves: int
    """The number of players with saves or a history; a player who never saved is not in state.db."""
    saves: int
    current_bytes: int
    history_bytes: int
    file_bytes: int
    free_bytes: int | None
    unreferenced_blobs: int
    largest: list[tuple[str, int]]
    """The players with the most bytes, and their bytes."""


def state_totals(connection: Connection, file_bytes: int, free_bytes: int | None, most: int = 5) -> Totals:
    """Add up the totals of all players, beside the size of the file and of its free part."""
    query = """
        SELECT count(*) FILTER (WHERE slots > 0 OR live_bytes + kept_bytes > 0),
            sum(slots), sum(live_bytes), sum(kept_bytes)
        FROM player_saves
    """
    ((players, saves, live, kept),) = connection.execute(query).fetchall()
    ((unreferenced,),) = connection.execute("SELECT count(*) FROM blob WHERE refs = 0").fetchall()
    query = """
        SELECT player_id, live_bytes + kept_bytes FROM player_saves
        WHERE live_bytes + kept_bytes > 0 ORDER BY 2 DESC, 1 LIMIT :most
    """
    largest = connection.execute(query, {"most": most}).fetchall()
    return Totals(players, saves or 0, live or 0, kept or 0, file_bytes, free_bytes, unreferenced, largest)
