"""Databases owns auth.db and state.db and the queues in front of them, from open to close (SPEC 1.6).

A state.db that could not be opened at the start is opened as soon as that is possible.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.logger import Logger

from gamed.database.blobs import KEPT_MS, BlobStore
from gamed.database.changes import ChangeSource, Topic
from gamed.database.connection import AUTH, STATE
from gamed.database.errors import DatabaseError, DatabaseUnavailable
from gamed.database.health import Health, WatchdogProbe, unresponsive
from gamed.database.periodic import PeriodicTask
from gamed.database.queues import DatabaseQueue, DatabaseThread, ReadQueue, WriteQueue
from gamed.database.sqlite.changes import DataVersionSource
from gamed.database.sqlite.checkpoints import Checkpointer
from gamed.database.sqlite.engine import SqliteEngine, SqliteReadEngine
from gamed.database.sqlite.error_mapping import translated
from gamed.database.sqlite.files import (
    DatabaseFile,
    open_error,
)
from gamed.database.sqlite.migrations import MigrationError, check_schema, prepare_file
from gamed.database.sqlite.processes import ProcessLocks
from gamed.database.sqlite.write_lock import MAINTENANCE_FILE, MaintenanceLock
from gamed.event_log import EventLog
from gamed.timestamps import Now

RETRY_SECONDS = 10
CLEANUP_SECONDS = 3600
_log = EventLog(Logger())


class Databases:
    """Both databases behind their queues. Open no file and start no thread before the reactor runs.

    `staged_ms`: how long the server keeps bytes that wait for a commit (PROTOCOL 4.4). `instance_id` names this process
    for the others that use these databases.
    """

    def __init__(
        self,
        reactor: Any,
        auth: DatabaseFile,
        state: DatabaseFile,
        folder: Path,
        now_ms: Now,
        *,
        staged_ms: int = KEPT_MS,
        instance_id: str = "",
    ) -> None:
        self._state = state
        self._files = (auth, state)
        self._maintenance = MaintenanceLock(None if auth.path is None else auth.path.with_name(MAINTENANCE_FILE))
        self._processes = ProcessLocks(None if auth.path is None else auth.path.parent, instance_id)
        self._clock = reactor
        self.threads = tuple(
            DatabaseThread(reactor, engine)
            for engine in (
                SqliteReadEngine(auth, state),
                SqliteEngine(auth, large_cache=True),
                SqliteEngine(state, large_cache=True),
                SqliteEngine(state),
                SqliteReadEngine(auth, state, query_only=False),
            )
        )
        reads, auth_writes, state_writes, blobs, checkpoints = self.threads
        self._checkpointer = Checkpointer(reactor, checkpoints)
        self.reads = ReadQueue(reads, self._files)
        self.auth = WriteQueue(auth_writes, self._checkpointer.wrote)
        self.state = WriteQueue(state_writes, self._checkpointer.wrote)
        self.blobs = BlobStore(blobs, folder, now_ms, self._checkpointer.wrote, staged_ms=staged_ms)
        self._checkpointer.register(auth, (self.reads, self.auth))
        self._checkpointer.register(state, (self.reads, self.state, self.blobs.queue))
        self._data_versions = DataVersionSource(
            reactor, {Topic.LOGINS: self.auth, Topic.SESSIONS: self.auth, Topic.SAVES: self.state}
        )
        self.changes: ChangeSource = self._data_versions
        """The reports of what other processes change."""
        self._health = Health(reactor, self.reads, (auth, state))
        self.watchdog_probe = partial(WatchdogProbe, reactor, SqliteReadEngine(auth, state), state)
        """Make another way to check that both databases respond, past all queues; the caller closes it."""
        self._reopening = Reopening(reactor, state, blobs, (reads, checkpoints))
        self._cleanup = PeriodicTask(reactor, CLEANUP_SECONDS, self._clean_up)
        self._cleanup.start()
        self._closing: Deferred[None] | None = None

    @classmethod
    def open(
        cls, reactor: Any, data: Path, now_ms: Now, staged_ms: int = KEPT_MS, instance_id: str = ""
    ) -> "Databases":
        """Return the databases of a data folder whose files were prepared; raise DatabaseUnavailable without auth.db.

        If state.db cannot be opened, everything that does not need it works, and opening is tried again.
        """
        auth, state = DatabaseFile.at(data, AUTH), DatabaseFile.at(data, STATE)
        if (problem := open_error(auth)) is not None:
            raise DatabaseUnavailable(f"{auth.path} cannot be opened") from problem
        if (problem := open_error(state)) is not None:
            state.unavailable_as = DatabaseUnavailable
            _log.error("database_unavailable", database=STATE, path=state.path, detail=problem)
        folder = data / "tmp"
        folder.mkdir(mode=0o700, exist_ok=True)
        return cls(reactor, auth, state, folder, now_ms, staged_ms=staged_ms, instance_id=instance_id)

    def state_damaged(self) -> None:
        """Mark state.db as damaged, after a transaction found damage that it could leave out."""
        self._state.mark_damaged()

    def register_process(self) -> Deferred[None]:
        """Let the other processes know that this one lives, before it writes what names it."""
        return self.threads[1].call(self._processes.hold)

    def ended_processes(self, ids: Collection[str]) -> Deferred[frozenset[str]]:
        """Fire with those of the processes that have ended, whatever they left unfinished; this one has not."""

        def find() -> frozenset[str]:
            self._processes.hold()  # again, if the disk did not allow it before
            return self._processes.ended(ids)

        return self.threads[1].call(find)

    def check(self) -> Deferred[None]:
        """Fire with the result of a check that is at most 5 s old, or wait 2 s for one; fail with a DatabaseError."""
        return self._health.check()

    @property
    def queues(self) -> Mapping[str, DatabaseQueue]:
        """Return all queues by name."""
        return {"read": self.reads, "auth": self.auth, "state": self.state, "blob": self.blobs.queue}

    @property
    def tends(self) -> bool:
        """Return whether this process is the one that deletes what has expired; raise DatabaseError.

        Exactly one of the processes that serve a data folder is, and another one once that has ended.
        """
        return self._maintenance.held

    def wal_bytes(self) -> Mapping[str, int]:
        """Return the size of each database's write-ahead log."""
        return {file.name: file.wal_bytes() for file in self._files}

    def unresponsive(self) -> Deferred[list[str]]:
        """Fire with a sentence for each database that does not respond now."""
        return Deferred.fromCoroutine(unresponsive(self.reads, self._files, self._clock))

    def close(self) -> Deferred[None]:
        """Accept nothing new, finish what waits, empty the write-ahead logs and close; every call waits for this."""
        if self._closing is None:
            self._closing = Deferred.fromCoroutine(self._close())
        closed = Deferred[None]()
        self._closing.addBoth(closed.callback)
        return closed

    async def _close(self) -> None:
        self._cleanup.stop()
        self._reopening.stop()
        self._data_versions.stop()
        await gatherResults([queue.drain() for queue in (self.reads, self.auth, self.state, self.blobs)])
        await self._checkpointer.stop()
        for thread in self.threads:
            thread.close()
        for file in self._files:
            file.lock.close()
        self._maintenance.close()
        self._processes.close()

    def _clean_up(self) -> Deferred[int]:
        return self.blobs.delete_expired() if self._state.unavailable_as is None and self.tends else succeed(0)


