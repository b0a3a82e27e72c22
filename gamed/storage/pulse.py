"""Whether both stores answer somebody who waits in no lane: the sign of life a service manager is given."""

import sqlite3
from typing import Any

from twisted.internet.defer import Deferred

from gamed.storage.errors import translated
from gamed.storage.files import StoreFile, attach_state, prepare
from gamed.storage.worker import Worker


class Pulse:
    """A thread and a connection of its own, opened at the first beat."""

    def __init__(self, reactor: Any, auth: StoreFile, state: StoreFile) -> None:
        def setup(connection: sqlite3.Connection) -> None:
            with translated():
                prepare(connection)
                attach_state(connection, state)

        self._worker = Worker(reactor, auth, setup)

    def beat(self) -> Deferred[None]:
        """Fires when each store has answered, fails with a StoreError when one could not.

        A state.db that was left alone at the start is not asked: to start again would not mend it.
        """
        return self._worker.run(_ask)

    def close(self) -> None:
        self._worker.close()


def _ask(connection: sqlite3.Connection) -> None:
    """A row of each file; a bare SELECT 1 would open neither."""
    with translated():
        for _, schema, _ in connection.execute("PRAGMA database_list").fetchall():
            connection.execute(f'SELECT 1 FROM "{schema}".sqlite_schema LIMIT 1').fetchall()
