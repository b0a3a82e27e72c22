"""Releases as they are shown, and all channels at one moment (PROTOCOL 5)."""

import json
from collections.abc import Mapping
from hashlib import sha256

from msgspec import Struct

from gamed.assets.pointer import Pointer
from gamed.assets.release import Manifest
from gamed.instants import rfc3339
from gamed.structs import hides

Stamp = tuple[tuple[str, int, int, int], ...]
"""Equal while no channel has moved."""


@hides("text", "manifest")
class Release(Struct, frozen=True):
    """A manifest, and the bytes that it was read from."""

    id: str
    text: bytes
    sha256: str
    manifest: Manifest


class Channel(Struct, frozen=True):
    """Where it points."""

    pointer: Pointer
    release: Release


class Catalogue(Struct, frozen=True):
    """All channels. `damaged` are those that cannot be shown, with the reason for the owner."""

    stamp: Stamp
    modified_ms: int | None
    """When a channel was made, moved or removed last; None while there never was one."""
    channels: Mapping[str, Channel]
    damaged: Mapping[str, str]
    text: bytes
    """The body of `GET /assets/`."""
    sha256: str
    """Of the text, in hex."""
    releases: Mapping[str, Release]
    """Those that some channel points at."""


def catalogue(
    stamp: Stamp, modified_ms: int | None, channels: Mapping[str, Channel], damaged: Mapping[str, str]
) -> Catalogue:
    """With the list as players read it."""
    listed = {name: _members(channel.release) for name, channel in channels.items()}
    text = json.dumps({"channels": listed}, ensure_ascii=False, separators=(",", ":")).encode()
    releases = {channel.release.id: channel.release for channel in channels.values()}
    return Catalogue(stamp, modified_ms, channels, damaged, text, hex_digest(text), releases)


def hex_digest(data: bytes) -> str:
    """SHA-256."""
    return sha256(data).hexdigest()


def _members(release: Release) -> dict[str, str]:
    manifest = release.manifest
    return {"release": release.id, "published": rfc3339(manifest.published_ms), "note": manifest.note}
