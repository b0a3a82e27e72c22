"""The two database files and how a connection to one is set up (SPEC 1/12)."""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.engine import Database
from gamed.database.errors import DatabaseCorrupt, DatabaseError, DatabaseUnavailable, new_error
from gamed.database.sqlite.error_mapping import SQLITE_ERRORS, translate
from gamed.database.sqlite.write_lock import WriteLock

APPLICATION_ID = {AUTH: 0x676D6441, STATE: 0x676D6453}
"""`gmdA`, `gmdS`: SQLite stores them in the files, so that a file in the other's place is recognized."""
PAGE_BYTES = 4096
"""A small write changes four to nine pages of any size, and each is written twice: to the log, then to the file."""
BUSY_MS = 5000
READER_BUSY_MS = 50
"""For a read inside a write, during which all processes wait; only a program that locks the whole file delays it."""
SQLITE_VERSION = sqlite3.sqlite_version
SUFFIXES = ("-wal", "-shm", "-journal", "")
"""The ends of a database's files. SQLite must not find the log of one database beside another; the database is last."""
WRITER_CACHE_KIB = 16 * 1024
"""SQLite's default is 2 MiB; with it, a page is read again for each write of a player who did not save recently."""
READER_CACHE_KIB = 512
"""For the look-up of one token in each write: the upper pages of three indexes, and what the last tokens needed."""
WAL_LIMIT_BYTES = 64 * 1024 * 1024
EXTERNAL_LIMIT_BYTES = 512 * 1024 * 1024
"""A log of this size is not checkpointed by another program: Litestream truncates it at 121,359 pages, or 474 MiB."""
# Python's module searches for an adapter of each parameter that is not an int, a float or a str, and fails, in 0.8 us.
# These two return the parameter as it is, without a call of Python: each PUT has ten such parameters.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(type(None), {None: None}.__getitem__)


class SqliteConnection(sqlite3.Connection):
    """SQLite's Connection (gamed/database/connection.py); execute() is that of Python's module."""

    fatal_error = None
    clocks_ms = ahead_ms = 0  # all processes are on one machine

    def rows(self, sql: str, parameters: Any = (), /) -> list[Any]:
        """Execute one statement and return all its rows as tuples."""
        return self.execute(sql, parameters).fetchall()

    @property
    def auth(self) -> "SqliteConnection":
        """Return this connection, whose first file is auth.db."""
        return self

    def found_in(self, database: str, error: BaseException) -> BaseException:
        """Return the translated error; attribute damage to `auth` or `state`, whatever else the connection has."""
        ours = translate(error)
        if isinstance(ours, DatabaseCorrupt):
            ours.file = database
        return ours


class AuthReader(SqliteConnection):
    """A connection that reads auth.db beside a write of state.db."""

    failed = False
    """A statement has failed; the next batch gets a new connection."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        try:
            return super().execute(sql, parameters)
        except SQLITE_ERRORS:
            self.failed = True
            raise


class StateConnection(SqliteConnection):
    """The connection that writes state.db, with a second one that reads auth.db.

    auth.db is not attached: BEGIN would then fail if its first page is damaged, and an I/O error of a SELECT from it
    would roll back what the other transactions of the batch wrote to state.db.
    """

    auth_uri = ""
    _reader: AuthReader | None = None

    @property
    def auth(self) -> SqliteConnection:
        """Return the connection to auth.db; the first call of a batch begins its snapshot. Raise sqlite3.Error."""
        if self._reader is None:
            self._reader = _open_reader(self.auth_uri)
        if not self._reader.in_transaction:
            self._reader.execute("BEGIN")
        return self._reader

    def end_snapshot(self) -> None:
        """End the snapshot of auth.db; until then no checkpoint can let its log begin anew."""
        reader = self._reader
        if reader is None:
            return
        with suppress(*SQLITE_ERRORS):
            reader.rollback()
        # A snapshot that stays open would show revoked sessions as valid to all later batches.
        if reader.failed or reader.in_transaction:
            self._reader = None
            with suppress(*SQLITE_ERRORS):
                reader.close()

    def close(self) -> None:
        """Close both connections."""
        if self._reader is not None:
            self._reader.close()
        super().close()


class DatabaseFile(Database):
    """A database file, and the state that its queues share."""

    def __init__(self, name: str, uri: str, path: Path | None, lock: WriteLock | None = None) -> None:
        super().__init__(name)
        self.title = f"{name}.db"
        self.originals = "all files of the data folder"
        self.uri = uri
        """The URI of an existing file: a connection never creates one."""
        self.path = path
        """The path; None for a database in memory, which has no WAL."""
        self.lock = lock or WriteLock()
        """Held during every write transaction: the threads of this process and all processes take turns."""

    @classmethod
    def at(cls, folder: Path, name: str) -> "DatabaseFile":
        """Return the file `auth` or `state` of a data folder."""
        path = folder / f"{name}.db"
        return cls(name, file_uri(path, "rw"), path, lock=WriteLock(path))


def file_uri(path: Path, mode: str) -> str:
    """Return the URI for connect(); `mode` is SQLite's: ro, rw or rwc."""
    return f"{path.absolute().as_uri()}?mode={mode}"


