"""Bytes to be kept, on their way: judged from the head, then counted, hashed, spooled as they arrive (PROTOCOL 4)."""

from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct, field
from twisted.internet.defer import Deferred

from gamed.http.bodies import RequestHead
from gamed.saves.blank import BlankWatch
from gamed.saves.disk import STEP_BYTES, Announced, UploadSpace
from gamed.saves.errors import ContentEncoded, LengthRequired
from gamed.saves.limits import INLINE_BYTES, SaveLimits, check_size
from gamed.saves.orders import Entry
from gamed.structs import Part
from gamed.web.spool import Disk, Spool, at_once


class Hash(Protocol):
    """A digest in the making."""

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class Incoming(Struct, eq=False):
    """A body that is counted and hashed, small in memory, larger in a file. Torn, it leaves no trace."""

    _limits: SaveLimits
    _spool: Spool
    _space: UploadSpace
    _most: int
    """How many bytes may arrive in all."""
    _checked: int
    """How many bytes may arrive before the disk is checked again."""
    size: int = 0
    blank: BlankWatch = field(default_factory=BlankWatch)
    _hash: Hash = field(default_factory=sha256)

    def write(self, data: bytes) -> Deferred[None] | None:
        """SaveTooLarge at the first byte too many; StoreFull when the disk takes no more."""
        self.size += len(data)
        check_size(self._limits, self.size)
        if self.size > self._checked:
            self._checked = min(-(-self.size // STEP_BYTES) * STEP_BYTES, self._most)
            self._space.grow(self._checked)
        self._hash.update(data)
        self.blank.feed(data)
        return self._spool.add(data)

    def abort(self) -> None:
        """Let go of everything."""
        self._space.release()
        self._spool.drop()

    @property
    def sha256(self) -> bytes:
        """Of all bytes so far."""
        return self._hash.digest()

    async def whole(self) -> tuple[bytes | None, BinaryIO | None]:
        """Everything, once it is all here: in memory or as a file, which ends with abort().

        A small body is no upload any more; a larger one is until its file ends.
        """
        content = await self._spool.whole()
        if isinstance(content, bytes):
            self._space.arrived()
            return content, None
        return None, content


class Intake(Part, frozen=True):
    """Judges size, coding and room on the disk, all from the head."""

    _limits: SaveLimits
    _folder: Path
    """Where larger bodies wait, on the disk of the stores."""
    _announced: Announced
    _disk: Disk = at_once

    def open(self, head: RequestHead, entry: Entry) -> Incoming:
        """Begin an upload; raise TooManyUploads, SaveError or DiskNearlyFull.

        A body of known length reserves it from its head, any other as it arrives.
        """
        space = self.begin(entry)
        try:
            if not head.has_framing:
                raise LengthRequired("Say how long the body is with Content-Length, or send it chunked.")
            check_size(self._limits, head.length or 0)
            if "content-encoding" in head.headers:
                raise ContentEncoded("Saves are kept as they are. Send the bytes without Content-Encoding.")
            space.grow(head.length or 0)
        except BaseException:
            space.release()
            raise
        most, checked = (self._limits.save_bytes, 0) if head.length is None else (head.length, STEP_BYTES)
        return Incoming(self._limits, Spool(self._folder, INLINE_BYTES, self._disk), space, most, checked)

    def begin(self, entry: Entry) -> UploadSpace:
        """Count one more upload of this player, which has reserved nothing yet; raise TooManyUploads."""
        return self._announced.upload(entry.player_id, entry.usage.left(self._limits))
