"""One unit from another process, beside the running service: what a command on the host does to a store."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from gamed.storage.errors import translated
from gamed.storage.files import connect, file_uri, prepare
from gamed.storage.migrations import MigrationError, schema_folder, scripts_in, version_of
from gamed.store import StoreUnavailable

T = TypeVar("T")


def once(path: Path, unit: Callable[[sqlite3.Connection], T]) -> T:
    """Run the unit in one write transaction on auth.db or state.db; keep it under 20 ms, the service waits for it.

    Waits up to five seconds for its turn. StoreError as on the lanes; MigrationError when the file's schema is not
    this version's. A unit that raises changes nothing.
    """
    return _run(path, unit, "BEGIN IMMEDIATE")


def look(path: Path, unit: Callable[[sqlite3.Connection], T]) -> T:
    """The same for a unit that only reads, from one snapshot; the service waits for nothing."""
    return _run(path, unit, "BEGIN")


@contextmanager
def reader(path: Path) -> Iterator[Callable[[Callable[[sqlite3.Connection], T]], T]]:
    """For many looks, one after another, each with a snapshot of its own: what runs a unit that only reads."""
    if not path.is_file():
        raise StoreUnavailable(f"{path} does not exist; start the service once to make it.")
    with translated(), closing(connect(file_uri(path, "rw"))) as connection:
        prepare(connection)
        _check(connection, path)
        connection.execute("PRAGMA query_only = ON")
        yield lambda unit: _decided(connection, unit, "BEGIN")


def _run(path: Path, unit: Callable[[sqlite3.Connection], T], begin: str) -> T:
    if not path.is_file():
        raise StoreUnavailable(f"{path} does not exist; start the service once to make it.")
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
