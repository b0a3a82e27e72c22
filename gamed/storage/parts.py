"""Rows of `blob` and `blob_part`: units of the blob lane (PROTOCOL 4). It makes parts; small blobs come without."""

import sqlite3
from collections.abc import Collection, Iterator
from errno import EDQUOT, EIO, ENOSPC
from hashlib import sha256
from os import SEEK_END
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, BinaryIO

from gamed.storage.errors import of_disk
from gamed.store import BlobCorrupt, BlobGone

PART_BYTES = 256 * 1024
STEP_PARTS = 4
STEP_BYTES = STEP_PARTS * PART_BYTES
"""Appended or removed in one transaction: where SQLite overwrites what it deletes, both write as much."""
DAMAGED = "The stored bytes are damaged."
GONE = "These bytes are no longer kept."
_IN_ROW = "SELECT data FROM blob WHERE blob_id = ? AND data NOT NULL"
_IN_PARTS = "SELECT data FROM blob_part WHERE blob_id = ? ORDER BY n"


def size_of(spool: BinaryIO) -> int:
    return spool.seek(0, SEEK_END)


def count(size: int) -> int:
    """How many parts hold this many bytes."""
    return -(-size // PART_BYTES)


def begin(connection: sqlite3.Connection, player_id: str, size: int, now_ms: int) -> int:
    """A blob without parts, hash or references; -> blob_id."""
    cursor = connection.execute(
        "INSERT INTO blob (player_id, sha256, size, refs, created_ms) VALUES (:player_id, NULL, :size, 0, :now_ms)",
        {"player_id": player_id, "size": size, "now_ms": now_ms},
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def append(connection: sqlite3.Connection, blob_id: int, spool: BinaryIO, first: int) -> None:
    """The spool's parts `first` and up to three more."""
    spool.seek(first * PART_BYTES)
    for n in range(first, first + STEP_PARTS):
        data = spool.read(PART_BYTES)
        if not data:
            return
        insert(connection, blob_id, n, data)


def insert(connection: sqlite3.Connection, blob_id: int, n: int, data: bytes) -> None:
    connection.execute(
        "INSERT INTO blob_part (blob_id, n, data) VALUES (:blob_id, :n, :data)",
        {"blob_id": blob_id, "n": n, "data": data},
    )


def check(connection: sqlite3.Connection, blob_id: int) -> None:
    """BlobGone or BlobCorrupt, unless the blob is there and gives the stored hash."""
    wanted, digest, size = _finished(connection, blob_id), sha256(), 0
    for data in read_all(connection, blob_id):
        digest.update(data)
        size += len(data)
    if (digest.digest(), size) != wanted:
        raise BlobCorrupt(DAMAGED)


def check_each(connection: sqlite3.Connection, blob_id: int) -> list[bytes]:
    """The SHA-256 of each part, after all of them together gave the stored hash: each can then be read alone."""
    wanted, whole, size, digests = _finished(connection, blob_id), sha256(), 0, []
    for data in read_all(connection, blob_id):
        whole.update(data)
        size += len(data)
        digests.append(sha256(data).digest())
    if (whole.digest(), size) != wanted:
        raise BlobCorrupt(DAMAGED)
    return digests


def read_one(connection: sqlite3.Connection, blob_id: int, n: int, digest: bytes) -> bytes:
    """Part `n`, if it is still what it was."""
    data = read_raw(connection, blob_id, n)
    if data is None:
        raise BlobGone(GONE)
    if sha256(data).digest() != digest:
        raise BlobCorrupt(DAMAGED)
    return data


def read_raw(connection: sqlite3.Connection, blob_id: int, n: int) -> bytes | None:
    """Part `n` as it is."""
    query = """
        SELECT data FROM blob WHERE blob_id = :blob_id AND data NOT NULL AND :n = 0
        UNION ALL SELECT data FROM blob_part WHERE blob_id = :blob_id AND n = :n
    """
    row = connection.execute(query, {"blob_id": blob_id, "n": n}).fetchone()
    return None if row is None else bytes(row[0])


def copy_out(connection: sqlite3.Connection, blob_id: int, folder: Path) -> IO[bytes]:
    """The blob in an unlinked file under `folder`, at its start, after its bytes gave the stored hash."""
    row = _finished(connection, blob_id)
    try:
        copy = TemporaryFile(dir=folder)  # noqa: SIM115  the caller closes it
        try:
            if _copy(connection, blob_id, copy) != row:
                raise BlobCorrupt(DAMAGED)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
    except OSError as e:
        if e.errno in (EDQUOT, EIO, ENOSPC):
            raise of_disk(e) from e
        raise
    return copy


def _copy(connection: sqlite3.Connection, blob_id: int, copy: IO[bytes]) -> tuple[bytes, int]:
    """-> sha256 and size of what the parts hold."""
    digest, size = sha256(), 0
    for data in read_all(connection, blob_id):
        digest.update(data)
        size += copy.write(data)
    copy.flush()
    return digest.digest(), size


def _finished(connection: sqlite3.Connection, blob_id: int) -> tuple[bytes, int]:
    """-> sha256 and size as they were stored."""
    query = "SELECT sha256, size FROM blob WHERE blob_id = :blob_id AND sha256 IS NOT NULL"
    row: tuple[bytes, int] | None = connection.execute(query, {"blob_id": blob_id}).fetchone()
    if row is None:
        raise BlobGone(GONE)
    return row


def read_all(connection: sqlite3.Connection, blob_id: int) -> Iterator[bytes]:
    """Part by part, as they are; of a small blob, the bytes in its own row."""
    for query in (_IN_ROW, _IN_PARTS):
        for (data,) in connection.execute(query, (blob_id,)):
            yield data


def condemn(
    connection: sqlite3.Connection, torn_ms: int, staged_ms: int, spared: Collection[int] = frozenset()
) -> int | None:
    """The oldest blob that nothing refers to and whose time is over, none of those `spared`: hidden in the same
    transaction, so that nobody takes it up or stages it anew before its parts are gone.

    Over is what was never finished and came before `torn_ms`, or was finished and came before `staged_ms`.
    """
    query = """
        SELECT blob_id FROM blob INDEXED BY blob_unreferenced
        WHERE refs = 0 AND created_ms < :later_ms AND created_ms < iif(sha256 IS NULL, :torn_ms, :staged_ms)
        ORDER BY created_ms LIMIT :some
    """
    bounds = {"torn_ms": torn_ms, "staged_ms": staged_ms, "later_ms": max(torn_ms, staged_ms)}
    rows = connection.execute(query, {**bounds, "some": len(spared) + 1}).fetchall()
    found = next((int(blob_id) for (blob_id,) in rows if blob_id not in spared), None)
    if found is not None:
        hide(connection, found)
    return found


def hide(connection: sqlite3.Connection, blob_id: int) -> None:
    """An unreferenced blob that somebody still reads: found by nobody else, and swept at the next turn."""
    query = "UPDATE blob SET sha256 = NULL, created_ms = 0 WHERE blob_id = :blob_id AND refs = 0"
    connection.execute(query, {"blob_id": blob_id})


def remove_some(connection: sqlite3.Connection, blob_id: int) -> bool:
    """Delete up to STEP_PARTS parts of an unreferenced blob, at the end the blob itself; True while more is left.

    The hash goes first: a blob with missing parts must not be found by it.
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
