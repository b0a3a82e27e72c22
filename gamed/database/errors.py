"""The errors of the databases; each feature's problems.py maps them to a status and a problem code."""


class DatabaseError(Exception):
    """An operation that a database did not carry out; nothing was changed."""


class DatabaseBusy(DatabaseError):
    """A full queue, or a file that another process holds: the same request may succeed in a moment."""


class DiskFull(DatabaseError):
    """A disk that is full or cannot be written."""


class DatabaseFailing(DiskFull):
    """A disk that reports an I/O error: it is not full, but it or its connection has failed."""


class DatabaseReadOnly(DiskFull):
    """A file, folder or disk that can only be read."""


class DatabaseUnavailable(DatabaseError):
    """A file that cannot be opened, or is found damaged when it is opened."""


class DatabaseCorrupt(DatabaseError):
    """A damaged file, or a row that no version of gamed has written; writes to the file stop, reads go on."""

    file: str | None = None
    """The damaged file, `auth` or `state`; None for the file of the queue that found the damage."""


class BlobNotFound(DatabaseError):
    """Bytes that were deleted after their id was read."""


class BlobCorrupt(DatabaseError):
    """Stored bytes that no longer match their hash; the file itself may be intact."""
