"""Rows of `blob` and `blob_part`: units of the blob queue (PROTOCOL 4). It makes parts; small blobs come without.

The blob queue: bytes too large to ride a group commit, in parts, beside it (PROTOCOL 4).

A blob begins without a hash and without references: nothing finds it until a deciding unit on the write queue of
state.db gives it both. What nobody took up within a day is swept; what a player staged, after the time it was given.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from errno import EDQUOT, EIO, ENOSPC
from functools import partial
from hashlib import sha256
from os import SEEK_END
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO, TypeVar

from msgspec import Struct
from twisted.internet.defer import Deferred, fail, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database import group_commit
from gamed.database.connection import DatabaseFile
from gamed.database.error_mapping import new_error, of_disk
from gamed.database.errors import BlobCorrupt, BlobNotFound, DatabaseBusy, DatabaseUnavailable
from gamed.database.queues import DatabaseQueue, Transaction, write_batch
from gamed.database.thread import DatabaseThread
from gamed.event_log import EventLog
from gamed.timestamps import Now

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
    """BlobNotFound or BlobCorrupt, unless the blob is there and gives the stored hash."""
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
        raise BlobNotFound(GONE)
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
        raise BlobNotFound(GONE)
    return row


def read_all(connection: sqlite3.Connection, blob_id: int) -> Iterator[bytes]:
    """Part by part, as they are; of a small blob, the bytes in its own row."""
    for query in (_IN_ROW, _IN_PARTS):
        for (data,) in connection.execute(query, (blob_id,)):
            yield data


def claim_unreferenced(
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
        mark_parts_deleted(connection, found)
    return found


def mark_parts_deleted(connection: sqlite3.Connection, blob_id: int) -> None:
    """An unreferenced blob that somebody still reads: found by nobody else, and swept at the next turn."""
    query = "UPDATE blob SET sha256 = NULL, created_ms = 0 WHERE blob_id = :blob_id AND refs = 0"
    connection.execute(query, {"blob_id": blob_id})


def delete_parts(connection: sqlite3.Connection, blob_id: int) -> bool:
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


T = TypeVar("T")

KEPT_MS = 24 * 3600 * 1000
_log = EventLog(Logger())


class _SerialQueue(DatabaseQueue):
    """One unit per hop, outside any transaction: each opens and ends its own."""

    batch_items = 1
    name = "blobs"

    def __init__(self, worker: DatabaseThread, file: DatabaseFile) -> None:
        super().__init__(worker)
        self._file = file

    def _work(self, connection: sqlite3.Connection, units: Sequence[Transaction[Any]]) -> list[group_commit.Outcome]:
        return self._explained([unit(connection) for unit in units])

    def _note(self, outcomes: Sequence[group_commit.Outcome]) -> None:
        if any(map(group_commit.corruption_in, outcomes)):
            self._file.mark_damaged()


class PinnedBlobReader(Struct, eq=False):
    """A blob read part by part from the database, where no disk is left to copy it to; closed by its reader.

    While it is open the blob is not removed.
    """

    _lane: "BlobStore"
    _blob_id: int
    _digests: Sequence[bytes]
    part_bytes: int = PART_BYTES
    _closed: bool = False

    def part(self, n: int) -> Deferred[bytes]:
        """The n-th part, hashed again; BlobNotFound or BlobCorrupt."""
        unit = partial(read_one, blob_id=self._blob_id, n=n, digest=self._digests[n])
        return self._lane.queue.submit(partial(_snapshot, unit=unit))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._lane.unpin(self._blob_id)


class BlobStore:
    """Appends, copies out and removes blobs; every step is a turn of its own, so none keeps the others long."""

    def __init__(
        self,
        worker: DatabaseThread,
        file: DatabaseFile,
        folder: Path,
        now_ms: Now,
        wrote: Callable[[DatabaseFile, int], None],
        *,
        staged_ms: int = KEPT_MS,
    ) -> None:
        self._worker = worker
        self.queue = _SerialQueue(worker, file)
        self._file = file
        self._folder = folder
        self._now_ms = now_ms
        self._wrote = wrote
        self._staged_ms = staged_ms
        self._underway: set[Deferred[None]] = set()
        self._draining = False
        self._pinned: Counter[int] = Counter()

    def append(self, player_id: str, spool: BinaryIO) -> Deferred[int]:
        """Store the whole spool as a new blob; -> blob_id, with `sha256` NULL and `refs` 0.

        The spool must stay open and unread until this fires. If it fails or is cancelled, nothing stays.
        """
        return self._start(self._append(player_id, spool))

    def fetch(self, blob_id: int) -> Deferred[IO[bytes]]:
        """The bytes of a finished blob, hashed again, in an unlinked file at its start; the caller closes it.

        BlobNotFound when there is no such blob (any more), BlobCorrupt when the bytes are not what was stored.
        """
        return self.look(partial(copy_out, blob_id=blob_id, folder=self._folder))

    def check(self, blob_id: int) -> Deferred[None]:
        """Hash a finished blob again; BlobNotFound or BlobCorrupt as for fetch()."""
        return self.look(partial(check, blob_id=blob_id))

    def read_parts(self, blob_id: int) -> Deferred[PinnedBlobReader]:
        """Like fetch(), without a copy: slower beside other work on this queue, but it needs no room on the disk."""
        self._pinned[blob_id] += 1
        checked = self.look(partial(check_each, blob_id=blob_id))

        def failed(reason: Failure) -> Failure:
            self.unpin(blob_id)
            return reason

        return checked.addCallbacks(lambda digests: PinnedBlobReader(self, blob_id, digests), failed)

    def unpin(self, blob_id: int) -> None:
        """One reader less."""
        self._pinned -= Counter({blob_id: 1})

    def discard(self, blob_id: int) -> Deferred[None]:
        """Remove a blob at once if nothing refers to it; while read_parts() has it open it is only hidden."""
        return self._start(self._discard(blob_id))

    def sweep(self) -> Deferred[int]:
        """Remove every blob without references whose time is over; -> how many."""
        return self._start(self._sweep())

    def drain(self) -> Deferred[None]:
        """Take nothing new; fires when everything under way, in however many steps, is done."""
        return Deferred.fromCoroutine(self._drain())

    def _start(self, work: Coroutine[Deferred[Any], Any, T]) -> Deferred[T]:
        self._underway.add(done := Deferred[None]())

        def finished(result: T) -> T:
            self._underway.remove(done)
            done.callback(None)
            return result

        return Deferred.fromCoroutine(work).addBoth(finished)

    async def _drain(self) -> None:
        self._draining = True
        while self._underway:
            await gatherResults(self._underway)
        await self.queue.drain()

    async def _append(self, player_id: str, spool: BinaryIO) -> int:
        if self._draining:
            raise new_error(DatabaseBusy)
        size = size_of(spool)
        blob_id = await self._write(partial(begin, player_id=player_id, size=size, now_ms=self._now_ms()))
        try:
            for first in range(0, count(size), STEP_PARTS):
                await self._write(partial(append, blob_id=blob_id, spool=spool, first=first), STEP_BYTES)
        except BaseException:
            self.discard(blob_id).addErrback(_log_not_deleted)
            raise
        return blob_id

    def look(self, unit: Transaction[T]) -> Deferred[T]:
        """What a unit reads, in a snapshot of its own."""
        if self._file.unavailable_as is DatabaseUnavailable:
            return fail(new_error(DatabaseUnavailable))
        return self.queue.submit(partial(_snapshot, unit=unit))

    async def _discard(self, blob_id: int) -> None:
        while not self._pinned[blob_id]:
            if not await self._write(partial(delete_parts, blob_id=blob_id)):
                return
        await self._write(partial(mark_parts_deleted, blob_id=blob_id))

    async def _sweep(self) -> int:
        swept = 0
        now_ms = self._now_ms()
        condemn = partial(claim_unreferenced, torn_ms=now_ms - KEPT_MS, staged_ms=now_ms - self._staged_ms)
        while not self._draining:
            spared = frozenset(self._pinned)
            blob_id = await self._write(partial(condemn, spared=spared))
            if blob_id is None:
                break
            await self._discard(blob_id)
            swept += 1
        return swept

    def _write(self, unit: Transaction[T], size: int = 0) -> Deferred[T]:
        if self._file.unavailable_as is not None:
            return fail(new_error(self._file.unavailable_as))
        written: Deferred[T] = self.queue.submit(partial(self._transaction, unit=unit))
        return written.addCallback(self._count, size)

    def _transaction(self, connection: sqlite3.Connection, unit: Transaction[T]) -> group_commit.Outcome:
        return write_batch(self._worker, self._file, connection, [unit])[0]

    def _count(self, answer: T, size: int) -> T:
        self._wrote(self._file, size)
        return answer


def _snapshot(connection: sqlite3.Connection, unit: Transaction[T]) -> group_commit.Outcome:
    return group_commit.run_reads(connection, [unit])[0]


def _log_not_deleted(reason: Failure) -> None:
    """Log that an incomplete blob could not be deleted; the next sweep deletes it."""
    _log.warn("blob_delete_failed", error=type(reason.value).__name__)
