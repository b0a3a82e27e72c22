"""SQL of the bytes of saves: the tables `blob` and `blob_part`, and the versions that use them.

The blob store appends larger bytes before the write. `blob.refs` counts the versions with these bytes. A blob with a
hash and no references is staged: it waits for a commit until it is too old by its `created_ms`
(docs/protocol.md: Commits).
"""

from collections.abc import Collection

from gamed.database import blob_rows
from gamed.database.connection import Connection
from gamed.saves.model import SaveContent

ROW_BYTES = 16 * 1024
"""The largest blob that is in its row of `blob`; SQLite writes the whole row at each change of its references."""
SEARCHED_VERSIONS = 2000
"""How many versions of a player are searched for small bytes, beside the current ones: 1 ms of the write queue.

A history of 512 MiB can have 200,000 versions. A client that names bytes of one that is not searched has to stage them.
"""
ALL = 10**9
"""A LIMIT that is never reached: without one, SQLite begins this join with all versions of the player."""
SHARING_VERSIONS = 8
"""How many of a slot's newest versions may share their small bytes with a new one: a history can have thousands."""
_STAGED = "SELECT blob_id FROM blob WHERE player_id = :player_id AND sha256 = :sha256 AND refs = 0"
# `data IS NULL` matches the partial index blob_lookup: small blobs are not in it, each write would change a page of it.
_FIND_BLOB = f"""
    {_STAGED}
    UNION ALL SELECT blob_id FROM blob WHERE player_id = :player_id AND sha256 = :sha256 AND data IS NULL LIMIT 1
"""
_FIND_SMALL = f"""
    {_STAGED}
    UNION ALL SELECT blob_id FROM (
        SELECT blob_id, sha256 FROM save_version WHERE player_id = :player_id AND slot = :slot
        ORDER BY version DESC LIMIT {SHARING_VERSIONS}
    ) AS newest WHERE sha256 = :sha256
    LIMIT 1
"""
_SEARCHED = f"""
    (
        SELECT sha256, blob_id FROM (
            SELECT v.sha256, v.blob_id FROM save s
            LEFT JOIN save_version v ON v.player_id = s.player_id AND v.slot = s.slot AND v.version = s.current_version
            WHERE s.player_id = ? LIMIT {ALL}
        ) AS current
        UNION ALL SELECT sha256, blob_id FROM (
            SELECT sha256, blob_id FROM save_version WHERE player_id = ?
            ORDER BY slot, version LIMIT {SEARCHED_VERSIONS}
        ) AS others
    ) AS searched
"""
_INSERT_BLOB = f"""
    INSERT INTO blob (blob_id, player_id, sha256, size, refs, created_ms, data)
    VALUES ({blob_rows.NEXT_ID}, ?, ?, ?, ?, ?, ?) RETURNING blob_id
"""
_INSERT_PART = "INSERT INTO blob_part (blob_id, n, data) VALUES (?, 0, ?)"


def find_blobs(connection: Connection, player_id: str, digests: Collection[bytes]) -> dict[bytes, int]:
    """Return the player's blobs of these bytes by their hash, as far as they exist: staged, or part of a save.

    For small bytes that are not staged, this reads the current versions of the player and SEARCHED_VERSIONS others.
    """
    found: dict[bytes, int] = {}
    for sha256 in digests:
        row = connection.execute(_FIND_BLOB, {"player_id": player_id, "sha256": sha256}).fetchone()
        if row is not None:
            found[sha256] = row[0]
    if others := [sha256 for sha256 in digests if sha256 not in found]:
        marks = ", ".join("?" * len(others))
        query = f"SELECT sha256, min(blob_id) FROM {_SEARCHED} WHERE sha256 IN ({marks}) GROUP BY sha256"
        found.update(connection.execute(query, (player_id, player_id, *others)))
    return found


def find_blob_to_share(connection: Connection, player_id: str, slot: str, content: SaveContent) -> int | None:
    """Return a blob of these bytes that a new version of this slot can share, a staged one or one of a version.

    Small bytes are searched only in the slot's newest versions, whose page the write changes anyway: an index of small
    blobs would cost each write a page.
    """
    query = _FIND_SMALL if content.size <= ROW_BYTES else _FIND_BLOB
    row = connection.execute(query, {"player_id": player_id, "slot": slot, "sha256": content.sha256}).fetchone()
    return None if row is None else int(row[0])


def load_blob(connection: Connection, blob_id: int) -> bytes:
    """Return the bytes of a small blob, unchecked."""
    return b"".join(blob_rows.read_all(connection, blob_id))


