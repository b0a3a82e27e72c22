"""The work of answering a GET under /assets/: which bytes, of which release, whole or a part (PROTOCOL 5, 6)."""

from collections.abc import Awaitable
from functools import lru_cache
from typing import Protocol

from attrs import frozen
from msgspec import Struct

from gamed.assets.catalogue import Catalogue, Release
from gamed.assets.delivery import Delivery, Item, Look, Stored, judged
from gamed.assets.errors import (
    AssetsDamaged,
    ChannelNotFound,
    ObjectMissing,
    ObjectNotFound,
    PathNotFound,
    ReleaseNotFound,
)
from gamed.assets.paths import normal
from gamed.assets.release import AssetFile, is_object, is_release
from gamed.http_rules.tags import EntityTag

JSON = "application/json"
BYTES = "application/octet-stream"
"""Of what is asked for by its hash: other releases may call it otherwise."""

KEPT_ITEMS = 1024
"""The same files are asked for again and again."""


class Library(Protocol):
    """Channels and releases."""

    def catalogue(self) -> Awaitable[Catalogue]: ...
    def release(self, name: str) -> Awaitable[Release]: ...
    def again(self, name: str) -> Awaitable[Release]:
        """As it is on disk now."""


class Objects(Protocol):
    """Bytes by their SHA-256 in hex."""

    def get(self, sha256: str, size: int | None = None) -> Awaitable[Stored]:
        """Of the `size` that a manifest gives it. ObjectNotFound, AssetsDamaged, AssetsUnreadable."""


@frozen(eq=False, repr=False)
class AssetReader:
    """What it gives is closed by who asked. Raises AssetsError, RangeUnsatisfiable."""

    _library: Library
    _objects: Objects
    _opened_ms: int
    """Since when nothing was there, while nothing is."""

    async def channels(self, look: Look) -> Delivery:
        """The list of them."""
        now = await self._library.catalogue()
        tag, modified_ms = EntityTag(now.sha256), now.modified_ms or self._opened_ms
        return _text(now.text, Item(tag, now.sha256, len(now.text), JSON, modified_ms, lasting=False), look)

    async def manifest(self, name: str, look: Look) -> Delivery:
        """Of a release, or of the one that a channel points at."""
        place = await self._place(name)
        release, at = place.release, place.channel
        tag, size = EntityTag(release.id), len(release.text)
        return _text(release.text, Item(tag, release.sha256, size, JSON, place.modified_ms, at is None, at), look)

    async def file(self, name: str, path: str, look: Look) -> Delivery:
        """Of a release, or of the one that a channel points at now: what has begun does not end as another."""
        place = await self._place(name)
        release = place.release
        file = release.manifest.files.get(normal(path))
        if file is None:
            raise PathNotFound(f"{release.id} has no such file. GET /assets/{release.id} names all it has.")
        delivery = judged(_item(file, place.modified_ms, place.channel), look)
        if not delivery.modified:
            return delivery
        try:
            return _with(delivery, await self._objects.get(file.sha256, file.size), look)
        except ObjectMissing:
            await self._still_there(release.id)
            raise

    async def object(self, sha256: str, look: Look) -> Delivery:
        """A file of any release, by its content."""
        try:
            if not is_object(sha256):
                raise ObjectNotFound
            stored = await self._objects.get(sha256)
        except ObjectNotFound:
            raise ObjectNotFound("No file with this SHA-256 is kept here.") from None
        item = Item(EntityTag(sha256), sha256, stored.size, BYTES, stored.modified_ms, lasting=True)
        try:
            delivery = judged(item, look)
        except BaseException:
            stored.close()
            raise
        return _with(delivery, stored, look)

    async def _place(self, name: str) -> "_Place":
        if is_release(name):
            release = await self._release(name)
            return _Place(release, release.manifest.published_ms)
        now = await self._library.catalogue()
        if name in now.damaged:
            raise AssetsDamaged(now.damaged[name])
        if name not in now.channels:
            raise ChannelNotFound("There is no such channel. GET /assets/ lists them.")
        channel = now.channels[name]
        return _Place(channel.release, channel.pointer.pointed_ms, channel.release.id)

    async def _release(self, name: str) -> Release:
        try:
            return await self._library.release(name)
        except ReleaseNotFound:
            raise ReleaseNotFound("This release is not kept. GET /assets/ lists what the channels hold now.") from None

    async def _still_there(self, release: str) -> None:
        """ReleaseNotFound for one that was deleted since it was read."""
        try:
            await self._library.again(release)
        except ReleaseNotFound:
            raise ReleaseNotFound("This release was deleted. GET /assets/ lists what the channels hold now.") from None


class _Place(Struct, frozen=True):
    """A release, and since when it is at its address. A channel changes when it is pointed elsewhere, also back."""

    release: Release
    modified_ms: int
    channel: str | None = None
    """The release again, where the address is a channel's."""


@lru_cache(KEPT_ITEMS)
def _item(file: AssetFile, modified_ms: int, channel: str | None) -> Item:
    lasting = channel is None
    return Item(EntityTag(file.sha256), file.sha256, file.size, file.type, modified_ms, lasting, channel)


def _text(text: bytes, item: Item, look: Look) -> Delivery:
    delivery = judged(item, look)
    return delivery.having(text) if delivery.modified and look.whole else delivery


def _with(delivery: Delivery, stored: Stored, look: Look) -> Delivery:
    if delivery.modified and look.whole:
        return delivery.having(stored.content)
    stored.close()
    return delivery
