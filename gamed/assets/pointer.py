"""Where a channel points, and where it pointed before (PROTOCOL 5)."""

import json
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gamed.assets.errors import PointerMalformed
from gamed.assets.release import is_release
from gamed.instants import parse_rfc3339, rfc3339
from gamed.strict_json import JsonMalformed, parse_object

FORMAT: Final = 1
MAX_HISTORY: Final = 1000
"""Most that `keep_releases` may be."""
MAX_POINTER_BYTES: Final = 256 * 1024


class Pointing(Struct, frozen=True):
    """One release that a channel pointed at."""

    release: str
    pointed_ms: int
    """Since when."""
    withdrawn: bool = False
    """A rollback led away from it: the next one does not lead back."""


class Pointer(Struct, frozen=True):
    """A channel's file."""

    release: str
    pointed_ms: int
    history: Sequence[Pointing] = ()
    """Newest first; each release once, and never the present one."""

    def to(self, release: str, now_ms: int) -> "Pointer":
        """Pointing at another release; at the same one nothing changes."""
        return self if release == self.release else self._moved(release, now_ms, withdrawn=False)

    def back(self, now_ms: int) -> "Pointer | None":
        """Where it pointed before; each time further back. None when there is nothing before."""
        before = next((each for each in self.history if not each.withdrawn), None)
        return None if before is None else self._moved(before.release, now_ms, withdrawn=True)

    def without(self, gone: set[str]) -> "Pointer":
        """Releases deleted from its past."""
        return replace(self, history=tuple(each for each in self.history if each.release not in gone))

    def kept(self, keep: int) -> list[str]:
        """The present release and the newest before it, at most `keep` in all."""
        return [self.release, *(each.release for each in self.history)][:keep]

    def _moved(self, release: str, now_ms: int, *, withdrawn: bool) -> "Pointer":
        left = Pointing(self.release, self.pointed_ms, withdrawn)
        rest = (each for each in self.history if each.release not in (release, self.release))
        return Pointer(release, now_ms, (left, *rest)[:MAX_HISTORY])


def pointer_bytes(pointer: Pointer) -> bytes:
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


def parse_pointer(text: bytes) -> Pointer:
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
    return Pointer(present.release, present.pointed_ms, before)


def _pointing(value: object) -> Pointing:
    if not isinstance(value, dict):
        raise TypeError("an object is missing")
    release, pointed, withdrawn = value["release"], value["pointed"], value.get("withdrawn", False)
    pointed_ms = parse_rfc3339(pointed) if isinstance(pointed, str) else None
    if not isinstance(release, str) or not is_release(release):
        raise TypeError("release")
    if pointed_ms is None or not isinstance(withdrawn, bool):
        raise TypeError("pointed or withdrawn")
    return Pointing(release, pointed_ms, withdrawn)