def insert_blob(
    connection: Connection, player_id: str, sha256: bytes | None, data: bytes, *, refs: int, now_ms: int
) -> int:
    """Insert a small blob, of which the player has none with these bytes, and return its blob_id.

    Without a hash it is like one that the blob store appended.
    """
    in_row = len(data) <= ROW_BYTES
    values = player_id, sha256, len(data), refs, 0 if refs else now_ms, data if in_row else None
    [(blob_id,)] = connection.execute(_INSERT_BLOB, values).fetchall()
    if not in_row:
        connection.execute(_INSERT_PART, (blob_id, data))
    return int(blob_id)


def is_unclaimed(connection: Connection, player_id: str, blob_id: int, size: int) -> bool:
    """Check whether the blob was appended by this player, with this size, and is not used yet."""
    query = """
        SELECT 1 FROM blob
        WHERE blob_id = :blob_id AND player_id = :player_id AND size = :size AND sha256 IS NULL AND refs = 0
    """
    return connection.execute(query, {"blob_id": blob_id, "player_id": player_id, "size": size}).fetchone() is not None


def publish(connection: Connection, blob_id: int, sha256: bytes) -> None:
    """Give an appended blob its hash, so that queries find it."""
    query = "UPDATE blob SET sha256 = :sha256 WHERE blob_id = :blob_id"
    connection.execute(query, {"blob_id": blob_id, "sha256": sha256})


def unpublish(connection: Connection, blob_id: int) -> None:
    """Delete the hash and the references of a damaged blob; cleanup deletes it."""
    query = "UPDATE blob SET sha256 = NULL, refs = 0 WHERE blob_id = :blob_id"
    connection.execute(query, {"blob_id": blob_id})


def add_references(connection: Connection, blob_id: int, by: int) -> None:
    """Count `by` references more."""
    query = "UPDATE blob SET refs = refs + :by, created_ms = 0 WHERE blob_id = :blob_id"
    connection.execute(query, {"blob_id": blob_id, "by": by})


_DELETE_SMALL = "DELETE FROM blob WHERE blob_id = ? AND refs = 1 AND created_ms = 0 AND data IS NOT NULL"
_REMOVE_REFERENCE = "UPDATE blob SET refs = refs - 1 WHERE blob_id = ?"


def remove_reference(connection: Connection, blob_id: int) -> None:
    """Count one reference less; delete a small blob with its last one, unless it waits for a commit.

    Cleanup deletes the others. A small blob would cost it two transactions more, and each several pages.
    """
    # The condition is in the DELETE: a SELECT before it would be one more for each version that is deleted.
    if not connection.execute(_DELETE_SMALL, (blob_id,)).rowcount:
        connection.execute(_REMOVE_REFERENCE, (blob_id,))


def remove_references_of(connection: Connection, player_id: str, slots: Collection[str]) -> None:
    """Count the references of all versions of some slots less, as remove_reference() does that of one."""
    marks = ", ".join("?" * len(slots))
    # A small blob whose only references are these is deleted at once, as by remove_reference(); the rest count less.
    used = f"""
        SELECT blob_id, count(*) AS times FROM save_version
        WHERE player_id = ? AND slot IN ({marks}) AND blob_id IS NOT NULL GROUP BY blob_id
    """
    delete = f"DELETE FROM blob WHERE (blob_id, refs) IN ({used}) AND created_ms = 0 AND data IS NOT NULL"
    reduce = f"UPDATE blob SET refs = refs - times FROM ({used}) AS used WHERE used.blob_id = blob.blob_id"
    for query in (delete, reduce):
        connection.execute(query, (player_id, *slots))


def stage_blob(connection: Connection, blob_id: int, now_ms: int) -> None:
    """Begin the blob's wait for a commit now, even if a version used it before."""
    query = "UPDATE blob SET created_ms = :now_ms WHERE blob_id = :blob_id"
    connection.execute(query, {"blob_id": blob_id, "now_ms": now_ms})


def is_staged(connection: Connection, blob_id: int) -> bool:
    """Check whether the blob waits for a commit, with or without a version that has its bytes, too."""
    query = "SELECT created_ms FROM blob WHERE blob_id = :blob_id"
    return bool(connection.execute(query, {"blob_id": blob_id}).fetchone()[0])


def staged_size(connection: Connection, blob_id: int) -> int:
    query = "SELECT size FROM blob WHERE blob_id = :blob_id"
    return int(connection.execute(query, {"blob_id": blob_id}).fetchone()[0])


def staged_bytes(connection: Connection, player_id: str, after_ms: int) -> tuple[int, int]:
    """Return number and bytes of the bodies that wait for a commit of the player, staged later than `after_ms`."""
    query = """
        SELECT count(*), coalesce(sum(size), 0) FROM blob
        WHERE player_id = :player_id AND refs = 0 AND sha256 IS NOT NULL AND created_ms > :after_ms
    """
    ((count, size),) = connection.execute(query, {"player_id": player_id, "after_ms": after_ms}).fetchall()
    return int(count), int(size)
