"""PostgresqlBackend is behind the queues: one database with two schemas, and a thread that listens for changes."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed

from gamed.database.changes import ChangeSource, Topic
from gamed.database.connection import AUTH, STATE
from gamed.database.engine import Database
from gamed.database.polled_changes import PolledChanges
from gamed.database.postgresql import processes
from gamed.database.postgresql.connecting import Connector, SessionKind
from gamed.database.postgresql.connection import PostgresqlConnection
from gamed.database.postgresql.engine import WRITE, PostgresqlEngine
from gamed.database.postgresql.heartbeat import HeartbeatTask, RestoreGuard, read_timeline
from gamed.database.postgresql.listener import NotificationListener, NotifiedChanges
from gamed.database.queues import DatabaseQueue, DatabaseThread, ReadQueue, WriteQueue

READ_SECONDS, WRITE_SECONDS = 5.0, 10.0
"""How long a server may take for a statement or a commit; a request that reads, then writes, may wait for both."""


class PostgresqlBackend:
    """The Backend (gamed/database/databases.py) of a PostgreSQL database."""

    threads: tuple[DatabaseThread, ...] = ()

    def __init__(
        self, reactor: Any, connector: Connector, instance_id: str, data: Path, give_up: Callable[[], None]
    ) -> None:
        """Use this database; `instance_id` names this process for the others that do, and `data` has its own notes.

        `give_up` is called in the reactor's thread when the database went back, and cannot be served.
        """
        self._reactor = reactor
        self._connector = connector
        self._instance_id = instance_id
        self._guard = RestoreGuard(connector, data, lambda: reactor.callFromThread(give_up))
        self.databases = (Database(AUTH), Database(STATE))
        self._timeline: str | None = None
        """The timeline on which this process has begun to write `state`."""

    def reader(self) -> PostgresqlEngine:
        """Return the engine of a thread that reads both schemas."""
        kind = SessionKind(self._name("reads"), read_only=True, answer_seconds=READ_SECONDS)
        return PostgresqlEngine(self._connector, self.databases[0], kind)

    def auth_writer(self) -> PostgresqlEngine:
        """Return the engine of the thread that writes `auth`."""
        return self._writer(self.databases[0], AUTH)

    def state_writer(self) -> PostgresqlEngine:
        """Return the engine of the thread that writes `state`."""
        return self._writer(self.databases[1], STATE, (STATE, AUTH), self._join_state)

    def blob_writer(self) -> PostgresqlEngine:
        """Return the engine of the thread that writes large blobs to `state`."""
        return self._writer(self.databases[1], "blobs")

    def start(self, reads: ReadQueue, auth: WriteQueue, state: WriteQueue, blobs: DatabaseQueue) -> None:
        """Begin to listen for changes."""
        self._auth = auth
        self._guard.start()
        topics = {Topic.LOGINS: auth, Topic.SESSIONS: auth, Topic.SAVES: state}
        changes = NotifiedChanges(self._reactor, PolledChanges(self._reactor, topics, processes.snapshot_version))
        self._changes = changes
        kind = SessionKind(self._name("listener"), read_only=True, idle_ms=0)
        connect = partial(self._connector.open, kind)
        self._listener = NotificationListener(self._reactor, connect, self._instance_id, changes)
        self._listener.start()
        self._heartbeat = HeartbeatTask(self._reactor, auth, self._guard, self._connector.now_ms)
        self._connector.ahead_ms = self._heartbeat.ahead_ms
        self._heartbeat.start()

    @property
    def changes(self) -> ChangeSource:
        """Return the reports of what other processes change."""
        return self._changes

    def wrote(self, database: Database, size: int) -> None:
        """Leave checkpoints to the server."""

    def clear_logs(self) -> None:
        """Leave the write-ahead log to PostgreSQL, which recycles it."""

    def tends(self) -> Deferred[bool]:
        """Fire with whether this process is the one that deletes what has expired; fail with a DatabaseError."""
        return self._auth.between_batches(processes.tend_no_more if self._connector.ahead_ms() else processes.tend)

    def notifies(self) -> Deferred[bool]:
        """Fire with whether this process notifies the owner: the one that cleans up, or else one with a wrong clock.

        Else the owner of a single machine would read of no damage and no full disk as long as its clock is wrong. Fail
        with a DatabaseError.
        """
        return self._auth.between_batches(processes.notify_only if self._connector.ahead_ms() else processes.tend)

    def register_process(self) -> Deferred[None]:
        """Connect the writer of `auth`, which lets the other processes know that this one lives."""
        return self._auth.between_batches(lambda connection: None)

    def ended_processes(self, ids: Collection[str]) -> Deferred[frozenset[str]]:
        """Fire with those of the processes that have ended; with none right after the server was away."""
        if not self._listener.settled:
            return succeed(frozenset())
        return self._auth.between_batches(partial(processes.ended, ids=ids))

    def wal_bytes(self) -> Mapping[str, int]:
        """Return nothing: the server has its own log."""
        return {}

    def stop(self) -> None:
        """Report no further changes."""
        self._changes.stop()
        self._heartbeat.stop()

    async def finish(self) -> None:
        """Do nothing more."""

    def close(self) -> None:
        """End the thread that listens."""
        self._listener.close()

    def _writer(
        self,
        database: Database,
        thread: str,
        schemas: tuple[str, ...] = (),
        joined: Callable[[PostgresqlConnection], None] | None = None,
    ) -> PostgresqlEngine:
        kind = SessionKind(self._name(thread), schemas=schemas or (database.name,), answer_seconds=WRITE_SECONDS)
        return PostgresqlEngine(self._connector, database, kind, joined or self._join)

    def _join(self, connection: PostgresqlConnection) -> None:
        processes.join(connection, self._instance_id)

    def _join_state(self, connection: PostgresqlConnection) -> None:
        """Join, and begin again on a new timeline: changes may be lost whose numbers the next ones get.

        Here, not in the queue, which may get a new session in the middle of a batch.
        """
        self._join(connection)
        timeline, beginning = read_timeline(connection), self.databases[1].beginning
        if beginning is not None and self._timeline not in (None, timeline):
            connection.begin([WRITE])
            try:
                beginning(connection)
                connection.commit()
            finally:
                connection.rollback()
        self._timeline = timeline

    def _name(self, thread: str) -> str:
        return processes.application_name(self._instance_id, thread)
