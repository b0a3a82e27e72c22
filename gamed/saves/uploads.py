"""Bodies of saves, staged bytes and commits: the checks before they arrive, then counting and hashing.

The checks go from cheap to costly, and from what any client may learn to what a player may. Syntax needs no database.
The token needs a read, and only a player learns the limits of rate and size. Disk space is last: it alone reserves
something, which a later refusal would have to give back.

See docs/protocol.md: Saves.
"""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field
from twisted.internet.defer import Deferred

from gamed.config.game import SaveLimits
from gamed.crypto import Secret
from gamed.database.errors import DiskFull
from gamed.http.bodies import MemoryBody, RequestHead, SmallBodyPolicy
from gamed.http.spool import SpooledBody, SpoolThreads, run_inline
from gamed.rate_limit import RateLimited
from gamed.saves.batch import CommitService
from gamed.saves.commands import PresentedToken, ReceivedBody, WriteContext
from gamed.saves.errors import ContentEncoded, LengthRequired, SaveError
from gamed.saves.limits import (
    INLINE_BYTES,
    ONE_TRIP_BYTES,
    STEP_BYTES,
    DiskReservations,
    OneTripBodies,
    UploadSpace,
    check_declared_size,
    check_size,
)
from gamed.saves.model import SaveContent
from gamed.saves.service import SaveService
from gamed.saves.validation import UploadHeaders, save_headers, staging_headers
from gamed.sessions.credentials import access_token
from gamed.structs import Component

T = TypeVar("T")