def refuse_folder(path: Path) -> None:
    """Raise DatabaseUnavailable if a folder, or another thing that is not a file, has the name of a database.

    SQLite reports it as a file that cannot be opened, or as an I/O error of the disk.
    """
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise DatabaseUnavailable(
            f"{path} is {kind}, not a database file. Move it away, then restore {path.name} from a backup."
        )


def reading_uri(path: Path) -> str:
    """Return the URI for reading a file that no service writes now, without creating files beside it.

    By default SQLite creates a log and its index for each reader; a file that has no log can be read without them.
    """
    logged = any(path.with_name(f"{path.name}-{beside}").exists() for beside in ("wal", "journal"))
    return file_uri(path, "ro") + ("" if logged else "&immutable=1")


def connect(uri: str, kind: type[SqliteConnection] = SqliteConnection) -> SqliteConnection:
    """Return a connection that begins no transaction by itself, for use by one thread at a time."""
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, factory=kind)


def prepare(connection: SqliteConnection) -> None:
    """Set the options that every connection needs.

    Only the Checkpointer makes checkpoints, never a commit. Pages for the rollback of a savepoint stay in memory: in a
    file, each batch would create, write and delete one. Deleted rows are overwritten, however this SQLite was built:
    "erased" is a promise to the player.
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


def prepare_to_write(connection: SqliteConnection) -> None:
    """Set the options of the connection of a write queue."""
    prepare(connection)
    connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")


def _open_reader(uri: str) -> AuthReader:
    """Return a connection that only reads; raise sqlite3.Error."""
    connection = connect(uri, AuthReader)
    assert isinstance(connection, AuthReader)
    try:
        prepare(connection)
        connection.execute(f"PRAGMA busy_timeout = {READER_BUSY_MS}")
        connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
        connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def copy_into(connection: SqliteConnection, target: Path) -> None:
    """Write the database into a new file (0600) that is on disk when this returns; raise FileExistsError."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    connection.execute("VACUUM INTO :path", {"path": str(target)})
    descriptor = os.open(target, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)  # VACUUM INTO does not
    finally:
        os.close(descriptor)


def attach_state(connection: SqliteConnection, state: DatabaseFile) -> None:
    """Attach state.db under the name `state`; leave it out if it is damaged, so that auth.db can still be used."""
    if state.unavailable_as is DatabaseUnavailable:
        return
    try:
        connection.execute("ATTACH :uri AS state", {"uri": state.uri})
        connection.execute("SELECT 1 FROM state.sqlite_schema LIMIT 1").fetchall()
    except SQLITE_ERRORS as e:
        if not isinstance(translate(e), DatabaseCorrupt):
            raise
        state.unavailable_as = DatabaseUnavailable
        if state_attached(connection):
            connection.execute("DETACH state")


def state_attached(connection: Connection) -> bool:
    """Return whether the connection has state.db beside auth.db."""
    return any(name == "state" for _, name, _ in connection.execute("PRAGMA database_list").fetchall())


def open_error(file: DatabaseFile) -> DatabaseError | None:
    """Open and close a connection; return the error if the file cannot be read, else None."""
    try:
        if file.path is not None:
            refuse_folder(file.path)
        with closing(connect(file.uri)) as connection:
            prepare(connection)
            connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except DatabaseUnavailable as e:
        return e
    except SQLITE_ERRORS as e:
        ours = translate(e)
        return ours if isinstance(ours, DatabaseError) else new_error(DatabaseError)
    return None