class Reopening:
    """The attempts to open state.db every ten seconds, while it is unavailable and a file of that name exists.

    Only the next start makes a missing file: the operator who moved it away may be about to put another in its place.
    """

    def __init__(
        self, clock: Any, state: DatabaseFile, thread: DatabaseThread, readers: Sequence[DatabaseThread]
    ) -> None:
        """Use `thread` for the work; `readers` are the threads whose connections have state.db attached."""
        self._state = state
        self._thread = thread
        self._readers = readers
        self._task = PeriodicTask(clock, RETRY_SECONDS, self._retry)
        self._task.start()

    def stop(self) -> None:
        """Make no further attempt."""
        self._task.stop()

    def _retry(self) -> Deferred[None]:
        path = self._state.path
        if self._state.unavailable_as is not DatabaseUnavailable or path is None or not path.is_file():
            return succeed(None)
        return Deferred.fromCoroutine(self._reopen())

    async def _reopen(self) -> None:
        try:
            await self._thread.call(self._prepare)
            self._state.unavailable_as = None
            for reader in self._readers:
                await reader.call(partial(_reopen, reader))
        except (DatabaseError, MigrationError):
            self._state.unavailable_as = DatabaseUnavailable
        if self._state.unavailable_as is None:
            _log.info("database_available", database=self._state.name)

    def _prepare(self) -> None:
        """Migrate the file as at the start; called in the thread."""
        path = self._state.path
        assert path is not None
        check_schema(path)
        prepare_file(path)
        if (problem := open_error(self._state)) is not None:
            raise problem


def _reopen(reader: DatabaseThread) -> None:
    with translated():
        reader.reopen()
