"""The assets folder, written: whole files only, on disk before anything names them, by one command at a time."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from gamed.assets.errors import AssetsBusy
from gamed.assets.store import CHANNELS, OBJECTS, RELEASES, TMP

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
