"""Where work that waits for the disk is done: not in the thread that serves.

An object's file, read by any number of answers at once.
"""

import os
from collections.abc import Callable
from errno import EAGAIN, EOPNOTSUPP
from io import FileIO
from typing import Final, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gamed.assets.errors import TooManyOpen

T = TypeVar("T")


class ThreadRunner(Protocol):
    """Calls something in another thread; its result, or its error."""

    def __call__(self, work: Callable[[], T]) -> Deferred[T]: ...


PART_BYTES: Final = 256 * 1024
PROBE_BYTES: Final = 128 * 1024
"""Linux reads ahead so much at a time: mostly all of such a stretch is in memory, or nothing."""
STRETCH_BYTES: Final = 1024 * 1024
"""Looked at, and where need be read, before it is sent."""
SEEN_SECONDS: Final = 5.0
REMEMBERED: Final = 8192


class SharedFile:
    """Its descriptor lives until it is retired, and as long as a lease does or a read in a thread."""

    def __init__(
        self, file: FileIO, run: ThreadRunner, seconds: Callable[[], float], closed: Callable[["SharedFile"], None]
    ) -> None:
        self._file = file
        self._run = run
        self._seconds = seconds
        self._seen: dict[int, float] = {}
        """Stretches that were in memory, and until when that counts."""
        self._closed = closed
        self._users = 0
        self._retired = False
        status = os.fstat(file.fileno())
        self.size, self.modified_ms = status.st_size, status.st_mtime_ns // 1_000_000

    @property
    def idle(self) -> bool:
        return not self._users

    @property
    def current(self) -> bool:
        """Whether it is as it was when it was opened, and has not been deleted or replaced."""
        status = os.fstat(self._file.fileno())
        return status.st_size == self.size and status.st_nlink > 0

    def lease(self) -> "FileLease":
        """TooManyOpen if it is closed already: others needed its place."""
        if self._file.closed:
            raise TooManyOpen
        self._users += 1
        return FileLease(self)

    def ready(self, at: int) -> int:
        """How many bytes from there on are in memory, as far as a few looks tell; what was seen is true for a while."""
        stretch = at // STRETCH_BYTES
        end = min((stretch + 1) * STRETCH_BYTES, self.size)
        if self._seen.get(stretch, 0) <= self._seconds():
            first, last = stretch * STRETCH_BYTES, end - 1
            if not all(_in_memory(self.fileno(), each) for each in (*range(first, last, PROBE_BYTES), last)):
                return 0
            self._saw(stretch)
        return end - at

    def read_ahead(self, at: int) -> Deferred[None]:
        """In a thread, to the end of what ready() would look at."""
        stretch = at // STRETCH_BYTES
        reading = self.away(lambda descriptor: _read_ahead(descriptor, stretch * STRETCH_BYTES))
        return reading.addCallback(lambda _: self._saw(stretch))

    def _saw(self, stretch: int) -> None:
        if len(self._seen) >= REMEMBERED:
            self._seen.clear()
        self._seen[stretch] = self._seconds() + SEEN_SECONDS

    def leave(self) -> None:
        self._users -= 1
        self._close_if_over()

    def retire(self) -> None:
        """Nobody new will come."""
        self._retired = True
        self._close_if_over()

    def fileno(self) -> int:
        return self._file.fileno()

    def away(self, work: Callable[[int], T]) -> Deferred[T]:
        """Call `work` with the descriptor, in a thread; until that ends the descriptor stays, whoever waits or not."""
        descriptor = self._file.fileno()
        watcher: Deferred[T] = Deferred()
        self._users += 1

        def left(result: T | Failure) -> None:
            self.leave()
            if not watcher.called:
                watcher.callback(result)

        self._run(lambda: work(descriptor)).addBoth(left)
        return watcher

    def _close_if_over(self) -> None:
        if self._retired and not self._users and not self._file.closed:
            self._file.close()
            self._closed(self)


class FileLease:
    """One answer's use of an open file. What is read after `close` fails, or is still read to its end."""

    part_bytes = PART_BYTES

    def __init__(self, file: SharedFile) -> None:
        self._file = file
        self._open = True
        self.size = file.size

    def close(self) -> None:
        if self._open:
            self._open = False
            self._file.leave()

    def fileno(self) -> int:
        return self._file.fileno()

    def at_once(self, first: int, length: int) -> bytes | None:
        """These bytes, if the disk need not be asked."""
        at = first
        while at < first + length:
            ready = self._file.ready(at)
            if not ready:
                return None
            at += ready
        data = os.pread(self.fileno(), length, first)
        return data if len(data) == length else None

    def ready(self, at: int) -> int:
        """How many bytes from there on can be sent now without waiting for the disk."""
        return self._file.ready(at)

    def read(self, first: int, length: int) -> Deferred[bytes]:
        """Less only where the file ends."""
        return self._file.away(lambda descriptor: _read(descriptor, first, length))

    def read_ahead(self, at: int) -> Deferred[None]:
        """Afterwards there are some, for a while, if the file has them."""
        return self._file.read_ahead(at)

    async def part(self, n: int) -> bytes:
        """For who reads it in parts."""
        return await self.read(n * PART_BYTES, PART_BYTES)


_BYTE: Final = bytearray(1)


def _in_memory(descriptor: int, at: int) -> bool:
    """Whether a byte can be read without waiting; no also where the file system cannot tell, or the file ends."""
    try:
        return os.preadv(descriptor, [_BYTE], at, os.RWF_NOWAIT) == 1
    except OSError as e:
        if e.errno in (EAGAIN, EOPNOTSUPP):
            return False
        raise


def _read(descriptor: int, first: int, length: int) -> bytes:
    """What is around it is fetched behind it: who comes next finds all of that in memory."""
    begin, end = first // STRETCH_BYTES, (first + length - 1) // STRETCH_BYTES + 1
    os.posix_fadvise(descriptor, begin * STRETCH_BYTES, (end - begin) * STRETCH_BYTES, os.POSIX_FADV_WILLNEED)
    parts: list[bytes] = []
    while length > 0 and (data := os.pread(descriptor, length, first)):
        parts.append(data)
        first, length = first + len(data), length - len(data)
    return b"".join(parts)


def _read_ahead(descriptor: int, first: int) -> None:
    os.posix_fadvise(descriptor, first, STRETCH_BYTES, os.POSIX_FADV_WILLNEED)
    buffer, end = bytearray(PART_BYTES), first + STRETCH_BYTES
    while first < end and (size := os.preadv(descriptor, [buffer], first)):
        first += size
