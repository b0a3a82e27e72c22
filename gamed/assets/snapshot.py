"""A snapshot holds all channels with their releases, as players see them at one moment (docs/protocol.md: Assets)."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256

from msgspec import Struct

from gamed.assets.manifest import Manifest
from gamed.assets.pointer import ChannelPointer
from gamed.structs import redacts
from gamed.timestamps import rfc3339

Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, time of the last change and size of each channel's file: equal while no channel is changed."""


@redacts("text", "manifest")
class Release(Struct, frozen=True):
    """A manifest with the bytes that it was read from."""

    id: str
    text: bytes
    sha256: str
    manifest: Manifest


class Channel(Struct, frozen=True):
    """A channel with the release that it points at."""

    pointer: ChannelPointer
    release: Release


class ChannelSnapshot(Struct, frozen=True):
    """All channels at one moment. `damaged` are those that cannot be served, with the reason for the operator."""

    stamp: Stamp
    modified_ms: int | None
    """When a channel was created, moved or deleted last; None while there never was one."""
    channels: Mapping[str, Channel]
    damaged: Mapping[str, str]
    text: bytes
    """The body of `GET /assets/`."""
    sha256: str
    """The hash of the text, in hex."""
    releases: Mapping[str, Release]
    """The releases that a channel points at."""


def make_snapshot(
    stamp: Stamp, modified_ms: int | None, channels: Mapping[str, Channel], damaged: Mapping[str, str]
) -> ChannelSnapshot:
    """Return a snapshot with its channel list for players."""
    listed = {
        name: {
            "release": channel.release.id,
            "published": rfc3339(channel.release.manifest.published_ms),
            "note": channel.release.manifest.note,
        }
        for name, channel in channels.items()
    }
    text = json.dumps({"channels": listed}, ensure_ascii=False, separators=(",", ":")).encode()
    releases = {channel.release.id: channel.release for channel in channels.values()}
    return ChannelSnapshot(stamp, modified_ms, channels, damaged, text, hex_digest(text), releases)


def hex_digest(data: bytes) -> str:
    return sha256(data).hexdigest()


class ReleaseListing(Struct, frozen=True):
    """A release with its use of the disk."""

    release: str
    manifest: Manifest
    channels: Sequence[str]
    """The channels that point at it."""
    own_bytes: int
    """The bytes that no other release has, and that deleting it would free."""
    unneeded_ms: int | None
    """Since when no channel needs it; None while one does."""


class Overview(Struct, frozen=True):
    """The whole folder; `releases` newest first."""

    channels: Mapping[str, ChannelPointer]
    releases: Sequence[ReleaseListing]
    damaged: Sequence[str]
    objects: int
    bytes: int
    """The size of all objects on disk."""

    @property
    def release_bytes(self) -> int:
        """Return the bytes of all releases if they shared no object."""
        return sum(each.manifest.size for each in self.releases)
