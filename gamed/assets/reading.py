"""The work of answering a GET under /assets/: which bytes, of which release, whole or a part (PROTOCOL 5, 6)."""

from collections.abc import Awaitable
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from gamed.assets.catalogue import Catalogue, Channel, Release
from gamed.assets.delivery import Delivery, Item, Look, Stored, judged
from gamed.assets.errors import (
    AssetsDamaged,
    ChannelNotFound,
    ObjectMissing,
    ObjectNotFound,
    PathNotFound,
    ReleaseNotFound,
)
from gamed.assets.paths import requested
from gamed.assets.release import AssetFile, is_object, is_release
from gamed.http_rules.conditions import Header
from gamed.http_rules.tags import EntityTag
from gamed.structs import Part

JSON = "application/json"
BYTES = "application/octet-stream"
"""Of what is asked for by its hash: other releases may call it otherwise."""

KEPT_ITEMS = 1024
"""The same files are asked for again and again."""


class Library(Protocol):
    """Channels and releases."""

    def at_hand(self) -> Catalogue | None:
        """Until it is time to look again."""

    def catalogue(self) -> Awaitable[Catalogue]: ...
    def kept(self, name: str) -> Release | None:
        """That need not be read again."""

    def release(self, name: str) -> Awaitable[Release]: ...
    def again(self, name: str) -> Awaitable[Release]:
        """As it is on disk now."""


class Objects(Protocol):
    """Bytes by their SHA-256 in hex."""

    def in_memory(self, sha256: str, size: int) -> bytes | None:
        """All of them, if they need not be read and are as many."""

    def get(self, sha256: str, size: int | None = None) -> Awaitable[Stored]:
        """Of the `size` that a manifest gives it. ObjectNotFound, AssetsDamaged, AssetsUnreadable."""


class AssetReader(Part, frozen=True):
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
        place = self._at_hand(name) or await self._place(name)
        release, at = place.release, place.channel
        tag, size = EntityTag(release.id), len(release.text)
        return _text(release.text, Item(tag, release.sha256, size, JSON, place.modified_ms, at is None, at), look)

    def file_at_hand(self, name: str, path: str, header: Header) -> Delivery | None:
        """What file() gives to who asks as most do: for all of a small file, or whether it is still the one he has.

        None where anything must be looked for, or more of his head be read (RFC 9110 13.2.2).
        """
        if not (header("range") is header("if-match") is header("if-unmodified-since") is None):
            return None
        known, place = header("if-none-match"), self._at_hand(name)
        item = None if place is None else _item_in(place, path)
        if item is None or (known is None and header("if-modified-since") is not None):
            return None
        if known is not None:
            return Delivery(item, modified=False) if known == str(item.tag) else None
        data = self._objects.in_memory(item.sha256, item.size)
        return None if data is None else Delivery(item, True, None, data)

    async def file(self, name: str, path: str, look: Look) -> Delivery:
        """Of a release, or of the one that a channel points at now: what has begun does not end as another."""
        place = self._at_hand(name) or await self._place(name)
        item = _item_in(place, path)
        if item is None:
            release = place.release.id
            raise PathNotFound(f"{release} has no such file. GET /assets/{release} names all it has.")
        delivery = judged(item, look)
        if not delivery.modified:
            return delivery
        try:
            return _with(delivery, await self._objects.get(item.sha256, item.size), look)
        except ObjectMissing:
            await self._still_there(place.release.id)
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

    def _at_hand(self, name: str) -> "_Place | None":
        """What nobody need look for: most of what is asked for."""
        now = self._library.at_hand()
        if now is not None and (channel := now.channels.get(name)) is not None:
            return _of_channel(channel)
        release = self._library.kept(name)
        return None if release is None else _of_release(release)

    async def _place(self, name: str) -> "_Place":
        if is_release(name):
            return _of_release(await self._release(name))
        now = await self._library.catalogue()
        if name in now.damaged:
            raise AssetsDamaged(now.damaged[name])
        if name not in now.channels:
            raise ChannelNotFound("There is no such channel. GET /assets/ lists them.")
        return _of_channel(now.channels[name])

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


def _of_channel(channel: Channel) -> _Place:
    return _Place(channel.release, channel.pointer.pointed_ms, channel.release.id)


def _of_release(release: Release) -> _Place:
    return _Place(release, release.manifest.published_ms)


def _item_in(place: _Place, path: str) -> Item | None:
    known = requested(path)
    file = None if known is None else place.release.manifest.files.get(known)
    return None if file is None else _item(file, place.modified_ms, place.channel)


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
