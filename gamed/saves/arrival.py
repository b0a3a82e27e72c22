"""A body that a client has sent (PROTOCOL 4.1)."""

from typing import BinaryIO

from msgspec import Struct

from gamed.saves.blank import BlankWatch
from gamed.saves.condition import Condition
from gamed.saves.version import Body


class Arrival(Struct, frozen=True, eq=False):
    """A body that is all here, small in `data` or larger in `spool`; the caller closes the spool."""

    slot: str
    condition: Condition
    body: Body
    announced: bytes | None
    """The SHA-256 that Content-Digest promised."""
    blank: BlankWatch
    data: bytes | None = None
    spool: BinaryIO | None = None

    def __repr__(self) -> str:
        """Not the bytes."""
        return f"<Arrival {self.slot} {self.body.size}>"
