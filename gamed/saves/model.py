"""One version of a save, as it is kept (PROTOCOL 4).

Where a client stands in the changes of its shelf (PROTOCOL 4.2).

One slot in a list of saves (PROTOCOL 4.2).

One player's shelf as a whole.
"""

from collections.abc import Sequence
from enum import StrEnum
from re import ASCII, compile
from typing import Final

from msgspec import Struct

from gamed.crypto import Random
from gamed.http.conditional import EntityTag
from gamed.saves.errors import InvalidSaveRequest
from gamed.saves.limits import Usage
from gamed.tokens import base64url


class VersionKind(StrEnum):
    """How a version came to be."""

    WRITE = "write"
    RESTORE = "restore"
    CONFLICT = "conflict"
    DELETE = "delete"


class SaveContent(Struct, frozen=True):
    """What a client wants kept: 32 bytes of SHA-256, bytes in all, media type, Save-Meta as sent."""

    sha256: bytes
    size: int
    content_type: str
    meta: str | None = None


class Version(Struct, frozen=True):
    """One row of a slot's history; instants are epoch milliseconds."""

    slot: str
    version: int
    parent: int | None
    """The version it was written on top of."""
    parent_tag: str | None
    """That version's entity-tag without quotes, as the client named it."""
    kind: VersionKind
    blob_id: int | None
    """None for a delete."""
    content: SaveContent | None
    """None for a delete."""
    created_ms: int
    retired_ms: int | None = None
    """When it stopped being current."""

    @property
    def size(self) -> int:
        return self.content.size if self.content else 0

    @property
    def tag(self) -> str:
        """The entity-tag without quotes; a delete has the bare version."""
        return tag_of(self.version, self.content.sha256) if self.content else str(self.version)

    @property
    def entity_tag(self) -> EntityTag:
        return EntityTag(self.tag)


def tag_of(version: int, sha256: bytes) -> str:
    """`9-9f86d081884c7d65`: the version, and the first 16 hex digits of the bytes' SHA-256."""
    return f"{version}-{sha256[:8].hex()}"


def version_number(text: str) -> int:
    """As it stands in a path; what is no number of any version is 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 and text[0] != "0" else 0


def version_of_tag(tag: str) -> int | None:
    """The version that a tag speaks of, or None when it is not one of ours."""
    number, dash, digest = tag.partition("-")
    ours = bool(dash) and number.isascii() and number.isdigit() and len(number) <= 18 and len(digest) == 16
    return int(number) if ours else None


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


EMPTY_CURSOR: Final = Cursor("0", 0)
"""Of a player who never saved anything: no epoch is drawn before the first write."""


def parse_cursor(text: str) -> Cursor:
    """As an earlier answer gave it, or InvalidSaveRequest."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise InvalidSaveRequest("since takes the cursor of an earlier answer as it was; without it you get all.")
    return Cursor(match[1], int(match[2]))


def new_epoch(random: Random) -> str:
    return base64url(random(EPOCH_BYTES))


class SlotEntry(Struct, frozen=True):
    """A current version with its conflict copies; or, without one, when the slot was deleted and by which version."""

    slot: str
    current: Version | None
    conflicts: Sequence[int] = ()
    deleted_ms: int | None = None
    tombstone_version: int = 0


class Listing(Struct, frozen=True):
    """The shelf at a cursor; `entries` is None when the client said it knows this cursor."""

    cursor: Cursor
    entries: Sequence[SlotEntry] | None
    reset: bool = False
    """Changes were asked for, since a past that is gone: this is everything."""

    def has_changes(self, since: Cursor | None) -> bool:
        """Whether it tells a client more than it knows, who asked for changes since `since`."""
        return self.entries is not None and self.cursor != since


class SavesSummary(Struct, frozen=True):
    """Counted exactly, in the same transaction as each change."""

    cursor: Cursor = EMPTY_CURSOR
    usage: Usage = Usage()
    erased_ms: int | None = None
    """When everything was erased last."""
    erasing: bool = False
    """Rows of an erased shelf are still going; nothing new may come between them."""

    def covers(self, since: Cursor) -> bool:
        """Whether what changed after `since` can be told.

        Who knew nothing yet misses nothing, unless what they wrote themselves was erased meanwhile.
        """
        return self.erased_ms is None if since == EMPTY_CURSOR else self.cursor.follows(since)

    def erased_since(self, epoch: str) -> bool:
        """Whether the shelf was erased after a request saw this epoch, or is being erased; needs no clock."""
        if self.erasing:
            return True
        return epoch != self.cursor.epoch and (self.erased_ms is not None or self.cursor == EMPTY_CURSOR)
