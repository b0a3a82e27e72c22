"""The blob lane: bytes too large to ride a group commit, in parts, beside it (PROTOCOL 4).

A blob begins without a hash and without references: nothing finds it until a deciding unit on the write lane of
state.db gives it both. What nobody took up within a day is swept; what a player staged, after the time it was given.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar

from msgspec import Struct
from twisted.internet.defer import Deferred, fail, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.event_log import EventLog
from gamed.instants import Now
from gamed.storage import batches, parts
from gamed.storage.errors import say
from gamed.storage.files import StoreFile
from gamed.storage.lanes import Lane, Unit, write_batch
from gamed.storage.worker import Worker
from gamed.store import StoreBusy, StoreUnavailable

T = TypeVar("T")

KEPT_MS = 24 * 3600 * 1000
_log = EventLog(Logger())


class _Turns(Lane):
    """One unit per hop, outside any transaction: each opens and ends its own."""

    batch_items = 1
    name = "blobs"

    def __init__(self, worker: Worker, file: StoreFile) -> None:
        super().__init__(worker)
        self._file = file

    def _work(self, connection: sqlite3.Connection, units: Sequence[Unit[Any]]) -> list[batches.Outcome]:
        return self._explained([unit(connection) for unit in units])

    def _note(self, outcomes: Sequence[batches.Outcome]) -> None:
        if any(map(batches.damage_in, outcomes)):
            self._file.found_damaged()


class Parts(Struct, eq=False):
    """A blob read part by part from the database, where no disk is left to copy it to; closed by its reader.

    While it is open the blob is not removed.
    """

    _lane: "BlobLane"
    _blob_id: int
    _digests: Sequence[bytes]
    part_bytes: int = parts.PART_BYTES
    _closed: bool = False

    def part(self, n: int) -> Deferred[bytes]:
        """The n-th part, hashed again; BlobGone or BlobCorrupt."""
        unit = partial(parts.read_one, blob_id=self._blob_id, n=n, digest=self._digests[n])
        return self._lane.lane.submit(partial(_snapshot, unit=unit))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._lane.unpin(self._blob_id)


class BlobLane:
    """Appends, copies out and removes blobs; every step is a turn of its own, so none keeps the others long."""

    def __init__(
        self,
        worker: Worker,
        file: StoreFile,
        folder: Path,
        now_ms: Now,
        wrote: Callable[[StoreFile, int], None],
        *,
        staged_ms: int = KEPT_MS,
    ) -> None:
        self._worker = worker
        self.lane = _Turns(worker, file)
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

        BlobGone when there is no such blob (any more), BlobCorrupt when the bytes are not what was stored.
        """
        return self.look(partial(parts.copy_out, blob_id=blob_id, folder=self._folder))

    def check(self, blob_id: int) -> Deferred[None]:
        """Hash a finished blob again; BlobGone or BlobCorrupt as for fetch()."""
        return self.look(partial(parts.check, blob_id=blob_id))

    def read_parts(self, blob_id: int) -> Deferred[Parts]:
        """Like fetch(), without a copy: slower beside other work on this lane, but it needs no room on the disk."""
        self._pinned[blob_id] += 1
        checked = self.look(partial(parts.check_each, blob_id=blob_id))

        def failed(reason: Failure) -> Failure:
            self.unpin(blob_id)
            return reason

        return checked.addCallbacks(lambda digests: Parts(self, blob_id, digests), failed)

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
        await self.lane.drain()

    async def _append(self, player_id: str, spool: BinaryIO) -> int:
        if self._draining:
            raise say(StoreBusy)
        size = parts.size_of(spool)
        blob_id = await self._write(partial(parts.begin, player_id=player_id, size=size, now_ms=self._now_ms()))
        try:
            for first in range(0, parts.count(size), parts.STEP_PARTS):
                await self._write(partial(parts.append, blob_id=blob_id, spool=spool, first=first), parts.STEP_BYTES)
        except BaseException:
            self.discard(blob_id).addErrback(_log_not_deleted)
            raise
        return blob_id

    def look(self, unit: Unit[T]) -> Deferred[T]:
        """What a unit reads, in a snapshot of its own."""
        if self._file.refusal is StoreUnavailable:
            return fail(say(StoreUnavailable))
        return self.lane.submit(partial(_snapshot, unit=unit))

    async def _discard(self, blob_id: int) -> None:
        while not self._pinned[blob_id]:
            if not await self._write(partial(parts.remove_some, blob_id=blob_id)):
                return
        await self._write(partial(parts.hide, blob_id=blob_id))

    async def _sweep(self) -> int:
        swept = 0
        now_ms = self._now_ms()
        condemn = partial(parts.condemn, torn_ms=now_ms - KEPT_MS, staged_ms=now_ms - self._staged_ms)
        while not self._draining:
            spared = frozenset(self._pinned)
            blob_id = await self._write(partial(condemn, spared=spared))
            if blob_id is None:
                break
            await self._discard(blob_id)
            swept += 1
        return swept

    def _write(self, unit: Unit[T], size: int = 0) -> Deferred[T]:
        if self._file.refusal is not None:
            return fail(say(self._file.refusal))
        written: Deferred[T] = self.lane.submit(partial(self._transaction, unit=unit))
        return written.addCallback(self._count, size)

    def _transaction(self, connection: sqlite3.Connection, unit: Unit[T]) -> batches.Outcome:
        return write_batch(self._worker, self._file, connection, [unit])[0]

    def _count(self, answer: T, size: int) -> T:
        self._wrote(self._file, size)
        return answer


def _snapshot(connection: sqlite3.Connection, unit: Unit[T]) -> batches.Outcome:
    return batches.read(connection, [unit])[0]


def _log_not_deleted(reason: Failure) -> None:
    """Log that an incomplete blob could not be deleted; the next sweep deletes it."""
    _log.warn("blob_delete_failed", error=type(reason.value).__name__)
