"""The responses to a GET under /assets/: the bytes of a file, a manifest or the channel list.

See docs/protocol.md: Assets, Conditions and ranges.
"""

from functools import lru_cache
from typing import Final

from msgspec import Struct

from gamed.assets.cache import ObjectCache, ReleaseCache
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
from gamed.assets.open_file import FileLease
from gamed.assets.paths import normalize_requested
from gamed.assets.snapshot import Channel, Release
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

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
"""The media type of a file that is requested by its hash: releases may give it different types."""
CACHED_REPRESENTATIONS: Final = 1024
"""Clients request the same files again and again."""


class AssetRequest(Struct, frozen=True):
    """A GET or HEAD."""

    conditions: Conditions
    range: str | None
    """The Range header; None for a HEAD, which ignores it (RFC 9110 14.2)."""
    wants_content: bool
    """False for a HEAD."""


class AssetRepresentation(Struct, frozen=True, cache_hash=True):
    """The current representation of an address."""

    tag: EntityTag
    sha256: str
    """The hash of its bytes, in hex."""
    size: int
    type: str
    """Media type."""
    modified_ms: int
    immutable: bool
    """Whether this address will never hold other bytes."""
    release: str | None = None
    """The release that the channel of the address points at; None for an address without a channel."""


AssetContent = bytes | FileLease
"""Content in memory or in an open file, which the receiver closes."""


@redacts("content")
class AssetResponse(Struct, frozen=True, eq=False):
    """The response to a GET or HEAD. `content` is the whole representation; None if no byte of it is sent."""

    item: AssetRepresentation
    modified: bool
    part: ByteRange | None = None
    """The requested part; None for the whole representation."""
    content: AssetContent | None = None

    @property
    def first(self) -> int:
        return self.part.first if self.part else 0

    @property
    def length(self) -> int:
        return self.part.length if self.part else self.item.size


class AssetService(Component, frozen=True, kw_only=True):
    """The service that answers requests for assets; the caller closes the content of a response.

    Every method raises AssetsError and RangeUnsatisfiable.
    """

    releases: ReleaseCache
    objects: ObjectCache
    started_ms: int
    """The Last-Modified of the channel list while there never was a channel."""

    async def channels(self, request: AssetRequest) -> AssetResponse:
        """Return the list of the channels."""
        now = await self.releases.snapshot()
        modified_ms = now.modified_ms or self.started_ms
        item = AssetRepresentation(EntityTag(now.sha256), now.sha256, len(now.text), JSON, modified_ms, immutable=False)
        return _with_content(evaluate_asset(item, request), now.text, request)

    async def manifest(self, name: str, request: AssetRequest) -> AssetResponse:
        """Return the manifest of a release, or of the release that a channel points at."""
        resolved = self._resolve_cached(name) or await self._resolve(name)
        release, channel = resolved.release, resolved.channel
        tag, size, modified_ms = EntityTag(release.id), len(release.text), resolved.modified_ms
        item = AssetRepresentation(tag, release.sha256, size, JSON, modified_ms, channel is None, channel)
        return _with_content(evaluate_asset(item, request), release.text, request)

    def cached_file(self, name: str, path: str, header: Header) -> AssetResponse | None:
        """Return what file() returns, for the two most frequent requests: all of a small file, or its revalidation.

        Return None if the disk must be read, or if other conditions count (RFC 9110 13.2.2).
        """
        if not (header("range") is header("if-match") is header("if-unmodified-since") is None):
            return None
        known, resolved = header("if-none-match"), self._resolve_cached(name)
        item = None if resolved is None else _representation(resolved, path)
        if item is None or (known is None and header("if-modified-since") is not None):
            return None
        if known is not None:
            return AssetResponse(item, modified=False) if known == str(item.tag) else None
        data = self.objects.in_memory(item.sha256, item.size)
        return None if data is None else AssetResponse(item, True, None, data)

    async def file(self, name: str, path: str, request: AssetRequest) -> AssetResponse:
        """Return a file of a release, or of the release that a channel points at now.

        A download that has begun is not affected when the channel is moved.
        """
        resolved = self._resolve_cached(name) or await self._resolve(name)
        item = _representation(resolved, path)
        release = resolved.release.id
        if item is None:
            raise PathNotFound(f"{release} has no such file. GET /assets/{release} names all it has.")
        response = evaluate_asset(item, request)
        if not response.modified:
            return response
        try:
            stored = await self.objects.get(item.sha256, item.size)
        except ObjectMissing:  # 404 if the release was deleted since it was cached, 500 if its object is lost
            try:
                await self.releases.reload(release)
            except ReleaseNotFound:
                text = "This release was deleted. GET /assets/ lists what the channels hold now."
                raise ReleaseNotFound(text) from None
            raise
        return _with_content(response, stored.content, request)

    async def object(self, sha256: str, request: AssetRequest) -> AssetResponse:
        """Return a file of any release, by the hash of its content."""
        try:
            if not is_object(sha256):
                raise ObjectNotFound
            stored = await self.objects.get(sha256)
        except ObjectNotFound:
            raise ObjectNotFound("No file with this SHA-256 is kept here.") from None
        item = AssetRepresentation(EntityTag(sha256), sha256, stored.size, BYTES, stored.modified_ms, immutable=True)
        try:
            response = evaluate_asset(item, request)
        except BaseException:
            stored.close()
            raise
        return _with_content(response, stored.content, request)

    def _resolve_cached(self, name: str) -> "_ResolvedRelease | None":
        """Return the release of a channel's name or a release id; None if the disk must be read for it."""
        now = self.releases.cached_snapshot()
        if now is not None and (channel := now.channels.get(name)) is not None:
            return _of_channel(channel)
        release = self.releases.cached_release(name)
        return None if release is None else _of_release(release)

    async def _resolve(self, name: str) -> "_ResolvedRelease":
        if is_release(name):
            try:
                return _of_release(await self.releases.release(name))
            except ReleaseNotFound:
                raise ReleaseNotFound(
                    "This release is not kept. GET /assets/ lists what the channels hold now."
                ) from None
        now = await self.releases.snapshot()
        if name in now.damaged:
            raise AssetsDamaged(now.damaged[name])
        if name not in now.channels:
            raise ChannelNotFound("There is no such channel. GET /assets/ lists them.")
        return _of_channel(now.channels[name])


