"""What a GET under /assets/ comes to: one representation, judged by its conditions and its range (PROTOCOL 5, 6).

The work of answering a GET under /assets/: which bytes, of which release, whole or a part (PROTOCOL 5, 6).
"""

from collections.abc import Awaitable
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from gamed.assets.channel import Channel, ChannelSnapshot, Release
from gamed.assets.errors import (
    AssetsDamaged,
    ChannelNotFound,
    NotCurrent,
    ObjectMissing,
    ObjectNotFound,
    PathNotFound,
    ReleaseNotFound,
)
from gamed.assets.manifest import AssetFile, is_object, is_release
from gamed.assets.paths import requested
from gamed.http.conditional import (
    UNCONDITIONAL,
    ByteRange,
    Conditions,
    EntityTag,
    Header,
    Precondition,
    Representation,
    evaluate_conditions,
    parse_range,
    range_holds,
)
from gamed.structs import Component, redacts


class AssetRequest(Struct, frozen=True):
    """A GET or HEAD."""

    conditions: Conditions
    range: str | None
    """The Range header; None for a HEAD, which ignores it (RFC 9110 14.2)."""
    whole: bool
    """The bytes are asked for too."""


class AssetRepresentation(Struct, frozen=True, cache_hash=True):
    """What is at an address now."""

    tag: EntityTag
    sha256: str
    """Of its bytes, in hex."""
    size: int
    type: str
    """Media type."""
    modified_ms: int
    lasting: bool
    """Whether this address will never hold other bytes."""
    release: str | None = None
    """Where the channel of the address points; None where there is no channel in it."""


class StoredFile(Protocol):
    """Bytes on disk, also in parts of `part_bytes`; closed by whoever got it."""

    @property
    def part_bytes(self) -> int: ...
    def part(self, n: int) -> Awaitable[bytes]: ...
    def read(self, first: int, length: int) -> Awaitable[bytes]:
        """Less only where the file ends."""

    def at_once(self, first: int, length: int) -> bytes | None:
        """The same, if the disk need not be waited for."""

    def ready(self, at: int) -> int:
        """How many bytes from there on can be sent now without waiting for the disk."""

    def read_ahead(self, at: int) -> Awaitable[None]:
        """Afterwards there are some, for a moment, if the file has them."""

    def fileno(self) -> int: ...
    def close(self) -> None: ...


@redacts("content")
class StoredObject(Struct, frozen=True, eq=False):
    """What is kept under a hash, since `modified_ms`."""

    size: int
    modified_ms: int
    content: bytes | StoredFile

    def close(self) -> None:
        if not isinstance(self.content, bytes):
            self.content.close()


@redacts("content")
class AssetResponse(Struct, frozen=True, eq=False):
    """How a GET or HEAD is answered. `content` is all bytes there are; None when none are sent."""

    item: AssetRepresentation
    modified: bool
    part: ByteRange | None = None
    """What of the bytes is asked for; None: all of them."""
    content: bytes | StoredFile | None = None

    def having(self, content: bytes | StoredFile) -> "AssetResponse":
        """The same, with all the bytes there are."""
        return AssetResponse(self.item, self.modified, self.part, content)

    @property
    def first(self) -> int:
        return self.part.first if self.part else 0

    @property
    def length(self) -> int:
        return self.part.length if self.part else self.item.size


def evaluate_asset(item: AssetRepresentation, look: AssetRequest) -> AssetResponse:
    """RFC 9110 13.2.2 in order; NotCurrent, RangeUnsatisfiable.

    A channel may be pointed at two releases within one second, which one date cannot tell apart: below a channel no
    part is sent for a date in If-Range (RFC 9110 8.8.2.2).
    """
    if look.conditions is UNCONDITIONAL:
        return AssetResponse(item, True, parse_range(look.range, item.size))
    now = Representation(item.tag, item.modified_ms, item.lasting)
    outcome = evaluate_conditions(look.conditions, now, reading=True)
    if outcome is Precondition.NOT_MODIFIED:
        return AssetResponse(item, modified=False)
    if outcome is Precondition.FAILED:
        raise NotCurrent("Other bytes are at this address than If-Match or If-Unmodified-Since ask for; start anew.")
    return AssetResponse(item, True, parse_range(look.range, item.size) if range_holds(look.conditions, now) else None)


JSON = "application/json"
BYTES = "application/octet-stream"
"""Of what is asked for by its hash: other releases may call it otherwise."""

KEPT_ITEMS = 1024
"""The same files are asked for again and again."""


class ReleaseReader(Protocol):
    """Channels and releases."""

    def at_hand(self) -> ChannelSnapshot | None:
        """Until it is time to look again."""

    def catalogue(self) -> Awaitable[ChannelSnapshot]: ...
    def kept(self, name: str) -> Release | None:
        """That need not be read again."""

    def release(self, name: str) -> Awaitable[Release]: ...
    def again(self, name: str) -> Awaitable[Release]:
        """As it is on disk now."""


