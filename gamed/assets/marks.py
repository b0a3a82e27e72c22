"""The file `unreferenced.json` says since when no channel needs a release; `gamed assets gc` deletes by these marks."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gamed.assets.manifest import is_release
from gamed.assets.pointer import ChannelPointer
from gamed.strict_json import JsonMalformed, parse_object
from gamed.timestamps import parse_rfc3339, rfc3339

MARKS_FILE: Final = "unreferenced.json"
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
