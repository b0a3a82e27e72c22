"""Writes of other processes, noticed: a command beside the service wakes those who wait (PROTOCOL 4.2).

A state.db that could not be opened is opened once it can be, without a restart.

Both stores and their queues, from open to close (SPEC 1.6).
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database.blobs import KEPT_MS, BlobStore
from gamed.database.checkpoints import Checkpointer
from gamed.database.connection import AUTH, STATE, DatabaseFile, attach_state, open_error, prepare, prepare_to_write
from gamed.database.error_mapping import translated
from gamed.database.errors import DatabaseError, DatabaseUnavailable
from gamed.database.health import Health, WatchdogProbe, silent
from gamed.database.migrations import MigrationError, check_schema, prepare_file
from gamed.database.periodic import PeriodicTask
from gamed.database.queues import DatabaseQueue, ReadQueue, WriteQueue
from gamed.database.thread import DatabaseThread
from gamed.event_log import EventLog
from gamed.timestamps import Now

LOOK_SECONDS = 0.5
_log = EventLog(Logger())


class ExternalChangeWatcher:
    """Asks every write lane for its file's data_version twice a second, while anyone watches.

    The write queues are asked because this process's own writes go through them and stay unnoticed here
    (appended blobs excepted: those wake for nothing). What was seen last is kept while nobody watches, and the
    very first look counts as a change, so nothing falls between a reader's look and its watch.
    """

    def __init__(self, clock: Any, queues: Sequence[WriteQueue]) -> None:
        self._lanes = queues
        self._seen: dict[WriteQueue, int] = {}
        self._watchers: list[tuple[Callable[[], None], str | None]] = []
        self._ticker = PeriodicTask(clock, LOOK_SECONDS, self._look)

    def add(self, changed: Callable[[], None], file: str | None = None) -> None:
        """`file`: only of this one, `auth` or `state`."""
        self._watchers.append((changed, file))
        if len(self._watchers) == 1:
            self._ticker.start(now=True)

    def remove(self, changed: Callable[[], None]) -> None:
        self._watchers = [watcher for watcher in self._watchers if watcher[0] != changed]
        if not self._watchers:
            self._ticker.stop()

    def stop(self) -> None:
        self._watchers.clear()
        self._ticker.stop()

    def _look(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._compare())

    async def _compare(self) -> None:
        moved = {lane.name for lane in self._lanes if await self._moved(lane)}
        for changed, file in tuple(self._watchers):
            if file in moved or (file is None and moved):
                self._tell(changed)

    async def _moved(self, lane: WriteQueue) -> bool:
        try:
            version = await lane.data_version()
        except DatabaseError:  # said to whoever needs that store
            return False
        moved = self._seen.get(lane) != version
        self._seen[lane] = version
        return moved

    def _tell(self, changed: Callable[[], None]) -> None:
        try:
            changed()
        except Exception:
            _log.failure("external_change_callback_failed")


RETRY_SECONDS = 10


class Reopening:
    """Tries every ten seconds, while state.db is unavailable and a file of that name is there.

    A missing file is made by the next start only: the owner who moved it away may be about to put another in its place.
    """

    def __init__(
        self, clock: Any, state: DatabaseFile, worker: DatabaseThread, readers: Sequence[DatabaseThread]
    ) -> None:
        """`worker`: a thread for the work; `readers`: the connections that have state.db beside auth.db."""
        self._state = state
        self._worker = worker
        self._readers = readers
        self._ticker = PeriodicTask(clock, RETRY_SECONDS, self._retry)
        self._ticker.start()

    def stop(self) -> None:
        self._ticker.stop()

    def _retry(self) -> Deferred[None]:
        path = self._state.path
        if self._state.unavailable_as is not DatabaseUnavailable or path is None or not path.is_file():
            return succeed(None)
        return Deferred.fromCoroutine(self._reopen())

    async def _reopen(self) -> None:
        try:
            await self._worker.call(self._prepare)
            self._state.unavailable_as = None
            for reader in self._readers:
                await reader.call(partial(_reopen, reader))
        except (DatabaseError, MigrationError):
            self._state.unavailable_as = DatabaseUnavailable
        if self._state.unavailable_as is None:
            _log.info("database_available", database=self._state.name)

    def _prepare(self) -> None:
        """As at the start, in the thread: the file is this version's or becomes it."""
        path = self._state.path
        assert path is not None
        check_schema(path)
        prepare_file(path)
        if (problem := open_error(self._state)) is not None:
            raise problem


def _reopen(reader: DatabaseThread) -> None:
    with translated():
        reader.reopen()


CLEANUP_SECONDS = 3600


