"""SqliteBackend is behind the queues: two files, their checkpoints, the news of other processes, and the locks.

A state.db that could not be opened at the start is opened as soon as that is possible.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, execute, succeed
from twisted.logger import Logger

from gamed.database.changes import Topic
from gamed.database.connection import AUTH, STATE
from gamed.database.engine import EngineConnection
from gamed.database.errors import DatabaseError, DatabaseUnavailable, MigrationError
from gamed.database.periodic import PeriodicTask
from gamed.database.polled_changes import PolledChanges, Version
from gamed.database.queues import DatabaseQueue, DatabaseThread, ReadQueue, WriteQueue
from gamed.database.sqlite.checkpoints import Checkpointer, ExternalCheckpoints, wal_bytes
from gamed.database.sqlite.engine import SqliteEngine, SqliteReadEngine, SqliteStateEngine
from gamed.database.sqlite.error_mapping import translated
from gamed.database.sqlite.files import DatabaseFile, open_error
from gamed.database.sqlite.migrations import check_schema, prepare_file
from gamed.database.sqlite.processes import ProcessLocks
from gamed.database.sqlite.write_lock import MAINTENANCE_FILE, MaintenanceLock
from gamed.event_log import EventLog

RETRY_SECONDS = 10
_log = EventLog(Logger())


class SqliteBackend:
    """The Backend (gamed/database/databases.py) of auth.db and state.db."""

    def __init__(
        self,
        reactor: Any,
        auth: DatabaseFile,
        state: DatabaseFile,
        instance_id: str = "",
        *,
        external_checkpoints: bool = False,
    ) -> None:
        """Use these files; `instance_id` names this process for the others that use them.

        With `external_checkpoints` another program, such as Litestream, makes all checkpoints.
        """
        self._reactor = reactor
        self._auth, self._state = self.databases = (auth, state)
        self._maintenance = MaintenanceLock(None if auth.path is None else auth.path.with_name(MAINTENANCE_FILE))
        self._processes = ProcessLocks(None if auth.path is None else auth.path.parent, instance_id)
        checkpoints = DatabaseThread(reactor, SqliteReadEngine(auth, state, query_only=False))
        self.threads = (checkpoints,)
        self._checkpointer = (
            ExternalCheckpoints(reactor) if external_checkpoints else Checkpointer(reactor, checkpoints)
        )
        self.wrote = self._checkpointer.wrote
        self.clear_logs = self._checkpointer.clear

    @classmethod
    def open(cls, reactor: Any, data: Path, instance_id: str, *, external_checkpoints: bool = False) -> "SqliteBackend":
        """Return the files of a data folder that were prepared; raise DatabaseUnavailable without auth.db."""
        auth, state = DatabaseFile.at(data, AUTH), DatabaseFile.at(data, STATE)
        if (problem := open_error(auth)) is not None:
            raise DatabaseUnavailable(f"{auth.path} cannot be opened") from problem
        if (problem := open_error(state)) is not None:
            state.unavailable_as = DatabaseUnavailable
            _log.error("database_unavailable", database=STATE, path=state.path, detail=problem)
        return cls(reactor, auth, state, instance_id, external_checkpoints=external_checkpoints)

    def reader(self) -> SqliteReadEngine:
        """Return the engine of a thread that reads both files."""
        return SqliteReadEngine(self._auth, self._state)

    def auth_writer(self) -> SqliteEngine:
        """Return the engine of the thread that writes auth.db."""
        return SqliteEngine(self._auth, large_cache=True)

    def state_writer(self) -> SqliteStateEngine:
        """Return the engine of the thread that writes state.db."""
        return SqliteStateEngine(self._state, self._auth)

    def blob_writer(self) -> SqliteEngine:
        """Return the engine of the thread that writes large blobs to state.db."""
        return SqliteEngine(self._state)

    def start(self, reads: ReadQueue, auth: WriteQueue, state: WriteQueue, blobs: DatabaseQueue) -> None:
        """Begin the work beside the queues."""
        self._checkpointer.register(self._auth, writers=(auth,), readers=(state, reads))
        self._checkpointer.register(self._state, writers=(state, blobs), readers=(reads,))
        topics = {Topic.LOGINS: auth, Topic.SESSIONS: auth, Topic.SAVES: state}
        self.changes = PolledChanges(self._reactor, topics, _data_version)
        self._thread = auth.thread
        self._reopening = Reopening(self._reactor, self._state, blobs.thread, (reads.thread, *self.threads))

    def tends(self) -> Deferred[bool]:
        """Fire with whether this process holds the lock of the one that cleans up; try to get it."""
        return execute(lambda: self._maintenance.held)

    def notifies(self) -> Deferred[bool]:
        """Fire as tends() does: all processes have one clock."""
        return self.tends()

    def register_process(self) -> Deferred[None]:
        """Lock this process's file."""
        return self._thread.call(self._processes.hold)

    def ended_processes(self, ids: Collection[str]) -> Deferred[frozenset[str]]:
        """Fire with those of the processes whose files are not locked."""
        return self._thread.call(partial(self._ended, ids))

    def _ended(self, ids: Collection[str]) -> frozenset[str]:
        self._processes.hold()  # again, if the disk did not allow it before
        return self._processes.ended(ids)

    def wal_bytes(self) -> Mapping[str, int]:
        """Return the size of each file's write-ahead log."""
        return {file.name: wal_bytes(file) for file in self.databases}

    def stop(self) -> None:
        """End the work beside the queues, before they are drained."""
        self._reopening.stop()
        self.changes.stop()

    async def finish(self) -> None:
        """Empty the write-ahead logs, after the queues were drained."""
        await self._checkpointer.stop()

    def close(self) -> None:
        """Close the lock files, after the threads have ended."""
        for file in self.databases:
            file.lock.close()
        self._maintenance.close()
        self._processes.close()


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
        self._task = PeriodicTask(clock, RETRY_SECONDS, self._retry, "open_state")
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


def _data_version(connection: EngineConnection) -> Version:
    """Return the connection, and a number that changes when another one commits to the file."""
    [(version,)] = connection.execute("PRAGMA data_version").fetchall()
    return connection, version


def _reopen(reader: DatabaseThread) -> None:
    with translated():
        reader.reopen()
