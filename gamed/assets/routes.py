"""The routes of the assets translate between HTTP and the asset service (docs/protocol.md: Assets)."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import lru_cache, partial
from io import BytesIO
from typing import Any, Final

from gamed.assets import errors
from gamed.assets.service import AssetContent, AssetRepresentation, AssetRequest, AssetResponse, AssetService
from gamed.http.app import make_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.conditional import parse_conditions, sha256_field
from gamed.http.problems import ErrorTable
from gamed.http.request import PreparedHeaders, Request
from gamed.http.streaming import begin_part, send_content
from gamed.sessions.credentials import bearer
from gamed.sessions.problems import SESSION_ERRORS
from gamed.sessions.service import SessionService
from gamed.structs import Component
from gamed.timestamps import http_date

ASSET_ERRORS: ErrorTable = {
    errors.ChannelNotFound: (404, "channel_not_found"),
    errors.ReleaseNotFound: (404, "release_not_found"),
    errors.PathNotFound: (404, "file_not_found"),
    errors.ObjectNotFound: (404, "file_not_found"),
    errors.NotCurrent: (412, "version_conflict"),
    errors.TooManyOpen: (503, "busy"),
    errors.AssetsError: (500, "internal_error"),
}
Content = Coroutine[Any, Any, bytes | None]
"""The content of a response; None if it is written already or there is none."""
INLINE_BYTES: Final = 128 * 1024
"""Longest content that is sent in one piece; a longer one is sent from the file to the socket."""
CACHED_HEADERS: Final = 1024
"""Clients request the same files again and again."""
NO_CACHE: Final = "no-cache"
IMMUTABLE: Final = "max-age=31536000, immutable"


class AssetRoutes(Component, frozen=True, kw_only=True):
    """The routes below /assets/. A `name` is that of a channel or the id of a release; no channel has such a name.

    `sessions` authenticates the players if only players may read; None if everybody may.
    """

    app = make_app(ASSET_ERRORS, SESSION_ERRORS)
    prefixes = ("/assets/",)
    body_policies = DEFAULT_BODY_POLICIES
    assets: AssetService
    sessions: SessionService | None = None

    @app.route("/assets/", methods=["GET"])
    def list_channels(self, request: Request) -> Content:
        return self._respond(request, self.assets.channels)

    @app.route("/assets/<string:name>", methods=["GET"])
    def read_manifest(self, request: Request, name: str) -> Content:
        return self._respond(request, partial(self.assets.manifest, name))

    @app.route("/assets/<string:name>/<path:path>", methods=["GET"])
    def read_file(self, request: Request, name: str, path: str) -> bytes | Content | None:
        """Respond without a coroutine if everything is in memory: that costs a fifth less."""
        found = self.assets.cached_file(name, path, request.head.headers.get) if self.sessions is None else None
        if found is None:
            return self._respond(request, partial(self.assets.file, name, path))
        self._begin(request, found)
        return found.content if isinstance(found.content, bytes) else None

    @app.route("/assets/objects/<string:sha256>", methods=["GET"])
    def read_object(self, request: Request, sha256: str) -> Content:
        return self._respond(request, partial(self.assets.object, sha256))

    async def _respond(
        self, request: Request, find: Callable[[AssetRequest], Awaitable[AssetResponse]]
    ) -> bytes | None:
        header, wants_content = request.head.headers.get, request.head.method != "HEAD"
        asked = AssetRequest(parse_conditions(header), header("range") if wants_content else None, wants_content)
        if self.sessions is not None:
            await self.sessions.authenticate(bearer(request.head.single), reading=True)
        found = await find(asked)
        self._begin(request, found)
        return await _send(request, found.content, found.first, found.length) if found.modified else None

    def _begin(self, request: Request, found: AssetResponse) -> None:
        request.beginHeaders(_headers(found.item, self.sessions is not None))
        if not found.modified:
            request.setResponseCode(304)
            return
        request.setHeader("Content-Type", found.item.type)
        if found.part is not None:
            begin_part(request, found.part)


async def _send(request: Request, content: AssetContent | None, first: int, length: int) -> bytes | None:
    """Return short content, and write long content in pieces, so that a slow client costs no copy of it."""
    if isinstance(content, bytes) and length <= INLINE_BYTES:
        return content[first : first + length]
    if content is None or isinstance(content, bytes):
        return await send_content(request, None if content is None else BytesIO(content), first, length)
    try:
        if length > INLINE_BYTES:
            return await send_content(request, content, first, length)
        data = content.read_cached(first, length) or await content.read(first, length)
        if len(data) < length:
            raise errors.AssetsDamaged("a file became shorter while it was open")
        return data
    finally:
        content.close()


@lru_cache(CACHED_HEADERS)
def _headers(item: AssetRepresentation, private: bool) -> PreparedHeaders:
    """Return the header fields that the responses to GET and HEAD and a 304 have."""
    scope, lifetime = "private" if private else "public", IMMUTABLE if item.immutable else NO_CACHE
    headers = {
        "Cache-Control": f"{scope}, {lifetime}",
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
