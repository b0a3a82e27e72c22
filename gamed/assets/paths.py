"""A release has only paths that the file system of every player can hold, each of them and all together.

The protocol (docs/owners/assets.md: What is refused) forbids traversal, control characters, names of devices, segments
of more than 255 bytes, and two paths that are equal after NFC and case folding. Also refused: names that Windows cannot
write, and unassigned characters, whose normal form a later version of Unicode may change.
"""

from collections.abc import Iterable, Iterator, Mapping
from re import ASCII, IGNORECASE, compile, escape
from typing import Final
from unicodedata import category, normalize

from msgspec import Struct

from gamed.saves.validation import DEVICES

MAX_SEGMENT_BYTES: Final = 255
MAX_PATH_BYTES: Final = 1024
DECOMPOSED: Final = 3
"""A path in NFD has at most so many times the bytes of the same path in NFC."""
_UNPRINTED: Final = frozenset({"Cc", "Zl", "Zp"})
_SUPERSCRIPTS: Final = str.maketrans("¹²³", "123")
_CONSOLE: Final = frozenset({"conin$", "conout$"})
_NOT_ON_WINDOWS: Final = frozenset('<>:"|?*')
_DEVICE = "|".join(map(escape, sorted({*DEVICES, *_CONSOLE})))
_ANYWHERE, _AT_THE_END = r"[!#-)+-.0-9;=@-\[\]-{}~ ]", r"[!#-)+,\-0-9;=@-\[\]-{}~]"
_SIMPLE: Final = compile(
    rf"(?:(?!(?:{_DEVICE}) *(?:[./]|\Z)){_ANYWHERE}{{0,254}}{_AT_THE_END}(?:/(?!\Z)|\Z))+", ASCII | IGNORECASE
)
"""Most valid paths: pure ASCII without any exception."""


class Refused(Struct, frozen=True):
    """A path that cannot be published, with the reason."""

    path: str
    reason: str


def normalize_path(path: str) -> str:
    """Return a path as manifests have it, in NFC."""
    return normalize("NFC", path)


def normalize_requested(path: str) -> str | None:
    """Return the path of a request as manifests have it; None if it is longer than any path of a manifest.

    The time to normalize grows with the square of a run of combining marks, so the length is checked before: 0.6 ms
    for the longest path instead of 15 ms for the longest that fits into a request head.
    """
    if path.isascii():
        return path
    if len(path) > DECOMPOSED * MAX_PATH_BYTES:
        return None
    sizes = [len(segment.encode()) for segment in path.split("/")]
    if max(sizes) > DECOMPOSED * MAX_SEGMENT_BYTES or sum(sizes) > DECOMPOSED * MAX_PATH_BYTES:
        return None
    return normalize_path(path)


def path_error(path: str) -> str | None:
    """Return why a path, in NFC and with `/` between its segments, cannot be in a release; None if it can."""
    if len(path) <= MAX_PATH_BYTES and _SIMPLE.fullmatch(path):
        return None
    return check_every_rule(path)


def check_every_rule(path: str) -> str | None:
    """Return the same as path_error(), without its short cut."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size > MAX_PATH_BYTES:
        return f"the whole path is longer than {MAX_PATH_BYTES} bytes"
    if "\\" in path:
        return "a \\ in a name"
    error = None if path.isascii() and path.isprintable() else _character_error(path)
    return error or next(filter(None, map(_segment_error, path.split("/"))), None)


def conflicting_paths(paths: Iterable[str]) -> Iterator[Refused]:
    """Yield the paths, each in NFC, that a file system cannot hold beside an earlier one."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        key = fold_key(path)
        if (same := files.get(key)) is not None:
            yield Refused(path, f"the same name as {same} where case does not count")
            continue
        files[key] = path
        if (other := folders.get(key) or _add_folders(key, path, files, folders)) is not None:
            yield Refused(path, f"a file and a folder have this name: {other}")


def _add_folders(key: str, path: str, files: Mapping[str, str], folders: dict[str, str]) -> str | None:
    """Add the new folders of a path to `folders`; return a file with the name of one of them, or None."""
    other = None
    while (key := key.rpartition("/")[0]) and key not in folders:
        folders[key] = path
        other = files.get(key, other)
    return other


def fold_key(path: str) -> str:
    """Return a text that is equal for two paths if they are one file where case does not count."""
    return path.lower() if path.isascii() else normalize("NFC", normalize("NFC", path).casefold())


def _character_error(path: str) -> str | None:
    categories = {category(character) for character in path}
    if categories & _UNPRINTED:
        return "a control character in its name"
    if "Cn" in categories:
        return "a character in its name that Unicode has not assigned"
    return None if normalize("NFC", path) == path else "its name is not in the normal form NFC"


def _segment_error(segment: str) -> str | None:
    if segment in ("", ".", ".."):
        return "an empty, . or .. segment"
    if len(segment) > MAX_SEGMENT_BYTES // 4 and len(segment.encode()) > MAX_SEGMENT_BYTES:
        return f"a name longer than {MAX_SEGMENT_BYTES} bytes"
    if segment[-1] in ". ":
        return "a name that ends in a dot or a space, which Windows cuts off"
    if not _NOT_ON_WINDOWS.isdisjoint(segment):
        return 'one of < > : " | ? * in a name, which Windows refuses'
    stem = segment.partition(".")[0].rstrip(" ").lower()
    if stem in _CONSOLE or stem.translate(_SUPERSCRIPTS) in DEVICES:
        return f"{segment.partition('.')[0]} is the name of a device on Windows"
    return None
