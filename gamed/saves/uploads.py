"""This module receives the bodies of saves, staged bytes and commits (PROTOCOL 4).

A body policy checks the request head, the token and the limits; then the body is counted, hashed and spooled as it
arrives. The order of the checks is that of PROTOCOL 4: syntax, token, size and coding, disk.
"""

from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct, field
from twisted.internet.defer import Deferred

from gamed.http.bodies import MemoryBody, RequestHead, SmallBodyPolicy
from gamed.http.conditional import Header
from gamed.http.spool import SpooledBody, SpoolThreads, run_inline
from gamed.saves.batch import CommitService
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
    parse_sha256,
)
from gamed.saves.write_rules import Condition, writing_condition
from gamed.sessions.routes import access_token
from gamed.structs import Component


class Hash(Protocol):
    """A hash of hashlib."""

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class UploadBody(Struct, eq=False):
    """A body that is counted, checked and hashed as it arrives; a small one is kept in memory, a larger one in a file.

    abort() deletes everything, also after an incomplete body.
    """

    _limits: SaveLimits
    _spool: SpooledBody
    _space: UploadSpace
    _max_bytes: int
    """The most bytes that may arrive."""
    _checked_bytes: int
    """The bytes that may arrive before the disk is checked again."""
    size: int = 0
    blank: BlankDetector = field(default_factory=BlankDetector)
    _hash: Hash = field(default_factory=sha256)

    def write(self, data: bytes) -> Deferred[None] | None:
        """Add a piece of the body; raise SaveTooLarge or DiskNearlyFull."""
        self.size += len(data)
        check_size(self._limits, self.size)
        if self.size > self._checked_bytes:
            self._checked_bytes = min(-(-self.size // STEP_BYTES) * STEP_BYTES, self._max_bytes)
            self._space.grow(self._checked_bytes)
        self._hash.update(data)
        self.blank.feed(data)
        return self._spool.write(data)

    def abort(self) -> None:
        """Release the reserved disk space and delete the file."""
        self._space.release()
        self._spool.discard()

    @property
    def sha256(self) -> bytes:
        """Return the SHA-256 of the bytes received so far."""
        return self._hash.digest()

    async def finish(self) -> tuple[bytes | None, BinaryIO | None]:
        """Return the complete body, either in memory or as a file that abort() deletes.

        A small body stops counting as an upload now, a larger one when its file is deleted.
        """
        content = await self._spool.finish()
        if isinstance(content, bytes):
            self._space.arrived()
            return content, None
        return None, content


class UploadAdmission(Component, frozen=True):
    """The checks of an upload by its head: framing, size, content coding, and space on the disk."""

    _limits: SaveLimits
    _folder: Path
    """The folder for the files of larger bodies, on the same disk as the databases."""
    _reservations: DiskReservations
    _disk: SpoolThreads = run_inline

    def open(self, head: RequestHead, context: WriteContext) -> UploadBody:
        """Begin an upload; raise TooManyUploads, SaveError or DiskNearlyFull.

        A body of known length reserves its disk space now, any other as it arrives.
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
        max_bytes, checked = (self._limits.save_bytes, 0) if head.length is None else (head.length, STEP_BYTES)
        spool = SpooledBody(self._folder, INLINE_BYTES, self._disk)
        return UploadBody(self._limits, spool, space, max_bytes, checked)

    def begin(self, context: WriteContext) -> UploadSpace:
        """Count one more upload of this player, without a reservation yet; raise TooManyUploads."""
        return self._reservations.begin_upload(context.player_id, context.usage.remaining(self._limits))


class UploadHeaders(Struct, frozen=True):
    """The slot, condition and description of a save, from the head of its PUT."""

    slot: str
    condition: Condition
    content_type: str
    meta: str | None
    expected_sha256: bytes | None

    @classmethod
    def of(cls, slot: str, header: Header, limits: SaveLimits) -> "UploadHeaders":
        """Validate everything that the head alone shows; raise SaveError."""
        reject_content_range(header)
        return cls(
            check_slot(slot),
            writing_condition(header),
            check_media_type(header("content-type")),
            check_meta(header("save-meta"), limits.meta_bytes),
            parse_content_digest(header("content-digest")),
        )


def reject_content_range(header: Header) -> None:
    """Raise BadRangePut if the request would write a part of a save."""
    if header("content-range") is not None:
        raise BadRangePut("A save is written whole. Send all its bytes, without Content-Range.")


class SaveUpload(Component, frozen=True):
    """The body of a PUT of a save, with the authenticated player."""

    context: WriteContext
    _headers: UploadHeaders
    _body: UploadBody

    def write(self, data: bytes) -> Deferred[None] | None:
        return self._body.write(data)

    def abort(self) -> None:
        self._body.abort()

    async def receive(self) -> ReceivedSave:
        """Return the complete save; its file, if any, belongs to this upload until abort()."""
        headers, body = self._headers, self._body
        data, spool = await body.finish()
        content = SaveContent(body.sha256, body.size, headers.content_type, headers.meta)
        return ReceivedSave(headers.slot, headers.condition, content, headers.expected_sha256, body.blank, data, spool)


class SaveBodyPolicy(Component, frozen=True):
    """The body policy of a PUT of a save."""

    _saves: SaveService
    _limits: SaveLimits
    _admission: UploadAdmission

    async def accept(self, head: RequestHead) -> SaveUpload:
        headers = UploadHeaders.of(head.kwargs["slot"], head.header, self._limits)
        context = await self._saves.authorize_write(access_token(head))
        return SaveUpload(context, headers, self._admission.open(head, context))


COMMIT_BYTES = 256 * 1024
"""The largest JSON of a commit (PROTOCOL 1)."""
_JSON = SmallBodyPolicy("application/json", COMMIT_BYTES)


def sha256_of_path(text: str) -> bytes:
    """Return the SHA-256 at the end of the path; raise InvalidSaveRequest."""
    sha256 = parse_sha256(text)
    if sha256 is None:
        raise InvalidSaveRequest("The address ends in the SHA-256 of the bytes: 64 lower-case hex digits.")
    return sha256


class StagedUpload(Component, frozen=True):
    """The body of bytes to stage, with the authenticated player."""

    context: WriteContext
    _sha256: bytes
    _expected_sha256: bytes | None
    _body: UploadBody

    def write(self, data: bytes) -> Deferred[None] | None:
        return self._body.write(data)

    def abort(self) -> None:
        self._body.abort()

    async def receive(self) -> ReceivedBlob:
        """Return the complete bytes; their file, if any, belongs to this upload until abort()."""
        body = self._body
        data, spool = await body.finish()
        content = SaveContent(body.sha256, body.size, DEFAULT_MEDIA_TYPE)
        return ReceivedBlob(self._sha256, content, self._expected_sha256, body.blank, data, spool)


class StageBodyPolicy(Component, frozen=True):
    """The body policy of bytes to stage."""

    _commits: CommitService
    _admission: UploadAdmission

    async def accept(self, head: RequestHead) -> StagedUpload:
        header = head.header
        reject_content_range(header)
        sha256 = sha256_of_path(head.kwargs["sha256"])
        expected_sha256 = parse_content_digest(header("content-digest"))
        context = await self._commits.authorize_stage(access_token(head))
        return StagedUpload(context, sha256, expected_sha256, self._admission.open(head, context))


class CommitBody(MemoryBody):
    """The JSON of a commit, with the authenticated player; it counts as an upload until `space` is released."""

    def __init__(self, context: WriteContext, space: UploadSpace) -> None:
        super().__init__(COMMIT_BYTES)
        self.context = context
        self.space = space

    def abort(self) -> None:
        super().abort()
        self.space.release()


class CommitBodyPolicy(Component, frozen=True):
    """The body policy of a commit."""

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
