"""Routes of saves and their history (docs/protocol.md: Saves)."""

from collections.abc import Mapping

from gamed.http.app import make_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import BodyPolicy
from gamed.http.conditional import parse_conditions, prefer_wait, sha256_field
from gamed.http.json_body import read_query, write_json
from gamed.http.request import Request
from gamed.http.streaming import PRIVATE, send_part
from gamed.players.problems import PLAYER_ERRORS
from gamed.saves.commands import ListRequest, ReadRequest, WriteResult
from gamed.saves.erase import EraseService
from gamed.saves.limits import LISTED_AT_ONCE, VERSIONS_AT_ONCE
from gamed.saves.model import Version, parse_cursor, version_number
from gamed.saves.problems import SAVE_ERRORS
from gamed.saves.responses import list_response, save_info
from gamed.saves.service import SaveService
from gamed.saves.uploads import SaveBodyPolicy, UploadBody
from gamed.saves.validation import check_slot, deleting_condition, page_before, page_limit, writing_condition
from gamed.sessions.credentials import access_token
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component
from gamed.timestamps import http_date

_SAVE_HEADERS = {
    **PRIVATE,
    "Accept-Ranges": "bytes",
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "sandbox",
}
"""The header fields of every response with a save's bytes, and of the same response without them."""


class SaveRoutes(Component, frozen=True, kw_only=True):
    """The routes of saves; changes run in `_tasks`, so that they are completed if the client disconnects."""

    app = make_app(SAVE_ERRORS, SESSION_ERRORS, PLAYER_ERRORS)
    prefixes = ("/game/",)
    saves: SaveService
    tasks: ShieldedTasks
    write_policy: SaveBodyPolicy
    erase: EraseService

    @property
    def body_policies(self) -> Mapping[str, BodyPolicy]:
        return {"write_save": self.write_policy}

    @app.route("/game/", methods=["GET"])
    async def show_summary(self, request: Request) -> bytes:
        cursor, body = await self.saves.summary(access_token(request.head.single))
        request.setHeaders({**PRIVATE, "ETag": str(cursor.entity_tag)})
        return write_json(request, 200, body)

    @app.route("/game/", methods=["DELETE"])
    async def erase_saves(self, request: Request) -> None:
        condition = deleting_condition(request.head.header)
        await self.tasks.run(self.erase.erase(access_token(request.head.single), condition))
        request.setResponseCode(204)

    @app.route("/game/saves", methods=["GET"])
    async def list_saves(self, request: Request) -> bytes | None:
        query, conditions = read_query(request), parse_conditions(request.head.header)
        since = parse_cursor(query["since"]) if "since" in query else None
        limit = page_limit(query.get("limit"), LISTED_AT_ONCE)
        knows = since is not None or conditions.if_none_match is not None
        wait = self.saves.clamp_wait(prefer_wait(request.head.header("prefer"))) if knows else 0
        wanted = ListRequest(since, conditions, limit)
        listing = await self.saves.list_saves(access_token(request.head.single), wanted, wait)
        if wait:
            request.setHeader("Preference-Applied", f"wait={wait}")
        request.setHeaders({**PRIVATE, "ETag": str(listing.cursor.entity_tag)})
        if listing.entries is None:
            request.setResponseCode(304)
            return None
        return write_json(request, 200, list_response(listing))

    @app.route("/game/saves/<text:slot>", methods=["GET"])
    async def read_save(self, request: Request, slot: str) -> bytes | None:
        return await self._read(request, check_slot(slot))

    @app.route("/game/saves/<text:slot>/versions/<string:number>", methods=["GET"])
    async def read_version(self, request: Request, slot: str, number: str) -> bytes | None:
        return await self._read(request, check_slot(slot), version_number(number))

    @app.route("/game/saves/<text:slot>", methods=["PUT"])
    async def write_save(self, request: Request, slot: str) -> bytes:
        upload = request.body
        if not isinstance(upload, UploadBody):
            raise TypeError("the body policy of this route returns an UploadBody")
        result = await self.tasks.run(self._write(upload, slot))
        if result.current is None:
            raise TypeError("a successful PUT leaves a current version")
        request.setHeaders({**PRIVATE, **_version_headers(result.current)})
        return write_json(request, 201 if result.created else 200, save_info(result.current))

    @app.route("/game/saves/<text:slot>", methods=["DELETE"])
    async def delete_save(self, request: Request, slot: str) -> None:
        name, condition = check_slot(slot), deleting_condition(request.head.header)
        await self.tasks.run(self.saves.delete(access_token(request.head.single), name, condition))
        request.setResponseCode(204)

    @app.route("/game/saves/<text:slot>/versions", methods=["GET"])
    async def list_versions(self, request: Request, slot: str) -> bytes:
        name, query = check_slot(slot), read_query(request)
        page = page_before(query.get("before")), page_limit(query.get("limit"), VERSIONS_AT_ONCE)
        body = await self.saves.versions(access_token(request.head.single), name, *page)
        request.setHeaders(PRIVATE)
        return write_json(request, 200, body)

    @app.route("/game/saves/<text:slot>/versions/<string:number>", methods=["DELETE"])
    async def dismiss_version(self, request: Request, slot: str, number: str) -> None:
        name, n = check_slot(slot), version_number(number)
        await self.tasks.run(self.saves.dismiss(access_token(request.head.single), name, n))
        request.setResponseCode(204)

    @app.route("/game/saves/<text:slot>/versions/<string:number>/restore", methods=["POST"])
    async def restore_version(self, request: Request, slot: str, number: str) -> bytes:
        name, n, condition = check_slot(slot), version_number(number), writing_condition(request.head.header)
        current = await self.tasks.run(self.saves.restore(access_token(request.head.single), name, n, condition))
        request.setHeaders({**PRIVATE, **_version_headers(current)})
        return write_json(request, 200, save_info(current))

    async def _read(self, request: Request, slot: str, version: int | None = None) -> bytes | None:
        with_bytes, header = request.head.method != "HEAD", request.head.header
        read_request = ReadRequest(slot, parse_conditions(header), with_bytes, header("range"), version)
        result = await self.saves.read(access_token(request.head.single), read_request)
        request.setHeaders(_save_headers(result.version))
        if not result.modified:
            request.setResponseCode(304)
            return None
        return await send_part(request, result.body, result.version.size, result.range)

    async def _write(self, upload: UploadBody, slot: str) -> WriteResult:
        condition = upload.headers.condition
        try:
            received = await upload.receive()
            if upload.presented is not None:
                return await self.saves.write_presented(upload.presented, upload.context, slot, condition, received)
            return await self.saves.write(upload.context, slot, condition, received)
        finally:
            upload.abort()


def _save_headers(version: Version) -> dict[str, str]:
    """Return the header fields of the protocol (docs/protocol.md: Saves), which GET and HEAD share."""
    headers = {**_SAVE_HEADERS, **_version_headers(version), "Last-Modified": http_date(version.created_ms)}
    if version.content is not None:
        headers["Content-Type"] = version.content.content_type
        headers["Repr-Digest"] = sha256_field(version.content.sha256)
        if version.content.meta is not None:
            headers["Save-Meta"] = version.content.meta
    return headers


def _version_headers(version: Version) -> dict[str, str]:
    return {"ETag": version.etag, "Save-Version": version.tag}
