"""Files worked on by some threads, while the one that waits for them shows how far they are.

A folder to be published: what is in it, and what of it no release can have (PROTOCOL 5).
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from os import cpu_count
from pathlib import Path
from stat import S_ISBLK, S_ISCHR, S_ISDIR, S_ISFIFO, S_ISLNK, S_ISREG, S_ISSOCK
from threading import Lock
from typing import Final, TypeVar

from msgspec import Struct, field

from gamed.assets import paths
from gamed.assets.errors import PublishRefused
from gamed.assets.manifest import MAX_FILES
from gamed.assets.paths import Refused

T = TypeVar("T")
Growing = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""What a piece of work is called and how much it is in all -> what to call with how much is done."""
THREADS = min(4, cpu_count() or 1)
LOOK_SECONDS = 0.2


class Cancelled(Exception):
    """Another thread failed, or the owner has seen enough."""


class Progress:
    """How much is done, counted by all threads; each count is where a thread may be stopped."""

    def __init__(self) -> None:
        self.done = 0
        self._lock = Lock()
        self._stopped = False

    def add(self, amount: int) -> None:
        """Stopped when the work is to end."""
        if self._stopped:
            raise Cancelled
        with self._lock:
            self.done += amount

    def stop(self) -> None:
        self._stopped = True


def run_parallel(
    items: Iterable[T], task: Callable[[T, Progress], None], shown: Callable[[int], None], look: Callable[[], None]
) -> None:
    """Every item through `task`, in no order; the first error ends all of it, also one that `look` raises.

    The caller's own thread shows what is done and looks around, some times a second.
    """
    meter, todo = Progress(), iter(list(items))  # a list's iterator may be shared

    def drain() -> None:
        for item in todo:
            meter.add(0)  # also where items have no bytes to count
            task(item, meter)

    with ThreadPoolExecutor(THREADS) as threads:
        running = {threads.submit(drain) for _ in range(THREADS)}
        try:
            _wait(running, meter, shown, look)
        except BaseException:
            meter.stop()
            raise
    shown(meter.done)


def _wait(running: set[Future[None]], meter: Progress, shown: Callable[[int], None], look: Callable[[], None]) -> None:
    while running:
        ended, running = wait(running, LOOK_SECONDS, FIRST_EXCEPTION)
        for future in ended:
            future.result()
        shown(meter.done)
        look()


CHUNK: Final = 1024 * 1024
CHANGED: Final = "changed while it was read"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_KINDS = (
    (S_ISLNK, "a symbolic link"),
    (S_ISFIFO, "a pipe"),
    (S_ISSOCK, "a socket"),
    (S_ISCHR, "a device"),
    (S_ISBLK, "a device"),
)


class UnusableSource(Exception):
    """A file that cannot be read, or is not as it was when it was first looked at; `str` says which."""


class ScannedFile(Struct, frozen=True):
    """One file of the folder."""

    path: str
    """In a release: NFC, with `/`."""
    source: bytes
    size: int
    identity: tuple[int, int, int, int]
    """Device, inode, size, instant of the last change: it stays the same while nobody writes."""


class FolderScan(Struct):
    """All that is in a folder."""

    files: list[ScannedFile] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    """Left out: names that begin with a dot."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def scan_folder(folder: Path, *, hidden: bool = False) -> FolderScan:
    """Every file below the folder; no link is followed. `hidden`: names that begin with a dot, too."""
    found = FolderScan()
    _walk(os.fsencode(folder), found, hidden=hidden)
    found.files.sort(key=lambda file: file.path)
    found.hidden.sort()
    found.refused.sort(key=lambda each: each.path)
    found.refused += paths.conflicting_paths(file.path for file in found.files)
    if not found.files and not found.refused:
        found.refused.append(Refused(".", "there is no file in it"))
    if len(found.files) > MAX_FILES:
        found.refused.append(Refused(".", f"a release has at most {MAX_FILES} files; put them into packs"))
    return found


def hashes(files: list[ScannedFile], growing: Growing) -> dict[str, str]:
    """SHA-256 in hex by path, each file read once; PublishRefused names all that could not be."""
    digests: dict[str, str] = {}
    refused: list[Refused] = []
    lock = Lock()

    def work(file: ScannedFile, meter: Progress) -> None:
        try:
            digest = digest_of(file, lambda chunk: meter.add(len(chunk)))
        except UnusableSource as e:
            with lock:
                refused.append(Refused(file.path, str(e)))
        else:
            digests[file.path] = digest

    with growing("reading", sum(file.size for file in files)) as shown:
        run_parallel(files, work, shown, lambda: None)
    if refused:
        raise PublishRefused(sorted(refused, key=lambda each: each.path))
    return digests


def digest_of(file: ScannedFile, out: Callable[[memoryview], object]) -> str:
    """The file read once, `out` given every byte; SourceUnusable if it is not as the scan found it."""
    digest, left, buffer = sha256(), file.size + 1, bytearray(min(CHUNK, file.size + 1))
    with _opened(file) as descriptor, memoryview(buffer) as view:
        while left > 0 and (length := _read_into(descriptor, view[:left])):
            left -= length
            digest.update(view[:length])
            out(view[:length])
        if left != 1 or _identity(os.fstat(descriptor)) != file.identity:
            raise UnusableSource(CHANGED)
    return digest.hexdigest()


@contextmanager
def _opened(file: ScannedFile) -> Iterator[int]:
    try:
        descriptor = os.open(file.source, _READ)
    except OSError as e:
        raise UnusableSource(_unreadable(e)) from None
    try:
        state = os.fstat(descriptor)
        if not S_ISREG(state.st_mode) or _identity(state) != file.identity:
            raise UnusableSource(CHANGED)
        yield descriptor
    finally:
        os.close(descriptor)


def _read_into(descriptor: int, view: memoryview) -> int:
    try:
        return os.readv(descriptor, [view])
    except OSError as e:
        raise UnusableSource(_unreadable(e)) from None


def _walk(folder: bytes, found: FolderScan, *, hidden: bool) -> None:
    """Folder by folder, and not by recursion: there may be a thousand, one inside the other."""
    waiting = [(folder, "")]
    while waiting and len(found.files) <= MAX_FILES:
        here, above = waiting.pop()
        for entry in _entries(here, above, found):
            path = above + paths.normalize_path(entry.name.decode("utf-8", "surrogateescape"))
            if entry.name.startswith(b".") and not hidden:
                found.hidden.append(path)
            elif _check(entry, path, found):
                waiting.append((entry.path, f"{path}/"))


def _entries(folder: bytes, above: str, found: FolderScan) -> "list[os.DirEntry[bytes]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as e:
        found.refused.append(Refused(above.removesuffix("/") or ".", _unreadable(e)))
        return []


def _check(entry: "os.DirEntry[bytes]", path: str, found: FolderScan) -> bool:
    """A file, found or refused; whether it is a folder to go into."""
    try:
        state = entry.stat(follow_symlinks=False)
    except OSError as e:
        found.refused.append(Refused(path, _unreadable(e)))
        return False
    if not S_ISREG(state.st_mode) and not S_ISDIR(state.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(state.st_mode)), "no file")
        found.refused.append(Refused(path, kind))
    elif (flaw := paths.path_error(path)) is not None:
        found.refused.append(Refused(path, flaw))
    elif S_ISDIR(state.st_mode):
        return True
    else:
        found.files.append(ScannedFile(path, entry.path, state.st_size, _identity(state)))
    return False


def _identity(state: os.stat_result) -> tuple[int, int, int, int]:
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


def _unreadable(error: OSError) -> str:
    return f"cannot be read ({error.strerror})"