class ObjectSource(Protocol):
    """Bytes by their SHA-256 in hex."""

    def in_memory(self, sha256: str, size: int) -> bytes | None:
        """All of them, if they need not be read and are as many."""

    def get(self, sha256: str, size: int | None = None) -> Awaitable[StoredObject]:
        """Of the `size` that a manifest gives it. ObjectNotFound, AssetsDamaged, AssetsUnreadable."""


class AssetService(Component, frozen=True):
    """What it gives is closed by who asked. Raises AssetsError, RangeUnsatisfiable."""

    _library: ReleaseReader
    _objects: ObjectSource
    _opened_ms: int
    """Since when nothing was there, while nothing is."""

    async def channels(self, look: AssetRequest) -> AssetResponse:
        """The list of them."""
        now = await self._library.catalogue()
        tag, modified_ms = EntityTag(now.sha256), now.modified_ms or self._opened_ms
        return _text(
            now.text, AssetRepresentation(tag, now.sha256, len(now.text), JSON, modified_ms, lasting=False), look
        )

    async def manifest(self, name: str, look: AssetRequest) -> AssetResponse:
        """Of a release, or of the one that a channel points at."""
        place = self._at_hand(name) or await self._place(name)
        release, at = place.release, place.channel
        tag, size = EntityTag(release.id), len(release.text)
        return _text(
            release.text, AssetRepresentation(tag, release.sha256, size, JSON, place.modified_ms, at is None, at), look
        )

    def file_at_hand(self, name: str, path: str, header: Header) -> AssetResponse | None:
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
            return AssetResponse(item, modified=False) if known == str(item.tag) else None
        data = self._objects.in_memory(item.sha256, item.size)
        return None if data is None else AssetResponse(item, True, None, data)

    async def file(self, name: str, path: str, look: AssetRequest) -> AssetResponse:
        """Of a release, or of the one that a channel points at now: what has begun does not end as another."""
        place = self._at_hand(name) or await self._place(name)
        item = _item_in(place, path)
        if item is None:
            release = place.release.id
            raise PathNotFound(f"{release} has no such file. GET /assets/{release} names all it has.")
        delivery = evaluate_asset(item, look)
        if not delivery.modified:
            return delivery
        try:
            return _with(delivery, await self._objects.get(item.sha256, item.size), look)
        except ObjectMissing:
            await self._still_there(place.release.id)
            raise

    async def object(self, sha256: str, look: AssetRequest) -> AssetResponse:
        """A file of any release, by its content."""
        try:
            if not is_object(sha256):
                raise ObjectNotFound
            stored = await self._objects.get(sha256)
        except ObjectNotFound:
            raise ObjectNotFound("No file with this SHA-256 is kept here.") from None
        item = AssetRepresentation(EntityTag(sha256), sha256, stored.size, BYTES, stored.modified_ms, lasting=True)
        try:
            delivery = evaluate_asset(item, look)
        except BaseException:
            stored.close()
            raise
        return _with(delivery, stored, look)

    def _at_hand(self, name: str) -> "_ResolvedRelease | None":
        """What nobody need look for: most of what is asked for."""
        now = self._library.at_hand()
        if now is not None and (channel := now.channels.get(name)) is not None:
            return _of_channel(channel)
        release = self._library.kept(name)
        return None if release is None else _of_release(release)

    async def _place(self, name: str) -> "_ResolvedRelease":
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


class _ResolvedRelease(Struct, frozen=True):
    """A release, and since when it is at its address. A channel changes when it is pointed elsewhere, also back."""

    release: Release
    modified_ms: int
    channel: str | None = None
    """The release again, where the address is a channel's."""


def _of_channel(channel: Channel) -> _ResolvedRelease:
    return _ResolvedRelease(channel.release, channel.pointer.pointed_ms, channel.release.id)


def _of_release(release: Release) -> _ResolvedRelease:
    return _ResolvedRelease(release, release.manifest.published_ms)


def _item_in(place: _ResolvedRelease, path: str) -> AssetRepresentation | None:
    known = requested(path)
    file = None if known is None else place.release.manifest.files.get(known)
    return None if file is None else _item(file, place.modified_ms, place.channel)


@lru_cache(KEPT_ITEMS)
def _item(file: AssetFile, modified_ms: int, channel: str | None) -> AssetRepresentation:
    lasting = channel is None
    return AssetRepresentation(EntityTag(file.sha256), file.sha256, file.size, file.type, modified_ms, lasting, channel)


def _text(text: bytes, item: AssetRepresentation, look: AssetRequest) -> AssetResponse:
    delivery = evaluate_asset(item, look)
    return delivery.having(text) if delivery.modified and look.whole else delivery


def _with(delivery: AssetResponse, stored: StoredObject, look: AssetRequest) -> AssetResponse:
    if delivery.modified and look.whole:
        return delivery.having(stored.content)
    stored.close()
    return delivery
