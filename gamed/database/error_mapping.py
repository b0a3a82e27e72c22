"""What SQLite's complaints mean to the rest of the house, and failures that hold nothing open."""

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
"""Primary result code (the low byte of an extended one) -> what it means."""

EXTENDED: dict[int, type[DatabaseError]] = {
    sqlite3.SQLITE_IOERR_SHMSIZE: DiskFull,
}
"""Extended result codes that mean something else than their primary code: no room to enlarge the index of the log."""
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What Python raises for SQLite's errors: the second when SQLite's message quotes damaged text."""
UNDECODABLE = "Could not decode to UTF-8"
"""How Python begins its message about a damaged text in a row."""


def new_error(kind: type[DatabaseError]) -> DatabaseError:
    """A fresh error of this kind with its standing text."""
    return kind(TEXTS[kind])


def translate(error: BaseException) -> BaseException:
    """SQLite's error as ours, raised where the original was, its cause; anything else comes back as it is."""
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
    """Return what an error of the operating system about a file on the disk means; its cause is the error."""
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
    """Return the translated error; damage is that of `auth` or `state`, whatever else the connection has open."""
    ours = translate(error)
    if isinstance(ours, DatabaseCorrupt):
        ours.file = file
    return ours


def attributed(file: str, unit: Callable[[sqlite3.Connection], T]) -> Callable[[sqlite3.Connection], T]:
    """Return a unit of the read queue whose damage is that of `auth` or `state`."""

    def read(connection: sqlite3.Connection) -> T:
        try:
            return unit(connection)
        except SQLITE_ERRORS as e:
            raise found_in(file, e)  # noqa: B904  its cause is set

    return read


@contextmanager
def translated() -> Iterator[None]:
    """Raise what SQLite says inside as one of ours."""
    try:
        yield
    except SQLITE_ERRORS as e:
        if (ours := translate(e)) is e:
            raise
        raise ours  # noqa: B904  its cause is set


def detached_failure(error: BaseException) -> Failure:
    """The translated error, its frames cleared.

    A frame kept by a traceback keeps its cursors, and a SELECT that was not read to its end keeps its snapshot:
    the next batch on this connection would read the past.
    """
    for each in _chain(error):
        clear_frames(each.__traceback__)
    return Failure(translate(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
