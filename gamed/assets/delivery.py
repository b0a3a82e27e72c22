"""What a GET under /assets/ comes to: one representation, judged by its conditions and its range (PROTOCOL 5, 6)."""

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from gamed.assets.errors import NotCurrent
from gamed.http_rules.conditions import UNCONDITIONAL, Conditions, Outcome, Representation, judge, range_holds
from gamed.http_rules.ranges import ByteRange, select
from gamed.http_rules.tags import EntityTag
from gamed.structs import hides


class Look(Struct, frozen=True):
    """A GET or HEAD."""

    conditions: Conditions
    range: str | None
    """The Range header; None for a HEAD, which ignores it (RFC 9110 14.2)."""
    whole: bool
    """The bytes are asked for too."""


class Item(Struct, frozen=True, cache_hash=True):
    """What is at an address now."""

    tag: EntityTag
    sha256: str
    """Of its bytes, in hex."""
    size: int
    type: str
    """Media type."""
    modified_ms: int
    lasting: bool
    """Whether this address will never hold other bytes."""
    release: str | None = None
    """Where the channel of the address points; None where there is no channel in it."""


class StoredFile(Protocol):
    """Bytes on disk, also in parts of `part_bytes`; closed by whoever got it."""

    @property
    def part_bytes(self) -> int: ...
    def part(self, n: int) -> Awaitable[bytes]: ...
    def read(self, first: int, length: int) -> Awaitable[bytes]:
        """Less only where the file ends."""

    def at_once(self, first: int, length: int) -> bytes | None:
        """The same, if the disk need not be waited for."""

    def ready(self, at: int) -> int:
        """How many bytes from there on can be sent now without waiting for the disk."""

    def read_ahead(self, at: int) -> Awaitable[None]:
        """Afterwards there are some, for a moment, if the file has them."""

    def fileno(self) -> int: ...
    def close(self) -> None: ...


@hides("content")
class Stored(Struct, frozen=True, eq=False):
    """What is kept under a hash, since `modified_ms`."""

    size: int
    modified_ms: int
    content: bytes | StoredFile

    def close(self) -> None:
        if not isinstance(self.content, bytes):
            self.content.close()


@hides("content")
class Delivery(Struct, frozen=True, eq=False):
    """How a GET or HEAD is answered. `content` is all bytes there are; None when none are sent."""

    item: Item
    modified: bool
    part: ByteRange | None = None
    """What of the bytes is asked for; None: all of them."""
    content: bytes | StoredFile | None = None

    def having(self, content: bytes | StoredFile) -> "Delivery":
        """The same, with all the bytes there are."""
        return Delivery(self.item, self.modified, self.part, content)

    @property
    def first(self) -> int:
        return self.part.first if self.part else 0

    @property
    def length(self) -> int:
        return self.part.length if self.part else self.item.size


def judged(item: Item, look: Look) -> Delivery:
    """RFC 9110 13.2.2 in order; NotCurrent, RangeUnsatisfiable.

    A channel may be pointed at two releases within one second, which one date cannot tell apart: below a channel no
    part is sent for a date in If-Range (RFC 9110 8.8.2.2).
    """
    if look.conditions is UNCONDITIONAL:
        return Delivery(item, True, select(look.range, item.size))
    now = Representation(item.tag, item.modified_ms, item.lasting)
    outcome = judge(look.conditions, now, reading=True)
    if outcome is Outcome.NOT_MODIFIED:
        return Delivery(item, modified=False)
    if outcome is Outcome.FAILED:
        raise NotCurrent("Other bytes are at this address than If-Match or If-Unmodified-Since ask for; start anew.")
    return Delivery(item, True, select(look.range, item.size) if range_holds(look.conditions, now) else None)
