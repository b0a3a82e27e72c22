"""A release is a manifest, which names each file by the hash of its content (docs/protocol.md: Assets).

The id of a release is the hash of its manifest. The media type of a file follows from its name alone, so that it is
the same on every machine that publishes.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from re import ASCII, compile
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, MsgspecError, Struct, field, to_builtins
from msgspec.json import Decoder

from gamed.assets import paths
from gamed.assets.errors import ManifestMalformed
from gamed.strict_json import DEPTH, JsonMalformed, parse_object
from gamed.timestamps import parse_rfc3339, rfc3339

FORMAT: Final = 1
MAX_FILES: Final = 100_000
MAX_MANIFEST_BYTES: Final = 32 * 1024 * 1024
MAX_FILE_BYTES: Final = 2**53 - 1
"""The largest whole number that every JSON reader holds exactly."""
MAX_NOTE_LENGTH: Final = 200
MAX_META_BYTES: Final = 64 * 1024
_CHANNEL: Final = compile(r"[a-z][a-z0-9-]{0,31}", ASCII)
_RELEASE: Final = compile(r"r[0-9a-f]{16}", ASCII)
_SHA256: Final = compile(r"[0-9a-f]{64}", ASCII)
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}"
_MEDIA_TYPE: Final = compile(rf"{_TOKEN}/{_TOKEN}(?:; ?{_TOKEN}={_TOKEN}){{0,4}}", ASCII)


class AssetFile(Struct, frozen=True):
    """One file of a release."""

    size: Annotated[int, Meta(ge=0, le=MAX_FILE_BYTES)]
    sha256: Annotated[str, Meta(pattern=rf"\A{_SHA256.pattern}\Z")]
    """In hex, lower case: the name of the object."""
    type: Annotated[str, Meta(pattern=rf"\A{_MEDIA_TYPE.pattern}\Z")]
    """Media type."""


class Manifest(Struct, frozen=True):
    """The manifest of a release."""

    published_ms: int
    files: Mapping[str, AssetFile]
    """By path, as path_error() and conflicting_paths() allow."""
    note: str = ""
    meta: Mapping[str, object] = field(default_factory=dict)
    """The operator's own JSON, for the game."""

    @property
    def size(self) -> int:
        """Return the bytes of all files together."""
        return sum(file.size for file in self.files.values())


class _Written(Struct):
    """The JSON of a manifest."""

    format: Literal[1]
    published: str
    note: str
    meta: dict[str, Any]
    files: dict[str, AssetFile]


_DECODER: Final = Decoder(_Written)


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the only form of a manifest: compact JSON in UTF-8, files in the order of their paths."""
    members = {
        "format": FORMAT,
        "published": rfc3339(manifest.published_ms),
        "note": manifest.note,
        "meta": dict(manifest.meta),
        "files": {path: to_builtins(file) for path, file in sorted(manifest.files.items())},
    }
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def parse_manifest(text: bytes) -> Manifest:
    """Parse a manifest and check every path; raise ManifestMalformed. Members that a later gamed adds are ignored.

    The caller has checked that the bytes hash to the release's id, so they are as published.
    """
    if len(text) > MAX_MANIFEST_BYTES:
        raise ManifestMalformed("larger than any manifest")
    try:
        written = _DECODER.decode(text)
    except (MsgspecError, UnicodeDecodeError, RecursionError) as e:
        raise ManifestMalformed(f"no manifest: {e}") from None
    published_ms = parse_rfc3339(written.published)
    if published_ms is None:
        raise ManifestMalformed("no manifest: published")
    for path in written.files:
        if (error := paths.path_error(path)) is not None:
            raise ManifestMalformed(f"a path that no release has: {error}")
    if (conflict := next(paths.conflicting_paths(written.files), None)) is not None:
        raise ManifestMalformed(f"paths that no release has: {conflict.reason}")
    return Manifest(published_ms, written.files, written.note, written.meta)


def release_id(text: bytes) -> str:
    """Return the id of the release with these manifest bytes."""
    return f"r{sha256(text).hexdigest()[:16]}"


def is_release(name: str) -> bool:
    """Return whether a name has the form of a release id."""
    return _RELEASE.fullmatch(name) is not None


def is_channel(name: str) -> bool:
    """Return whether a channel may have this name."""
    return _CHANNEL.fullmatch(name) is not None and name != "objects" and not is_release(name)


def is_object(name: str) -> bool:
    """Return whether a name is a SHA-256 in lower-case hex."""
    return _SHA256.fullmatch(name) is not None


def is_media_type(text: str) -> bool:
    """Return whether a file of a release may have this media type."""
    return _MEDIA_TYPE.fullmatch(text) is not None


def validate_note(note: str) -> str | None:
    """Return why a release cannot have this note; None if it can."""
    if len(note) > MAX_NOTE_LENGTH:
        return f"a note has at most {MAX_NOTE_LENGTH} characters"
    return None if note.isprintable() else "a note is one line without control characters"


def parse_meta(text: bytes) -> dict[str, object]:
    """Parse the operator's JSON object; raise JsonMalformed with the reason."""
    if len(text) > MAX_META_BYTES:
        raise JsonMalformed(f"longer than {MAX_META_BYTES} bytes")
    return parse_object(text, max_depth=DEPTH - 1, whole_number=_whole_number)


def _whole_number(digits: str) -> int:
    """Parse a number of 64 bits, which most JSON readers can hold."""
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise JsonMalformed("a number is too large for others to read")
    return int(digits)


# media types

OCTETS: Final = "application/octet-stream"
_TYPES = """
7z          application/x-7z-compressed    aac         audio/aac                      avif        image/avif
bmp         image/bmp                      css         text/css                       csv         text/csv
flac        audio/flac                     gif         image/gif                      glb         model/gltf-binary
gltf        model/gltf+json                gz          application/gzip               htm         text/html
html        text/html                      ico         image/vnd.microsoft.icon       jpeg        image/jpeg
jpg         image/jpeg                     js          text/javascript                json        application/json
ktx2        image/ktx2                     m4a         audio/mp4                      md          text/markdown
mid         audio/midi                     mjs         text/javascript                mp3         audio/mpeg
mp4         video/mp4                      oga         audio/ogg                      ogg         audio/ogg
ogv         video/ogg                      opus        audio/ogg                      otf         font/otf
pdf         application/pdf                png         image/png                      svg         image/svg+xml
tar         application/x-tar              ttf         font/ttf                       txt         text/plain
wasm        application/wasm               wav         audio/wav                      webm        video/webm
webmanifest application/manifest+json      webp        image/webp                     woff        font/woff
woff2       font/woff2                     xml         application/xml                yaml        application/yaml
yml         application/yaml               zip         application/zip                zst         application/zstd
"""
_WORDS = _TYPES.split()
BY_SUFFIX: Final[Mapping[str, str]] = MappingProxyType(
    {
        suffix: f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
        for suffix, kind in zip(_WORDS[::2], _WORDS[1::2], strict=True)
    }
)


def media_type(path: str, own: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the media type by the text after the last dot, in any case; `own` precedes BY_SUFFIX."""
    suffix = path.rpartition("/")[2].rpartition(".")[2].lower()
    return own.get(suffix) or BY_SUFFIX.get(suffix, OCTETS)
