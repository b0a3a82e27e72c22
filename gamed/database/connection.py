"""The two database files and how a connection to one is set up (SPEC 1.6)."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Lock

from msgspec import Struct, field
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
    unavailable_as: type[DatabaseError] | None = None
    """Why nothing may be written any more, once there is a reason."""
    lock: Lock = field(default_factory=Lock)
    """Held around every write transaction of this process: SQLite's own waiting sleeps, up to 100 ms at a time."""

    @classmethod
    def at(cls, folder: Path, name: str) -> "DatabaseFile":
        path = folder / f"{name}.db"
        return cls(name, file_uri(path, "rw"), path)

    def mark_damaged(self) -> None:
        """Let nothing be written any more; the log says so once. What can be read goes on being read."""
        if self.unavailable_as is None:
            self.unavailable_as = DatabaseCorrupt
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
