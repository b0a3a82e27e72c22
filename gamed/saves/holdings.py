"""One player's shelf as a whole."""

from msgspec import Struct

from gamed.saves.cursor import UNBORN, Cursor
from gamed.saves.limits import Usage


class Holdings(Struct, frozen=True):
    """Counted exactly, in the same transaction as each change."""

    cursor: Cursor = UNBORN
    usage: Usage = Usage()
    erased_ms: int | None = None
    """When everything was erased last."""
    erasing: bool = False
    """Rows of an erased shelf are still going; nothing new may come between them."""

    def tells(self, since: Cursor) -> bool:
        """Whether what changed after `since` can be told.

        Who knew nothing yet misses nothing, unless what they wrote themselves was erased meanwhile.
        """
        return self.erased_ms is None if since == UNBORN else self.cursor.follows(since)

    def erased_since(self, epoch: str) -> bool:
        """Whether the shelf was erased after a request saw this epoch, or is being erased; needs no clock."""
        if self.erasing:
            return True
        return epoch != self.cursor.epoch and (self.erased_ms is not None or self.cursor == UNBORN)