class Databases:
    """auth.db and state.db behind their queues. Opens no file and starts no thread before the reactor runs.

    `staged_ms`: how long bytes live that wait for a commit (PROTOCOL 4.4).
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
    ) -> None:
        def reading(connection: sqlite3.Connection) -> None:
            prepare(connection)
            attach_state(connection, state)
            connection.execute("PRAGMA query_only = ON")

        def tending(connection: sqlite3.Connection) -> None:
            prepare(connection)
            attach_state(connection, state)

        self._state = state
        self._files = (auth, state)
        self._clock = reactor
        self.workers = tuple(
            DatabaseThread(reactor, file, setup)
            for file, setup in (
                (auth, reading),
                (auth, prepare_to_write),
                (state, prepare_to_write),
                (state, prepare),
                (auth, tending),
            )
        )
        reads, auth_writes, state_writes, blobs, tends = self.workers
        self._wal = Checkpointer(reactor, tends)
        self.reads = ReadQueue(reads, self._files)
        self.auth = WriteQueue(auth_writes, auth, self._wal.wrote)
        self.state = WriteQueue(state_writes, state, self._wal.wrote)
        self.blobs = BlobStore(blobs, state, folder, now_ms, self._wal.wrote, staged_ms=staged_ms)
        self._wal.keep(auth, (self.reads, self.auth))
        self._wal.keep(state, (self.reads, self.state, self.blobs.queue))
        self._watch = ExternalChangeWatcher(reactor, (self.auth, self.state))
        self._health = Health(reactor, self.reads, (auth, state))
        self._open_probe = partial(WatchdogProbe, reactor, auth, state)
        self._reopening = Reopening(reactor, state, blobs, (reads, tends))
        self._sweep = PeriodicTask(reactor, CLEANUP_SECONDS, self._swept)
        self._sweep.start()
        self._closing: Deferred[None] | None = None

    @classmethod
    def open(cls, reactor: Any, data: Path, now_ms: Now, staged_ms: int = KEPT_MS) -> "Databases":
        """The stores of a data folder whose files were prepared; DatabaseUnavailable when auth.db cannot be read.

        A state.db that cannot be read leaves everything working that does not need it, and is tried again.
        """
        auth, state = DatabaseFile.at(data, AUTH), DatabaseFile.at(data, STATE)
        if (problem := open_error(auth)) is not None:
            raise DatabaseUnavailable(f"{auth.path} cannot be opened") from problem
        if (problem := open_error(state)) is not None:
            state.unavailable_as = DatabaseUnavailable
            _log.error("database_unavailable", database=STATE, path=state.path, detail=problem)
        folder = data / "tmp"
        folder.mkdir(mode=0o700, exist_ok=True)
        return cls(reactor, auth, state, folder, now_ms, staged_ms=staged_ms)

    def _swept(self) -> Deferred[int]:
        return self.blobs.sweep() if self._state.unavailable_as is None else succeed(0)

    @property
    def state_available(self) -> bool:
        """Whether saves can be read."""
        return self._state.unavailable_as is not DatabaseUnavailable

    def state_damaged(self) -> None:
        """Note damage of state.db that a unit met and could leave out."""
        self._state.mark_damaged()

    def watch(self, changed: Callable[[], None], file: str | None = None) -> None:
        """Call `changed` within a second of a change that another process made to either file, or to this one."""
        self._watch.add(changed, file)

    def unwatch(self, changed: Callable[[], None]) -> None:
        self._watch.remove(changed)

    def check(self) -> Deferred[None]:
        """Fire with the result of a check that is at most 5 s old, or wait 2 s for one; fail with a DatabaseError."""
        return self._health.check()

    @property
    def queues(self) -> Mapping[str, DatabaseQueue]:
        """By name."""
        return {"read": self.reads, "auth": self.auth, "state": self.state, "blob": self.blobs.queue}

    def wal_bytes(self) -> Mapping[str, int]:
        """Size of each store's write-ahead log."""
        return {file.name: file.wal_bytes() for file in self._files}

    def unresponsive(self) -> Deferred[list[str]]:
        """Fires with a sentence for each store that does not answer now."""
        return Deferred.fromCoroutine(silent(self.reads, self._files, self._clock))

    def watchdog_probe(self) -> WatchdogProbe:
        """One more way to ask whether both stores answer, past every lane; whoever asks closes it."""
        return self._open_probe()

    def close(self) -> Deferred[None]:
        """Take nothing new, answer what waits, empty the write-ahead logs, close; asked again, waits for the same."""
        if self._closing is None:
            self._closing = Deferred.fromCoroutine(self._close())
        self._closing.addBoth(_tell, closed := Deferred[None]())
        return closed

    async def _close(self) -> None:
        self._sweep.stop()
        self._reopening.stop()
        self._watch.stop()
        await gatherResults([lane.drain() for lane in (self.reads, self.auth, self.state, self.blobs)])
        await self._wal.stop()
        for worker in self.workers:
            worker.close()


def _tell(result: Failure | None, waiter: Deferred[None]) -> None:
    waiter.callback(result)
