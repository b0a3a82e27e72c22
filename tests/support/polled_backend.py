"""A backend over PostgreSQL that has no thread of its own, for tests whose work runs inline on a clock of theirs."""

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred

from gamed.database.changes import Topic
from gamed.database.engine import Database
from gamed.database.polled_changes import PolledChanges
from gamed.database.postgresql import processes
from gamed.database.postgresql.backend import PostgresqlBackend
from gamed.database.queues import DatabaseQueue, ReadQueue, WriteQueue
from tests.support.kept_sessions import KeptEngine
from tests.support.postgresql import Address
from tests.support.row_guard import GuardedEngine
from tests.support.stores import kept_sessions


class PolledBackend(PostgresqlBackend):
    """A PostgresqlBackend that asks for the changes of other processes, as while it cannot listen.

    The rows of other keys than those of a batch are guarded.
    """

    def __init__(self, reactor: Any, address: Address, instance_id: str = "") -> None:
        super().__init__(reactor, kept_sessions(address), instance_id, Path("."), lambda: None)
        self.address = address

    def reader(self) -> KeptEngine:
        engine = super().reader()
        return KeptEngine(engine._connector, engine.database, engine._kind)

    def start(self, reads: ReadQueue, auth: WriteQueue, state: WriteQueue, blobs: DatabaseQueue) -> None:
        self._auth = auth
        topics = {Topic.LOGINS: auth, Topic.SESSIONS: auth, Topic.SAVES: state}
        self._changes = PolledChanges(self._reactor, topics, processes.snapshot_version)

    def tends(self) -> Deferred[bool]:
        return self._auth.between_batches(processes.tend)  # without a heartbeat, which would compare the clocks

    def ended_processes(self, ids: Collection[str]) -> Deferred[frozenset[str]]:
        return self._auth.between_batches(partial(processes.ended, ids=ids))

    def stop(self) -> None:
        self._changes.stop()

    def close(self) -> None:
        """Do nothing: there is no thread that listens."""

    def _writer(self, database: Database, *how: Any) -> GuardedEngine:
        engine = super()._writer(database, *how)
        return GuardedEngine(engine._connector, database, engine._kind, engine._joined)
