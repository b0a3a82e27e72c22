"""A channel points at a release; the releases before it are kept for a while (PROTOCOL 5, 7).

The file of a channel is its pointer. The file `unreferenced.json` says since when each other release is not needed any
more; `gamed assets gc` deletes by it. A snapshot holds all channels with their releases as players see them.
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
"""The largest `keep_releases`."""
MAX_POINTER_BYTES: Final = 256 * 1024
MARKS_FILE: Final = "unreferenced.json"

# the pointer of a channel


class PointerHistoryEntry(Struct, frozen=True):
    """One release that a channel pointed at."""

    release: str
    pointed_ms: int
    """Since when."""
    withdrawn: bool = False
    """Whether a rollback led away from it; the next rollback does not lead back."""


class ChannelPointer(Struct, frozen=True):
    """The content of a channel's file."""

    release: str
    pointed_ms: int
    history: Sequence[PointerHistoryEntry] = ()
    """Newest first; each release once, and never the present one."""

    def moved_to(self, release: str, now_ms: int) -> "ChannelPointer":
        """Return the pointer to another release; the same pointer for the same release."""
        return self if release == self.release else self._moved(release, now_ms, withdrawn=False)

    def rolled_back(self, now_ms: int) -> "ChannelPointer | None":
        """Return the pointer to the release before, each time further back; None if there is none."""
        before = next((each for each in self.history if not each.withdrawn), None)
        return None if before is None else self._moved(before.release, now_ms, withdrawn=True)

    def without_releases(self, deleted: set[str]) -> "ChannelPointer":
        """Return the pointer without deleted releases in its history."""
        return replace(self, history=tuple(each for each in self.history if each.release not in deleted))

    def retained(self, keep: int) -> list[str]:
        """Return the present release and the newest before it, at most `keep` in all."""
        return [self.release, *(each.release for each in self.history)][:keep]

    def _moved(self, release: str, now_ms: int, *, withdrawn: bool) -> "ChannelPointer":
        left = PointerHistoryEntry(self.release, self.pointed_ms, withdrawn)
        rest = (each for each in self.history if each.release not in (release, self.release))
        return ChannelPointer(release, now_ms, (left, *rest)[:MAX_HISTORY])


def pointer_bytes(pointer: ChannelPointer) -> bytes:
    """Return the JSON of a pointer, with line ends for a person who reads it."""
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
    """Parse a channel's file; raise PointerMalformed unless pointer_bytes() can have written it."""
    try:
        members = parse_object(text)
        if members.get("format") != FORMAT or members["format"] is True:
            raise PointerMalformed("of another version of gamed")
        present, history = _parse_entry(members), members["history"]
        if not isinstance(history, list) or len(history) > MAX_HISTORY:
            raise TypeError("history")
        before = tuple(_parse_entry(each) for each in history)
    except (JsonMalformed, KeyError, TypeError) as e:
        raise PointerMalformed(str(e)) from None
    if len({present.release, *(each.release for each in before)}) != 1 + len(before):
        raise PointerMalformed("a release appears twice")
    return ChannelPointer(present.release, present.pointed_ms, before)


def _parse_entry(value: object) -> PointerHistoryEntry:
    if not isinstance(value, dict):
        raise TypeError("an object is missing")
    release, pointed, withdrawn = value["release"], value["pointed"], value.get("withdrawn", False)
    pointed_ms = parse_rfc3339(pointed) if isinstance(pointed, str) else None
    if not isinstance(release, str) or not is_release(release):
        raise TypeError("release")
    if pointed_ms is None or not isinstance(withdrawn, bool):
        raise TypeError("pointed or withdrawn")
    return PointerHistoryEntry(release, pointed_ms, withdrawn)


# releases that are not needed any more

Marks = Mapping[str, int]
"""Since when each release is not needed: id -> epoch milliseconds."""


def retained_releases(pointers: Iterable[ChannelPointer], keep: int) -> set[str]:
    """Return the release of each channel and its last ones before, at most `keep` for each channel."""
    return {release for pointer in pointers for release in pointer.retained(keep)}


def update_marks(marks: Marks, releases: Collection[str], needed: Collection[str], now_ms: int) -> dict[str, int]:
    """Return a mark for each stored release that is not needed; none is in the future, even if the clock was wrong."""
    return {release: min(marks.get(release, now_ms), now_ms) for release in sorted(set(releases) - set(needed))}


def expired_releases(marks: Marks, now_ms: int, older_than_seconds: int) -> set[str]:
    """Return the releases that have not been needed for so long."""
    return {release for release, since_ms in marks.items() if now_ms - since_ms >= older_than_seconds * 1000}


def marks_bytes(marks: Marks) -> bytes:
    """Return the JSON of the marks."""
    releases = {release: rfc3339(since_ms) for release, since_ms in marks.items()}
    return json.dumps({"format": 1, "releases": releases}, indent=1).encode() + b"\n"


def parse_marks(text: bytes) -> dict[str, int]:
    """Return the marks that can be read from a file, also from a damaged one.

    A lost mark only means that a release is deleted later.
    """
    try:
        releases = parse_object(text).get("releases")
    except JsonMalformed:
        return {}
    found = releases if isinstance(releases, dict) else {}
    read = {release: parse_rfc3339(since) for release, since in found.items() if isinstance(since, str)}
    return {release: since for release, since in read.items() if since is not None and is_release(release)}


# the channels as players see them

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
    """Of the text, in hex."""
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
    """Return the SHA-256 in hex."""
    return sha256(data).hexdigest()
