"""Bodies of saves (PROTOCOL 4.1)."""

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.http.bodies import RequestHead
from gamed.http_rules.conditions import Header
from gamed.saves.arrival import Arrival
from gamed.saves.condition import Condition, writing_condition
from gamed.saves.digest import parse_content_digest
from gamed.saves.errors import BadRangePut
from gamed.saves.limits import SaveLimits
from gamed.saves.media_type import check_media_type
from gamed.saves.meta import check_meta
from gamed.saves.orders import Entry
from gamed.saves.shelf import Shelf
from gamed.saves.slots import check_slot
from gamed.saves.version import Body
from gamed.structs import Part
from gamed.web.access import access_token
from gamed.web.incoming import Incoming, Intake


class Intent(Struct, frozen=True):
    """What a PUT says before its body."""

    slot: str
    condition: Condition
    ctype: str
    meta: str | None
    announced: bytes | None

    @classmethod
    def of(cls, slot: str, header: Header, limits: SaveLimits) -> "Intent":
        """Everything that is wrong in itself is refused before the token is looked at; SaveError."""
        refuse_part(header)
        return cls(
            check_slot(slot),
            writing_condition(header),
            check_media_type(header("content-type")),
            check_meta(header("save-meta"), limits.meta_bytes),
            parse_content_digest(header("content-digest")),
        )


def refuse_part(header: Header) -> None:
    """BadRangePut."""
    if header("content-range") is not None:
        raise BadRangePut("A save is written whole. Send all its bytes, without Content-Range.")


class Upload(Part, frozen=True):
    """A save on its way."""

    entry: Entry
    _intent: Intent
    _incoming: Incoming

    def write(self, data: bytes) -> Deferred[None] | None:
        return self._incoming.write(data)

    def abort(self) -> None:
        self._incoming.abort()

    async def arrival(self) -> Arrival:
        """The whole body; a file belongs to this upload and ends with abort()."""
        intent, incoming = self._intent, self._incoming
        data, spool = await incoming.whole()
        body = Body(incoming.sha256, incoming.size, intent.ctype, intent.meta)
        return Arrival(intent.slot, intent.condition, body, intent.announced, incoming.blank, data, spool)


class SaveGate(Part, frozen=True):
    """Who may send a save, in the order of PROTOCOL 4: syntax, token, size and coding, disk."""

    _shelf: Shelf
    _limits: SaveLimits
    _intake: Intake

    async def accept(self, head: RequestHead) -> Upload:
        intent = Intent.of(head.kwargs["slot"], head.header, self._limits)
        entry = await self._shelf.enter(access_token(head))
        return Upload(entry, intent, self._intake.open(head, entry))
