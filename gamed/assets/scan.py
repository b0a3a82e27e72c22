"""The folder to publish is scanned and hashed; files that a release cannot have are refused (docs/protocol.md: Assets).

Files are read by a few threads, while the calling thread shows the progress.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from os import cpu_count
from pathlib import Path
from stat import S_ISDIR, S_ISFIFO, S_ISLNK, S_ISREG, S_ISSOCK
from threading import Lock
from typing import Final, TypeVar

from msgspec import Struct, field

from gamed.assets import paths
from gamed.assets.errors import PublishRefused
from gamed.assets.manifest import MAX_FILES
from gamed.assets.paths import Refused

T = TypeVar("T")
ProgressDisplay = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""The label and the total of some work -> a context with a function to call with how much is done."""
THREADS = min(4, cpu_count() or 1)
"""hashlib releases the interpreter's lock, so threads share the work."""
SHOW_SECONDS = 0.2


class Cancelled(Exception):
    """The end of a thread because another one failed, or the operator has interrupted the command."""


class Progress:
    """The count of work done by all threads; a thread ends at its next count after stop()."""

    def __init__(self) -> None:
        self.done = 0
        self._lock = Lock()
        self._stopped = False

    def add(self, amount: int) -> None:
        """Count work; raise Cancelled after stop()."""
        if self._stopped:
            raise Cancelled
        with self._lock:
            self.done += amount

    def stop(self) -> None:
        self._stopped = True


def run_parallel(
    items: Iterable[T],
    task: Callable[[T, Progress], None],
    show: Callable[[int], None],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Call `task` with each item, in any order, in a few threads; the first error ends all of them.

    The calling thread calls `show` with what is done, and `check`, which may raise, a few times a second.
    """
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait  # late: no server needs it

    progress, remaining = Progress(), iter(list(items))  # the iterator of a list may be shared between threads

    def work() -> None:
        for item in remaining:
            progress.add(0)  # for items without bytes to count
            task(item, progress)

    with ThreadPoolExecutor(THREADS) as threads:
        running = {threads.submit(work) for _ in range(THREADS)}
        try:
            while running:
                ended, running = wait(running, SHOW_SECONDS, FIRST_EXCEPTION)
                for future in ended:
                    future.result()
                show(progress.done)
                check()
        except BaseException:
            progress.stop()
            raise
    show(progress.done)


CHUNK: Final = 1024 * 1024
CHANGED: Final = "changed while it was read"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_KINDS = ((S_ISLNK, "a symbolic link"), (S_ISFIFO, "a pipe"), (S_ISSOCK, "a socket"))


class UnusableSource(Exception):
    """A file that cannot be read, or that has changed since the scan; `str(error)` is the reason."""


class ScannedFile(Struct, frozen=True):
    """One file of the folder."""

    path: str
    """The path in a release: NFC, with `/`."""
    source: bytes
    size: int
    identity: tuple[int, int, int, int]
    """Device, inode, size and time of the last change: equal while the file is not changed."""


class FolderScan(Struct):
    """The files of a folder, and those that cannot be published."""

    files: list[ScannedFile] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    """Names that begin with a dot, which are left out."""


def scan_folder(folder: Path, *, hidden: bool = False) -> FolderScan:
    """Find every file below a folder without following links; with `hidden` also names that begin with a dot."""
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


def hash_files(files: list[ScannedFile], display: ProgressDisplay) -> dict[str, str]:
    """Return path -> SHA-256 in hex; raise PublishRefused with all files that cannot be read."""
    digests: dict[str, str] = {}
    refused: list[Refused] = []
    lock = Lock()

    def work(file: ScannedFile, progress: Progress) -> None:
        try:
            digest = digest_of(file, lambda chunk: progress.add(len(chunk)))
        except UnusableSource as e:
            with lock:
                refused.append(Refused(file.path, str(e)))
        else:
            digests[file.path] = digest

    with display("reading", sum(file.size for file in files)) as show:
        run_parallel(files, work, show)
    if refused:
        raise PublishRefused(sorted(refused, key=lambda each: each.path))
    return digests


def digest_of(file: ScannedFile, out: Callable[[memoryview], object]) -> str:
    """Hash a file and pass every byte to `out`; raise UnusableSource if it has changed since the scan."""
    # One byte more than the scan found is asked for, so that a file that grows is noticed.
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
    """Scan folder by folder without recursion, because a thousand folders may lie in each other."""
    waiting = [(folder, "")]
    while waiting and len(found.files) <= MAX_FILES:
        here, above = waiting.pop()
        for entry in _entries(here, above, found):
            path = above + paths.normalize_path(entry.name.decode("utf-8", "surrogateescape"))
            if entry.name.startswith(b".") and not hidden:
                found.hidden.append(path)
            elif _add_entry(entry, path, found):
                waiting.append((entry.path, f"{path}/"))


def _entries(folder: bytes, above: str, found: FolderScan) -> "list[os.DirEntry[bytes]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as e:
        found.refused.append(Refused(above.removesuffix("/") or ".", _unreadable(e)))
        return []


def _add_entry(entry: "os.DirEntry[bytes]", path: str, found: FolderScan) -> bool:
    """Add a file to the found or refused ones; return whether the entry is a folder to scan."""
    try:
        state = entry.stat(follow_symlinks=False)
    except OSError as e:
        found.refused.append(Refused(path, _unreadable(e)))
        return False
    if not S_ISREG(state.st_mode) and not S_ISDIR(state.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(state.st_mode)), "a device")
        found.refused.append(Refused(path, kind))
    elif (error := paths.path_error(path)) is not None:
        found.refused.append(Refused(path, error))
    elif S_ISDIR(state.st_mode):
        return True
    else:
        found.files.append(ScannedFile(path, entry.path, state.st_size, _identity(state)))
    return False


def _identity(state: os.stat_result) -> tuple[int, int, int, int]:
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


def _unreadable(error: OSError) -> str:
    return f"cannot be read ({error.strerror})"
