"""What any store may say instead of an answer; storage raises these, the web knows their status codes."""


class DatabaseError(Exception):
    """A store that did not do what was asked; nothing was changed."""


class DatabaseBusy(DatabaseError):
    """Too many wait, or another process holds the file: the same request may succeed in a moment."""


class DiskFull(DatabaseError):
    """The disk has no room or cannot be written."""


class DatabaseFailing(DiskFull):
    """The disk reports an I/O error: it is not full, it or the way to it is broken."""


class DatabaseReadOnly(DiskFull):
    """The file, its folder or its disk can only be read."""


class DatabaseUnavailable(DatabaseError):
    """The file cannot be opened, or shows damage when it is opened."""


class DatabaseCorrupt(DatabaseError):
    """SQLite reports a damaged file, or a row is not one that was written; writing has stopped, reading goes on."""

    file: str | None = None
    """The damaged file, `auth` or `state`; None: that of the queue in which it was met."""


class BlobNotFound(DatabaseError):
    """The bytes asked for were removed since their id was read."""


class BlobCorrupt(DatabaseError):
    """Stored bytes that no longer give their hash; the file itself may be whole."""
