"""Bytes that are stored for a commit to come (PROTOCOL 4.4)."""

from typing import BinaryIO

from msgspec import Struct

from gamed.saves.blank import BlankWatch
from gamed.saves.orders import Entry
from gamed.saves.version import Body
from gamed.structs import hides


@hides("data")
class Delivery(Struct, frozen=True):
    """Bytes that are all here, small in `data` or larger in `spool`; the caller closes the spool."""

    sha256: bytes
    """What the path says they are."""
    body: Body
    announced: bytes | None
    """The SHA-256 that Content-Digest promised."""
    blank: BlankWatch
    data: bytes | None = None
    spool: BinaryIO | None = None


@hides("data")
class StageOrder(Struct, frozen=True):
    """Keep these bytes for a while. Everything timed comes along: the transaction may run twice."""

    entry: Entry
    body: Body
    """Of which only hash and size count."""
    now_ms: int
    expired_ms: int
    """What was staged then or before does not count any more."""
    data: bytes | None = None
    """The bytes of a small body."""
    appended: int | None = None
    """The blob that a larger body was appended as."""
    checked: int | None = None
    """A blob of the player that was seen to hold exactly these bytes."""


class Staged(Struct, frozen=True):
    """The bytes are there."""

    blob_id: int

    def took(self, blob_id: int) -> bool:
        """Whether an appended blob is wanted."""
        return blob_id == self.blob_id
