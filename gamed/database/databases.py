"""Databases owns the queues in front of both databases, from open to close (SPEC 1/12).

A Backend is behind the queues: it has what SQLite and other engines do differently.
"""

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from twisted.internet.defer import Deferred, gatherResults

from gamed.database.blobs import KEPT_MS, BlobStore
from gamed.database.changes import ChangeSource
from gamed.database.engine import Database, Engine
from gamed.database.errors import DatabaseCorrupt, DatabaseUnavailable
from gamed.database.health import Health, WatchdogProbe, unresponsive
from gamed.database.periodic import PeriodicTask
from gamed.database.queues import DatabaseQueue, DatabaseThread, ReadQueue, WriteQueue
from gamed.timestamps import Now

CLEANUP_SECONDS = 3600


class Backend(Protocol):
    """Both databases in one engine, and the work that the engine needs beside the queues."""

    @property
    def databases(self) -> tuple[Database, Database]:
        """Return `auth` and `state`."""

    @property
    def threads(self) -> tuple[DatabaseThread, ...]:
        """Return the threads of the backend's own."""

    @property
    def changes(self) -> ChangeSource:
        """Return the reports of what other processes change; after start()."""

    def reader(self) -> Engine:
        """Return the engine of a thread that reads both databases."""

    def auth_writer(self) -> Engine:
        """Return the engine of the thread that writes `auth`."""

    def state_writer(self) -> Engine:
        """Return the engine of the thread that writes `state`."""

    def blob_writer(self) -> Engine:
        """Return the engine of the thread that writes large blobs to `state`."""

    def start(self, reads: ReadQueue, auth: WriteQueue, state: WriteQueue, blobs: DatabaseQueue) -> None:
        """Begin the work beside these queues."""

    def wrote(self, database: Database, size: int) -> None:
        """Count a batch of about `size` bytes that was committed."""

    def clear_logs(self) -> None:
        """Let the write-ahead logs lose what was erased, if this process keeps them."""

    def tends(self) -> Deferred[bool]:
        """Fire with whether this process is the one that deletes what has expired; fail with a DatabaseError."""

    def notifies(self) -> Deferred[bool]:
        """Fire with whether this process notifies the owner, and counts for all; fail with a DatabaseError."""

    def register_process(self) -> Deferred[None]:
        """Let the other processes know that this one lives."""

    def ended_processes(self, ids: Collection[str]) -> Deferred[frozenset[str]]:
        """Fire with those of the processes that have ended; fail with a DatabaseError."""

    def wal_bytes(self) -> Mapping[str, int]:
        """Return the size of each database's write-ahead log, if this process keeps it small."""

    def stop(self) -> None:
        """End the work, before the queues are drained."""

    async def finish(self) -> None:
        """Do the last work, after the queues were drained."""

    def close(self) -> None:
        """Release what other processes wait for, after the threads have ended."""


