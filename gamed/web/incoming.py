"""Bytes to be kept, on their way: judged from the head, then counted, hashed, spooled as they arrive (PROTOCOL 4)."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct, field
from twisted.internet.defer import Deferred

from gamed.saves.blank import BlankWatch
from gamed.saves.disk import Announced
from gamed.saves.errors import ContentEncoded, LengthRequired
from gamed.saves.limits import INLINE_BYTES, SaveLimits, check_size
from gamed.structs import Part
from gamed.web.gates import Head
from gamed.web.spool import Disk, Spool, at_once


class Hash(Protocol):
    """A digest in the making."""

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class Incoming(Struct, eq=False):
    """A body that is counted and hashed, small in memory, larger in a file. Torn, it leaves no trace."""

    _limits: SaveLimits
    _spool: Spool
    _announced: Announced
    """Shared by all; `_claim` is this one's part of it."""
    _claim: int
    size: int = 0
    blank: BlankWatch = field(default_factory=BlankWatch)
    _hash: Hash = field(default_factory=sha256)

    def write(self, data: bytes) -> Deferred[None] | None:
        """SaveTooLarge at the first byte too many; StoreFull when the disk takes no more."""
        self.size += len(data)
        check_size(self._limits, self.size)
        self._hash.update(data)
        self.blank.feed(data)
        return self._spool.add(data)

    def abort(self) -> None:
        """Let go of everything."""
        self._announced.bytes -= self._claim
        self._claim = 0
        self._spool.drop()

    @property
    def sha256(self) -> bytes:
        """Of all bytes so far."""
        return self._hash.digest()

    async def whole(self) -> tuple[bytes | None, BinaryIO | None]:
        """Everything, once it is all here: in memory or as a file, which ends with abort()."""
        content = await self._spool.whole()
        return (content, None) if isinstance(content, bytes) else (None, content)


class Intake(Part, frozen=True):
    """Judges size, coding and room on the disk, all from the head."""

    _limits: SaveLimits
    _folder: Path
    """Where larger bodies wait, on the disk of the stores."""
    _free_bytes: Callable[[], int]
    """-> what the stores' disk has left."""
    _disk: Disk = at_once
    _announced: Announced = field(default_factory=Announced)

    def open(self, head: Head) -> Incoming:
        """A place for the body, or SaveError, or DiskNearlyFull; who does not say how much comes may send the most."""
        if not head.framed:
            raise LengthRequired("Say how long the body is with Content-Length, or send it chunked.")
        check_size(self._limits, head.length or 0)
        if head.headers.hasHeader("content-encoding"):
            raise ContentEncoded("Saves are kept as they are. Send the bytes without Content-Encoding.")
        claim = self._limits.save_bytes if head.length is None else head.length
        self.claim(claim)
        return Incoming(self._limits, Spool(self._folder, INLINE_BYTES, self._disk), self._announced, claim)

    def claim(self, size: int) -> None:
        """So many bytes of the disk are spoken for; DiskNearlyFull."""
        self._announced.claim(size, self._free_bytes(), self._limits.min_free_bytes)
