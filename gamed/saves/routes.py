"""The room of saves (PROTOCOL 4)."""

from collections.abc import Mapping

from gamed.http.app import make_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import BodyPolicy
from gamed.http.conditional import prefer_wait, sha256_field
from gamed.http.json_body import read_query, write_json
from gamed.http.request import Request
from gamed.http.streaming import PRIVATE, read_conditions, send_part
from gamed.saves.commands import ReadRequest, ReadResult, WriteResult
from gamed.saves.erase import EraseService
from gamed.saves.model import Cursor, Version, parse_cursor, version_number
from gamed.saves.problems import SAVE_ERRORS
from gamed.saves.responses import list_response, save_info
from gamed.saves.service import SaveService
from gamed.saves.uploads import SaveBodyPolicy, SaveUpload
from gamed.saves.validation import check_slot
from gamed.saves.write_rules import Condition, deleting_condition, writing_condition
from gamed.sessions.problems import SESSION_ERRORS
from gamed.sessions.routes import access_token
from gamed.structs import Component
from gamed.timestamps import http_date

READ = {
    **PRIVATE,
    "Accept-Ranges": "bytes",
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "sandbox",
}
"""On every answer that has a save's bytes, or could have them."""


class SaveRoutes(Component, frozen=True):
    """Changes run detached: a client that leaves does not stop them half way."""

    app = make_app(SAVE_ERRORS, SESSION_ERRORS)
    prefixes = ("/game/",)
    _saves: SaveService
    _detached: ShieldedTasks
    _write_policy: SaveBodyPolicy
    _erase: EraseService

    @property
    def body_policies(self) -> Mapping[str, BodyPolicy]:
        return {"write_save": self._write_policy}

    @app.route("/game/", methods=["GET"])
    async def show_summary(self, request: Request) -> bytes:
        cursor, body = await self._saves.summary(access_token(request.head))
        request.setHeaders({**PRIVATE, "ETag": str(cursor.entity_tag)})
        return write_json(request, 200, body)

    @app.route("/game/", methods=["DELETE"])
    async def erase_saves(self, request: Request) -> None:
        condition = deleting_condition(request.head.header)
        await self._detached.run(self._erase.erase(access_token(request.head), condition))
        request.setResponseCode(204)

    @app.route("/game/saves", methods=["GET"])
    async def list_saves(self, request: Request) -> bytes | None:
        since, conditions = _since(request), read_conditions(request.head.header)
        knows = since is not None or conditions.if_none_match is not None
        wait = self._saves.clamp_wait(prefer_wait(request.head.header("prefer"))) if knows else 0
        listing = await self._saves.list_saves(access_token(request.head), since, conditions, wait)
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
        if not isinstance(upload, SaveUpload):
            raise TypeError("this route's gate takes uploads")
        written = await self._detached.run(self._store(upload))
        current = written.current
        if current is None:
            raise TypeError("a PUT that was not refused leaves a current version")
        request.setHeaders({**PRIVATE, **_identified(current)})
        return write_json(request, 201 if written.created else 200, save_info(current))

    @app.route("/game/saves/<text:slot>", methods=["DELETE"])
    async def delete_save(self, request: Request, slot: str) -> None:
        name, condition = check_slot(slot), deleting_condition(request.head.header)
        await self._detached.run(self._remove(request, name, condition))
        request.setResponseCode(204)

    @app.route("/game/saves/<text:slot>/versions", methods=["GET"])
    async def list_versions(self, request: Request, slot: str) -> bytes:
        name = check_slot(slot)
        body = await self._saves.versions(access_token(request.head), name)
        request.setHeaders(PRIVATE)
        return write_json(request, 200, body)

    @app.route("/game/saves/<text:slot>/versions/<string:number>", methods=["DELETE"])
    async def dismiss_version(self, request: Request, slot: str, number: str) -> None:
        name, n = check_slot(slot), version_number(number)
        await self._detached.run(self._saves.dismiss(access_token(request.head), name, n))
        request.setResponseCode(204)

    @app.route("/game/saves/<text:slot>/versions/<string:number>/restore", methods=["POST"])
    async def restore_version(self, request: Request, slot: str, number: str) -> bytes:
        name, n, condition = check_slot(slot), version_number(number), writing_condition(request.head.header)
        now = await self._detached.run(self._saves.restore(access_token(request.head), name, n, condition))
        request.setHeaders({**PRIVATE, **_identified(now)})
        return write_json(request, 200, save_info(now))

    async def _read(self, request: Request, slot: str, version: int | None = None) -> bytes | None:
        whole, header = request.head.method != "HEAD", request.head.header
        look = ReadRequest(slot, read_conditions(header), whole, header("range"), version)
        return await _answered(request, await self._saves.read(access_token(request.head), look))

    async def _store(self, upload: SaveUpload) -> WriteResult:
        try:
            return await self._saves.write(upload.context, await upload.receive())
        finally:
            upload.abort()

    async def _remove(self, request: Request, slot: str, condition: Condition) -> None:
        context = await self._saves.authorize_write(access_token(request.head))
        await self._saves.delete(context, slot, condition)


async def _answered(request: Request, reading: ReadResult) -> bytes | None:
    """Status, head and bytes of a save; None when they are written already or there are none."""
    request.setHeaders(_described(reading.version))
    if not reading.modified:
        request.setResponseCode(304)
        return None
    return await send_part(request, reading.body, reading.version.size, reading.range)


def _described(version: Version) -> dict[str, str]:
    """The head of PROTOCOL 4.2, the same for GET and HEAD."""
    headers = {**READ, **_identified(version), "Last-Modified": http_date(version.created_ms)}
    if version.content is not None:
        headers["Content-Type"] = version.content.content_type
        headers["Repr-Digest"] = sha256_field(version.content.sha256)
        if version.content.meta is not None:
            headers["Save-Meta"] = version.content.meta
    return headers


def _identified(version: Version) -> dict[str, str]:
    tag = version.entity_tag
    return {"ETag": str(tag), "Save-Version": tag.opaque}


def _since(request: Request) -> Cursor | None:
    since = read_query(request).get("since")
    return None if since is None else parse_cursor(since)
