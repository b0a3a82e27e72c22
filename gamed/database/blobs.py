"""The blob store writes, reads and deletes bytes that are too large for a group commit, in parts.

A new blob has no hash and no references, so that no query finds it until a deciding transaction of the write queue of
state.db gives it both. The blob store deletes it after a day without them; bytes that a player staged, after the time
that the configuration allows. Small blobs have no parts: their bytes are in their row of `blob`.

See docs/internals/storage.md: Large saves.
"""

from collections import Counter
from collections.abc import Callable, Container, Coroutine, Sequence
from functools import partial
from os import SEEK_END
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar, cast

from msgspec import Struct
from twisted.internet.defer import Deferred, fail, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database import blob_rows
from gamed.database.connection import Connection, Transaction
from gamed.database.engine import Database, EngineConnection, WriteKeys
from gamed.database.errors import DatabaseBusy, DatabaseUnavailable, new_error
from gamed.database.group_commit import Outcome, corruptions, run_reads
from gamed.database.queues import DatabaseQueue, DatabaseThread, report_locked, write_batch
from gamed.event_log import EventLog
from gamed.timestamps import Now

T = TypeVar("T")

KEPT_MS = 24 * 3600 * 1000
"""How long bytes without a version stay: an upload under way has them, or a game that staged them for a commit."""
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
        return self.read(partial(blob_rows.copy_out, blob_id=blob_id, folder=self._folder))

    def check(self, blob_id: int) -> Deferred[None]:
        """Check the hash of a finished blob; fail as fetch() does."""
        return self.read(partial(blob_rows.check, blob_id=blob_id))

    def read_some(self, blob_id: int, wanted: Container[int]) -> Deferred[dict[int, bytes]]:
        """Check the hash of the whole blob and return the wanted parts; fail as fetch() does."""
        return self.read(partial(blob_rows.read_some, blob_id=blob_id, wanted=wanted))

    def read_parts(self, blob_id: int) -> Deferred["PinnedBlobReader"]:
        """Read a blob as fetch() does, without a copy: slower beside other work, but it needs no space on the disk.

        Another process may delete the blob meanwhile: part() then fails with BlobNotFound.
        """
        self._pinned[blob_id] += 1
        checked = self.read(partial(blob_rows.hash_parts, blob_id=blob_id))

        def failed(reason: Failure) -> Failure:
            self.unpin(blob_id)
            return reason

        return checked.addCallbacks(lambda digests: PinnedBlobReader(self, blob_id, digests), failed)

    def unpin(self, blob_id: int) -> None:
        """Count one reader less."""
        self._pinned -= Counter({blob_id: 1})

    def discard(self, blob_id: int, player_id: str) -> Deferred[None]:
        """Delete a player's blob without references now; only mark it as deleted while read_parts() has it open."""
        return self._start(self._discard(blob_id, (player_id,)))

    def begin_discard(self, blob_id: int, player_id: str) -> None:
        """Delete a blob as discard() does, without letting a request wait: the database may not answer.

        A failure is logged; a later cleanup deletes the blob.
        """
        self.discard(blob_id, player_id).addErrback(_log_not_deleted)

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
        keys = (player_id,)
        begin = partial(blob_rows.begin, player_id=player_id, size=size, now_ms=self._now_ms())
        blob_id = await self._write(begin, keys=keys)
        try:
            for first in range(0, blob_rows.count(size), blob_rows.STEP_PARTS):
                append = partial(blob_rows.append, blob_id=blob_id, spool=spool, first=first)
                await self._write(append, blob_rows.STEP_BYTES, keys)
        except BaseException:
            self.begin_discard(blob_id, player_id)
            raise
        return blob_id

    async def _discard(self, blob_id: int, keys: WriteKeys | None) -> None:
        while not self._pinned[blob_id]:
            if not await self._write(partial(blob_rows.delete_parts, blob_id=blob_id), keys=keys):
                return
        await self._write(partial(blob_rows.mark_deleted, blob_id=blob_id), keys=keys)

    async def _delete_expired(self) -> int:
        deleted = 0
        now_ms = self._now_ms()
        claim = partial(
            blob_rows.claim_unreferenced, unfinished_ms=now_ms - KEPT_MS, staged_ms=now_ms - self._staged_ms
        )
        while not self._draining:
            blob_id = await self._write(partial(claim, spared=frozenset(self._pinned)))
            if blob_id is None:
                break
            # Without keys: the blob's player is not read here, so that on PostgreSQL this write runs alone.
            await self._discard(blob_id, None)
            deleted += 1
        return deleted

    def _write(self, transaction: Transaction[T], size: int = 0, keys: WriteKeys | None = None) -> Deferred[T]:
        if self._database.unavailable_as is not None:
            return fail(new_error(self._database.unavailable_as))

        def run(connection: Connection) -> Outcome:
            return write_batch(self._thread, cast(EngineConnection, connection), [transaction], keys)[0]

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

    def withdraw(self, queued: Deferred[Any]) -> bool:
        """Cancel a function that has not started; return False if it has, for it then runs to its end."""
        if queued not in self._queue:
            return False
        queued.cancel()
        return True

    def _run_batch(self, connection: EngineConnection, transactions: Sequence[Transaction[Any]]) -> list[Outcome]:
        return self._explain([transaction(connection) for transaction in transactions])

    def _inspect(self, outcomes: Sequence[Outcome]) -> None:
        if corruptions(outcomes):
            self.thread.engine.database.mark_damaged()
        report_locked(self.thread.engine.database.name, outcomes[0])


class PinnedBlobReader(Struct, eq=False):
    """A blob that is read part by part from the database, when the disk has no space for a copy.

    This process does not delete the blob until the reader is closed.
    """

    _store: BlobStore
    _blob_id: int
    _digests: Sequence[bytes]
    part_bytes: int = blob_rows.PART_BYTES
    _closed: bool = False

    def part(self, n: int) -> Deferred[bytes]:
        """Return the n-th part after its hash was checked again; fail with BlobNotFound or BlobCorrupt."""
        return self._store.read(partial(blob_rows.read_part, blob_id=self._blob_id, n=n, digest=self._digests[n]))

    def close(self) -> None:
        """Allow the blob to be deleted."""
        if not self._closed:
            self._closed = True
            self._store.unpin(self._blob_id)


def _log_not_deleted(reason: Failure) -> None:
    """Log that a blob without references could not be deleted; a later cleanup deletes it."""
    _log.warn("blob_delete_failed", error=type(reason.value).__name__)
