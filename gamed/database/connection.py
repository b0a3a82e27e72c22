"""The two database files and how a connection to one is set up (SPEC 1.6).

One thread with one connection: adbapi's pool of exactly one, without its own idea of transactions.

adbapi's defaults open transactions where sqlite3 guesses and spread them over threads: two decisions then read
the same row before either writes. Here the connection guesses nothing and has one thread, and every function
that runs in it opens and ends its own transaction.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from msgspec import Struct, field
from twisted.enterprise.adbapi import ConnectionPool
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from gamed.database.error_mapping import SQLITE_ERRORS, new_error, translate
from gamed.database.errors import DatabaseCorrupt, DatabaseError, DatabaseUnavailable
from gamed.event_log import EventLog

AUTH, STATE = "auth", "state"
APPLICATION_ID = {AUTH: 0x676D6441, STATE: 0x676D6453}
"""`gmdA`, `gmdS`: a file put in the other's place is recognised."""
PAGE_BYTES = 4096
"""A small write dirties half a dozen pages, whatever their size, and each is written twice: to the log, and home."""
BUSY_MS = 5000
WRITER_CACHE_KIB = 16 * 1024
"""By itself SQLite keeps 2 MiB, and reads a page again for each write of a player who is not among the last."""
WAL_LIMIT_BYTES = 64 * 1024 * 1024
_log = EventLog(Logger())


class DatabaseFile(Struct, eq=False):
    """One database file, and what its lanes share."""

    name: str
    uri: str
    """Names an existing file: a connection never makes one."""
    path: Path | None
    """None: in memory, without a WAL."""
    refusal: type[DatabaseError] | None = None
    """Why nothing may be written any more, once there is a reason."""
    lock: Lock = field(default_factory=Lock)
    """Held around every write transaction of this process: SQLite's own waiting sleeps, up to 100 ms at a time."""

    @classmethod
    def at(cls, folder: Path, name: str) -> "DatabaseFile":
        path = folder / f"{name}.db"
        return cls(name, file_uri(path, "rw"), path)

    def found_damaged(self) -> None:
        """Let nothing be written any more; the log says so once. What can be read goes on being read."""
        if self.refusal is None:
            self.refusal = DatabaseCorrupt
            _log.error(
                "database_damaged",
                database=self.name,
                detail="Nothing is written to it any more. Stop the service, copy the data folder as it is, then"
                " restore a backup",
            )

    def wal_bytes(self) -> int:
        """Size of the write-ahead log. Never open a database file but through SQLite: close() drops its locks."""
        try:
            return 0 if self.path is None else self.path.with_name(f"{self.path.name}-wal").stat().st_size
        except OSError:
            return 0


def file_uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"


def reading_uri(path: Path) -> str:
    """Return the URI of a file that no service writes now, so that reading it leaves nothing beside it.

    By itself SQLite makes a log and an index of it for each reader; a file that has no log can be read without.
    """
    logged = any(path.with_name(f"{path.name}-{beside}").exists() for beside in ("wal", "journal"))
    return file_uri(path, "ro") + ("" if logged else "&immutable=1")


def connect(uri: str) -> sqlite3.Connection:
    """A connection that opens no transaction by itself, for use by one thread at a time."""
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def prepare(connection: sqlite3.Connection) -> None:
    """What every connection needs; a checkpoint is made by the WAL's keeper, never inside a commit.

    What a savepoint would take back stays in memory: as a file it cost each batch one, made, written and removed.
    What is erased is overwritten, however this SQLite was built: "erased" is a promise to the player.
    """
    connection.executescript(
        f"""
        PRAGMA busy_timeout = {BUSY_MS};
        PRAGMA synchronous = FULL;
        PRAGMA foreign_keys = ON;
        PRAGMA trusted_schema = OFF;
        PRAGMA secure_delete = ON;
        PRAGMA journal_size_limit = {WAL_LIMIT_BYTES};
        PRAGMA wal_autocheckpoint = 0;
        PRAGMA temp_store = MEMORY;
        """
    )


def prepare_to_write(connection: sqlite3.Connection) -> None:
    """For the one connection that decides on all rows of a file."""
    prepare(connection)
    connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")


def copy_into(connection: sqlite3.Connection, target: Path) -> None:
    """What the connection sees, in a new file for its owner only, on disk when this returns; FileExistsError."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    connection.execute("VACUUM INTO :path", {"path": str(target)})
    descriptor = os.open(target, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)  # VACUUM INTO leaves that to whoever wants the copy to last
    finally:
        os.close(descriptor)


def attach_state(connection: sqlite3.Connection, state: DatabaseFile) -> None:
    """state.db beside auth.db under the name `state`; left out when it cannot be used, so that auth.db still can."""
    if state.refusal is DatabaseUnavailable:
        return
    try:
        connection.execute("ATTACH :uri AS state", {"uri": state.uri})
        connection.execute("SELECT 1 FROM state.sqlite_schema LIMIT 1").fetchall()
    except SQLITE_ERRORS as e:
        if not isinstance(translate(e), DatabaseCorrupt):
            raise
        state.refusal = DatabaseUnavailable
        if state_attached(connection):
            connection.execute("DETACH state")


def state_attached(connection: sqlite3.Connection) -> bool:
    return any(name == "state" for _, name, _ in connection.execute("PRAGMA database_list").fetchall())


def open_error(file: DatabaseFile) -> DatabaseError | None:
    """Why the file cannot be read, or None; opens and closes a connection of its own."""
    try:
        with closing(connect(file.uri)) as connection:
            prepare(connection)
            connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except SQLITE_ERRORS as e:
        ours = translate(e)
        return ours if isinstance(ours, DatabaseError) else new_error(DatabaseError)
    return None


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

    def soon(self, work: Callable[[], object]) -> None:
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
