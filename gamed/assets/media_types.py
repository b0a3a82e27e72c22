"""The media type of a published file, by its name alone: the same on every machine that publishes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

OCTETS: Final = "application/octet-stream"
_TEXT: Final = "; charset=utf-8"
BY_SUFFIX: Final[Mapping[str, str]] = MappingProxyType(
    {
        "7z": "application/x-7z-compressed",
        "aac": "audio/aac",
        "avif": "image/avif",
        "bmp": "image/bmp",
        "css": f"text/css{_TEXT}",
        "csv": f"text/csv{_TEXT}",
        "flac": "audio/flac",
        "gif": "image/gif",
        "glb": "model/gltf-binary",
        "gltf": "model/gltf+json",
        "gz": "application/gzip",
        "htm": f"text/html{_TEXT}",
        "html": f"text/html{_TEXT}",
        "ico": "image/vnd.microsoft.icon",
        "jpeg": "image/jpeg",
        "jpg": "image/jpeg",
        "js": f"text/javascript{_TEXT}",
        "json": "application/json",
        "ktx2": "image/ktx2",
        "m4a": "audio/mp4",
        "md": f"text/markdown{_TEXT}",
        "mid": "audio/midi",
        "mjs": f"text/javascript{_TEXT}",
        "mp3": "audio/mpeg",
        "mp4": "video/mp4",
        "oga": "audio/ogg",
        "ogg": "audio/ogg",
        "ogv": "video/ogg",
        "opus": "audio/ogg",
        "otf": "font/otf",
        "pdf": "application/pdf",
        "png": "image/png",
        "svg": "image/svg+xml",
        "tar": "application/x-tar",
        "ttf": "font/ttf",
        "txt": f"text/plain{_TEXT}",
        "wasm": "application/wasm",
        "wav": "audio/wav",
        "webm": "video/webm",
        "webmanifest": "application/manifest+json",
        "webp": "image/webp",
        "woff": "font/woff",
        "woff2": "font/woff2",
        "xml": "application/xml",
        "yaml": "application/yaml",
        "yml": "application/yaml",
        "zip": "application/zip",
        "zst": "application/zstd",
    }
)


def media_type(path: str, own: Mapping[str, str] = MappingProxyType({})) -> str:
    """By what is behind the last dot, in any case; `own` goes before the table. Unknown: plain bytes."""
    suffix = path.rpartition("/")[2].rpartition(".")[2].lower()
    return own.get(suffix) or BY_SUFFIX.get(suffix, OCTETS)
