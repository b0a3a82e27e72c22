"""The `blob` and `blob_part` tables as deciding units use them; larger bodies are appended by the blob lane before.

`refs` counts the versions that have their bytes here. A blob that can be found and has none is staged: until
`created_ms` is a while ago it waits for a commit (PROTOCOL 4.4).
"""

from sqlite3 import Connection

from gamed.saves.limits import KIB
from gamed.storage import parts

ROW_BYTES = 16 * KIB
"""A blob up to here lies in its own row; that row is written anew with every change of its references."""
_INSERT = """
    INSERT INTO blob (player_id, sha256, size, refs, created_ms, data) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (player_id, sha256) DO NOTHING
"""
_INSERT_PART = "INSERT INTO blob_part (blob_id, n, data) VALUES (?, 0, ?)"


def find(connection: Connection, player_id: str, sha256: bytes) -> int | None:
    """The player's blob of these bytes."""
    query = "SELECT blob_id FROM blob WHERE player_id = :player_id AND sha256 = :sha256"
    row = connection.execute(query, {"player_id": player_id, "sha256": sha256}).fetchone()
    return None if row is None else int(row[0])


def load(connection: Connection, blob_id: int) -> bytes:
    """The bytes of a small blob, unchecked."""
    return b"".join(parts.read_all(connection, blob_id))


def insert(
    connection: Connection, player_id: str, sha256: bytes | None, data: bytes, *, refs: int, now_ms: int
) -> int | None:
    """A small blob with so many references; None when the player has one of these bytes already.

    Without its hash it is like one that the blob lane appended.
    """
    in_row = len(data) <= ROW_BYTES
    values = player_id, sha256, len(data), refs, 0 if refs else now_ms, data if in_row else None
    inserted = connection.execute(_INSERT, values)
    if not inserted.rowcount or inserted.lastrowid is None:
        return None
    if not in_row:
        connection.execute(_INSERT_PART, (inserted.lastrowid, data))
    return inserted.lastrowid


def is_loose(connection: Connection, player_id: str, blob_id: int, size: int) -> bool:
    """Whether a blob was appended by this player, in this size, and nobody took it up yet."""
    query = """
        SELECT 1 FROM blob
        WHERE blob_id = :blob_id AND player_id = :player_id AND size = :size AND sha256 IS NULL AND refs = 0
    """
    return connection.execute(query, {"blob_id": blob_id, "player_id": player_id, "size": size}).fetchone() is not None


def adopt(connection: Connection, blob_id: int, sha256: bytes) -> None:
    """Make a loose blob one that can be found."""
    query = "UPDATE blob SET sha256 = :sha256 WHERE blob_id = :blob_id"
    connection.execute(query, {"blob_id": blob_id, "sha256": sha256})


def disown(connection: Connection, blob_id: int) -> None:
    """Its bytes are not what they should be: nothing finds it any more, and the sweep takes it."""
    query = "UPDATE blob SET sha256 = NULL, refs = 0 WHERE blob_id = :blob_id"
    connection.execute(query, {"blob_id": blob_id})


def refer(connection: Connection, blob_id: int, by: int) -> None:
    """So many versions more, or fewer, have their bytes here; once there is none left the sweep takes them."""
    query = """
        UPDATE blob SET refs = refs + :by, created_ms = iif(:by > 0, 0, created_ms) WHERE blob_id = :blob_id
    """
    connection.execute(query, {"blob_id": blob_id, "by": by})


def stage(connection: Connection, blob_id: int, now_ms: int) -> None:
    """It waits for a commit from now on, also when a version has had it before."""
    query = "UPDATE blob SET created_ms = :now_ms WHERE blob_id = :blob_id"
    connection.execute(query, {"blob_id": blob_id, "now_ms": now_ms})


def size_of(connection: Connection, blob_id: int) -> int:
    """Bytes of a blob that is there."""
    query = "SELECT size FROM blob WHERE blob_id = :blob_id"
    return int(connection.execute(query, {"blob_id": blob_id}).fetchone()[0])


def staged_bytes(connection: Connection, player_id: str, after_ms: int) -> int:
    """What waits for a commit of the player, staged later than `after_ms`."""
    query = """
        SELECT coalesce(sum(size), 0) FROM blob
        WHERE player_id = :player_id AND refs = 0 AND sha256 NOT NULL AND created_ms > :after_ms
    """
    return int(connection.execute(query, {"player_id": player_id, "after_ms": after_ms}).fetchone()[0])
