"""One slot in a list of saves (PROTOCOL 4.2)."""

from collections.abc import Sequence

from msgspec import Struct

from gamed.saves.cursor import Cursor
from gamed.saves.version import Version


class SlotEntry(Struct, frozen=True):
    """A current version with its conflict copies; or, without one, when the slot was deleted and by which version."""

    slot: str
    head: Version | None
    conflicts: Sequence[int] = ()
    deleted_ms: int | None = None
    removed_by: int = 0


class Listing(Struct, frozen=True):
    """The shelf at a cursor; `entries` is None when the client said it knows this cursor."""

    cursor: Cursor
    entries: Sequence[SlotEntry] | None
    reset: bool = False
    """Changes were asked for, since a past that is gone: this is everything."""

    def is_news(self, since: Cursor | None) -> bool:
        """Whether it tells a client more than it knows, who asked for changes since `since`."""
        return self.entries is not None and self.cursor != since
