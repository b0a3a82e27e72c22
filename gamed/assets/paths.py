"""Which paths a release may have: every player's file system can hold each of them, and all of them together.

PROTOCOL 5: no traversal, no control characters, no names of devices, segments of at most 255 bytes, no two that are
equal after NFC and case folding. Beyond it, for the same reason: nothing that Windows cannot write, and no unassigned
characters, whose normal form a later Unicode may change.
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
"""A path takes so many times its bytes at most when it is sent in NFD."""
_UNPRINTED: Final = frozenset({"Cc", "Zl", "Zp"})
_SUPERSCRIPTS: Final = str.maketrans("¹²³", "123")
_CONSOLE: Final = frozenset({"conin$", "conout$"})
_NOT_ON_WINDOWS: Final = frozenset('<>:"|?*')
_DEVICE = "|".join(map(escape, sorted({*DEVICES, *_CONSOLE})))
_ANYWHERE, _AT_THE_END = r"[!#-)+-.0-9;=@-\[\]-{}~ ]", r"[!#-)+,\-0-9;=@-\[\]-{}~]"
_PLAIN: Final = compile(
    rf"(?:(?!(?:{_DEVICE}) *(?:[./]|\Z)){_ANYWHERE}{{0,254}}{_AT_THE_END}(?:/(?!\Z)|\Z))+", ASCII | IGNORECASE
)
"""Paths that are good at first sight: most of them."""


class Refused(Struct, frozen=True):
    """One thing that cannot be published, and why."""

    path: str
    reason: str


def normalize_path(path: str) -> str:
    """The form in which manifests hold a path: NFC."""
    return normalize("NFC", path)


def requested(path: str) -> str | None:
    """Return the form in which a manifest would hold the path of a request; None if no manifest holds one as long.

    Normalising takes the square of the length where many combining marks follow each other, so the length is checked
    before: 0.6 ms for the longest path, and not 15 ms for what fits into a request's head.
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
    """Why a path cannot be in a release; None for a good one, in NFC and with `/` between its segments."""
    if len(path) <= MAX_PATH_BYTES and _PLAIN.fullmatch(path):
        return None
    return careful_flaw(path)


def careful_flaw(path: str) -> str | None:
    """The same, by looking at every rule."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size > MAX_PATH_BYTES:
        return f"the whole path is longer than {MAX_PATH_BYTES} bytes"
    if "\\" in path:
        return "a \\ in a name"
    strange = None if path.isascii() and path.isprintable() else _strange(path)
    return strange or next(filter(None, map(_segment_flaw, path.split("/"))), None)


def conflicting_paths(paths: Iterable[str]) -> Iterator[Refused]:
    """Those of the paths, each in NFC, that cannot be beside one that came before them."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        key = fold_key(path)
        if (twin := files.get(key)) is not None:
            yield Refused(path, f"the same name as {twin} where case does not count")
            continue
        files[key] = path
        if (other := folders.get(key) or _above(key, path, files, folders)) is not None:
            yield Refused(path, f"a file and a folder have this name: {other}")


def _above(key: str, path: str, files: Mapping[str, str], folders: dict[str, str]) -> str | None:
    """Note the folders that a path is in, as far as they are new; a file that has the name of one."""
    other = None
    while (key := key.rpartition("/")[0]) and key not in folders:
        folders[key] = path
        other = files.get(key, other)
    return other


def fold_key(path: str) -> str:
    """What two paths have in common that are one file where case does not count."""
    return path.lower() if path.isascii() else normalize("NFC", normalize("NFC", path).casefold())


def _strange(path: str) -> str | None:
    """A character that a path may not have."""
    categories = {category(character) for character in path}
    if categories & _UNPRINTED:
        return "a control character in its name"
    if "Cn" in categories:
        return "a character in its name that Unicode has not assigned"
    return None if normalize("NFC", path) == path else "its name is not in the normal form NFC"


def _segment_flaw(segment: str) -> str | None:
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
