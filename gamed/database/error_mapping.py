"""This module translates SQLite's errors, and makes Failures that keep no statement open."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EIO, errorcode
from traceback import clear_frames
from typing import TypeVar

from twisted.python.failure import Failure

from gamed.database.errors import (
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseError,
    DatabaseFailing,
    DatabaseReadOnly,
    DatabaseUnavailable,
    DiskFull,
)

T = TypeVar("T")
TEXTS: dict[type[DatabaseError], str] = {
    DatabaseBusy: "The server is busy. Try again in a moment.",
    DiskFull: "The server's disk has no room or cannot be written. Its owner must make room; then try again.",
    DatabaseFailing: "The server's disk reports an I/O error. Its owner must check it and its quota; try later.",
    DatabaseReadOnly: "The server may only read the file this is kept in. Its owner must make it writable.",
    DatabaseUnavailable: "The server cannot open the file this is kept in. Its owner must repair or restore it.",
    DatabaseCorrupt: "The file this is kept in is damaged. Its owner must restore it from a backup.",
}
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


def new_error(kind: type[DatabaseError]) -> DatabaseError:
    """Return a new error of this class with its text."""
    return kind(TEXTS[kind])


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
    return ours.with_traceback(error.__traceback__)


def of_disk(error: OSError) -> DatabaseError:
    """Return the DatabaseError for an OSError about a file on the disk, which is its cause."""
    ours = new_error(DatabaseFailing if error.errno == EIO else DiskFull)
    ours.__cause__ = error
    return ours


def code_of(error: DatabaseFailing) -> str:
    """Return the name that SQLite or the operating system gives to the I/O error: `SQLITE_IOERR_WRITE` or `EIO`."""
    cause = error.__cause__
    if isinstance(cause, OSError):
        return errorcode.get(cause.errno or 0, "unknown")
    return str(getattr(cause, "sqlite_errorname", "unknown"))


def damaged_row(file: str) -> DatabaseCorrupt:
    """Return the error for a row of `auth` or `state` that no version of gamed has written."""
    error = new_error(DatabaseCorrupt)
    assert isinstance(error, DatabaseCorrupt)
    error.file = file
    return error


def found_in(file: str, error: BaseException) -> BaseException:
    """Return the translated error; attribute damage to `file`, `auth` or `state`, whatever else the connection has."""
    ours = translate(error)
    if isinstance(ours, DatabaseCorrupt):
        ours.file = file
    return ours


def attributed(file: str, transaction: Callable[[sqlite3.Connection], T]) -> Callable[[sqlite3.Connection], T]:
    """Return a transaction for the read queue whose damage is attributed to `file`, `auth` or `state`."""

    def read(connection: sqlite3.Connection) -> T:
        try:
            return transaction(connection)
        except SQLITE_ERRORS as e:
            raise found_in(file, e)  # noqa: B904  its cause is set

    return read


@contextmanager
def translated() -> Iterator[None]:
    """Raise the DatabaseError for an error of SQLite inside."""
    try:
        yield
    except SQLITE_ERRORS as e:
        if (ours := translate(e)) is e:
            raise
        raise ours  # noqa: B904  its cause is set


def detached_failure(error: BaseException) -> Failure:
    """Return a Failure with the translated error; clear the frames of its traceback.

    A frame in a traceback keeps its cursors, and a SELECT that was not read to its end keeps its snapshot: the next
    batch on this connection would read old rows.
    """
    for each in _chain(error):
        clear_frames(each.__traceback__)
    return Failure(translate(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, its cause, and so on."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
