"""An export of saves is read for `gamed saves import`: a ZIP file or the folder that it was unpacked into.

The export may come from anybody. Its list of entries is bounded before it is read, and bytes are counted as they are
read: a ZIP's own counts and sizes prove nothing.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from errno import EINVAL
from functools import partial
from io import BufferedReader, FileIO
from pathlib import Path
from re import ASCII, compile
from stat import S_IFDIR, S_IFMT, S_IFREG, S_ISDIR, S_ISREG
from struct import error as StructError
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo
from zlib import error as ZlibError

from msgspec import MsgspecError, Struct
from msgspec.json import decode

from gamed.cli.errors import CommandFailed
from gamed.readable import size
from gamed.saves.errors import SaveError
from gamed.saves.export_store import MANIFEST
from gamed.saves.validation import check_slot

MOST_ENTRIES = 65_536
"""Entries of one export; the default limits of a player allow 18,000 versions."""
LIST_BYTES = 8 * 1024 * 1024
"""The list of entries at the end of a ZIP: 65,536 names of usual length. Python reads it as a whole."""
MANIFEST_BYTES = 32 * 1024 * 1024
PART_BYTES = 256 * 1024
ENCRYPTED = 0x1
SPECIAL = "is a link or another special file"
_NAME = compile(r"saves/([^/]{1,64})/([1-9][0-9]{0,17})", ASCII)
_FOLDER = compile(r"saves/(?:[^/]{1,64}/)?", ASCII)
_UNREADABLE = (
    *(BadZipFile, ZlibError, EOFError, StructError, OSError),  # EINVAL: a place in front of the file
    *(ValueError, OverflowError, RuntimeError, LookupError),  # NotImplementedError is a RuntimeError
)
"""The errors that zipfile raises for damaged and hostile files."""


class ArchivedFile(Struct, frozen=True):
    """A file in an export; `size` is what the ZIP announces, None in a folder."""

    open: Callable[[], IO[bytes]]
    size: int | None = None


class ArchivedSave(Struct, frozen=True):
    """The bytes of one version in an export, with the description that the manifest has of them."""

    slot: str
    number: int
    name: str
    content_type: str | None = None
    meta: dict[str, Any] | None = None


class ManifestVersion(Struct, frozen=True):
    """The members of a version in the manifest that an import needs; others are ignored."""

    slot: str
    version: int
    current: bool = False
    content_type: str | None = None
    meta: dict[str, Any] | None = None


class ExportManifest(Struct, frozen=True):
    """The manifest of an export."""

    versions: Sequence[ManifestVersion] = ()


class Archive(Struct, frozen=True):
    """An export whose names were checked; its bytes are read one entry at a time."""

    saves: Sequence[ArchivedSave]
    """The version of each slot that was current; without a manifest the one with the highest number."""
    older: int
    """How many other versions the export has."""
    _entries: Mapping[str, ArchivedFile]

    def read(self, save: ArchivedSave) -> Iterator[bytes]:
        """Yield the bytes in parts, more than the ZIP announces too; raise CommandFailed if they cannot be read."""
        return _read(save.name, self._entries[save.name])


@contextmanager
def open_archive(source: Path) -> Iterator[Archive]:
    """Open an export and check the name and kind of each entry; raise CommandFailed."""
    with ExitStack() as files:
        try:
            if source.is_dir():
                entries = dict(_folder_entries(source))
            else:
                opened = files.enter_context(ZipFile(files.enter_context(_BoundedFile(FileIO(source)))))
                entries = dict(_zip_entries(opened))
        except FileNotFoundError:
            raise CommandFailed(f"There is no {source}. Name a folder or a ZIP file of gamed saves export.") from None
        except _UNREADABLE as e:
            raise CommandFailed(
                f"{source} is not a ZIP file that can be read: {_reason(e)}. Nothing was changed."
            ) from None
        yield _archive(entries)


def _archive(entries: dict[str, ArchivedFile]) -> Archive:
    listed = entries.pop(MANIFEST, None)
    known = {} if listed is None else _read_manifest(listed)
    found: dict[str, list[int]] = {}
    for name in entries:
        _, slot, number = name.split("/")
        found.setdefault(slot, []).append(int(number))
    described = {slot for slot, _ in known}
    saves = []
    for slot, numbers in sorted(found.items()):
        current = [number for number in numbers if (each := known.get((slot, number))) and each.current]
        chosen = max(current if slot in described else numbers, default=None)  # none: it was deleted before the export
        if chosen is not None:
            version = known.get((slot, chosen)) or ManifestVersion(slot, chosen)
            name = f"saves/{slot}/{chosen}"
            saves.append(ArchivedSave(slot, chosen, name, version.content_type, version.meta))
    return Archive(saves, len(entries) - len(saves), entries)


def _read_manifest(entry: ArchivedFile) -> Mapping[tuple[str, int], ManifestVersion]:
    text = bytearray()
    for part in _read(MANIFEST, entry):
        if len(text := text + part) > MANIFEST_BYTES:
            raise _refused(MANIFEST, f"has more than {size(MANIFEST_BYTES)}")
    try:
        manifest = decode(text, type=ExportManifest)
    except (MsgspecError, RecursionError) as e:
        raise CommandFailed(f"{MANIFEST} is not from an export: {e}. Nothing was changed.") from None
    return {(each.slot, each.version): each for each in manifest.versions}


def _read(name: str, entry: ArchivedFile) -> Iterator[bytes]:
    read = 0
    try:
        with entry.open() as file:
            while data := file.read(PART_BYTES):
                read += len(data)
                yield data
    except _UNREADABLE as e:
        raise CommandFailed(f"{_shown(name)} cannot be read: {_reason(e)}. Nothing was changed.") from None
    if entry.size not in (None, read):
        raise _refused(name, f"has {read} bytes instead of the announced {entry.size}")


def _reason(error: Exception) -> str:
    """Return the reason of an error of _UNREADABLE; raise it again if it is one of the disk."""
    if isinstance(error, OSError) and error.errno != EINVAL:
        raise error
    return str(error) or type(error).__name__


class _BoundedFile(BufferedReader):
    """A file of which nothing larger than the list of entries is read at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(LIST_BYTES + 1 if size is None or size < 0 else min(size, LIST_BYTES + 1))
        if len(data) > LIST_BYTES:
            raise _too_many()
        return data


