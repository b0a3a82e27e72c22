"""Bodies of what is staged, and of the commits that name it (PROTOCOL 4.4)."""

from twisted.internet.defer import Deferred

from gamed.http.bodies import MemoryBody, RequestHead, SmallBodyPolicy
from gamed.saves.commits import Commits
from gamed.saves.digest import parse_content_digest
from gamed.saves.disk import UploadSpace
from gamed.saves.errors import InvalidSaveRequest
from gamed.saves.media_type import DEFAULT
from gamed.saves.orders import Entry
from gamed.saves.proposal import sha256_in
from gamed.saves.staging import Delivery
from gamed.saves.version import Body
from gamed.structs import Part
from gamed.web.access import access_token
from gamed.web.incoming import Incoming, Intake
from gamed.web.upload import refuse_part

COMMIT_BYTES = 256 * 1024
"""Of a commit's JSON (PROTOCOL 1)."""
_JSON = SmallBodyPolicy("application/json", COMMIT_BYTES)


def digest_in(path: str) -> bytes:
    """The hash in an address, or InvalidSaveRequest."""
    sha256 = sha256_in(path)
    if sha256 is None:
        raise InvalidSaveRequest("The address ends in the SHA-256 of the bytes: 64 lower-case hex digits.")
    return sha256


class StagedUpload(Part, frozen=True):
    """Bytes for a commit, on their way."""

    entry: Entry
    _sha256: bytes
    _announced: bytes | None
    _incoming: Incoming

    def write(self, data: bytes) -> Deferred[None] | None:
        return self._incoming.write(data)

    def abort(self) -> None:
        self._incoming.abort()

    async def delivery(self) -> Delivery:
        """The whole body; a file belongs to this upload and ends with abort()."""
        incoming = self._incoming
        data, spool = await incoming.whole()
        body = Body(incoming.sha256, incoming.size, DEFAULT)
        return Delivery(self._sha256, body, self._announced, incoming.blank, data, spool)


class StageGate(Part, frozen=True):
    """Who may stage bytes, in the order of PROTOCOL 4."""

    _commits: Commits
    _intake: Intake

    async def accept(self, head: RequestHead) -> StagedUpload:
        header = head.header
        refuse_part(header)
        sha256, announced = digest_in(head.kwargs["sha256"]), parse_content_digest(header("content-digest"))
        entry = await self._commits.enter_to_stage(access_token(head))
        return StagedUpload(entry, sha256, announced, self._intake.open(head, entry))


class CommitSink(MemoryBody):
    """The JSON of a commit, and who sends it."""

    def __init__(self, entry: Entry, space: UploadSpace) -> None:
        super().__init__(COMMIT_BYTES)
        self.entry = entry
        self.space = space

    def abort(self) -> None:
        super().abort()
        self.space.release()


class CommitGate(Part, frozen=True):
    """Who may commit, in the order of PROTOCOL 4."""

    _commits: Commits
    _intake: Intake

    async def accept(self, head: RequestHead) -> CommitSink:
        entry = await self._commits.enter(access_token(head))
        space = self._intake.begin(entry)
        try:
            await _JSON.accept(head)
            space.grow(0)
        except BaseException:
            space.release()
            raise
        return CommitSink(entry, space)
