"""The rows of blobs are read, written and deleted in transactions of a few parts each.

gamed.database.blobs runs them for the service, commands run them themselves.
"""

from collections.abc import Callable, Collection, Container, Iterator
from errno import EDQUOT, EIO, ENOSPC
from hashlib import sha256
from itertools import count as numbers
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, BinaryIO

from gamed.database.connection import Connection
from gamed.database.errors import BlobCorrupt, BlobNotFound, of_disk

PART_BYTES = 256 * 1024
STEP_PARTS = 4
STEP_BYTES = STEP_PARTS * PART_BYTES
"""Appended or deleted in one transaction: SQLite overwrites what it deletes, so that both write as much."""
NEXT_ID = """
    (SELECT max(n) + 1 FROM (SELECT max(blob_id) AS n FROM blob UNION ALL SELECT highest FROM deleted_blob) AS known)
"""
"""The blob_id of a new blob, in SQL: no blob ever had it."""


def begin(connection: Connection, player_id: str, size: int, now_ms: int) -> int:
    """Insert a blob without parts, hash or references; return its blob_id."""
    query = f"""
        INSERT INTO blob (blob_id, player_id, sha256, size, refs, created_ms)
        VALUES ({NEXT_ID}, :player_id, NULL, :size, 0, :now_ms) RETURNING blob_id
    """
    values = {"player_id": player_id, "size": size, "now_ms": now_ms}
    [(blob_id,)] = connection.execute(query, values).fetchall()
    return int(blob_id)


def append(connection: Connection, blob_id: int, spool: BinaryIO, first: int) -> None:
    """Insert part `first` of the spool and up to three more."""
    spool.seek(first * PART_BYTES)
    for n in range(first, first + STEP_PARTS):
        data = spool.read(PART_BYTES)
        if not data:
            return
        insert(connection, blob_id, n, data)


def insert(connection: Connection, blob_id: int, n: int, data: bytes) -> None:
    """Insert one part."""
    connection.execute(
        "INSERT INTO blob_part (blob_id, n, data) VALUES (:blob_id, :n, :data)",
        {"blob_id": blob_id, "n": n, "data": data},
    )


