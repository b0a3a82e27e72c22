"""Bytes to be kept, on their way: judged from the head, then counted, hashed, spooled as they arrive (PROTOCOL 4).

Bodies of saves (PROTOCOL 4.1).

Bodies of what is staged, and of the commits that name it (PROTOCOL 4.4).
"""

from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct, field
from twisted.internet.defer import Deferred

from gamed.http.bodies import MemoryBody, RequestHead, SmallBodyPolicy
from gamed.http.conditional import Header
from gamed.http.spool import SpooledBody, SpoolThreads, run_inline
from gamed.saves.batch import CommitService, sha256_in
from gamed.saves.commands import ReceivedBlob, ReceivedSave, WriteContext
from gamed.saves.errors import BadRangePut, ContentEncoded, InvalidSaveRequest, LengthRequired
from gamed.saves.limits import INLINE_BYTES, STEP_BYTES, DiskReservations, SaveLimits, UploadSpace, check_size
from gamed.saves.model import SaveContent
from gamed.saves.service import SaveService
from gamed.saves.validation import (
    DEFAULT_MEDIA_TYPE,
    BlankDetector,
    check_media_type,
    check_meta,
    check_slot,
    parse_content_digest,
)
from gamed.saves.write_rules import Condition, writing_condition
from gamed.sessions.routes import access_token
from gamed.structs import Component


