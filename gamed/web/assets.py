"""The room of assets (PROTOCOL 5)."""

from collections.abc import Awaitable, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Protocol

from attrs import frozen

from gamed.assets.delivery import Delivery, Item, Look, StoredFile
from gamed.assets.errors import AssetsDamaged
from gamed.assets.reading import AssetReader
from gamed.http_rules.digest import sha256_field
from gamed.instants import http_date
from gamed.web.app import make_app
from gamed.web.bearer import bearer
from gamed.web.conditional import conditions_of
from gamed.web.file_sending import send_file
from gamed.web.gates import NO_GATES
from gamed.web.request import Request
from gamed.web.sending import send

INLINE_BYTES = 128 * 1024
"""Up to here one piece; what is longer goes from the file to the socket."""
DESCRIBED = 1024
"""Heads that are kept: the same files are asked for again and again."""
NO_CACHE = "no-cache"
IMMUTABLE = "max-age=31536000, immutable"


class Players(Protocol):
    """Who may read where not everybody may."""

    def authenticate(self, token: str | None) -> Awaitable[object]: ...


@frozen
class AssetRoutes:
    """A name is that of a channel or the id of a release, which no channel has. `players` judges who may read; None
    where everybody may.
    """

    app = make_app()
    prefixes = ("/assets/",)
    gates = NO_GATES
    _assets: AssetReader
    _players: Players | None = None

    @app.route("/assets/", methods=["GET"])
    async def list_channels(self, request: Request) -> bytes | None:
        look = await self._look(request)
        return await self._answer(request, await self._assets.channels(look))

    @app.route("/assets/<string:name>", methods=["GET"])
    async def read_manifest(self, request: Request, name: str) -> bytes | None:
        look = await self._look(request)
        return await self._answer(request, await self._assets.manifest(name, look))

    @app.route("/assets/<string:name>/<path:path>", methods=["GET"])
    async def read_file(self, request: Request, name: str, path: str) -> bytes | None:
        look = await self._look(request)
        return await self._answer(request, await self._assets.file(name, path, look))

    @app.route("/assets/objects/<string:sha256>", methods=["GET"])
    async def read_object(self, request: Request, sha256: str) -> bytes | None:
        look = await self._look(request)
        return await self._answer(request, await self._assets.object(sha256, look))

    async def _look(self, request: Request) -> Look:
        """What is wanted, by whom: a token is judged before anything is looked for."""
        whole = request.head.method != "HEAD"
        header = request.head.header
        look = Look(conditions_of(header), header("range") if whole else None, whole)
        if self._players is not None:
            await self._players.authenticate(bearer(request.head))
        return look

    async def _answer(self, request: Request, delivery: Delivery) -> bytes | None:
        """Status, head and bytes; None when they are written already or there are none."""
        request.setHeaders(_described(delivery.item, private=self._players is not None))
        if not delivery.modified:
            request.setResponseCode(304)
            return None
        request.setHeader("Content-Type", delivery.item.type)
        if delivery.part is not None:
            request.setResponseCode(206)
            request.setHeader("Content-Range", delivery.part.content_range)
        if delivery.content is None:
            request.setHeader("Content-Length", str(delivery.length))
            request.write(b"")
            return None
        return await _sent(request, delivery.content, delivery.first, delivery.length)


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
            return await _read(content, first, length)
        request.setHeader("Content-Length", str(length))
        await send_file(request, content, first, length)
        return None
    finally:
        content.close()


async def _read(file: StoredFile, first: int, length: int) -> bytes:
    data = file.at_once(first, length)
    if data is None:
        data = await file.read(first, length)
        if len(data) < length:
            raise AssetsDamaged("a file became shorter while it was open")
    return data


@lru_cache(DESCRIBED)
def _described(item: Item, *, private: bool) -> Mapping[str, str]:
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
    return headers
