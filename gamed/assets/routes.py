"""The room of assets (PROTOCOL 5)."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import lru_cache, partial
from io import BytesIO
from typing import Any, Protocol

from gamed.assets.errors import AssetsDamaged
from gamed.assets.problems import ASSET_ERRORS
from gamed.assets.service import AssetRepresentation, AssetRequest, AssetResponse, AssetService, StoredFile
from gamed.http.app import make_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.conditional import sha256_field
from gamed.http.headers import PreparedHeaders
from gamed.http.request import Request
from gamed.http.streaming import conditions_of, send, stream_file
from gamed.sessions.problems import SESSION_ERRORS
from gamed.sessions.routes import bearer
from gamed.structs import Component
from gamed.timestamps import http_date

Answer = Coroutine[Any, Any, bytes | None]
"""The bytes, if they are not written already and there are some."""
INLINE_BYTES = 128 * 1024
"""Up to here one piece; what is longer goes from the file to the socket."""
DESCRIBED = 1024
"""Heads that are kept: the same files are asked for again and again."""
NO_CACHE = "no-cache"
IMMUTABLE = "max-age=31536000, immutable"


class Players(Protocol):
    """Who may read where not everybody may."""

    def authenticate(self, token: str | None, *, reading: bool = False) -> Awaitable[object]: ...


class AssetRoutes(Component, frozen=True):
    """A name is that of a channel or the id of a release, which no channel has. `players` judges who may read; None
    where everybody may.
    """

    app = make_app(ASSET_ERRORS, SESSION_ERRORS)
    prefixes = ("/assets/",)
    body_policies = DEFAULT_BODY_POLICIES
    _assets: AssetService
    _players: Players | None = None

    @app.route("/assets/", methods=["GET"])
    def list_channels(self, request: Request) -> Answer:
        return self._answer(request, self._assets.channels)

    @app.route("/assets/<string:name>", methods=["GET"])
    def read_manifest(self, request: Request, name: str) -> Answer:
        return self._answer(request, partial(self._assets.manifest, name))

    @app.route("/assets/<string:name>/<path:path>", methods=["GET"])
    def read_file(self, request: Request, name: str, path: str) -> bytes | Answer | None:
        """At once where nothing need be waited for: the answer is the same, and costs a fifth less."""
        found = self._assets.file_at_hand(name, path, request.head.header) if self._players is None else None
        if found is None:
            return self._answer(request, partial(self._assets.file, name, path))
        self._begin(request, found)
        return found.content if isinstance(found.content, bytes) else None

    @app.route("/assets/objects/<string:sha256>", methods=["GET"])
    def read_object(self, request: Request, sha256: str) -> Answer:
        return self._answer(request, partial(self._assets.object, sha256))

    async def _answer(self, request: Request, find: Callable[[AssetRequest], Awaitable[AssetResponse]]) -> bytes | None:
        """Status, head and bytes. A token is judged before anything is looked for."""
        header, whole = request.head.header, request.head.method != "HEAD"
        look = AssetRequest(conditions_of(header), header("range") if whole else None, whole)
        if self._players is not None:
            await self._players.authenticate(bearer(request.head), reading=True)
        found = await find(look)
        self._begin(request, found)
        if found.content is None:
            if found.modified:
                request.setHeader("Content-Length", str(found.length))
                request.write(b"")
            return None
        return await _sent(request, found.content, found.first, found.length)

    def _begin(self, request: Request, found: AssetResponse) -> None:
        """Status and head."""
        request.beginHeaders(_described(found.item, self._players is not None))
        if not found.modified:
            request.setResponseCode(304)
            return
        request.setHeader("Content-Type", found.item.type)
        if found.part is not None:
            request.setResponseCode(206)
            request.setHeader("Content-Range", found.part.content_range)


async def _sent(request: Request, content: bytes | StoredFile, first: int, length: int) -> bytes | None:
    """Few bytes as the handler's result, many piece by piece: a client that is slow costs no copy of them."""
    if isinstance(content, bytes) and length <= INLINE_BYTES:
        return content[first : first + length]
    if isinstance(content, bytes):
        request.setHeader("Content-Length", str(length))
        await send(request, BytesIO(content), first, length)
        return None
    try:
        if length <= INLINE_BYTES:
            return content.at_once(first, length) or await _read(content, first, length)
        request.setHeader("Content-Length", str(length))
        await stream_file(request, content, first, length)
        return None
    finally:
        content.close()


async def _read(file: StoredFile, first: int, length: int) -> bytes:
    data = await file.read(first, length)
    if len(data) < length:
        raise AssetsDamaged("a file became shorter while it was open")
    return data


@lru_cache(DESCRIBED)
def _described(item: AssetRepresentation, private: bool) -> PreparedHeaders:
    """The head that GET, HEAD and 304 have."""
    scope, lasting = "private" if private else "public", IMMUTABLE if item.lasting else NO_CACHE
    headers = {
        "Cache-Control": f"{scope}, {lasting}",
        "ETag": str(item.tag),
        "Last-Modified": http_date(item.modified_ms),
        "Accept-Ranges": "bytes",
        "Repr-Digest": sha256_field(bytes.fromhex(item.sha256)),
        "Content-Security-Policy": "sandbox",
    }
    if private:
        headers["Vary"] = "Authorization"
    if item.release is not None:
        headers["Asset-Release"] = item.release
    return PreparedHeaders(headers)
