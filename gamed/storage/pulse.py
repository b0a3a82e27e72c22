"""Whether both stores answer somebody who waits in no lane: the sign of life a service manager is given."""

import sqlite3
from typing import Any

from twisted.internet.defer import Deferred

from gamed.storage.errors import translated
from gamed.storage.files import StoreFile, attach_state, prepare, state_attached
from gamed.storage.worker import Worker


class Pulse:
    """A thread and a connection of its own, opened at the first beat."""

    def __init__(self, reactor: Any, auth: StoreFile, state: StoreFile) -> None:
        def setup(connection: sqlite3.Connection) -> None:
            with translated():
                prepare(connection)
                attach_state(connection, state)

        self._state = state
        self._worker = Worker(reactor, auth, setup)

    def beat(self) -> Deferred[None]:
        """Fires when each store has answered, fails with a StoreError when one could not.

        A state.db that cannot be opened is not asked: a restart does not repair it, and it is opened once it can be.
        """
        return self._worker.run(self._ask)

    def close(self) -> None:
        self._worker.close()

    def _ask(self, connection: sqlite3.Connection) -> None:
        """Read a row of each file; a bare SELECT 1 would open neither."""
        with translated():
            if self._state.refusal is None and not state_attached(connection):
                connection = self._worker.reopen()
            for _, schema, _ in connection.execute("PRAGMA database_list").fetchall():
                connection.execute(f'SELECT 1 FROM "{schema}".sqlite_schema LIMIT 1').fetchall()
