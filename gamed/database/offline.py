"""One unit from another process, beside the running service: what a command on the host does to a store.

A store copied while it is served, and a copy examined without being changed (SPEC 2.2 rule 2).
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from gamed.database.backup_format import BackupError
from gamed.database.connection import APPLICATION_ID, connect, copy_into, file_uri, prepare
from gamed.database.error_mapping import translated
from gamed.database.errors import DatabaseUnavailable
from gamed.database.migrations import STEPS, MigrationError, schema_folder, scripts_in, silent, version_of

T = TypeVar("T")


def run_transaction(path: Path, unit: Callable[[sqlite3.Connection], T]) -> T:
    """Run the unit in one write transaction on auth.db or state.db; keep it under 20 ms, the service waits for it.

    Waits up to five seconds for its turn. DatabaseError as on the lanes; MigrationError when the file's schema is not
    this version's. A unit that raises changes nothing.
    """
    return _run(path, unit, "BEGIN IMMEDIATE")


def run_read(path: Path, unit: Callable[[sqlite3.Connection], T]) -> T:
    """The same for a unit that only reads, from one snapshot; the service waits for nothing."""
    return _run(path, unit, "BEGIN")


@contextmanager
def open_reader(path: Path) -> Iterator[Callable[[Callable[[sqlite3.Connection], T]], T]]:
    """For many looks, one after another, each with a snapshot of its own: what runs a unit that only reads."""
    if not path.is_file():
        raise DatabaseUnavailable(f"{path} does not exist; start the service once to make it.")
    with translated(), closing(connect(file_uri(path, "rw"))) as connection:
        prepare(connection)
        _check(connection, path)
        connection.execute("PRAGMA query_only = ON")
        yield lambda unit: _decided(connection, unit, "BEGIN")


def _run(path: Path, unit: Callable[[sqlite3.Connection], T], begin: str) -> T:
    if not path.is_file():
        raise DatabaseUnavailable(f"{path} does not exist; start the service once to make it.")
    with translated(), closing(connect(file_uri(path, "rw"))) as connection:
        prepare(connection)
        _check(connection, path)
        return _decided(connection, unit, begin)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    here, known = version_of(connection), len(scripts_in(schema_folder(path.stem)))
    if here != known:
        raise MigrationError(f"{path} has schema {here}, this gamed works with {known}; use the version that serves it")


def _decided(connection: sqlite3.Connection, unit: Callable[[sqlite3.Connection], T], begin: str) -> T:
    connection.execute(begin)
    try:
        value = unit(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    return value


_PAGES = ("page_count", "freelist_count", "page_size")
CLIPPED = 3
"""Of SQLite's complaints about one file, as many are told."""


class IntegrityResult(Struct, frozen=True):
    """What a store's copy holds; `rows` counts what an owner counts: players, or current saves."""

    name: str
    """`auth` or `state`."""
    schema: int
    rows: int


COUNTED = {
    "auth": "SELECT count(*) FROM player WHERE state IN ('active', 'blocked')",
    "state": "SELECT count(*) FROM save WHERE current_version NOT NULL",
}


def size_of(path: Path) -> int:
    """How many bytes a copy of this store will have at most; DatabaseError."""
    if not path.is_file():
        raise DatabaseUnavailable(f"{path} does not exist; start the service once to make it.")
    with translated(), closing(connect(file_uri(path, "rw"))) as connection:
        prepare(connection)
        (pages, free, size) = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _PAGES)
        return (int(pages) - int(free)) * int(size)


def copy(source: Path, target: Path, working: Callable[[], None] = silent) -> None:
    """Everything committed until now, in a new file of its own (0600), on disk when this returns.

    Beside the running service: one snapshot is held, writes go on. `working` is called again and again. DatabaseError;
    what is there of the target then is of no use.
    """
    with translated(), _broken_off(), closing(connect(file_uri(source, "rw"))) as connection:
        prepare(connection)
        connection.set_progress_handler(working, STEPS)
        copy_into(connection, target)


def examine(path: Path, name: str, working: Callable[[], None] = silent) -> IntegrityResult:
    """Every page of the copy read, none written, nothing put beside it; BackupError when it cannot be relied on.

    `name`: `auth` or `state`, which it has to be a copy of.
    """
    return examine_copy(path, lambda connection: _examined(connection, path.name, name), working)


def examine_copy(path: Path, unit: Callable[[sqlite3.Connection], T], working: Callable[[], None] = silent) -> T:
    """What a unit reads in a copy; BackupError when that cannot be done."""
    try:
        with _broken_off(), closing(connect(f"{file_uri(path, 'ro')}&immutable=1")) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.set_progress_handler(working, STEPS)
            return unit(connection)
    except sqlite3.Error as e:
        raise BackupError(f"{path.name} is damaged ({e})") from e


@contextmanager
def _broken_off() -> Iterator[None]:
    """Ctrl-C comes out of a progress handler as a complaint of SQLite's."""
    try:
        yield
    except sqlite3.Error as e:
        if getattr(e, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            raise KeyboardInterrupt from None
        raise


def _examined(connection: sqlite3.Connection, file: str, name: str) -> IntegrityResult:
    [(identity,)] = connection.execute("PRAGMA application_id").fetchall()
    if identity != APPLICATION_ID[name]:
        raise BackupError(f"{file} is not gamed's {name}.db")
    schema, known = version_of(connection), len(scripts_in(schema_folder(name)))
    if not schema:
        raise BackupError(f"{file} holds nothing")
    if schema > known:
        raise BackupError(f"{file} has schema {schema}, this gamed knows {known}: it is of a newer gamed; use that one")
    flaws = [line for (line,) in connection.execute(f"PRAGMA integrity_check({CLIPPED})") if line != "ok"]
    flaws += [f"a row of {row[0]} refers to nothing" for row in connection.execute("PRAGMA foreign_key_check")]
    if flaws:
        raise BackupError(f"{file} is damaged ({'; '.join(flaws[:CLIPPED])})")
    ((rows,),) = connection.execute(COUNTED[name]).fetchall()
    return IntegrityResult(name, schema, int(rows))
