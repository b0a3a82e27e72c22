"""The translation of PostgreSQL's errors by their SQLSTATE."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.errors import Diagnostic

from gamed.database.errors import (
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseError,
    DatabaseFailing,
    DatabaseUnavailable,
    DatabaseUnreachable,
    DiskFull,
    new_error,
)

LOST, NOT_REPLICATED, QUEUE_FULL, REFUSED = "lost", "not replicated", "queue full", "refused"
SKEWED = "skewed"
"""Our own codes beside the SQLSTATEs: a connection that was lost, a commit that no standby has confirmed, one for whose
notifications the queue has no room, a server that gamed does not use, and one whose clock differs."""
_OWN = frozenset({LOST, NOT_REPLICATED, QUEUE_FULL, REFUSED, SKEWED})
LIMIT_EXCEEDED = "54000"
"""At a COMMIT: the queue of notifications is full; of another statement it is a defect."""
ABORTED = "25P02"
"""The error of every statement after one that failed, until the transaction is rolled back."""
CODES: dict[str, type[DatabaseError]] = {
    LOST: DatabaseUnreachable,
    NOT_REPLICATED: DatabaseUnreachable,
    QUEUE_FULL: DatabaseUnreachable,
    REFUSED: DatabaseUnavailable,
    SKEWED: DatabaseUnreachable,  # a machine without a clock chip has the time a moment after its start
    "0A000": DatabaseUnreachable,  # a prepared statement whose tables were made anew
    "25006": DatabaseUnreachable,  # a standby that can only be read
    "26000": DatabaseUnreachable,  # a prepared statement that the session does not know
    "3F000": DatabaseUnavailable,  # a schema that does not exist
    "42501": DatabaseUnavailable,  # a privilege that the role does not have
    "42P01": DatabaseUnavailable,  # a table that does not exist
    "25P03": DatabaseUnreachable,  # a transaction that was idle for too long: its session was ended
    "40001": DatabaseBusy,
    "40P01": DatabaseBusy,
    "55P03": DatabaseBusy,
    "57014": DatabaseBusy,
    "53000": DatabaseBusy,
    "53200": DatabaseBusy,
    "53300": DatabaseBusy,
    "53400": DatabaseBusy,
    "53100": DiskFull,
    "58030": DatabaseFailing,
    "XX001": DatabaseCorrupt,
    "XX002": DatabaseCorrupt,
}
CLASSES: dict[str, type[DatabaseError]] = {
    "08": DatabaseUnreachable,
    "28": DatabaseUnavailable,
    "3D": DatabaseUnavailable,
    "57": DatabaseUnreachable,
}
"""The error for each class of codes, the first two characters, where CODES has none."""
STALE = frozenset({"0A000", "25006", "26000"})
"""After these, a new session may succeed where this one cannot."""


class PostgresqlError(Exception):
    """An error that PostgreSQL or libpq has reported: its SQLSTATE and first message, which has no values of rows."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message if code in _OWN else f"{message} ({code})")
        self.code = code


def error_of(found: Diagnostic, message: str, *, lost: bool = False) -> tuple[PostgresqlError, bool]:
    """Return the error that libpq has reported, and whether the session has ended with it; so it has if it is `lost`.

    `message` is libpq's own, for an error that the server has not sent.
    """
    code, ended = found.sqlstate, lost or found.severity_nonlocalized in ("FATAL", "PANIC")
    if not code or (ended and kind_of(code) is None):
        code = LOST
    return PostgresqlError(code, found.message_primary or message.strip()), ended


@contextmanager
def reported() -> Iterator[None]:
    """Raise a PostgresqlError for an error of psycopg."""
    try:
        yield
    except psycopg.Error as e:
        # From None: the text of psycopg's error has PostgreSQL's DETAIL, which quotes values of rows.
        raise error_of(e.diag, str(e))[0] from None


def kind_of(code: str) -> type[DatabaseError] | None:
    """Return the class of the DatabaseError for a code; None for a defect, such as a violated constraint."""
    return CODES.get(code) or CLASSES.get(code[:2])


def translate(error: BaseException) -> BaseException:
    """Return the DatabaseError for an error of PostgreSQL, with its traceback and as its cause; others unchanged."""
    kind = kind_of(error.code) if isinstance(error, PostgresqlError) else None
    if kind is None or not isinstance(error, PostgresqlError):
        return error
    ours = new_error(kind)
    ours.__cause__ = error
    if isinstance(ours, DatabaseFailing):
        ours.code = error.code
    return ours.with_traceback(error.__traceback__)


def ends_batch(code: str) -> bool:
    """Return whether no transaction of the same batch can succeed after this error."""
    kind = kind_of(code)
    return kind is not None and issubclass(kind, (DatabaseBusy, DatabaseUnreachable))
