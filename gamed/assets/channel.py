"""Where a channel points, and where it pointed before (PROTOCOL 5).

Since when nobody needs a release: what `gamed assets gc` goes by (PROTOCOL 5, 7).

Releases as they are shown, and all channels at one moment (PROTOCOL 5).
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gamed.assets.errors import PointerMalformed
from gamed.assets.manifest import Manifest, is_release
from gamed.strict_json import JsonMalformed, parse_object
from gamed.structs import redacts
from gamed.timestamps import parse_rfc3339, rfc3339

FORMAT: Final = 1
MAX_HISTORY: Final = 1000
"""Most that `keep_releases` may be."""
MAX_POINTER_BYTES: Final = 256 * 1024


class PointerHistoryEntry(Struct, frozen=True):
    """One release that a channel pointed at."""

    release: str
    pointed_ms: int
    """Since when."""
    withdrawn: bool = False
    """A rollback led away from it: the next one does not lead back."""


class ChannelPointer(Struct, frozen=True):
    """A channel's file."""

    release: str
    pointed_ms: int
    history: Sequence[PointerHistoryEntry] = ()
    """Newest first; each release once, and never the present one."""

    def to(self, release: str, now_ms: int) -> "ChannelPointer":
        """Pointing at another release; at the same one nothing changes."""
        return self if release == self.release else self._moved(release, now_ms, withdrawn=False)

    def back(self, now_ms: int) -> "ChannelPointer | None":
        """Where it pointed before; each time further back. None when there is nothing before."""
        before = next((each for each in self.history if not each.withdrawn), None)
        return None if before is None else self._moved(before.release, now_ms, withdrawn=True)

    def without(self, gone: set[str]) -> "ChannelPointer":
        """Releases deleted from its past."""
        return replace(self, history=tuple(each for each in self.history if each.release not in gone))

    def kept(self, keep: int) -> list[str]:
        """The present release and the newest before it, at most `keep` in all."""
        return [self.release, *(each.release for each in self.history)][:keep]

    def _moved(self, release: str, now_ms: int, *, withdrawn: bool) -> "ChannelPointer":
        left = PointerHistoryEntry(self.release, self.pointed_ms, withdrawn)
        rest = (each for each in self.history if each.release not in (release, self.release))
        return ChannelPointer(release, now_ms, (left, *rest)[:MAX_HISTORY])


def pointer_bytes(pointer: ChannelPointer) -> bytes:
    """As JSON, for a person too."""
    history = [
        {
            "release": each.release,
            "pointed": rfc3339(each.pointed_ms),
            **({"withdrawn": True} if each.withdrawn else {}),
        }
        for each in pointer.history
    ]
    pointed = rfc3339(pointer.pointed_ms)
    members = {"format": FORMAT, "release": pointer.release, "pointed": pointed, "history": history}
    return json.dumps(members, indent=1).encode() + b"\n"


def parse_pointer(text: bytes) -> ChannelPointer:
    """PointerMalformed unless gamed wrote it."""
    try:
        members = parse_object(text)
        if members.get("format") != FORMAT or members["format"] is True:
            raise PointerMalformed("of another version of gamed")
        present, history = _pointing(members), members["history"]
        if not isinstance(history, list) or len(history) > MAX_HISTORY:
            raise TypeError("history")
        before = tuple(_pointing(each) for each in history)
    except (JsonMalformed, KeyError, TypeError) as e:
        raise PointerMalformed(str(e)) from None
    if len({present.release, *(each.release for each in before)}) != 1 + len(before):
        raise PointerMalformed("a release appears twice")
    return ChannelPointer(present.release, present.pointed_ms, before)


def _pointing(value: object) -> PointerHistoryEntry:
    if not isinstance(value, dict):
        raise TypeError("an object is missing")
    release, pointed, withdrawn = value["release"], value["pointed"], value.get("withdrawn", False)
    pointed_ms = parse_rfc3339(pointed) if isinstance(pointed, str) else None
    if not isinstance(release, str) or not is_release(release):
        raise TypeError("release")
    if pointed_ms is None or not isinstance(withdrawn, bool):
        raise TypeError("pointed or withdrawn")
    return PointerHistoryEntry(release, pointed_ms, withdrawn)


FILE_NAME: Final = "unreferenced.json"
Marks = Mapping[str, int]
"""By release: epoch milliseconds."""


def retained(pointers: Iterable[ChannelPointer], keep: int) -> set[str]:
    """Each channel's release and its last ones before, `keep` in all for each channel."""
    return {release for pointer in pointers for release in pointer.kept(keep)}


def marked(marks: Marks, releases: Collection[str], needed: Collection[str], now_ms: int) -> dict[str, int]:
    """For each release that is there and not needed: since when. Never later than now, whatever the clock was."""
    return {release: min(marks.get(release, now_ms), now_ms) for release in sorted(set(releases) - set(needed))}


def outlived(marks: Marks, now_ms: int, older_than_seconds: int) -> set[str]:
    """Those that nobody has needed for so long."""
    return {release for release, since_ms in marks.items() if now_ms - since_ms >= older_than_seconds * 1000}


def marks_bytes(marks: Marks) -> bytes:
    """As JSON."""
    releases = {release: rfc3339(since_ms) for release, since_ms in marks.items()}
    return json.dumps({"format": 1, "releases": releases}, indent=1).encode() + b"\n"


def parse_marks(text: bytes) -> dict[str, int]:
    """Of a damaged file what can be read: a mark that is lost only lets a release live longer."""
    try:
        releases = parse_object(text).get("releases")
    except JsonMalformed:
        return {}
    found = releases if isinstance(releases, dict) else {}
    read = {release: parse_rfc3339(since) for release, since in found.items() if isinstance(since, str)}
    return {release: since for release, since in read.items() if since is not None and is_release(release)}


Stamp = tuple[tuple[str, int, int, int], ...]
"""Equal while no channel has moved."""


@redacts("text", "manifest")
class Release(Struct, frozen=True):
    """A manifest, and the bytes that it was read from."""

    id: str
    text: bytes
    sha256: str
    manifest: Manifest


class Channel(Struct, frozen=True):
    """Where it points."""

    pointer: ChannelPointer
    release: Release


class ChannelSnapshot(Struct, frozen=True):
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
) -> ChannelSnapshot:
    """With the list as players read it."""
    listed = {name: _members(channel.release) for name, channel in channels.items()}
    text = json.dumps({"channels": listed}, ensure_ascii=False, separators=(",", ":")).encode()
    releases = {channel.release.id: channel.release for channel in channels.values()}
    return ChannelSnapshot(stamp, modified_ms, channels, damaged, text, hex_digest(text), releases)


def hex_digest(data: bytes) -> str:
    """SHA-256."""
    return sha256(data).hexdigest()


def _members(release: Release) -> dict[str, str]:
    manifest = release.manifest
    return {"release": release.id, "published": rfc3339(manifest.published_ms), "note": manifest.note}
