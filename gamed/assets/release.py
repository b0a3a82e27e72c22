"""What a release is: a manifest, named by its own hash, that names each file by its content's (PROTOCOL 5)."""

import json
from collections.abc import Mapping
from hashlib import sha256
from re import ASCII, compile
from typing import Final

from attrs import field, frozen

from gamed.assets import paths
from gamed.assets.errors import ManifestMalformed
from gamed.instants import parse_rfc3339, rfc3339
from gamed.strict_json import DEPTH, JsonMalformed, parse_object

FORMAT: Final = 1
MAX_FILES: Final = 100_000
MAX_MANIFEST_BYTES: Final = 32 * 1024 * 1024
MAX_FILE_BYTES: Final = 2**53 - 1
"""What every JSON reader holds exactly."""
MAX_NOTE_LENGTH: Final = 200
MAX_META_BYTES: Final = 64 * 1024
_CHANNEL: Final = compile(r"[a-z][a-z0-9-]{0,31}", ASCII)
_RELEASE: Final = compile(r"r[0-9a-f]{16}", ASCII)
_SHA256: Final = compile(r"[0-9a-f]{64}", ASCII)
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}"
_MEDIA_TYPE: Final = compile(rf"{_TOKEN}/{_TOKEN}(?:; ?{_TOKEN}={_TOKEN}){{0,4}}", ASCII)


@frozen
class AssetFile:
    """One file of a release."""

    size: int
    sha256: str
    """In hex, lower case: the name of the object."""
    type: str
    """Media type."""


@frozen
class Manifest:
    """What a release says of itself."""

    published_ms: int
    files: Mapping[str, AssetFile]
    """By path, as `flaw` and `clashes` allow."""
    note: str = ""
    meta: Mapping[str, object] = field(factory=dict)
    """The owner's own JSON, for the game."""

    @property
    def size(self) -> int:
        """What all files come to."""
        return sum(file.size for file in self.files.values())


def manifest_bytes(manifest: Manifest) -> bytes:
    """The one way to write it: compact JSON in UTF-8, files in the order of their paths."""
    members = {
        "format": FORMAT,
        "published": rfc3339(manifest.published_ms),
        "note": manifest.note,
        "meta": dict(manifest.meta),
        "files": {path: _members(file) for path, file in sorted(manifest.files.items())},
    }
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def parse_manifest(text: bytes) -> Manifest:
    """What the bytes say, every path judged; ManifestMalformed. Members that a later gamed adds are passed over."""
    if len(text) > MAX_MANIFEST_BYTES:
        raise ManifestMalformed("larger than any manifest")
    try:
        members = parse_object(text)
        if members.get("format") != FORMAT or members["format"] is True:
            raise ManifestMalformed("a manifest of another version of gamed")
        files = {path: _file(value) for path, value in _object(members["files"]).items()}
        published_ms = parse_rfc3339(_text(members["published"]))
        note, meta = _text(members["note"]), _object(members["meta"])
    except (JsonMalformed, KeyError, TypeError) as e:
        raise ManifestMalformed(f"no manifest: {e}") from None
    if published_ms is None:
        raise ManifestMalformed("no manifest: published")
    for path in files:
        if (flaw := paths.flaw(path)) is not None:
            raise ManifestMalformed(f"a path that no release has: {flaw}")
    if (clash := next(paths.clashes(files), None)) is not None:
        raise ManifestMalformed(f"paths that no release has: {clash.reason}")
    return Manifest(published_ms, files, note, meta)


def release_id(text: bytes) -> str:
    """Of a manifest's exact bytes."""
    return f"r{sha256(text).hexdigest()[:16]}"


def is_release(name: str) -> bool:
    """Whether it has the form of a release's id."""
    return _RELEASE.fullmatch(name) is not None


def is_channel(name: str) -> bool:
    """Whether a channel may be called so."""
    return _CHANNEL.fullmatch(name) is not None and name != "objects" and not is_release(name)


def is_object(name: str) -> bool:
    """Whether it is a SHA-256 in lower-case hex."""
    return _SHA256.fullmatch(name) is not None


def is_media_type(text: str) -> bool:
    """Whether a release can give a file this type."""
    return _MEDIA_TYPE.fullmatch(text) is not None


def note_flaw(note: str) -> str | None:
    """Why a release cannot have this note."""
    if len(note) > MAX_NOTE_LENGTH:
        return f"a note has at most {MAX_NOTE_LENGTH} characters"
    return None if note.isprintable() else "a note is one line without control characters"


def parse_meta(text: bytes) -> dict[str, object]:
    """The owner's JSON object; JsonMalformed with the reason."""
    if len(text) > MAX_META_BYTES:
        raise JsonMalformed(f"longer than {MAX_META_BYTES} bytes")
    return parse_object(text, max_depth=DEPTH - 1)


def _members(file: AssetFile) -> dict[str, object]:
    return {"size": file.size, "sha256": file.sha256, "type": file.type}


def _file(value: object) -> AssetFile:
    members = _object(value)
    size, digest, media_type = members["size"], _text(members["sha256"]), _text(members["type"])
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_FILE_BYTES:
        raise TypeError("size")
    if not is_object(digest):
        raise TypeError("sha256")
    if not is_media_type(media_type):
        raise TypeError("type")
    return AssetFile(size, digest, media_type)


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError("an object is missing")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a string is missing")
    return value
