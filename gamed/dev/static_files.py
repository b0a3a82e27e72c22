"""The files of a game's web page, from several folders, for a browser on this machine."""

import json
from collections.abc import Sequence
from mimetypes import guess_type
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from twisted.web.resource import Resource

from gamed.dev.servers import NAMES

MAX_PATH, MAX_NAME = 1024, 255
"""Characters of a path, bytes of a name; beyond their limits file systems raise errors."""
INDEX = "index.html"
ABOUT = "gamed-dev.json"
"""A generated file with the URL of the development server, whose port the developer chooses."""
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
}
"""The types that browsers require, whatever this machine's own table of types says."""


def path_segments(path: str) -> list[str] | None:
    """Return the segments of a URL's path, or None for a hidden file and for a path out of the folder."""
    try:
        names = unquote_to_bytes(path).decode("utf-8").split("/")[1:]
    except UnicodeDecodeError:
        return None
    *folders, last = names
    plain = all(_is_plain(name) for name in folders) and (last == "" or _is_plain(last))
    return names if plain and len(path) <= MAX_PATH else None


def _is_plain(name: str) -> bool:
    fits = 0 < len(name.encode()) <= MAX_NAME
    return fits and not name.startswith(".") and not any(letter in name for letter in "\0\\:")


class StaticFiles(Resource):
    """A resource of the files of several folders, of which the first with a name serves it.

    `server` is the URL of the game server.
    """

    isLeaf = True

    def __init__(self, port: int, roots: Sequence[Path], server: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._hosts = {f"{name}:{port}" for name in NAMES}
        self._roots = roots
        self._about = json.dumps({"server": server}).encode()

    def render_GET(self, request: Any) -> bytes:
        if request.getHeader("host") not in self._hosts:
            return _text(request, 421, "Not by this name.")
        names = path_segments(request.uri.decode("latin-1").partition("?")[0])
        if names is None:
            return _text(request, 404, "There is no such file.")
        for root in self._roots:
            file = root.joinpath(*names[:-1], names[-1] or INDEX)
            if file.is_file():
                return _serve(request, file)
            if file.is_dir():
                request.setHeader(b"location", f"{quote('/'.join(['', *names]))}/".encode())
                return _text(request, 308, "See there.")
        if names == [ABOUT]:
            return _send(request, TYPES[".json"], self._about)
        return _text(request, 404, "There is no such file.")

    render_HEAD = render_GET


def _serve(request: Any, file: Path) -> bytes:
    """Send a file, which is read at once: these are small files for one browser."""
    kind = TYPES.get(file.suffix) or guess_type(file.name)[0] or "application/octet-stream"
    return _send(request, kind, file.read_bytes())


def _send(request: Any, kind: str, body: bytes) -> bytes:
    request.setHeader(b"content-type", kind.encode())
    request.setHeader(b"cache-control", b"no-store")
    return body


def _text(request: Any, status: int, text: str) -> bytes:
    request.setResponseCode(status)
    request.setHeader(b"content-type", b"text/plain; charset=utf-8")
    return f"{text}\n".encode()
