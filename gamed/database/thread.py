"""A database thread is a thread with one SQLite connection: adbapi's pool of exactly one, without its transactions.

adbapi's defaults open transactions where sqlite3 guesses and spread them over threads: two decisions then read
the same row before either writes. Here the connection guesses nothing and has one thread, and every function
that runs in it opens and ends its own transaction.

This module is apart from `connection.py` because commands need connections, but neither adbapi nor the reactor.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.enterprise.adbapi import ConnectionPool
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from gamed.database.connection import DatabaseFile

T = TypeVar("T")


class DatabaseThread:
    """Runs functions one after another in its thread. The thread starts when the reactor runs, so after any fork."""

    def __init__(self, reactor: Any, file: DatabaseFile, setup: Callable[[sqlite3.Connection], None]) -> None:
        def opened(connection: sqlite3.Connection) -> None:
            try:
                setup(connection)
            except BaseException:
                connection.close()
                raise

        self._reactor = reactor
        self.pool = ConnectionPool(
            "sqlite3",
            file.uri,
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cp_reactor=reactor,
            cp_min=1,
            cp_max=1,
            cp_openfun=opened,
        )

    def run(self, work: Callable[[sqlite3.Connection], T]) -> Deferred[T]:
        """Call `work` with the connection; opened at the first call, and again if that failed."""
        return deferToThreadPool(self._reactor, self.pool.threadpool, self._run, work)

    def connection(self) -> sqlite3.Connection:
        """In the thread: return the connection; it is opened if there is none."""
        connection: sqlite3.Connection = self.pool.connect()
        return connection

    def reopen(self) -> sqlite3.Connection:
        """In the thread: close the connection and return a new one, which is that of every later call."""
        self.pool.disconnect(self.pool.connect())
        return self.connection()

    def call(self, work: Callable[[], T]) -> Deferred[T]:
        """Call `work` in the thread, without the connection."""
        return deferToThreadPool(self._reactor, self.pool.threadpool, work)

    def call_in_reactor(self, work: Callable[[], object]) -> None:
        """Call `work` in the reactor's thread, once its turn is over."""
        self._reactor.callFromThread(work)

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return work(self.connection())

    @property
    def started(self) -> bool:
        """Whether anything would run now."""
        return bool(self.pool.threadpool.started)

    def close(self) -> None:
        """Join the thread and close the connection; whatever still waited never runs."""
        self.pool.close()