class Hash(Protocol):
    """A digest in the making."""

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class UploadBody(Struct, eq=False):
    """A body that is counted and hashed, small in memory, larger in a file. Torn, it leaves no trace."""

    _limits: SaveLimits
    _spool: SpooledBody
    _space: UploadSpace
    _max_bytes: int
    """How many bytes may arrive in all."""
    _checked_bytes: int
    """How many bytes may arrive before the disk is checked again."""
    size: int = 0
    blank: BlankDetector = field(default_factory=BlankDetector)
    _hash: Hash = field(default_factory=sha256)

    def write(self, data: bytes) -> Deferred[None] | None:
        """SaveTooLarge at the first byte too many; StoreFull when the disk takes no more."""
        self.size += len(data)
        check_size(self._limits, self.size)
        if self.size > self._checked_bytes:
            self._checked_bytes = min(-(-self.size // STEP_BYTES) * STEP_BYTES, self._max_bytes)
            self._space.grow(self._checked_bytes)
        self._hash.update(data)
        self.blank.feed(data)
        return self._spool.write(data)

    def abort(self) -> None:
        """Let go of everything."""
        self._space.release()
        self._spool.discard()

    @property
    def sha256(self) -> bytes:
        """Of all bytes so far."""
        return self._hash.digest()

    async def finish(self) -> tuple[bytes | None, BinaryIO | None]:
        """Everything, once it is all here: in memory or as a file, which ends with abort().

        A small body is no upload any more; a larger one is until its file ends.
        """
        content = await self._spool.finish()
        if isinstance(content, bytes):
            self._space.arrived()
            return content, None
        return None, content


class UploadAdmission(Component, frozen=True):
    """Judges size, coding and room on the disk, all from the head."""

    _limits: SaveLimits
    _folder: Path
    """Where larger bodies wait, on the disk of the stores."""
    _reservations: DiskReservations
    _disk: SpoolThreads = run_inline

    def open(self, head: RequestHead, context: WriteContext) -> UploadBody:
        """Begin an upload; raise TooManyUploads, SaveError or DiskNearlyFull.

        A body of known length reserves it from its head, any other as it arrives.
        """
        space = self.begin(context)
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
        return UploadBody(self._limits, SpooledBody(self._folder, INLINE_BYTES, self._disk), space, most, checked)

    def begin(self, context: WriteContext) -> UploadSpace:
        """Count one more upload of this player, which has reserved nothing yet; raise TooManyUploads."""
        return self._reservations.begin_upload(context.player_id, context.usage.remaining(self._limits))


class UploadHeaders(Struct, frozen=True):
    """What a PUT says before its body."""

    slot: str
    condition: Condition
    content_type: str
    meta: str | None
    expected_sha256: bytes | None

    @classmethod
    def of(cls, slot: str, header: Header, limits: SaveLimits) -> "UploadHeaders":
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


class SaveUpload(Component, frozen=True):
    """A save on its way."""

    context: WriteContext
    _headers: UploadHeaders
    _body: UploadBody

    def write(self, data: bytes) -> Deferred[None] | None:
        return self._body.write(data)

    def abort(self) -> None:
        self._body.abort()

    async def receive(self) -> ReceivedSave:
        """The whole body; a file belongs to this upload and ends with abort()."""
        intent, incoming = self._headers, self._body
        data, spool = await incoming.finish()
        body = SaveContent(incoming.sha256, incoming.size, intent.content_type, intent.meta)
        return ReceivedSave(intent.slot, intent.condition, body, intent.expected_sha256, incoming.blank, data, spool)


class SaveBodyPolicy(Component, frozen=True):
    """Who may send a save, in the order of PROTOCOL 4: syntax, token, size and coding, disk."""

    _saves: SaveService
    _limits: SaveLimits
    _admission: UploadAdmission

    async def accept(self, head: RequestHead) -> SaveUpload:
        intent = UploadHeaders.of(head.kwargs["slot"], head.header, self._limits)
        context = await self._saves.authorize_write(access_token(head))
        return SaveUpload(context, intent, self._admission.open(head, context))


COMMIT_BYTES = 256 * 1024
"""Of a commit's JSON (PROTOCOL 1)."""
_JSON = SmallBodyPolicy("application/json", COMMIT_BYTES)


def digest_in(path: str) -> bytes:
    """The hash in an address, or InvalidSaveRequest."""
    sha256 = sha256_in(path)
    if sha256 is None:
        raise InvalidSaveRequest("The address ends in the SHA-256 of the bytes: 64 lower-case hex digits.")
    return sha256


class StagedUpload(Component, frozen=True):
    """Bytes for a commit, on their way."""

    context: WriteContext
    _sha256: bytes
    _expected_sha256: bytes | None
    _body: UploadBody

    def write(self, data: bytes) -> Deferred[None] | None:
        return self._body.write(data)

    def abort(self) -> None:
        self._body.abort()

    async def receive(self) -> ReceivedBlob:
        """The whole body; a file belongs to this upload and ends with abort()."""
        incoming = self._body
        data, spool = await incoming.finish()
        body = SaveContent(incoming.sha256, incoming.size, DEFAULT_MEDIA_TYPE)
        return ReceivedBlob(self._sha256, body, self._expected_sha256, incoming.blank, data, spool)


class StageBodyPolicy(Component, frozen=True):
    """Who may stage bytes, in the order of PROTOCOL 4."""

    _commits: CommitService
    _admission: UploadAdmission

    async def accept(self, head: RequestHead) -> StagedUpload:
        header = head.header
        refuse_part(header)
        sha256, announced = digest_in(head.kwargs["sha256"]), parse_content_digest(header("content-digest"))
        context = await self._commits.authorize_stage(access_token(head))
        return StagedUpload(context, sha256, announced, self._admission.open(head, context))


class CommitBody(MemoryBody):
    """The JSON of a commit, and who sends it."""

    def __init__(self, context: WriteContext, space: UploadSpace) -> None:
        super().__init__(COMMIT_BYTES)
        self.context = context
        self.space = space

    def abort(self) -> None:
        super().abort()
        self.space.release()


class CommitBodyPolicy(Component, frozen=True):
    """Who may commit, in the order of PROTOCOL 4."""

    _commits: CommitService
    _admission: UploadAdmission

    async def accept(self, head: RequestHead) -> CommitBody:
        context = await self._commits.authorize_commit(access_token(head))
        space = self._admission.begin(context)
        try:
            await _JSON.accept(head)
            space.grow(0)
        except BaseException:
            space.release()
            raise
        return CommitBody(context, space)
