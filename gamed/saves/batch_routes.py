"""Routes that stage bytes, commit slots together, and export all saves (docs/protocol.md: Saves)."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from gamed.config.game import SaveLimits
from gamed.crypto import Secret
from gamed.http.app import make_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import DEFAULT_BODY_POLICIES, BodyPolicy
from gamed.http.conditional import UNCONDITIONAL, Conditions, parse_conditions, sha256_field
from gamed.http.errors import ShuttingDown
from gamed.http.json_body import read_json, write_json
from gamed.http.request import Request
from gamed.http.streaming import PRIVATE, send_part
from gamed.players.problems import PLAYER_ERRORS
from gamed.saves import uploads
from gamed.saves.batch import CommitEntry, CommitService, parse_commit
from gamed.saves.commands import Change
from gamed.saves.export import ExportContent, ExportService
from gamed.saves.model import ExportedFile
from gamed.saves.problems import SAVE_ERRORS
from gamed.saves.responses import commit_response
from gamed.saves.validation import sha256_of_path
from gamed.sessions.credentials import access_token
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component

PARSED_AT_ONCE = 16 * 1024
"""The most bytes of a commit that the reactor's thread parses, 1.5 ms. 256 KiB of small numbers take 24 ms."""


class CommitRequest(Struct):
    """The body of a commit."""

    writes: list[CommitEntry]


class CommitRoutes(Component, frozen=True, kw_only=True):
    """The routes of staged bytes and commits.

    Changes run in `_tasks`, so that they are completed if the client disconnects.
    """

    app = make_app(SAVE_ERRORS, SESSION_ERRORS)
    prefixes = ("/game/blobs", "/game/commit")
    commits: CommitService
    limits: SaveLimits
    tasks: ShieldedTasks
    admission: uploads.UploadAdmission

    @property
    def body_policies(self) -> Mapping[str, BodyPolicy]:
        return {
            "stage_blob": uploads.StageBodyPolicy(commits=self.commits, admission=self.admission),
            "commit": uploads.CommitBodyPolicy(commits=self.commits, admission=self.admission),
        }

    @app.route("/game/blobs/<string:sha256>", methods=["PUT"])
    async def stage_blob(self, request: Request, sha256: str) -> bytes:
        upload = request.body
        if not isinstance(upload, uploads.UploadBody):
            raise TypeError("the body policy of this route returns an UploadBody")
        size = await self.tasks.run(self._stage(upload, sha256_of_path(sha256)))
        request.setHeaders(PRIVATE)
        return write_json(request, 201, {"sha256": sha256, "size": size})

    @app.route("/game/blobs/<string:sha256>", methods=["HEAD"])
    async def head_blob(self, request: Request, sha256: str) -> None:
        digest = sha256_of_path(sha256)
        size = await self.commits.size_of(access_token(request.head.single), digest)
        request.setHeaders({**PRIVATE, "Content-Length": str(size)})
        request.write(b"")

    @app.route("/game/commit", methods=["POST"])
    async def commit(self, request: Request) -> bytes:
        body = request.body
        if not isinstance(body, uploads.CommitBody):
            raise TypeError("the body policy of this route returns a CommitBody")

        def parse() -> Sequence[Change]:
            return parse_commit(read_json(request, CommitRequest).writes, self.limits)

        try:
            changes = parse() if body.size <= PARSED_AT_ONCE else await self.admission.in_thread(parse)
        finally:
            body.space.release()
        result = await self.tasks.run(self.commits.commit(body.context, changes))
        request.setHeaders(PRIVATE)
        return write_json(request, 200, commit_response(result.cursor, result.slots))

    async def _stage(self, upload: uploads.UploadBody, sha256: bytes) -> int:
        try:
            received = await upload.receive()
            await self.commits.stage(upload.context, sha256, received)
            return received.content.size
        finally:
            upload.abort()


SEND_SECONDS = 3600
"""The longest time for one response: a slow client must not keep an export for ever; it can resume with a range."""


class ExportRoutes(Component, frozen=True, kw_only=True):
    """The route of exports; after a disconnect the running step is completed, then the next client may export."""

    app = make_app(SAVE_ERRORS, SESSION_ERRORS, PLAYER_ERRORS)
    prefixes = ("/game/export",)
    body_policies = DEFAULT_BODY_POLICIES
    exports: ExportService
    tasks: ShieldedTasks
    clock: IReactorTime

    @app.route("/game/export", methods=["GET"])
    async def export(self, request: Request) -> bytes | None:
        header, with_bytes = request.head.header, request.head.method != "HEAD"
        conditions, range_field = parse_conditions(header), header("range") if with_bytes else None
        return await self._export(request, access_token(request.head.single), conditions, range_field)

    async def send_whole(self, request: Request, token: Secret, first: ExportedFile) -> bytes | None:
        """Export a file, then all saves of a token's player, without regard to conditions or ranges."""
        return await self._export(request, token, UNCONDITIONAL, None, first)

    async def _export(
        self,
        request: Request,
        token: Secret,
        conditions: Conditions,
        range_field: str | None,
        first: ExportedFile | None = None,
    ) -> bytes | None:
        export = await self.exports.open(token, first)
        try:
            content = await self.tasks.run(export.build(conditions, range_field))
            if content is None:
                raise ShuttingDown
            sending = Deferred.fromCoroutine(_send(request, content, with_bytes=request.head.method != "HEAD"))
            return await sending.addTimeout(SEND_SECONDS, self.clock)
        finally:
            export.close()


async def _send(request: Request, content: ExportContent, *, with_bytes: bool) -> bytes | None:
    headers = {**PRIVATE, "ETag": str(content.tag), "Accept-Ranges": "bytes", "Content-Security-Policy": "sandbox"}
    headers |= {"Content-Type": "application/zip", "Content-Disposition": 'attachment; filename="saves.zip"'}
    request.setHeaders({**headers, "Repr-Digest": sha256_field(content.sha256)})
    if not content.modified:
        request.setResponseCode(304)
        return None
    return await send_part(request, content.open() if with_bytes else None, content.size, content.range)
