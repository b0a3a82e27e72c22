"""The room of commits: bytes are staged, then several slots change at once (PROTOCOL 4.4).

The room of exports (PROTOCOL 4).
"""

from collections.abc import Mapping

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from gamed.http.app import make_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import DEFAULT_BODY_POLICIES, BodyPolicy
from gamed.http.conditional import sha256_field
from gamed.http.errors import ShuttingDown
from gamed.http.json_body import read_json, write_json
from gamed.http.request import Request
from gamed.http.streaming import PRIVATE, read_conditions, send_part
from gamed.saves.batch import CommitEntry, CommitService, parse_commit
from gamed.saves.export import ExportContent, ExportService
from gamed.saves.limits import SaveLimits
from gamed.saves.problems import SAVE_ERRORS
from gamed.saves.responses import commit_response
from gamed.saves.uploads import CommitBody, CommitBodyPolicy, StageBodyPolicy, StagedUpload, UploadAdmission, digest_in
from gamed.sessions.problems import SESSION_ERRORS
from gamed.sessions.routes import access_token
from gamed.structs import Component


class CommitRequest(Struct):
    """The body of a commit."""

    writes: list[CommitEntry]


class CommitRoutes(Component, frozen=True):
    """Changes run detached: a client that leaves does not stop them half way."""

    app = make_app(SAVE_ERRORS, SESSION_ERRORS)
    prefixes = ("/game/blobs", "/game/commit")
    _commits: CommitService
    _limits: SaveLimits
    _detached: ShieldedTasks
    _admission: UploadAdmission

    @property
    def body_policies(self) -> Mapping[str, BodyPolicy]:
        return {
            "stage_blob": StageBodyPolicy(self._commits, self._admission),
            "commit": CommitBodyPolicy(self._commits, self._admission),
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
    async def head_blob(self, request: Request, sha256: str) -> None:
        digest = digest_in(sha256)
        size = await self._commits.size_of(access_token(request.head), digest)
        request.setHeaders({**PRIVATE, "Content-Length": str(size)})
        request.write(b"")

    @app.route("/game/commit", methods=["POST"])
    async def commit(self, request: Request) -> bytes:
        sink = request.body
        if not isinstance(sink, CommitBody):
            raise TypeError("this route's gate knows who commits")
        sink.space.release()
        changes = parse_commit(read_json(request, CommitRequest).writes, self._limits)
        done = await self._detached.run(self._commits.commit(sink.context, changes))
        request.setHeaders(PRIVATE)
        return write_json(request, 200, commit_response(done.cursor, done.slots))

    async def _stage(self, upload: StagedUpload) -> int:
        try:
            delivery = await upload.receive()
            await self._commits.stage(upload.context, delivery)
            return delivery.content.size
        finally:
            upload.abort()


SEND_SECONDS = 3600
"""For one answer: a place is not kept for ever by who reads a byte now and then. A range goes on from there."""


class ExportRoutes(Component, frozen=True):
    """Made detached: a client that leaves frees its place when the step under way is done."""

    app = make_app(SAVE_ERRORS, SESSION_ERRORS)
    prefixes = ("/game/export",)
    body_policies = DEFAULT_BODY_POLICIES
    _exports: ExportService
    _detached: ShieldedTasks
    _clock: IReactorTime

    @app.route("/game/export", methods=["GET"])
    async def export(self, request: Request) -> bytes | None:
        conditions, whole = read_conditions(request.head.header), request.head.method != "HEAD"
        export = await self._exports.open(access_token(request.head))
        try:
            wanted = request.head.header("range") if whole else None
            parcel = await self._detached.run(export.build(conditions, wanted))
            if parcel is None:
                raise ShuttingDown
            sending = Deferred.fromCoroutine(_answered(request, parcel, whole=whole))
            return await sending.addTimeout(SEND_SECONDS, self._clock)
        finally:
            export.close()


async def _answered(request: Request, parcel: ExportContent, *, whole: bool) -> bytes | None:
    headers = {**PRIVATE, "ETag": str(parcel.tag), "Accept-Ranges": "bytes", "Content-Security-Policy": "sandbox"}
    headers |= {"Content-Type": "application/zip", "Content-Disposition": 'attachment; filename="saves.zip"'}
    request.setHeaders({**headers, "Repr-Digest": sha256_field(parcel.sha256)})
    if not parcel.modified:
        request.setResponseCode(304)
        return None
    return await send_part(request, parcel.file if whole else None, parcel.size, parcel.range)
