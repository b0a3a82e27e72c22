"""Where a client stands in the changes of its shelf (PROTOCOL 4.2)."""

from re import ASCII, compile
from typing import Final

from msgspec import Struct

from gamed.crypto import Random
from gamed.http_rules.tags import EntityTag
from gamed.saves.errors import InvalidSaveRequest
from gamed.tokens import base64url

EPOCH_BYTES = 6
_FORM: Final = compile(r"([A-Za-z0-9_-]{1,32})\.([0-9]{1,18})", ASCII)


class Cursor(Struct, frozen=True):
    """`k3x9.1234`: the epoch, redrawn when the shelf's past is gone, and the number of the last change."""

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.seq}"

    @property
    def entity_tag(self) -> EntityTag:
        return EntityTag(str(self))

    def follows(self, since: "Cursor") -> bool:
        """Whether both are of one past, and `since` is not ahead."""
        return since.epoch == self.epoch and since.seq <= self.seq


UNBORN: Final = Cursor("0", 0)
"""Of a player who never saved anything: no epoch is drawn before the first write."""


def parse_cursor(text: str) -> Cursor:
    """As an earlier answer gave it, or InvalidSaveRequest."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise InvalidSaveRequest("since takes the cursor of an earlier answer as it was; without it you get all.")
    return Cursor(match[1], int(match[2]))


def new_epoch(random: Random) -> str:
    return base64url(random(EPOCH_BYTES))
