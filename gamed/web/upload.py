"""Bodies of saves: judged from the head, then counted, hashed and kept as they arrive (PROTOCOL 4.1)."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from gamed.http_rules.conditions import Header
from gamed.saves.arrival import Arrival
from gamed.saves.blank import BlankWatch
from gamed.saves.condition import Condition, writing_condition
from gamed.saves.digest import parse_content_digest
from gamed.saves.disk import Announced
from gamed.saves.errors import BadRangePut, ContentEncoded, LengthRequired
from gamed.saves.limits import INLINE_BYTES, SaveLimits, check_size
from gamed.saves.media_type import check_media_type
from gamed.saves.meta import check_meta
from gamed.saves.orders import Entry
from gamed.saves.shelf import Shelf
from gamed.saves.slots import check_slot
from gamed.saves.version import Body
from gamed.web.access import access_token
from gamed.web.fields import header_of
from gamed.web.gates import Head
from gamed.web.spool import Disk, Spool, at_once


class Hash(Protocol):
    """A digest in the making."""

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


@frozen
class Intent:
    """What a PUT says before its body."""

    slot: str
    condition: Condition
    ctype: str
    meta: str | None
    announced: bytes | None

    @classmethod
    def of(cls, slot: str, header: Header, limits: SaveLimits) -> "Intent":
        """Everything that is wrong in itself is refused before the token is looked at; SaveError."""
        if header("content-range") is not None:
            raise BadRangePut("A save is written whole. Send all its bytes, without Content-Range.")
        return cls(
            check_slot(slot),
            writing_condition(header),
            check_media_type(header("content-type")),
            check_meta(header("save-meta"), limits.meta_bytes),
            parse_content_digest(header("content-digest")),
        )


@define(eq=False)
class Upload:
    """A body on its way: counted, hashed, small ones in memory, larger ones in a file. Torn, it leaves no trace."""

    entry: Entry
    _intent: Intent
    _limits: SaveLimits
    _spool: Spool
    _announced: Announced = field(factory=Announced)
    """Shared by all uploads; `_claim` is this one's part of it."""
    _claim: int = 0
    _hash: Hash = field(factory=sha256)
    _blank: BlankWatch = field(factory=BlankWatch)
    _size: int = 0

    def write(self, data: bytes) -> Deferred[None] | None:
        """SaveTooLarge at the first byte too many; StoreFull when the disk takes no more."""
        self._size += len(data)
        check_size(self._limits, self._size)
        self._hash.update(data)
        self._blank.feed(data)
        return self._spool.add(data)

    def abort(self) -> None:
        """Let go of everything."""
        self._announced.bytes -= self._claim
        self._claim = 0
        self._spool.drop()

    async def arrival(self) -> Arrival:
        """The whole body; a file belongs to this upload and ends with abort()."""
        intent, content = self._intent, await self._spool.whole()
        body = Body(self._hash.digest(), self._size, intent.ctype, intent.meta)
        small, large = (content, None) if isinstance(content, bytes) else (None, content)
        return Arrival(intent.slot, intent.condition, body, intent.announced, self._blank, small, large)


@frozen
class SaveGate:
    """Who may send a save, in the order of PROTOCOL 4: syntax, token, size and coding, disk."""

    _shelf: Shelf
    _limits: SaveLimits
    _folder: Path
    """Where larger bodies wait, on the disk of the stores."""
    _free_bytes: Callable[[], int]
    """-> what the stores' disk has left."""
    _disk: Disk = at_once
    _announced: Announced = field(factory=Announced)

    async def admit(self, head: Head) -> Upload:
        header = header_of(head.headers)
        intent = Intent.of(head.kwargs["slot"], header, self._limits)
        entry = await self._shelf.enter(access_token(head.headers))
        if not head.framed:
            raise LengthRequired("Say how long the body is with Content-Length, or send it chunked.")
        check_size(self._limits, head.length or 0)
        if header("content-encoding") is not None:
            raise ContentEncoded("Saves are kept as they are. Send the bytes without Content-Encoding.")
        claim = head.length or 0
        self._announced.claim(claim, self._free_bytes(), self._limits.min_free_bytes)
        spool = Spool(self._folder, INLINE_BYTES, self._disk)
        return Upload(entry, intent, self._limits, spool, self._announced, claim)
