"""Since when nobody needs a release: what `gamed assets gc` goes by (PROTOCOL 5, 7)."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gamed.assets.pointer import Pointer
from gamed.assets.release import is_release
from gamed.instants import parse_rfc3339, rfc3339
from gamed.strict_json import JsonMalformed, parse_object

FILE_NAME: Final = "unreferenced.json"
Marks = Mapping[str, int]
"""By release: epoch milliseconds."""


def kept(pointers: Iterable[Pointer], keep: int) -> set[str]:
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