class UploadBody(Struct, eq=False):
    """The body of a PUT, with the authenticated player; it is counted, checked and hashed as it arrives.

    A small body is kept in memory, a larger one in a file. abort() deletes everything, also after an incomplete body.
    """

    context: WriteContext
    headers: UploadHeaders
    _limits: SaveLimits
    _open_spool: Callable[[], SpooledBody]
    _space: UploadSpace
    _max_bytes: int
    """The most bytes that may arrive."""
    _checked_bytes: int
    """The bytes that may arrive before the disk is checked again."""
    _size: int = 0
    _held: bytearray = field(default_factory=bytearray)
    """The body while it is small."""
    _spool: SpooledBody | None = None
    """The body once it has more than INLINE_BYTES."""
    _blank: bool = True
    """All bytes until now are zero."""
    _hash: Any = field(default_factory=sha256)
    presented: PresentedToken | None = None
    """The token, if the transaction of the write authenticates it; `context` has the player that it had last."""
    _bodies: OneTripBodies | None = None
    """Counts the body until abort(), if the token is `presented`."""
    __repr__ = object.__repr__

    def write(self, data: bytes) -> Deferred[None] | None:
        """Add a piece of the body; raise SaveTooLarge or DiskNearlyFull."""
        self._size += len(data)
        # The disk is checked once per STEP_BYTES, not per segment: a check is a system call, and a slow client may send
        # a byte at a time.
        if self._size > self._checked_bytes:
            check_size(self._limits, self._size)
            self._checked_bytes = min(-(-self._size // STEP_BYTES) * STEP_BYTES, self._max_bytes)
            self._space.grow(self._checked_bytes)
        self._hash.update(data)
        self._blank = self._blank and not data.strip(b"\0")
        if self._spool is None:
            self._held += data
            if self._size <= INLINE_BYTES:
                return None
            data, self._spool = bytes(self._held), self._open_spool()
            self._held.clear()
        return self._spool.write(data)

    def abort(self) -> None:
        """Release the reserved disk space and delete the file."""
        self._space.release()
        if self._bodies is not None:
            self._bodies.release(self._max_bytes)
            self._bodies = None
        self._held.clear()
        if self._spool is not None:
            self._spool.discard()

    async def receive(self) -> ReceivedBody:
        """Return the complete body; its file, if any, belongs to this upload until abort().

        A small body stops counting as an upload now, a larger one when its file is deleted.
        """
        headers = self.headers
        content = SaveContent(self._hash.digest(), self._size, headers.content_type, headers.meta)
        if self._spool is None:
            self._space.arrived()
            data = bytes(self._held)
            self._held.clear()  # it counts once, and waits for its transaction
            return ReceivedBody(content, headers.expected_sha256, self._blank, data=data)
        spool = await self._spool.finish()
        return ReceivedBody(content, headers.expected_sha256, self._blank, spool=spool)


class UploadAdmission(Component, frozen=True, kw_only=True):
    """The checks of an upload by its head: framing, size, content coding, and space on the disk."""

    limits: SaveLimits
    folder: Path
    """The folder for the files of larger bodies, on the same disk as the databases."""
    reservations: DiskReservations
    disk: SpoolThreads = run_inline
    one_trip: OneTripBodies = field(default_factory=OneTripBodies)

    def in_thread(self, work: Callable[[], T]) -> Deferred[T]:
        """Run work that takes long outside the reactor's thread."""
        return self.disk(work)

    def open(self, head: RequestHead, context: WriteContext, headers: UploadHeaders) -> UploadBody:
        """Begin an upload; raise TooManyUploads, SaveError or DiskNearlyFull.

        A body of known length reserves its disk space now, any other as it arrives.
        """
        # The player's number of uploads is a rate (429), so it comes before the size (413). Until there is a body to
        # abort, each refusal has to release the upload here.
        space = self.begin(context)
        try:
            if not head.has_framing:
                raise LengthRequired("Say how long the body is with Content-Length, or send it chunked.")
            max_bytes = check_declared_size(self.limits, head.length)
            if "content-encoding" in head.headers:
                raise ContentEncoded("Saves are kept as they are. Send the bytes without Content-Encoding.")
            space.grow(head.length or 0)  # last: until release() the uploads of all other players have less space
        except BaseException:
            space.release()
            raise
        checked = 0 if head.length is None else STEP_BYTES
        open_spool = partial(SpooledBody, self.folder, self.disk)
        return UploadBody(context, headers, self.limits, open_spool, space, max_bytes, checked)

    def open_presented(
        self, head: RequestHead, context: WriteContext, headers: UploadHeaders, presented: PresentedToken
    ) -> UploadBody | None:
        """Begin a small upload whose token is authenticated with the write; return None if that is not possible.

        Also for every reason to refuse it: the error for a token that is not valid any more comes first.
        """
        length = head.length or 0
        if not self.one_trip.hold(length):
            return None
        try:
            upload = self.open(head, context, headers)
        except BaseException as e:
            self.one_trip.release(length)
            if isinstance(e, (RateLimited, SaveError, DiskFull)):
                return None
            raise
        upload.presented, upload._bodies = presented, self.one_trip
        return upload

    def begin(self, context: WriteContext) -> UploadSpace:
        """Count one more upload of this player, without a reservation yet; raise TooManyUploads."""
        return self.reservations.begin_upload(context.player_id, context.usage.remaining(self.limits))


class SaveBodyPolicy(Component, frozen=True, kw_only=True):
    """The body policy of a PUT of a save."""

    saves: SaveService
    limits: SaveLimits
    admission: UploadAdmission

    async def accept(self, head: RequestHead) -> UploadBody:
        headers = save_headers(head.kwargs["slot"], head.header, self.limits.meta_bytes)
        token = access_token(head.single)
        # A client that sent Expect wants to know now whether its body may come.
        small = 0 < (head.length or 0) <= ONE_TRIP_BYTES and "expect" not in head.headers
        upload = self._accept_presented(head, headers, token) if small else None
        if upload is not None:
            return upload
        return self.admission.open(head, await self.saves.authorize_upload(token), headers)

    def _accept_presented(self, head: RequestHead, headers: UploadHeaders, token: Secret) -> UploadBody | None:
        recent = self.saves.sessions.find_recent(token)
        if recent is None:
            return None
        context = self.saves.presented_context(recent)
        upload = self.admission.open_presented(head, context, headers, PresentedToken(token, recent))
        # Last, because it cannot be undone. The answer to a player who writes too fast comes after that to the token.
        if upload is not None and not self.saves.count_presented(context, recent):
            upload.abort()
            return None
        return upload


COMMIT_BYTES = 256 * 1024
"""The largest JSON of a commit (docs/protocol.md: Conventions)."""
_JSON = SmallBodyPolicy("application/json", COMMIT_BYTES)


class StageBodyPolicy(Component, frozen=True, kw_only=True):
    """The body policy of bytes to stage."""

    commits: CommitService
    admission: UploadAdmission

    async def accept(self, head: RequestHead) -> UploadBody:
        headers = staging_headers(head.kwargs["sha256"], head.header)
        context = await self.commits.authorize_stage(access_token(head.single))
        return self.admission.open(head, context, headers)


class CommitBody(MemoryBody):
    """The JSON of a commit, with the authenticated player; it counts as an upload until `space` is released."""

    def __init__(self, context: WriteContext, space: UploadSpace) -> None:
        super().__init__(COMMIT_BYTES)
        self.context = context
        self.space = space

    def abort(self) -> None:
        super().abort()
        self.space.release()


class CommitBodyPolicy(Component, frozen=True, kw_only=True):
    """The body policy of a commit."""

    commits: CommitService
    admission: UploadAdmission

    async def accept(self, head: RequestHead) -> CommitBody:
        context = await self.commits.authorize_commit(access_token(head.single))
        space = self.admission.begin(context)
        try:
            await _JSON.accept(head)
            space.grow(0)  # reserves nothing, because the bytes were staged, but a full disk refuses the commit now
        except BaseException:
            space.release()
            raise
        return CommitBody(context, space)
