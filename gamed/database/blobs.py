"""The blob store writes, reads and deletes bytes that are too large for a group commit, in parts (PROTOCOL 4).

A new blob has no hash and no references, so that no query finds it until a deciding transaction of the write queue of
state.db gives it both. The blob store deletes it after a day without them; bytes that a player staged, after the time
that the configuration allows. Small blobs have no parts: their bytes are in their row of `blob`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from errno import EDQUOT, EIO, ENOSPC
from functools import partial
from hashlib import sha256
from os import SEEK_END
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO, TypeVar, cast

from msgspec import Struct
from twisted.internet.defer import Deferred, fail, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database.connection import Connection, Transaction
from gamed.database.engine import Database, EngineConnection
from gamed.database.errors import BlobCorrupt, BlobNotFound, DatabaseBusy, DatabaseUnavailable, new_error, of_disk
from gamed.database.group_commit import Outcome, corruptions, run_reads
from gamed.database.queues import DatabaseQueue, DatabaseThread, report_locked, write_batch
from gamed.event_log import EventLog
from gamed.timestamps import Now

T = TypeVar("T")

KEPT_MS = 24 * 3600 * 1000
PART_BYTES = 256 * 1024
STEP_PARTS = 4
STEP_BYTES = STEP_PARTS * PART_BYTES
"""Appended or deleted in one transaction: SQLite overwrites what it deletes, so that both write as much."""
NEXT_ID = """
    (SELECT max(n) + 1 FROM (SELECT max(blob_id) AS n FROM blob UNION ALL SELECT highest FROM deleted_blob) AS known)
