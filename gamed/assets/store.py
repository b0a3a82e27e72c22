"""The assets folder as it is read and written (docs/internals/storage.md: Assets); readers need no lock.

channels/<channel>.json         the pointer of a channel
releases/<release>.json         a manifest's exact bytes
objects/<first 2 hex>/<sha256>  a file's bytes
tmp/                            files that are being written

Files are written completely and are on disk before another file names them, by one command at a time.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from errno import EDQUOT, EFBIG, ELOOP, EMFILE, ENFILE, ENOSPC, ENOTDIR
from io import BufferedReader, FileIO
from pathlib import Path
from shlex import quote
from stat import S_ISREG
from time import monotonic, sleep
from typing import Final

from msgspec import Struct

from gamed.assets.errors import (
    AssetsBusy,
    AssetsDamaged,
    AssetsFull,
    AssetsOpen,
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
from gamed.assets.pointer import MAX_POINTER_BYTES, ChannelPointer, parse_pointer
from gamed.assets.scan import CHANGED, Progress, ProgressDisplay, ScannedFile, UnusableSource, digest_of, run_parallel
from gamed.assets.snapshot import Stamp
from gamed.disk import sync_folder

FOLDER, CHANNELS, RELEASES, OBJECTS, TMP = "assets", "channels", "releases", "objects", "tmp"
SUFFIX = ".json"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""O_NONBLOCK, so that opening a pipe does not wait; anything but a regular file is refused afterwards."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class AssetStore(Struct, frozen=True):
    """The assets folder as readers see it. Every method blocks; every name is checked before it is used in a path."""

    folder: Path
    """`assets` in the data folder; it need not exist, and may be a link to another disk."""

    def stamp(self) -> Stamp:
        """Return a value that changes when a channel is created, moved or deleted; () if there is no channel."""
        try:
            with os.scandir(self.folder / CHANNELS) as found:
                entries = [
                    (each.name, each.stat(follow_symlinks=False)) for each in found if each.name.endswith(SUFFIX)
                ]
        except FileNotFoundError:  # also of a channel that is deleted meanwhile; the next call sees that
            return ()
        except OSError as e:
            raise _unreadable(self.folder / CHANNELS, e) from None
        return tuple(sorted((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in entries))

    def changed_ms(self) -> int | None:
        """Return when a channel was created, moved or deleted last, in epoch milliseconds; None for never."""
        try:
            return os.stat(self.folder / CHANNELS).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None
        except OSError as e:
            raise _unreadable(self.folder / CHANNELS, e) from None

    def channels(self) -> list[str]:
        """Return the names of all channels in alphabetical order."""
        return [name for name in self._names(CHANNELS) if is_channel(name)]

    def releases(self) -> list[str]:
        """Return the ids of all stored releases."""
        return [name for name in self._names(RELEASES) if is_release(name)]

    def pointer(self, channel: str) -> ChannelPointer:
        """Read a pointer; raise ChannelNotFound, PointerMalformed or AssetsUnreadable."""
        if not is_channel(channel):
            raise ChannelNotFound(channel)
        return parse_pointer(self._read(CHANNELS, channel, MAX_POINTER_BYTES, ChannelNotFound))

    def manifest(self, release: str) -> bytes:
        """Read a manifest that has this id; raise ReleaseNotFound, ManifestMalformed or AssetsUnreadable."""
        if not is_release(release):
            raise ReleaseNotFound(release)
        text = self._read(RELEASES, release, MAX_MANIFEST_BYTES, ReleaseNotFound)
        if release_id(text) != release:
            raise ManifestMalformed(f"the manifest of {release} is not as it was written")
        return text

    def open_object(self, sha256: str, size: int | None = None) -> FileIO:
        """Open an object without a buffer; the caller closes it. Raise ObjectNotFound or AssetsUnreadable.

        Raise AssetsDamaged if it is not a regular file, or not of the `size` that a manifest gives it.
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
        """Return the path of an object, which need not exist."""
        return self.folder / OBJECTS / sha256[:2] / sha256

    def _names(self, kind: str) -> list[str]:
        try:
            found = os.listdir(self.folder / kind)
        except FileNotFoundError:
            return []
        except OSError as e:
            raise _unreadable(self.folder / kind, e) from None
        return sorted(name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX))

    def _read(self, kind: str, name: str, limit: int, missing: type[NotFound]) -> bytes:
        try:
            with BufferedReader(self._open(kind, f"{name}{SUFFIX}")) as file:
                text = file.read(limit + 1)
        except FileNotFoundError:
            raise missing(name) from None
        except OSError as e:
            raise _unreadable(self.folder / kind / f"{name}{SUFFIX}", e) from None
        if len(text) > limit:
            raise AssetsDamaged(f"{name}{SUFFIX} is larger than any that gamed writes")
        return text

    def _open(self, kind: str, name: str) -> FileIO:
        """Open a regular file below the store, without following links; raise FileNotFoundError if there is none."""
        descriptor = -1
        try:
            # Step by step, as O_NOFOLLOW holds only for the last name: a shard that is a link would lead elsewhere.
            descriptor = os.open(self.folder / kind, _FOLDER_FLAGS)
            *folders, last = name.split("/")
            for step, flags in (*((each, _FOLDER_FLAGS | os.O_NOFOLLOW) for each in folders), (last, _READ)):
                inner = os.open(step, flags, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            if S_ISREG(os.fstat(descriptor).st_mode):
                return FileIO(descriptor, "rb")
        except OSError as e:
            if descriptor >= 0:
                os.close(descriptor)
            if isinstance(e, FileNotFoundError):
                raise
            if e.errno in (ELOOP, ENOTDIR):
                raise AssetsDamaged(f"{kind}/{name} is no file, or behind a link") from None
            raise _unreadable(self.folder / kind / name, e) from None
        os.close(descriptor)
        raise AssetsDamaged(f"{kind}/{name} is no file")


def _unreadable(path: Path, error: OSError) -> AssetsUnreadable:
    return TooManyOpen() if error.errno in (EMFILE, ENFILE) else AssetsUnreadable(f"{path}: {error.strerror}")


# writing

LOCK_WAIT_SECONDS = 10.0
NEW = ".new"
"""The name of a file that is being written; the next write to the folder replaces one that was left."""


def make_folders(assets: Path) -> None:
    """Create the folders of the store with mode 0700."""
    for folder in (assets, *(assets / name for name in (CHANNELS, RELEASES, OBJECTS, TMP))):
        make_folder(folder)


def make_folder(folder: Path, group: int = 0) -> None:
    """Create a folder unless it exists; its name is on disk when this returns. `group` is as group_of() returns it."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    if group:
        folder.chmod(0o700 | group)
    sync_folder(folder.parent)


def close_to_group(assets: Path) -> bool:
    """Take the rights from the group of the stored files' folder; return whether it had any.

    Raise AssetsOpen if this user has no right to, or if the folder is mounted read-only.
    """
    folder = (assets / OBJECTS).resolve()
    if not folder.exists() or not folder.stat().st_mode & 0o077:
        return False
    try:
        folder.chmod(0o700)
    except OSError as e:
        raise AssetsOpen(
            f"Only players may download (game.json: assets.access), but the group of {folder} can read the files, and "
            f"this user cannot change that ({e.strerror}). Run: chmod 700 {quote(str(folder))}"
        ) from None
    return True


def group_of(folder: Path) -> int:
    """Return what the owner of the folder lets its group do, such as that of nginx: 0o050 to read, or nothing."""
    return 0o050 if folder.stat().st_mode & 0o050 == 0o050 else 0


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by a complete new one that is on disk when this returns; the caller holds the folder's lock."""
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


def free_bytes(folder: Path) -> int:
    """Return how many bytes this user may still write to the disk of the folder."""
    return shutil.disk_usage(folder).free


@contextmanager
def publish_lock(assets: Path) -> Iterator[None]:
    """Hold the lock for adding and deleting objects and releases; raise AssetsBusy if another command has it.

    Delete first what a killed command has left in `tmp`.
    """
    with _locked(assets, 0):
        for left in (assets / TMP).iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            else:
                left.unlink()
        yield


def channel_lock(assets: Path) -> AbstractContextManager[None]:
    """Hold the lock for writing pointers; wait up to LOCK_WAIT_SECONDS for it, then raise AssetsBusy.

    A command that needs both locks acquires publish_lock() first.
    """
    return _locked(assets / CHANNELS, LOCK_WAIT_SECONDS)


@contextmanager
def _locked(folder: Path, wait_seconds: float) -> Iterator[None]:
    """Lock a folder; the system releases the lock also if the process is killed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = monotonic() + wait_seconds
        while True:  # flock() itself has no deadline
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() >= deadline:
                    raise AssetsBusy(f"another command works on {folder}; wait for its end") from None
            sleep(0.05)
        yield
    finally:
        os.close(descriptor)


_FULL: Final = (ENOSPC, EDQUOT, EFBIG)


def store_objects(
    store: AssetStore,
    new: Mapping[str, ScannedFile],
    placed: list[Path],
    display: ProgressDisplay,
    check: Callable[[], None],
) -> None:
    """Copy new objects to `tmp`, and rename them when all are complete; add the path of each to `placed`.

    Raise PublishRefused, AssetsFull, AssetsDamaged, an OSError, or the error of `check`, which is called meanwhile.
    """
    if not new:
        return
    staged = store.folder / TMP / "publish"
    try:
        group = group_of(store.folder / OBJECTS)
        make_folder(staged)
        # All copies are complete before the first is renamed: a file that changes meanwhile refuses the whole release.
        with display("storing", sum(found.size for found in new.values())) as show:
            run_parallel(
                new, lambda sha256, progress: _copy(new[sha256], staged / sha256, group, progress), show, check
            )
        for folder in {store.object_path(sha256).parent for sha256 in new}:
            make_folder(folder, group)
            if folder.is_symlink():  # readers do not follow links
                raise AssetsDamaged(f"{folder} is a link")
        for sha256 in new:
            place = store.object_path(sha256)
            if not place.exists():
                placed.append(place)
            (staged / sha256).rename(place)
    except OSError as e:
        raise as_disk_full(e) from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def as_disk_full(error: OSError) -> Exception:
    """Return AssetsFull if the disk is full, else the error itself."""
    return AssetsFull(f"the disk has no room any more ({error.strerror})") if error.errno in _FULL else error


def _copy(found: ScannedFile, target: Path, group: int, progress: Progress) -> None:
    """Copy a file and hash it again; raise PublishRefused if it has changed since it was hashed first."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if group:  # whatever the umask is
            os.fchmod(descriptor, 0o640)

        def write(chunk: memoryview) -> None:
            progress.add(len(chunk))
            while chunk:
                chunk = chunk[os.write(descriptor, chunk) :]

        if digest_of(found, write) != target.name:
            raise UnusableSource(CHANGED)
        os.fsync(descriptor)
    except UnusableSource as e:
        raise PublishRefused([Refused(found.path, str(e))]) from None
    finally:
        os.close(descriptor)
