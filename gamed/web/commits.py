"""The room of commits: bytes are staged, then several slots change at once (PROTOCOL 4.4)."""

from collections.abc import Mapping

from msgspec import Struct

from gamed.http.app import make_app
from gamed.http.bodies import BodyPolicy
from gamed.http.request import Request
from gamed.saves.commits import Commits
from gamed.saves.limits import SaveLimits
from gamed.saves.proposal import Proposal, accept
from gamed.saves.save_info import committed
from gamed.structs import Part
from gamed.web.access import access_token
from gamed.web.conditional import PRIVATE
from gamed.web.detached import Detached
from gamed.web.incoming import Intake
from gamed.web.json_io import read_json, write_json
from gamed.web.saves_errors import SAVE_ERRORS
from gamed.web.sessions_errors import SESSION_ERRORS
from gamed.web.staged import CommitGate, CommitSink, StagedUpload, StageGate, digest_in


class CommitRequest(Struct):
    """The body of a commit."""

    writes: list[Proposal]


class CommitRoutes(Part, frozen=True):
    """Changes run detached: a client that leaves does not stop them half way."""

    app = make_app(SAVE_ERRORS, SESSION_ERRORS)
    prefixes = ("/game/blobs", "/game/commit")
    _commits: Commits
    _limits: SaveLimits
    _detached: Detached
    _intake: Intake

    @property
    def body_policies(self) -> Mapping[str, BodyPolicy]:
        return {
            "stage_blob": StageGate(self._commits, self._intake),
            "commit": CommitGate(self._commits, self._intake),
        }

    @app.route("/game/blobs/<string:sha256>", methods=["PUT"])
    async def stage_blob(self, request: Request, sha256: str) -> bytes:
        upload = request.body
        if not isinstance(upload, StagedUpload):
            raise TypeError("this route's gate takes uploads")
        size = await self._detached.run(self._stage(upload))
        request.setHeaders(PRIVATE)
        return write_json(request, 201, {"sha256": sha256, "size": size})

    @app.route("/game/blobs/<string:sha256>", methods=["HEAD"])
    async def look_for_blob(self, request: Request, sha256: str) -> None:
        digest = digest_in(sha256)
        size = await self._commits.size_of(access_token(request.head), digest)
        request.setHeaders({**PRIVATE, "Content-Length": str(size)})
        request.write(b"")

    @app.route("/game/commit", methods=["POST"])
    async def commit(self, request: Request) -> bytes:
        sink = request.body
        if not isinstance(sink, CommitSink):
            raise TypeError("this route's gate knows who commits")
        sink.space.release()
        changes = accept(read_json(request, CommitRequest).writes, self._limits)
        done = await self._detached.run(self._commits.commit(sink.entry, changes))
        request.setHeaders(PRIVATE)
        return write_json(request, 200, committed(done.cursor, done.slots))

    async def _stage(self, upload: StagedUpload) -> int:
        try:
            delivery = await upload.delivery()
            await self._commits.stage(upload.entry, delivery)
            return delivery.body.size
        finally:
            upload.abort()