"""
"""The blob_id of a new blob, in SQL: no blob ever had it."""
_log = EventLog(Logger())


class BlobStore:
    """The blobs of state.db; each step is a transaction of its own, so that no other one waits long."""

    def __init__(
        self,
        thread: DatabaseThread,
        folder: Path,
        now_ms: Now,
        wrote: Callable[[Database, int], None],
        *,
        staged_ms: int = KEPT_MS,
    ) -> None:
        self._thread = thread
        self.queue = _SerialQueue(thread)
        self._database = thread.engine.database
        self._folder = folder
        self._now_ms = now_ms
        self._wrote = wrote
        self._staged_ms = staged_ms
        self._underway: set[Deferred[None]] = set()
        self._draining = False
        self._pinned: Counter[int] = Counter()

    def append(self, player_id: str, spool: BinaryIO) -> Deferred[int]:
        """Store the whole spool as a new blob; fire with its blob_id, with `sha256` NULL and `refs` 0.

        The spool must stay open and unread until this fires. If it fails or is cancelled, the blob is deleted.
        """
        return self._start(self._append(player_id, spool))

    def fetch(self, blob_id: int) -> Deferred[IO[bytes]]:
        """Copy a finished blob into an unlinked file and check its hash; the caller closes the file.

        Fail with BlobNotFound if the blob does not exist (any more), with BlobCorrupt if the hash differs.
        """
        return self.read(partial(copy_out, blob_id=blob_id, folder=self._folder))

    def check(self, blob_id: int) -> Deferred[None]:
        """Check the hash of a finished blob; fail as fetch() does."""
        return self.read(partial(check, blob_id=blob_id))

    def read_parts(self, blob_id: int) -> Deferred["PinnedBlobReader"]:
        """Read a blob as fetch() does, without a copy: slower beside other work, but it needs no space on the disk."""
        self._pinned[blob_id] += 1
        checked = self.read(partial(hash_parts, blob_id=blob_id))

        def failed(reason: Failure) -> Failure:
            self.unpin(blob_id)
            return reason

        return checked.addCallbacks(lambda digests: PinnedBlobReader(self, blob_id, digests), failed)

    def unpin(self, blob_id: int) -> None:
        """Count one reader less."""
        self._pinned -= Counter({blob_id: 1})

    def discard(self, blob_id: int) -> Deferred[None]:
        """Delete a blob without references now; only mark it as deleted while read_parts() has it open."""
        return self._start(self._discard(blob_id))

    def delete_expired(self) -> Deferred[int]:
        """Delete every expired blob without references; fire with their number."""
        return self._start(self._delete_expired())

    def read(self, transaction: Transaction[T]) -> Deferred[T]:
        """Run a transaction that only reads, in a snapshot of its own."""
        if self._database.unavailable_as is DatabaseUnavailable:
            return fail(new_error(DatabaseUnavailable))
        return self.queue.submit(
            lambda connection: run_reads(self._thread.engine, cast(EngineConnection, connection), [transaction])[0]
        )

    def in_thread(self, work: Callable[[], T]) -> Deferred[T]:
        """Call a function that works on files in the thread of the blobs; drain() does not wait for it."""
        return self._thread.call(work)

    def drain(self) -> Deferred[None]:
        """Accept nothing new; fire when everything that has started is done, with all its steps."""
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
        size = spool.seek(0, SEEK_END)
        blob_id = await self._write(partial(begin, player_id=player_id, size=size, now_ms=self._now_ms()))
        try:
            for first in range(0, count(size), STEP_PARTS):
                await self._write(partial(append, blob_id=blob_id, spool=spool, first=first), STEP_BYTES)
        except BaseException:
            self.discard(blob_id).addErrback(_log_not_deleted)
            raise
        return blob_id

    async def _discard(self, blob_id: int) -> None:
        while not self._pinned[blob_id]:
            if not await self._write(partial(delete_parts, blob_id=blob_id)):
                return
        await self._write(partial(mark_deleted, blob_id=blob_id))

    async def _delete_expired(self) -> int:
        deleted = 0
        now_ms = self._now_ms()
        claim = partial(claim_unreferenced, unfinished_ms=now_ms - KEPT_MS, staged_ms=now_ms - self._staged_ms)
        while not self._draining:
            blob_id = await self._write(partial(claim, spared=frozenset(self._pinned)))
            if blob_id is None:
                break
            await self._discard(blob_id)
            deleted += 1
        return deleted

    def _write(self, transaction: Transaction[T], size: int = 0) -> Deferred[T]:
        if self._database.unavailable_as is not None:
            return fail(new_error(self._database.unavailable_as))

        def run(connection: Connection) -> Outcome:
            return write_batch(self._thread, cast(EngineConnection, connection), [transaction])[0]

        def wrote(result: T) -> T:
            self._wrote(self._database, size)
            return result

        written: Deferred[T] = self.queue.submit(run)
        return written.addCallback(wrote)


class _SerialQueue(DatabaseQueue):
    """A queue whose batches are one function each, outside any transaction: each begins and ends its own."""

    batch_items = 1

    def __init__(self, thread: DatabaseThread) -> None:
        super().__init__(thread, "blobs")

    def _run_batch(self, connection: EngineConnection, transactions: Sequence[Transaction[Any]]) -> list[Outcome]:
        return self._explain([transaction(connection) for transaction in transactions])

    def _inspect(self, outcomes: Sequence[Outcome]) -> None:
        if corruptions(outcomes):
            self._thread.engine.database.mark_damaged()
        report_locked(self._thread.engine.database.name, outcomes[0])


class PinnedBlobReader(Struct, eq=False):
    """A blob that is read part by part from the database, when the disk has no space for a copy.

    The blob is not deleted until the reader is closed.
    """

    _store: BlobStore
    _blob_id: int
    _digests: Sequence[bytes]
    part_bytes: int = PART_BYTES
    _closed: bool = False

    def part(self, n: int) -> Deferred[bytes]:
        """Return the n-th part after its hash was checked again; fail with BlobNotFound or BlobCorrupt."""
        return self._store.read(partial(read_part, blob_id=self._blob_id, n=n, digest=self._digests[n]))

    def close(self) -> None:
        """Allow the blob to be deleted."""
        if not self._closed:
            self._closed = True
            self._store.unpin(self._blob_id)


def _log_not_deleted(reason: Failure) -> None:
    """Log that an incomplete blob could not be deleted; the next cleanup deletes it."""
    _log.warn("blob_delete_failed", error=type(reason.value).__name__)


# Transactions of the blob store's queue.


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
    """Check the whole blob and return the SHA-256 of each part, with which a part can be checked alone."""
    digests: list[bytes] = []
    stored = _size_and_hash(connection, blob_id)
    _check_parts(connection, blob_id, stored, lambda data: digests.append(sha256(data).digest()))
    return digests


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
    """Yield the parts as they are stored; of a small blob, the bytes in its own row."""
    for query in (
        "SELECT data FROM blob WHERE blob_id = ? AND data IS NOT NULL",
        "SELECT data FROM blob_part WHERE blob_id = ? ORDER BY n",
    ):
        for (data,) in connection.execute(query, (blob_id,)):
            yield data


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
