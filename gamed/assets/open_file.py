"""The open file of an object, shared between responses, and read without blocking the reactor.

A file on disk is always "ready" for select() and epoll(), also while a read of it waits for the disk. So the kernel is
asked first (`RWF_NOWAIT`): bytes in the page cache are read at once, others in a thread.
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
PART_BYTES: Final = 256 * 1024
PROBE_BYTES: Final = 128 * 1024
"""Linux reads ahead in steps of this size: mostly all of such a step is in the page cache, or nothing."""
STRETCH_BYTES: Final = 1024 * 1024
"""The unit of probing and of reading ahead."""
CACHED_SECONDS: Final = 5.0
"""How long a stretch that was found in the page cache is taken to stay there; asking anew takes nine system calls."""
REMEMBERED_STRETCHES: Final = 8192


class ThreadRunner(Protocol):
    """A function that calls another one in a thread and returns its result or error."""

    def __call__(self, work: Callable[[], T]) -> Deferred[T]: ...


class SharedFile:
    """An open file. Its descriptor is closed once it is retired and no lease and no read in a thread uses it."""

    def __init__(
        self,
        file: FileIO,
        run: ThreadRunner,
        seconds: Callable[[], float],
        *,
        closed: Callable[["SharedFile"], None],
        unused: Callable[[], None],
    ) -> None:
        """`closed` is called once the descriptor is closed, `unused` when the last use of an open file has ended."""
        self._file = file
        self._run = run
        self._seconds = seconds
        self._cached_until: dict[int, float] = {}
        """By number of the stretch."""
        self._closed, self._unused = closed, unused
        self._users = 0
        self._retired = False
        status = os.fstat(file.fileno())
        self.size, self.modified_ms = status.st_size, status.st_mtime_ns // 1_000_000

    @property
    def is_idle(self) -> bool:
        return not self._users

    @property
    def is_current(self) -> bool:
        """Return whether the file has the size that it was opened with, and was not deleted or replaced."""
        status = os.fstat(self._file.fileno())
        return status.st_size == self.size and status.st_nlink > 0

    def lease(self) -> "FileLease":
        """Return the use of the file for one response; raise TooManyOpen if it is closed already."""
        if self._file.closed:
            raise TooManyOpen
        self._users += 1
        return FileLease(self)

    def bytes_in_cache(self, at: int) -> int:
        """Return how many bytes from offset `at` are in the page cache; 0 if any probe of the stretch is not."""
        stretch = at // STRETCH_BYTES
        end = min((stretch + 1) * STRETCH_BYTES, self.size)
        if self._cached_until.get(stretch, 0) <= self._seconds():
            first, last = stretch * STRETCH_BYTES, end - 1
            if not all(_is_in_cache(self.fileno(), each) for each in (*range(first, last, PROBE_BYTES), last)):
                return 0
            self._remember(stretch)
        return end - at

    def read_ahead(self, at: int) -> Deferred[None]:
        """Load the stretch of offset `at` into the page cache."""
        stretch = at // STRETCH_BYTES
        reading = self.in_thread(lambda descriptor: _read_ahead(descriptor, stretch * STRETCH_BYTES))
        return reading.addCallback(lambda _: self._remember(stretch))

    def _remember(self, stretch: int) -> None:
        if len(self._cached_until) >= REMEMBERED_STRETCHES:
            self._cached_until.clear()  # 8 GiB of stretches; probing anew costs less than an order of use
        self._cached_until[stretch] = self._seconds() + CACHED_SECONDS

    def release(self) -> None:
        """End one use of the file."""
        self._users -= 1
        self._close_unused()
        if not self._users and not self._retired:
            self._unused()

    def retire(self) -> None:
        """Close the file as soon as it is not used any more."""
        self._retired = True
        self._close_unused()

    def fileno(self) -> int:
        return self._file.fileno()

    def in_thread(self, work: Callable[[int], T]) -> Deferred[T]:
        """Call `work` with the descriptor in a thread; the descriptor stays open until `work` has ended.

        Cancelling the result does not stop it.
        """
        descriptor = self._file.fileno()
        watcher: Deferred[T] = Deferred()
        self._users += 1  # a thread that reads a closed descriptor may read another file, which got its number

        def done(result: T | Failure) -> None:
            self.release()
            if not watcher.called:
                watcher.callback(result)

        self._run(lambda: work(descriptor)).addBoth(done)
        return watcher

    def _close_unused(self) -> None:
        if self._retired and not self._users and not self._file.closed:
            self._file.close()
            self._closed(self)


class FileLease:
    """The use of a shared file by one response. A read after `close` fails; one that has begun is completed."""

    part_bytes = PART_BYTES

    def __init__(self, file: SharedFile) -> None:
        self._file = file
        self._open = True

    def close(self) -> None:
        if self._open:
            self._open = False
            self._file.release()

    def fileno(self) -> int:
        return self._file.fileno()

    def read_cached(self, first: int, length: int) -> bytes | None:
        """Return `length` bytes from offset `first`; None if the disk must be read for them."""
        at = first
        while at < first + length:
            cached = self._file.bytes_in_cache(at)
            if not cached:
                return None
            at += cached
        data = os.pread(self.fileno(), length, first)
        return data if len(data) == length else None

    def bytes_in_cache(self, at: int) -> int:
        """Return how many bytes from offset `at` can be sent now without waiting for the disk."""
        return self._file.bytes_in_cache(at)

    def read(self, first: int, length: int) -> Deferred[bytes]:
        """Return `length` bytes from offset `first`, or fewer where the file ends."""
        return self._file.in_thread(lambda descriptor: _read(descriptor, first, length))

    def read_ahead(self, at: int) -> Deferred[None]:
        """Load bytes from offset `at` into the page cache, if the file has some there."""
        return self._file.read_ahead(at)

    async def part(self, n: int) -> bytes:
        """Return part `n` of PART_BYTES; the last one is shorter."""
        return await self.read(n * PART_BYTES, PART_BYTES)


_BYTE: Final = bytearray(1)


def _is_in_cache(descriptor: int, at: int) -> bool:
    """Return whether a byte can be read without waiting; False also if that is not known or the file ends."""
    try:
        return os.preadv(descriptor, [_BYTE], at, os.RWF_NOWAIT) == 1
    except OSError as e:
        if e.errno in (EAGAIN, EOPNOTSUPP):
            return False
        raise


def _read(descriptor: int, first: int, length: int) -> bytes:
    """Read a part; the kernel loads the stretches around it afterwards, so that the next parts are in memory."""
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
