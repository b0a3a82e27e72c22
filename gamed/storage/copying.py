"""A store copied while it is served, and a copy examined without being changed (SPEC 2.2 rule 2)."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from gamed.backups import BackupError
from gamed.storage.errors import translated
from gamed.storage.files import APPLICATION_ID, connect, copy_into, file_uri, prepare
from gamed.storage.migrations import STEPS, schema_folder, scripts_in, silent, version_of
from gamed.store import StoreUnavailable

T = TypeVar("T")
_PAGES = ("page_count", "freelist_count", "page_size")
CLIPPED = 3
"""Of SQLite's complaints about one file, as many are told."""


class Examined(Struct, frozen=True):
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
    """How many bytes a copy of this store will have at most; StoreError."""
    if not path.is_file():
        raise StoreUnavailable(f"{path} does not exist; start the service once to make it.")
    with translated(), closing(connect(file_uri(path, "rw"))) as connection:
        prepare(connection)
        (pages, free, size) = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _PAGES)
        return (int(pages) - int(free)) * int(size)


def copy(source: Path, target: Path, working: Callable[[], None] = silent) -> None:
    """Everything committed until now, in a new file of its own (0600), on disk when this returns.

    Beside the running service: one snapshot is held, writes go on. `working` is called again and again. StoreError;
    what is there of the target then is of no use.
    """
    with translated(), _broken_off(), closing(connect(file_uri(source, "rw"))) as connection:
        prepare(connection)
        connection.set_progress_handler(working, STEPS)
        copy_into(connection, target)


def examine(path: Path, name: str, working: Callable[[], None] = silent) -> Examined:
    """Every page of the copy read, none written, nothing put beside it; BackupError when it cannot be relied on.

    `name`: `auth` or `state`, which it has to be a copy of.
    """
    return look(path, lambda connection: _examined(connection, path.name, name), working)


def look(path: Path, unit: Callable[[sqlite3.Connection], T], working: Callable[[], None] = silent) -> T:
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


def _examined(connection: sqlite3.Connection, file: str, name: str) -> Examined:
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
    return Examined(name, schema, int(rows))