def count(size: int) -> int:
    """Return how many parts hold this many bytes."""
    return -(-size // PART_BYTES)


def check(connection: Connection, blob_id: int) -> None:
    """Raise BlobNotFound or BlobCorrupt unless the blob exists and has the stored hash."""
    _check_parts(connection, blob_id, _size_and_hash(connection, blob_id), lambda data: None)


def hash_parts(connection: Connection, blob_id: int) -> list[bytes]:
    """Check the whole blob and return the SHA-256 of each part, with which it can be checked alone."""
    digests: list[bytes] = []
    stored = _size_and_hash(connection, blob_id)
    _check_parts(connection, blob_id, stored, lambda data: digests.append(sha256(data).digest()))
    return digests


def read_some(connection: Connection, blob_id: int, wanted: Container[int]) -> dict[int, bytes]:
    """Check the whole blob and return the wanted parts: another process may delete them after this transaction."""
    parts: dict[int, bytes] = {}
    stored, n = _size_and_hash(connection, blob_id), numbers(0)

    def use(data: bytes) -> None:
        if (number := next(n)) in wanted:
            parts[number] = bytes(data)

    _check_parts(connection, blob_id, stored, use)
    return parts


def copy_out(connection: Connection, blob_id: int, folder: Path) -> IO[bytes]:
    """Check the blob and copy it into an unlinked file under `folder`; return the file at its start."""
    stored = _size_and_hash(connection, blob_id)
    try:
        copy = TemporaryFile(dir=folder)  # noqa: SIM115  the caller closes it
        try:
            _check_parts(connection, blob_id, stored, copy.write)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
    except OSError as e:
        if e.errno in (EDQUOT, EIO, ENOSPC):
            raise of_disk(e) from e
        raise
    return copy


def _size_and_hash(connection: Connection, blob_id: int) -> tuple[int, bytes]:
    """Return the stored size and SHA-256 of a finished blob; raise BlobNotFound."""
    query = "SELECT size, sha256 FROM blob WHERE blob_id = :blob_id AND sha256 IS NOT NULL"
    stored: tuple[int, bytes] | None = connection.execute(query, {"blob_id": blob_id}).fetchone()
    if stored is None:
        raise BlobNotFound("These bytes are no longer kept.")
    return stored


def _check_parts(
    connection: Connection, blob_id: int, stored: tuple[int, bytes], use: Callable[[bytes], object]
) -> None:
    """Call `use` with each part; then raise BlobCorrupt unless all together have the stored size and hash."""
    digest, size = sha256(), 0
    for data in read_all(connection, blob_id):
        digest.update(data)
        size += len(data)
        use(data)
    if (size, digest.digest()) != stored:
        raise BlobCorrupt("The stored bytes are damaged.")


def read_part(connection: Connection, blob_id: int, n: int, digest: bytes) -> bytes:
    """Return part `n`; raise BlobCorrupt if it does not have this hash."""
    query = """
        SELECT data FROM blob WHERE blob_id = :blob_id AND data IS NOT NULL AND :n = 0
        UNION ALL SELECT data FROM blob_part WHERE blob_id = :blob_id AND n = :n
    """
    row = connection.execute(query, {"blob_id": blob_id, "n": n}).fetchone()
    if row is None:
        raise BlobNotFound("These bytes are no longer kept.")
    data = bytes(row[0])
    if sha256(data).digest() != digest:
        raise BlobCorrupt("The stored bytes are damaged.")
    return data


def read_all(connection: Connection, blob_id: int) -> Iterator[bytes]:
    """Yield the parts as they are stored, one query for each; of a small blob, the bytes in its own row."""
    row = connection.execute("SELECT data FROM blob WHERE blob_id = ? AND data IS NOT NULL", (blob_id,)).fetchone()
    for n in numbers(0):
        if row is not None:
            yield row[0]
        row = connection.execute("SELECT data FROM blob_part WHERE blob_id = ? AND n = ?", (blob_id, n)).fetchone()
        if row is None:
            return


def claim_unreferenced(
    connection: Connection, unfinished_ms: int, staged_ms: int, spared: Collection[int] = frozenset()
) -> int | None:
    """Find the oldest expired blob without references that is not `spared`, and mark it as deleted.

    A blob has expired if it was never finished and is older than `unfinished_ms`, or if it was finished and is older
    than `staged_ms`. The mark keeps other transactions from using or staging it until its parts are deleted.
    """
    query = """
        SELECT blob_id FROM blob
        WHERE refs = 0 AND created_ms < :later_ms
          AND (sha256 IS NULL AND created_ms < :unfinished_ms OR sha256 IS NOT NULL AND created_ms < :staged_ms)
        ORDER BY created_ms LIMIT :some
    """
    bounds = {"unfinished_ms": unfinished_ms, "staged_ms": staged_ms, "later_ms": max(unfinished_ms, staged_ms)}
    rows = connection.execute(query, {**bounds, "some": len(spared) + 1}).fetchall()
    found = next((int(blob_id) for (blob_id,) in rows if blob_id not in spared), None)
    if found is not None:
        mark_deleted(connection, found)
    return found


def mark_deleted(connection: Connection, blob_id: int) -> None:
    """Hide an unreferenced blob from all queries but those of its readers; the next cleanup deletes it."""
    query = "UPDATE blob SET sha256 = NULL, created_ms = 0 WHERE blob_id = :blob_id AND refs = 0"
    connection.execute(query, {"blob_id": blob_id})


def delete_parts(connection: Connection, blob_id: int) -> bool:
    """Delete up to STEP_PARTS parts of an unreferenced blob, then the blob itself; return whether parts are left.

    The hash is deleted first: no query may find a blob with missing parts by its hash.
    """
    key = {"blob_id": blob_id, "parts": STEP_PARTS}
    found = connection.execute("UPDATE blob SET sha256 = NULL WHERE blob_id = :blob_id AND refs = 0", key).rowcount
    if not found:
        return False
    removed = connection.execute(
        "DELETE FROM blob_part WHERE blob_id = :blob_id AND n IN"
        " (SELECT n FROM blob_part WHERE blob_id = :blob_id ORDER BY n DESC LIMIT :parts)",
        key,
    ).rowcount
    if removed < STEP_PARTS:
        connection.execute("DELETE FROM blob WHERE blob_id = :blob_id", key)
    return removed == STEP_PARTS