def evaluate_asset(item: AssetRepresentation, request: AssetRequest) -> AssetResponse:
    """Evaluate the conditions and the range of a request (RFC 9110 13.2.2); raise NotCurrent or RangeUnsatisfiable.

    A channel may be pointed at two releases within one second, and they have the same Last-Modified then. So no part
    is sent for a date in If-Range below a channel (RFC 9110 8.8.2.2).
    """
    if request.conditions is UNCONDITIONAL:
        return AssetResponse(item, True, parse_range(request.range, item.size))
    now = Representation(item.tag, item.modified_ms, item.immutable)
    precondition = evaluate_conditions(request.conditions, now, reading=True)
    if precondition is Precondition.NOT_MODIFIED:
        return AssetResponse(item, modified=False)
    if precondition is Precondition.FAILED:
        raise NotCurrent("Other bytes are at this address than If-Match or If-Unmodified-Since ask for; start anew.")
    part = parse_range(request.range, item.size) if range_holds(request.conditions, now) else None
    return AssetResponse(item, True, part)


class _ResolvedRelease(Struct, frozen=True):
    """A release with the instant from which it is at its address; setting a channel changes that, also back."""

    release: Release
    modified_ms: int
    channel: str | None = None
    """The id of the release again, if the address is a channel's."""


def _of_channel(channel: Channel) -> _ResolvedRelease:
    return _ResolvedRelease(channel.release, channel.pointer.pointed_ms, channel.release.id)


def _of_release(release: Release) -> _ResolvedRelease:
    return _ResolvedRelease(release, release.manifest.published_ms)


def _representation(resolved: _ResolvedRelease, path: str) -> AssetRepresentation | None:
    normal = normalize_requested(path)
    file = None if normal is None else resolved.release.manifest.files.get(normal)
    return None if file is None else _file_representation(file, resolved.modified_ms, resolved.channel)


@lru_cache(CACHED_REPRESENTATIONS)
def _file_representation(file: AssetFile, modified_ms: int, channel: str | None) -> AssetRepresentation:
    tag, immutable = EntityTag(file.sha256), channel is None
    return AssetRepresentation(tag, file.sha256, file.size, file.type, modified_ms, immutable, channel)


def _with_content(response: AssetResponse, content: AssetContent, request: AssetRequest) -> AssetResponse:
    """Return the response with its content, or close the content if no byte of it is sent."""
    if response.modified and request.wants_content:
        return AssetResponse(response.item, True, response.part, content)
    if not isinstance(content, bytes):
        content.close()
    return response
