"""Commands use a database in these ways: they run a transaction beside the service, copy the file, or check a copy.

SPEC 2.2/8.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from gamed.database.backup_format import BackupError, IntegrityResult, SchemaDiffers
from gamed.database.connection import Transaction
from gamed.database.errors import DatabaseBusy, DatabaseUnavailable
from gamed.database.scripts import scripts_in
from gamed.database.sqlite.error_mapping import translate, translated
from gamed.database.sqlite.files import (
    APPLICATION_ID,
    SqliteConnection,
    connect,
    copy_into,
    file_uri,
    prepare,
    reading_uri,
    refuse_folder,
)
from gamed.database.sqlite.migrations import (
    OTHER_VERSION,
    STEPS,
    no_progress,
    refuse_other_number,
    schema_difference,
    schema_folder,
    version_of,
)
from gamed.database.sqlite.write_lock import lock_writes

T = TypeVar("T")
LOCK_TRIES = 3
SHOWN_ERRORS = 3
"""How many of SQLite's errors about one file are shown."""


def run_transaction(path: Path, transaction: Transaction[T]) -> T:
    """Run a write transaction on auth.db or state.db; it should take less than 20 ms, as the service waits for it.

    Wait up to five seconds for other writers. Raise DatabaseError as the queues do, and MigrationError if the file does
    not have this version's schema. A transaction that raises an exception changes nothing.
    """
    _require_file(path)
    with lock_writes(path), _open(path) as connection:
        return _run(connection, transaction, "BEGIN IMMEDIATE")


def run_read(path: Path, transaction: Transaction[T]) -> T:
    """Run a transaction that only reads, in one snapshot; the service does not wait for it."""
    with _open(path) as connection:
        return _run(connection, transaction, "BEGIN")


def read_unchanged(path: Path, transaction: Transaction[T]) -> T | None:
    """Run a transaction that only reads, without creating files beside the file; no service may write it now.

    Return None if there is no file, or no schema in it yet.
    """
    if not path.exists():
        return None
    refuse_folder(path)
    try:
        return _read_at(reading_uri(path), transaction)
    except sqlite3.Error as e:
        if getattr(e, "sqlite_errorcode", None) != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise translate(e) from None
    with translated():  # a start was cut off while it made the file; only a writer can roll that back
        return _read_at(file_uri(path, "rw"), transaction)


def _read_at(uri: str, transaction: Transaction[T]) -> T | None:
    with closing(connect(uri)) as connection:
        return transaction(connection) if version_of(connection) else None


@contextmanager
def open_reader(path: Path) -> Iterator[Callable[[Transaction[T]], T]]:
    """Return a function that runs transactions that only read, each in a snapshot of its own."""
    with _open(path) as connection:
        connection.execute("PRAGMA query_only = ON")
        yield lambda transaction: _run(connection, transaction, "BEGIN")


@contextmanager
def _open(path: Path) -> Iterator[SqliteConnection]:
    with _open_any(path) as connection:
        refuse_other_number(version_of(connection), path)
        yield connection


@contextmanager
def _open_any(path: Path) -> Iterator[SqliteConnection]:
    """Open a file of any schema version."""
    _require_file(path)
    with translated(), closing(connect(file_uri(path, "rw"))) as connection:
        prepare(connection)
        yield connection


def _require_file(path: Path) -> None:
    refuse_folder(path)
    if not path.exists():
        raise DatabaseUnavailable(f"{path} does not exist; start the service once to make it.")


