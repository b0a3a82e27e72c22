"""Processes that write to one database file take turns, by a lock file beside it.

SQLite alone would try again after sleeps of up to 100 ms; the kernel wakes the next process that waits in flock() at
once. A process that ends, however it ends, loses its locks, but a stopped one keeps them, and flock() has no timeout.
So a daemon thread waits in flock(), and the writing thread waits for that one, for some seconds: a process can always
end.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EDQUOT, EIO, ENOSPC, EPERM, EROFS
from pathlib import Path
from threading import Lock, Semaphore, Thread
from time import monotonic

from gamed.database.connection import AUTH, STATE
from gamed.database.errors import (
    TEXTS,
    DatabaseBusy,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseUnavailable,
    new_error,
    of_disk,
)

SUFFIX = ".lock"
"""Follows the name of a database, such as auth.db: the name of its lock file, which is never renamed or replaced."""
MAINTENANCE_FILE = "maintenance.lock"
WAIT_SECONDS = 5
"""How long threads wait, together: once another process holds the lock for longer, each new wait fails at once."""
NOTE_BYTES = 11
"""A fixed length, so that a short id leaves nothing of a longer one; the largest one has seven digits."""


def lock_files(data: Path) -> list[Path]:
    """Return the paths of all lock files of a data folder's databases."""
    return [*(data / f"{name}.db{SUFFIX}" for name in (AUTH, STATE)), data / MAINTENANCE_FILE]


def lock_path(database: Path) -> Path:
    """Return the path of the lock file of a database."""
    return database.with_name(f"{database.name}{SUFFIX}")


class WriteLock:
    """The lock around each write transaction: among the threads of this process, and among all processes."""

    def __init__(self, database: Path | None = None, wait_seconds: float = WAIT_SECONDS) -> None:
        """Lock writes to this file; without a path, lock among threads only."""
        self._wait_seconds = wait_seconds
        self._path = None if database is None else lock_path(database)
        self._descriptor = -1
        self._thread = Lock()
        """Held by the thread whose turn it is, and while that thread waits for the file's lock."""
        self._handover = Lock()
        """Held to read or write what follows."""
        self._waiting = False
        """True while the waiting thread is in flock()."""
        self._wanted = False
        """True while another thread waits for it."""
        self._granted = Semaphore(0)
        self._wait_ends = 0.0
        self._reported = False
        self._closed = False

    def acquire(self) -> None:
        """Wait for the lock, at most five seconds for other processes; raise DatabaseLocked, or as open_lock_file()."""
        # First among the threads: all share one descriptor, and flock() locks nothing between two users of it.
        self._thread.acquire()
        try:
            if self._path is not None:
                self._lock_file(self._path)
        except BaseException:
            self._thread.release()
            raise

    def release(self) -> None:
        """Let the next thread or process have the lock."""
        if self._path is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._thread.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def close(self) -> None:
        """Close the file, after the last turn; a thread that still waits for the lock closes it later."""
        with self._thread, self._handover:
            self._closed = True
            if not self._waiting:
                self._close_file()

    def _lock_file(self, path: Path) -> None:
        if self._descriptor < 0:
            self._descriptor = open_lock_file(path)
        # While the waiting thread is in flock(), a lock of this descriptor would be the same one: it is handed over.
        if (self._waiting or not try_lock(self._descriptor)) and not self._wait():
            first, self._reported = not self._reported, True
            error = DatabaseLocked(TEXTS[DatabaseBusy])
            error.process, error.first = _noted_process(self._descriptor), first
            raise error
        self._reported = False
        _note_process(self._descriptor)

    def _wait(self) -> bool:
        with self._handover:
            # One waiting thread, and one end of the wait, for all that want the lock: the other process has five
            # seconds once, not once for each of the transactions that queue up meanwhile.
            if not self._waiting:
                Thread(target=self._wait_in_kernel, name="write-lock", daemon=True).start()
                self._waiting = True
                self._wait_ends = monotonic() + self._wait_seconds
            self._wanted = True
        granted = self._granted.acquire(timeout=max(0, self._wait_ends - monotonic()))
        with self._handover:
            self._wanted = False
            # The lock may have come between the end of the wait and this block; left there, it would never be released.
            return granted or self._granted.acquire(blocking=False)

    def _wait_in_kernel(self) -> None:
        """Get the lock and hand it to the thread that waits for it; release it if none waits any more."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._handover:
            if self._wanted:
                self._granted.release()
            elif self._closed:
                self._close_file()
            else:  # the wait was given up; a lock that this process keeps would stop all others
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._waiting = False  # last: from here on a thread may lock this descriptor itself

    def _close_file(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def lock_writes(database: Path) -> Iterator[None]:
    """Hold the write lock of a database outside the service; raise DatabaseBusy with a text for the operator."""
    lock = WriteLock(database)
    try:
        with lock:
            yield
    except DatabaseLocked as e:
        raise DatabaseBusy(
            f"process {e.process} has been writing to it for {WAIT_SECONDS} seconds. If that process is stopped, "
            "continue or end it. Then try again."
        ) from None
    finally:
        lock.close()


class MaintenanceLock:
    """The lock of the one process among several that cleans up; another process gets it when that one ends."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._descriptor = -1
        self._held = path is None

    @property
    def held(self) -> bool:
        """Return whether this process holds the lock; try to get it if not. Never wait."""
        if not self._held and self._path is not None:
            if self._descriptor < 0:
                self._descriptor = open_lock_file(self._path)
            self._held = try_lock(self._descriptor)
            if self._held:
                _note_process(self._descriptor)
        return self._held

    def close(self) -> None:
        """Release the lock for other processes, and never take it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._path, self._descriptor, self._held = None, -1, False


def open_lock_file(path: Path) -> int:
    """Return a descriptor of a lock file, which is made if it is missing; raise DatabaseError.

    A file that can only be read can be locked: SQLite then reports what is wrong with its own file.
    """
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except OSError as e:
        with suppress(OSError):
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if e.errno in (ENOSPC, EDQUOT, EIO):
            raise of_disk(e) from e
        kind = DatabaseReadOnly if e.errno in (EACCES, EPERM, EROFS) else DatabaseUnavailable
        raise new_error(kind) from e


def try_lock(descriptor: int) -> bool:
    """Return whether the lock was free; it is then held."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _note_process(descriptor: int) -> None:
    """Write the id of this process into its lock file, if it is not there; a full disk is ignored."""
    note = f"{os.getpid():<{NOTE_BYTES - 1}}\n".encode()
    with suppress(OSError):
        if os.pread(descriptor, NOTE_BYTES, 0) != note:
            os.pwrite(descriptor, note, 0)


def _noted_process(descriptor: int) -> str:
    with suppress(OSError):
        noted = os.pread(descriptor, NOTE_BYTES, 0).strip()
        if noted.isdigit():
            return noted.decode()
    return "unknown"
