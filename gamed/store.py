"""What any store may say instead of an answer; storage raises these, the web knows their status codes."""


class StoreError(Exception):
    """A store that did not do what was asked; nothing was changed."""


class StoreBusy(StoreError):
    """Too many wait, or another process holds the file: the same request may succeed in a moment."""


class StoreFull(StoreError):
    """The disk has no room or cannot be written."""


class StoreFailing(StoreFull):
    """The disk reports an I/O error: it is not full, it or the way to it is broken."""


class StoreUnavailable(StoreError):
    """The file could not be opened, or shows damage, at start."""


class StoreCorrupt(StoreError):
    """SQLite reports a damaged file; writing has stopped, reading goes on."""


class BlobGone(StoreError):
    """The bytes asked for were removed since their id was read."""


class BlobCorrupt(StoreError):
    """Stored bytes that no longer give their hash; the file itself may be whole."""