@contextmanager
def write_locked(path: Path) -> Iterator[BinaryIO]:
    """Write the log of a database into its file, and hold off all other writers; yield the file, which has everything.

    The file stays open until the end, and no other descriptor of it may be closed before: closing one drops all locks
    that this process has on the file. Raise DatabaseBusy if another process reads or writes for long.
    """
    refuse_folder(path)
    with lock_writes(path), open(path, "r+b", buffering=0) as file, _open_any(path) as connection:
        log = path.with_name(f"{path.name}-wal")
        for _ in range(LOCK_TRIES):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("BEGIN IMMEDIATE")
            if not log.exists() or log.stat().st_size == 0:
                break
            connection.rollback()  # a reader holds the log, or a writer was faster
        else:
            raise DatabaseBusy("another program is reading or writing it. Wait until it is done.")
        yield cast(BinaryIO, file)
        connection.rollback()


def _run(connection: SqliteConnection, transaction: Transaction[T], begin: str) -> T:
    connection.execute(begin)
    try:
        value = transaction(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    return value


COUNTED = {
    "auth": "SELECT count(*) FROM player WHERE state IN ('active', 'blocked')",
    "state": "SELECT count(*) FROM save WHERE current_version NOT NULL",
}


def size_of(path: Path) -> int:
    """Return the greatest size in bytes that a copy of this database can have; raise DatabaseError."""
    with _open_any(path) as connection:
        names = ("page_count", "freelist_count", "page_size")
        (pages, free, size) = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        return (int(pages) - int(free)) * int(size)


def copy(source: Path, target: Path, working: Callable[[], None] = no_progress) -> None:
    """Copy everything committed until now into a new file (0600) that is on disk when this returns.

    The service may run: the copy holds a snapshot, and writes go on. `working` is called repeatedly. Raise
    DatabaseError; the target is then incomplete.
    """
    with translated(), _interruptible(), closing(connect(file_uri(source, "rw"))) as connection:
        prepare(connection)
        connection.set_progress_handler(working, STEPS)
        copy_into(connection, target)


def examine(path: Path, name: str, working: Callable[[], None] = no_progress) -> IntegrityResult:
    """Check every page of a copy of `auth` or `state`, without writing anything; raise BackupError if it has errors."""
    return examine_copy(path, lambda connection: _examine(connection, path.name, name), working)


def examine_copy(
    path: Path, transaction: Callable[[SqliteConnection], T], working: Callable[[], None] = no_progress
) -> T:
    """Return what a transaction reads in a copy; raise BackupError if SQLite cannot read it."""
    try:
        with _interruptible(), closing(connect(f"{file_uri(path, 'ro')}&immutable=1")) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.set_progress_handler(working, STEPS)
            return transaction(connection)
    except sqlite3.Error as e:
        raise BackupError(f"{path.name} is damaged ({e})") from e


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt where a progress handler was interrupted by Ctrl-C, which SQLite reports as an error."""
    try:
        yield
    except sqlite3.Error as e:
        if getattr(e, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            raise KeyboardInterrupt from None
        raise


def _examine(connection: SqliteConnection, file: str, name: str) -> IntegrityResult:
    [(identity,)] = connection.execute("PRAGMA application_id").fetchall()
    if identity != APPLICATION_ID[name]:
        raise BackupError(f"{file} is not gamed's {name}.db")
    schema, known = version_of(connection), len(scripts_in(schema_folder(name)))
    if not schema:
        raise BackupError(f"{file} holds nothing")
    if schema > known:
        raise BackupError(f"{file} has schema {schema}, this gamed knows {known}: it is of a newer gamed; use that one")
    which = schema_difference(connection, name)
    errors = [line for (line,) in connection.execute(f"PRAGMA integrity_check({SHOWN_ERRORS})") if line != "ok"]
    errors += [f"a row of {row[0]} refers to nothing" for row in connection.execute("PRAGMA foreign_key_check")]
    if which is not None:
        raise SchemaDiffers(f"{file} {OTHER_VERSION}: its {which} is missing or differs")
    if errors:
        raise BackupError(f"{file} is damaged ({'; '.join(errors[:SHOWN_ERRORS])})")
    ((rows,),) = connection.execute(COUNTED[name]).fetchall()
    return IntegrityResult(name, schema, int(rows))
