"""The errors of the databases; each feature's problems.py maps them to a status and a problem code."""

from errno import EIO, errorcode
from typing import TypeVar


class DatabaseError(Exception):
    """An operation that a database did not carry out; nothing was changed."""


class DatabaseBusy(DatabaseError):
    """A full queue, or a file that another process holds: the same request may succeed in a moment."""


class DatabaseLocked(DatabaseBusy):
    """A file that another process does not finish to write; that process may be stopped."""

    process: str = "unknown"
    """The id of that process."""
    first: bool = False
    """True for the first of several such errors in a row, which is logged."""


class DiskFull(DatabaseError):
    """A disk that is full or cannot be written."""


class DatabaseFailing(DiskFull):
    """A disk that reports an I/O error: it is not full, but it or its connection has failed."""

    code: str = "unknown"
    """The name that the engine or the operating system gives to the error: `SQLITE_IOERR_WRITE` or `EIO`."""


class DatabaseReadOnly(DiskFull):
    """A file, folder or disk that can only be read."""


class DatabaseUnavailable(DatabaseError):
    """A file that cannot be opened, or is found damaged when it is opened."""


class DatabaseUnreachable(DatabaseUnavailable):
    """A database server that does not answer now; the outcome of a commit may be unknown."""

    retry_after = 1
    """Seconds."""


class DatabaseCorrupt(DatabaseError):
    """A damaged file, or a row that no version of gamed has written; writes to the file stop, reads go on."""

    file: str | None = None
    """The damaged file, `auth` or `state`; None for the file of the queue that found the damage."""


class DatabaseRestored(DatabaseError):
    """A database that was restored without gamed, so that sessions and versions of saves may exist twice."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} Stop all servers that use it, then run: gamed restored")


class BlobNotFound(DatabaseError):
    """Bytes that were deleted after their id was read."""


class BlobCorrupt(DatabaseError):
    """Stored bytes that no longer match their hash; the file itself may be intact."""


class MigrationError(Exception):
    """A database that this version cannot work with; it is unchanged."""


class SchemaOlder(MigrationError):
    """A file that the next start brings to the schema of this version."""


E = TypeVar("E", bound=DatabaseError)
TEXTS: dict[type[DatabaseError], str] = {
    DatabaseBusy: "The server is busy. Try again in a moment.",
    DiskFull: "The server's disk has no room or cannot be written. Its owner must make room; then try again.",
    DatabaseFailing: "The server's disk reports an I/O error. Its owner must check it and its quota; try later.",
    DatabaseReadOnly: "The server may only read the database this is kept in. Its owner must make it writable.",
    DatabaseUnavailable: "The server cannot open the database this is kept in. Its owner must repair or restore it.",
    DatabaseUnreachable: "The server cannot reach its database. Try again in a moment.",
    DatabaseCorrupt: "The database this is kept in is damaged. Its owner must restore it from a backup.",
}


def new_error(kind: type[E]) -> E:
    """Return a new error of this class with its text."""
    return kind(TEXTS[kind])


def of_disk(error: OSError) -> DiskFull:
    """Return the DatabaseError for an OSError about a file on the disk, which is its cause."""
    ours = new_error(DatabaseFailing if error.errno == EIO else DiskFull)
    if isinstance(ours, DatabaseFailing):
        ours.code = errorcode[EIO]
    ours.__cause__ = error
    return ours


def damaged_row(file: str) -> DatabaseCorrupt:
    """Return the error for a row of `auth` or `state` that no version of gamed has written."""
    error = new_error(DatabaseCorrupt)
    error.file = file
    return error
