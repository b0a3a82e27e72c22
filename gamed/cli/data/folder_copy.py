"""A folder is copied with hashes, modes, times and owners; the copy is then read again and compared."""

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG, S_ISSOCK
from typing import BinaryIO

from msgspec import Struct

from gamed.cli.errors import CommandFailed
from gamed.cli.terminal import bar
from gamed.disk import sync_folder

CHUNK = 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""A link or a pipe that replaced a file after it was found is refused, not followed or waited for."""


class Entry(Struct, frozen=True):
    """A file, folder or symbolic link below the folder that is copied."""

    path: Path
    state: os.stat_result

    @property
    def size(self) -> int:
        """Return the number of bytes to copy."""
        return self.state.st_size if S_ISREG(self.state.st_mode) else 0


class CopiedFile(Struct, frozen=True):
    """A file that was copied."""

    path: Path
    size: int
    digest: bytes


def scan(folder: Path, without: Collection[str] = ()) -> list[Entry]:
    """Return everything below a folder, each folder before what is in it; `without` names what stays at the top.

    Sockets of a server that was killed are left out. Raise CommandFailed for what cannot be copied.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        names = sorted(name for name in os.listdir(top) if name not in without)
        return [entry for name in names for entry in _below(folder, top, Path(name))]
    finally:
        os.close(top)


def _below(folder: Path, above: int, path: Path) -> Iterator[Entry]:
    state = os.stat(path.name, dir_fd=above, follow_symlinks=False)
    if S_ISSOCK(state.st_mode):
        return
    if not (S_ISREG(state.st_mode) or S_ISDIR(state.st_mode) or S_ISLNK(state.st_mode)):
        raise CommandFailed(f"{folder / path} is not a file, a folder or a link. Nothing was moved. Remove it first.")
    yield Entry(path, state)
    if S_ISDIR(state.st_mode):
        inside = os.open(path.name, _FOLDER, dir_fd=above)
        try:
            for name in sorted(os.listdir(inside)):
                yield from _below(folder, inside, path / name)
        finally:
            os.close(inside)


@contextmanager
def _parent(folder: Path, path: Path) -> Iterator[int]:
    """Yield the folder of a path below `folder`; a link that replaced a folder on the way is refused, not followed."""
    found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.parts[:-1]:
            below = os.open(name, _FOLDER, dir_fd=found)
            os.close(found)
            found = below
        yield found
    finally:
        os.close(found)


class FolderCopy(Struct, frozen=True):
    """A copy from `source` to `target`, on any disk."""

    source: Path
    target: Path
    opened: Mapping[Path, BinaryIO] = {}
    """Files that are open already, and must not be opened and closed again while they are locked."""

    def copy(self, entries: Collection[Entry]) -> list[CopiedFile]:
        """Make the target with all entries, on disk; return its files. Raise OSError."""
        self.target.mkdir(mode=0o700)
        copied, done = [], 0
        with bar("copying", sum(entry.size for entry in entries)) as shown:
            for entry in entries:
                place = self.target / entry.path
                if S_ISDIR(entry.state.st_mode):
                    place.mkdir(mode=0o700)
                elif S_ISLNK(entry.state.st_mode):
                    place.symlink_to(self._link(entry.path))
                    with _parent(self.source, entry.path) as above:
                        _keep_attributes(_opened(above) / entry.path.name, place, entry.state)
                else:
                    copied.append(self._copy_file(entry, partial(_show, shown, done)))
                    done += entry.size
        for entry in reversed([entry for entry in entries if S_ISDIR(entry.state.st_mode)]):
            with _parent(self.source, entry.path / "any") as inside:
                _keep_folder(_opened(inside), self.target / entry.path, entry.state)
        _keep_folder(self.source, self.target, self.source.stat())
        return copied

    def compare(self, copied: Collection[CopiedFile]) -> None:
        """Read every copied file again; raise CommandFailed if one has other bytes."""
        done = 0
        with bar("comparing", sum(each.size for each in copied)) as shown:
            for each in copied:
                with open(self.target / each.path, "rb", buffering=0) as file:
                    size, digest = _read(file, lambda chunk: None, partial(_show, shown, done))
                if (size, digest) != (each.size, each.digest):
                    raise CommandFailed(f"The copy of {self.source / each.path} has other bytes. Nothing was moved.")
                done += size

    def _copy_file(self, entry: Entry, shown: Callable[[int], None]) -> CopiedFile:
        place = self.target / entry.path
        with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb", buffering=0) as out:
            with self._open(entry.path) as file:
                if not os.path.samestat(os.fstat(file.fileno()), entry.state):
                    raise CommandFailed(f"{self.source / entry.path} was replaced during the copy. Nothing was moved.")
                size, digest = _read(file, lambda chunk: _write(out, chunk), shown)
                _keep_attributes(_opened(file.fileno()), place, entry.state, follow=True)
            os.fsync(out.fileno())
        return CopiedFile(entry.path, size, digest)

    @contextmanager
    def _open(self, path: Path) -> Iterator[BinaryIO]:
        if path in self.opened:
            self.opened[path].seek(0)
            yield self.opened[path]
            return
        with (
            _parent(self.source, path) as above,
            open(os.open(path.name, _READ, dir_fd=above), "rb", buffering=0) as file,
        ):
            yield file

    def _link(self, path: Path) -> str:
        """Return the text for the copy of a link: a relative one that leads out of the folder becomes absolute."""
        with _parent(self.source, path) as above:
            text = os.readlink(path.name, dir_fd=above)
        beside = self.source / path.parent / text
        inside = os.path.normpath(beside).startswith(f"{self.source}{os.sep}")
        if inside and os.path.isabs(text):
            raise CommandFailed(f"{self.source / path} is a link to a path in the same folder. Make it relative first.")
        return text if inside else os.path.abspath(beside)


def _show(shown: Callable[[int], None], before: int, size: int) -> None:
    shown(before + size)


def _read(file: BinaryIO, out: Callable[[bytes], object], shown: Callable[[int], None]) -> tuple[int, bytes]:
    digest, size = sha256(), 0
    while chunk := file.read(CHUNK):
        digest.update(chunk)
        out(chunk)
        size += len(chunk)
        shown(size)
    return size, digest.digest()


def _write(out: BinaryIO, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:  # an unbuffered file may take a part
        rest = rest[out.write(rest) :]


def _opened(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}")


def _keep_attributes(source: Path, target: Path, state: os.stat_result, *, follow: bool = False) -> None:
    """Give the copy the owner, the mode, the times and the extended attributes of the original.

    `follow` is for a source that is the path of a descriptor.
    """
    if os.geteuid() == 0:
        os.chown(target, state.st_uid, state.st_gid, follow_symlinks=False)
    shutil.copystat(source, target, follow_symlinks=follow)


def _keep_folder(source: Path, target: Path, state: os.stat_result) -> None:
    _keep_attributes(source, target, state, follow=True)
    sync_folder(target)
