"""This module translates SQLite's errors, and makes Failures that keep no statement open."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import clear_frames
from typing import TypeVar

from twisted.python.failure import Failure

from gamed.database.connection import Connection, Transaction
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


def found_in(file: str, error: BaseException) -> BaseException:
    """Return the translated error; attribute damage to `file`, `auth` or `state`, whatever else the connection has."""
    ours = translate(error)
    if isinstance(ours, DatabaseCorrupt):
        ours.file = file
    return ours


def attributed(file: str, transaction: Transaction[T]) -> Transaction[T]:
    """Return a transaction for the read queue whose damage is attributed to `file`, `auth` or `state`."""

    def read(connection: Connection) -> T:
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
