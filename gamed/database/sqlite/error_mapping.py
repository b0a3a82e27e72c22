"""The translation of SQLite's errors by their result codes."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from gamed.database.errors import (
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseError,
    DatabaseFailing,
    DatabaseReadOnly,
    DatabaseUnavailable,
    DiskFull,
    new_error,
)

T = TypeVar("T")
PRIMARY: dict[int, type[DatabaseError]] = {
    sqlite3.SQLITE_BUSY: DatabaseBusy,
    sqlite3.SQLITE_LOCKED: DatabaseBusy,
    sqlite3.SQLITE_PROTOCOL: DatabaseBusy,
    sqlite3.SQLITE_FULL: DiskFull,
    sqlite3.SQLITE_IOERR: DatabaseFailing,
    sqlite3.SQLITE_READONLY: DatabaseReadOnly,
    sqlite3.SQLITE_CANTOPEN: DatabaseUnavailable,
    sqlite3.SQLITE_CORRUPT: DatabaseCorrupt,
    sqlite3.SQLITE_NOTADB: DatabaseCorrupt,
}
"""The error for each primary result code, which is the low byte of an extended one."""

EXTENDED: dict[int, type[DatabaseError]] = {
    sqlite3.SQLITE_IOERR_SHMSIZE: DiskFull,
}
"""The extended result codes that differ from their primary code: no room to enlarge the index of the log."""
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions that Python raises for SQLite's errors; the second one if SQLite's message quotes damaged text."""
UNDECODABLE = "Could not decode to UTF-8"
"""The start of Python's message about a damaged text in a row."""


def translate(error: BaseException) -> BaseException:
    """Return the DatabaseError for an error of SQLite, with its traceback and as its cause; return others unchanged."""
    if not isinstance(error, SQLITE_ERRORS):
        return error
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        kind = EXTENDED.get(code) or PRIMARY.get(code & 0xFF)
    else:
        undecodable = isinstance(error, UnicodeDecodeError) or str(error).startswith(UNDECODABLE)
        kind = DatabaseCorrupt if undecodable else None
    if kind is None:
        return error
    ours = new_error(kind)
    ours.__cause__ = error
    if isinstance(ours, DatabaseFailing):
        ours.code = str(getattr(error, "sqlite_errorname", "unknown"))
    return ours.with_traceback(error.__traceback__)


@contextmanager
def translated() -> Iterator[None]:
    """Raise the DatabaseError for an error of SQLite inside."""
    try:
        yield
    except SQLITE_ERRORS as e:
        if (ours := translate(e)) is e:
            raise
        raise ours  # noqa: B904  its cause is set
