"""The assets folder, read: channels, releases, objects (PROTOCOL 5). Beside whoever publishes, without a lock.

channels/<channel>.json         where a channel points
releases/<release>.json         a manifest's exact bytes
objects/<first 2 hex>/<sha256>  a file's bytes
tmp/                            what is being written

The assets folder, written: whole files only, on disk before anything names them, by one command at a time.

New objects brought to their place in the store: all of them, or none (PROTOCOL 5).
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, ELOOP, EMFILE, ENFILE, ENOSPC, ENOTDIR
from io import FileIO
from pathlib import Path
from stat import S_ISREG
from time import monotonic, sleep
from typing import Final

from msgspec import Struct

from gamed.assets import scan
from gamed.assets.channel import MAX_POINTER_BYTES, ChannelPointer, parse_pointer
from gamed.assets.errors import (
    AssetsBusy,
    AssetsDamaged,
    AssetsFull,
    AssetsUnreadable,
    ChannelNotFound,
    ManifestMalformed,
    NotFound,
    ObjectNotFound,
    PublishRefused,
    ReleaseNotFound,
    TooManyOpen,
)
from gamed.assets.manifest import MAX_MANIFEST_BYTES, is_channel, is_object, is_release, release_id
from gamed.assets.paths import Refused
from gamed.assets.scan import CHANGED, Growing, Progress, ScannedFile, UnusableSource, digest_of

FOLDER, CHANNELS, RELEASES, OBJECTS, TMP = "assets", "channels", "releases", "objects", "tmp"
SUFFIX = ".json"
Stamp = tuple[tuple[str, int, int, int], ...]
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""A pipe is not waited for; what is no regular file is refused once it is open."""
_INTO = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class AssetStore(Struct, frozen=True):
    """Blocks while the disk works: ask from a thread. Every name is judged before it becomes part of a path."""

    folder: Path
    """`assets` in the data folder; need not be there, and may be a link to another disk."""

    def stamp(self) -> Stamp:
        """Equal until a channel is made, moved or removed; () when there is none. Cheap: one look at each pointer."""
        try:
            with os.scandir(self.folder / CHANNELS) as found:
                entries = [
                    (each.name, each.stat(follow_symlinks=False)) for each in found if each.name.endswith(SUFFIX)
                ]
        except FileNotFoundError:  # also one that is removed meanwhile: the next look sees the change
            return ()
        except OSError as e:
            raise _refused(self.folder / CHANNELS, e) from None
        return tuple(sorted((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in entries))

    def changed_ms(self) -> int | None:
        """When a channel was made, moved or removed last, in epoch milliseconds; None while there never was one."""
        try:
            return os.stat(self.folder / CHANNELS).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None
        except OSError as e:
            raise _refused(self.folder / CHANNELS, e) from None

    def channels(self) -> list[str]:
        """In alphabetical order."""
        return [name for name in self._names(CHANNELS) if is_channel(name)]

    def releases(self) -> list[str]:
        """Every manifest that is there, pointed at or not."""
        return [name for name in self._names(RELEASES) if is_release(name)]

    def pointer(self, channel: str) -> ChannelPointer:
        """ChannelNotFound, PointerMalformed, AssetsUnreadable."""
        if not is_channel(channel):
            raise ChannelNotFound(channel)
        text = self._read(CHANNELS, channel, MAX_POINTER_BYTES, ChannelNotFound)
        return parse_pointer(text)

    def manifest(self, release: str) -> bytes:
        """The exact bytes, which give the release's id; ReleaseNotFound, ManifestMalformed, AssetsUnreadable."""
        if not is_release(release):
            raise ReleaseNotFound(release)
        text = self._read(RELEASES, release, MAX_MANIFEST_BYTES, ReleaseNotFound)
        if release_id(text) != release:
            raise ManifestMalformed(f"the manifest of {release} is not as it was written")
        return text

    def open_object(self, sha256: str, size: int | None = None) -> FileIO:
        """The bytes, unbuffered, for the caller to close; ObjectNotFound, AssetsUnreadable.

        AssetsDamaged for what is no regular file, or not of the `size` that a manifest gives it.
        """
        if not is_object(sha256):
            raise ObjectNotFound(sha256)
        try:
            file = self._open(OBJECTS, f"{sha256[:2]}/{sha256}")
        except FileNotFoundError:
            raise ObjectNotFound(sha256) from None
        found = os.fstat(file.fileno()).st_size
        if size is not None and found != size:
            file.close()
            raise AssetsDamaged(f"object {sha256} has {found} bytes instead of {size}")
        return file

    def object_path(self, sha256: str) -> Path:
        """Where the bytes with this hash are, or would be."""
        return self.folder / OBJECTS / sha256[:2] / sha256

    def _names(self, kind: str) -> list[str]:
        try:
            found = os.listdir(self.folder / kind)
        except FileNotFoundError:
            return []
        except OSError as e:
            raise _refused(self.folder / kind, e) from None
        return sorted(name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX))

    def _read(self, kind: str, name: str, limit: int, missing: type[NotFound]) -> bytes:
        try:
            with self._open(kind, f"{name}{SUFFIX}") as file:
                text = _whole(file, limit + 1)
        except FileNotFoundError:
            raise missing(name) from None
        except OSError as e:
            raise _refused(self.folder / kind / f"{name}{SUFFIX}", e) from None
        if len(text) > limit:
            raise AssetsDamaged(f"{name}{SUFFIX} is larger than any that gamed writes")
        return text

    def _open(self, kind: str, name: str) -> FileIO:
        """A regular file below the store with no link on the way; FileNotFoundError."""
        descriptor = -1
        try:
            descriptor = os.open(self.folder / kind, _INTO)
            for step, flags in _steps(name):
                inner = os.open(step, flags, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            if not S_ISREG(os.fstat(descriptor).st_mode):
                raise AssetsDamaged(f"{kind}/{name} is no file")
            return FileIO(descriptor, "rb")
        except FileNotFoundError:
            _close(descriptor)
            raise
        except OSError as e:
            _close(descriptor)
            if e.errno in (ELOOP, ENOTDIR):
                raise AssetsDamaged(f"{kind}/{name} is no file, or behind a link") from None
            raise _refused(self.folder / kind / name, e) from None
        except AssetsDamaged:
            _close(descriptor)
            raise


def _refused(path: Path, error: OSError) -> AssetsUnreadable:
    return TooManyOpen() if error.errno in (EMFILE, ENFILE) else AssetsUnreadable(f"{path}: {error.strerror}")


def _steps(name: str) -> list[tuple[str, int]]:
    *folders, file = name.split("/")
    return [*((folder, _INTO | os.O_NOFOLLOW) for folder in folders), (file, _READ)]


def _whole(file: FileIO, limit: int) -> bytes:
    """Up to so many bytes, however few each read brings."""
    parts: list[bytes] = []
    while limit > 0 and (part := file.read(limit)):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


PATIENCE_SECONDS = 10.0
NEW = ".new"
"""What is being written; it is replaced by the next that is written to the same folder."""


def make_folders(assets: Path) -> None:
    """Those that a store has, 0700."""
    for folder in (assets, *(assets / name for name in (CHANNELS, RELEASES, OBJECTS, TMP))):
        make_folder(folder)


def make_folder(folder: Path) -> None:
    """There, and on disk, when this returns."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    sync_folder(folder.parent)


def write_whole(path: Path, content: bytes) -> None:
    """There whole or not at all, and on disk before this returns; under the lock of whoever writes in this folder."""
    part = path.with_name(NEW)
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """New, renamed and removed names in a folder survive a power cut only after this."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free_bytes(folder: Path) -> int:
    """What this user may still write to the folder's disk."""
    return shutil.disk_usage(folder).free


@contextmanager
def publishing(assets: Path) -> Iterator[None]:
    """The only one that adds or deletes objects and releases; AssetsBusy at once for a second one.

    What one left that was killed is swept first.
    """
    with _locked(assets, 0):
        for left in (assets / TMP).iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            else:
                left.unlink()
        yield


@contextmanager
def pointing(assets: Path) -> Iterator[None]:
    """The only one that moves pointers, which is a matter of moments: others wait, and get AssetsBusy in the end.

    Whoever needs both locks takes that of publishing() first.
    """
    with _locked(assets / CHANNELS, PATIENCE_SECONDS):
        yield


@contextmanager
def _locked(folder: Path, patience_seconds: float) -> Iterator[None]:
    """The lock falls with the process, however it ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = monotonic() + patience_seconds
        while not _lock(descriptor):
            if monotonic() >= deadline:
                raise AssetsBusy(f"another command works on {folder}; wait for its end")
            sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_FULL: Final = (ENOSPC, EDQUOT, EFBIG)


def store_objects(
    store: AssetStore,
    new: Mapping[str, ScannedFile],
    placed: list[Path],
    growing: Growing,
    look: Callable[[], None],
) -> None:
    """Each in `tmp` first, all of them whole before the first gets its place; `placed` gets those that are in place.

    PublishRefused, AssetsFull, AssetsDamaged, an OSError, or what `look` raises, which is asked some times a second.
    """
    if not new:
        return
    staged = store.folder / TMP / "publish"
    try:
        make_folder(staged)
        with growing("storing", sum(found.size for found in new.values())) as shown:
            scan.run_parallel(new, lambda sha256, meter: _copy(new[sha256], staged / sha256, meter), shown, look)
        for folder in {store.object_path(sha256).parent for sha256 in new}:
            make_folder(folder)
            if folder.is_symlink():  # readers would refuse to go on there
                raise AssetsDamaged(f"{folder} is a link")
        for sha256 in new:
            place = store.object_path(sha256)
            if not place.exists():
                placed.append(place)
            (staged / sha256).rename(place)
    except OSError as e:
        raise full(e) from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def full(error: OSError) -> Exception:
    """The error, as AssetsFull where the disk is to blame."""
    return AssetsFull(f"the disk has no room any more ({error.strerror})") if error.errno in _FULL else error


def _copy(found: ScannedFile, target: Path, meter: Progress) -> None:
    """What is stored is hashed again: PublishRefused when it is not what was read before."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:

        def write(chunk: memoryview) -> None:
            meter.add(len(chunk))
            while chunk:
                chunk = chunk[os.write(descriptor, chunk) :]

        if digest_of(found, write) != target.name:
            raise UnusableSource(CHANGED)
        os.fsync(descriptor)
    except UnusableSource as e:
        raise PublishRefused([Refused(found.path, str(e))]) from None
    finally:
        os.close(descriptor)