def _zip_entries(opened: ZipFile) -> Iterator[tuple[str, ArchivedFile]]:
    """Yield the entries with bytes by name; raise CommandFailed for one that an export cannot have."""
    if len(opened.infolist()) > MOST_ENTRIES:
        raise _too_many()
    seen = set()
    for entry in opened.infolist():
        name = entry.orig_filename  # `filename` ends at a zero byte
        if name in seen:
            raise _refused(name, "is there twice")
        seen.add(name)
        kind = S_IFMT(entry.external_attr >> 16)
        if name.endswith("/") and _FOLDER.fullmatch(name) and kind in (0, S_IFDIR):
            continue
        if kind not in (0, S_IFREG, S_IFDIR):
            raise _refused(name, SPECIAL)
        _check_name(name)
        if entry.flag_bits & ENCRYPTED:
            raise _refused(name, "is encrypted")
        if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise _refused(name, "is compressed in another way than Deflate")
        yield name, ArchivedFile(partial(_open_entry, opened, entry), entry.file_size)


def _open_entry(opened: ZipFile, entry: ZipInfo) -> IO[bytes]:
    return opened.open(entry)


def _folder_entries(folder: Path) -> Iterator[tuple[str, ArchivedFile]]:
    """Yield the regular files by name; raise CommandFailed for any other name, and for links."""
    waiting, count = [""], 0
    while waiting:
        above = waiting.pop()
        with os.scandir(folder / above) as found:
            for each in found:
                if (count := count + 1) > MOST_ENTRIES:
                    raise _too_many()
                name, mode = above + each.name, each.stat(follow_symlinks=False).st_mode
                if S_ISDIR(mode) and _FOLDER.fullmatch(f"{name}/"):
                    waiting.append(f"{name}/")
                    continue
                if not S_ISREG(mode) and not S_ISDIR(mode):
                    raise _refused(name, SPECIAL)
                _check_name(name)
                yield name, ArchivedFile(partial(_open_file, folder / name))


def _open_file(path: Path) -> IO[bytes]:
    """Open a regular file; another one may have taken its place since it was listed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = open(descriptor, "rb")  # noqa: SIM115  the caller closes it
    if not S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise ValueError("it is not a regular file any more")
    return file


def _check_name(name: str) -> None:
    if name == MANIFEST:
        return
    if (found := _NAME.fullmatch(name)) is None:
        raise _refused(name, f"is not saves/SLOT/NUMBER or {MANIFEST}")
    try:
        check_slot(found[1])
    except SaveError as e:
        raise CommandFailed(f"{_shown(name)}: {e} Nothing was changed.") from None


def _too_many() -> CommandFailed:
    return CommandFailed(f"There are more than {MOST_ENTRIES} entries. Nothing was changed.")


def _refused(name: str, flaw: str) -> CommandFailed:
    return CommandFailed(f"{_shown(name)} {flaw}: this is not an export as gamed wrote it. Nothing was changed.")


def _shown(name: str) -> str:
    """Return a name on one line; it may have control characters and 65,535 characters."""
    return ascii(name)[1:-1][:100]