class Databases:
    """Both databases behind their queues. Open no file and start no thread before the reactor runs.

    `staged_ms`: how long the server keeps bytes that wait for a commit (docs/protocol.md: Commits).
    """

    def __init__(self, reactor: Any, backend: Backend, folder: Path, now_ms: Now, *, staged_ms: int = KEPT_MS) -> None:
        self._backend = backend
        self._clock = reactor
        _, self._state = backend.databases
        engines = (backend.reader(), backend.auth_writer(), backend.state_writer(), backend.blob_writer())
        reads, auth, state, blobs = threads = tuple(DatabaseThread(reactor, engine) for engine in engines)
        self.threads = (*threads, *backend.threads)
        self.reads = ReadQueue(reads, backend.databases)
        self.auth = WriteQueue(auth, backend.wrote)
        self.state = WriteQueue(state, backend.wrote)
        self.blobs = BlobStore(blobs, folder, now_ms, backend.wrote, staged_ms=staged_ms)
        backend.start(self.reads, self.auth, self.state, self.blobs.queue)
        self.state_damaged = self._state.mark_damaged
        """Mark state.db as damaged, after a transaction found damage that it could leave out."""
        self.changes = backend.changes
        """The reports of what other processes change."""
        self.clear_logs = backend.clear_logs
        """Let the write-ahead logs lose what was erased, soon after this returns; PostgreSQL recycles its own."""
        self.register_process = backend.register_process
        """Let the other processes know that this one lives, before it writes what names it."""
        self.ended_processes = backend.ended_processes
        """Fire with those of the processes that have ended, whatever they left unfinished; this one has not."""
        self.tends = backend.tends
        """Fire with whether this process is the one that deletes what has expired; fail with a DatabaseError.

        One of the processes that serve these databases is, and another one once that has ended. On PostgreSQL it is
        one with a right clock: none is while the clocks of all are wrong.
        """
        self.notifies = backend.notifies
        """Fire with whether this process notifies the owner, and counts for all; fail with a DatabaseError.

        It is the one that deletes what has expired; if none does, another one, whatever its clock shows.
        """
        self.wal_bytes = backend.wal_bytes
        """Return the size of each database's write-ahead log."""
        self.check = Health(reactor, self.reads, backend.databases).check
        """Fire with the result of a check that is at most 5 s old, or wait 2 s for one; fail with a DatabaseError."""
        self.watchdog_probe = partial(WatchdogProbe, reactor, backend.reader(), self._state)
        """Make another way to check that both databases respond, past all queues; the caller closes it."""
        self._cleanup = PeriodicTask(reactor, CLEANUP_SECONDS, self._delete_expired, "blobs")
        self._cleanup.start()
        self._closing: Deferred[None] | None = None

    @classmethod
    def open(cls, reactor: Any, backend: Backend, data: Path, now_ms: Now, staged_ms: int = KEPT_MS) -> "Databases":
        """Return databases that were prepared; the temporary files of uploads are in the data folder.

        If `state` cannot be opened, everything that does not need it works, and opening is tried again.
        """
        folder = data / "tmp"
        folder.mkdir(mode=0o700, exist_ok=True)
        return cls(reactor, backend, folder, now_ms, staged_ms=staged_ms)

    @property
    def queues(self) -> Mapping[str, DatabaseQueue]:
        """Return all queues by name."""
        return {"read": self.reads, "auth": self.auth, "state": self.state, "blob": self.blobs.queue}

    @property
    def titles(self) -> Mapping[str, str]:
        """Return the titles of both databases, for messages to operators, by their names."""
        return {each.name: each.title for each in self._backend.databases}

    def damaged(self) -> frozenset[str]:
        """Return the names of the databases that this process found damaged or could not open."""
        unusable = (DatabaseCorrupt, DatabaseUnavailable)
        return frozenset(each.name for each in self._backend.databases if each.unavailable_as in unusable)

    def unresponsive(self) -> Deferred[list[str]]:
        """Fire with a sentence for each database that does not respond now."""
        return Deferred.fromCoroutine(unresponsive(self.reads, self._backend.databases, self._clock))

    def close(self) -> Deferred[None]:
        """Accept nothing new, finish what waits, empty the write-ahead logs and close; every call waits for this."""
        if self._closing is None:
            self._closing = Deferred.fromCoroutine(self._close())
        closed = Deferred[None]()
        self._closing.addBoth(closed.callback)
        return closed

    async def _close(self) -> None:
        # First what submits transactions by itself, so that the queues become empty. The logs are emptied after the
        # last commit. The locks that show other processes that this one lives are released after the last thread.
        self._cleanup.stop()
        self._backend.stop()
        await gatherResults([queue.drain() for queue in (self.reads, self.auth, self.state, self.blobs)])
        await self._backend.finish()
        for thread in self.threads:
            thread.close()
        self._backend.close()

    async def _delete_expired(self) -> int:
        available = self._state.unavailable_as is None and await self.tends()
        return await self.blobs.delete_expired() if available else 0
