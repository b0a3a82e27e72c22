"""The pointer of a channel is its file: the present release, and the ones before it.

See docs/protocol.md: Assets, Limits.
"""

import json
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gamed.assets.errors import PointerMalformed
from gamed.assets.manifest import is_release
from gamed.strict_json import JsonMalformed, parse_object
from gamed.timestamps import parse_rfc3339, rfc3339

FORMAT: Final = 1
MAX_HISTORY: Final = 1000
"""The largest `keep_releases`."""
MAX_POINTER_BYTES: Final = 256 * 1024


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
        {"release": each.release, "pointed": rfc3339(each.pointed_ms)} | ({"withdrawn": True} if each.withdrawn else {})
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
