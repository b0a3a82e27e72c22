"""An object's file, read by any number of answers at once."""

import os
from collections.abc import Callable
from errno import EAGAIN, EOPNOTSUPP
from io import FileIO
from typing import Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gamed.assets.errors import TooManyOpen
from gamed.assets.running import Run

T = TypeVar("T")
PART_BYTES: Final = 256 * 1024
PROBE_BYTES: Final = 128 * 1024
"""Linux reads ahead so much at a time: mostly all of such a stretch is in memory, or nothing."""
SECOND: Final = 1.0
REMEMBERED: Final = 1024


class OpenFile:
    """Its descriptor lives until it is retired, and as long as a lease does or a read in a thread."""

    def __init__(
        self, file: FileIO, run: Run, seconds: Callable[[], float], closed: Callable[["OpenFile"], None]
    ) -> None:
        self._file = file
        self._run = run
        self._seconds = seconds
        self._in_memory: dict[tuple[int, int], float] = {}
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

    def lease(self) -> "Lease":
        """TooManyOpen if it is closed already: others needed its place."""
        if self._file.closed:
            raise TooManyOpen
        self._users += 1
        return Lease(self)

    def in_memory(self, first: int, length: int) -> bool:
        """Whether sending these bytes will not wait for the disk, as far as a few looks tell; true for a second."""
        now = self._seconds()
        if self._in_memory.get((first, length), 0) > now:
            return True
        last = first + length - 1
        seen = all(_peek(self.fileno(), _ONE, at) == 1 for at in (*range(first, last, PROBE_BYTES), last))
        if seen:
            if len(self._in_memory) >= REMEMBERED:
                self._in_memory.clear()
            self._in_memory[first, length] = now + SECOND
        return seen

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
        """Call `work` with the descriptor, in a thread; until that ends the descriptor stays."""
        self._users += 1

        def left(result: T | Failure) -> T | Failure:
            self.leave()
            return result

        descriptor = self._file.fileno()
        return self._run(lambda: work(descriptor)).addBoth(left)

    def _close_if_over(self) -> None:
        if self._retired and not self._users and not self._file.closed:
            self._file.close()
            self._closed(self)


class Lease:
    """One answer's use of an open file. What is read after `close` fails, or is still read to its end."""

    part_bytes = PART_BYTES

    def __init__(self, file: OpenFile) -> None:
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
        buffer = bytearray(length)
        return bytes(buffer) if _peek(self.fileno(), buffer, first) == length else None

    def in_memory(self, first: int, length: int) -> bool:
        """Whether sending these bytes will not wait for the disk."""
        return self._file.in_memory(first, length)

    def read(self, first: int, length: int) -> Deferred[bytes]:
        """Less only where the file ends."""
        return self._file.away(lambda descriptor: _read(descriptor, first, length))

    def read_ahead(self, first: int, length: int) -> Deferred[None]:
        """Afterwards it is in memory."""
        return self._file.away(lambda descriptor: _read_ahead(descriptor, first, length))

    async def part(self, n: int) -> bytes:
        """For who reads it in parts."""
        return await self.read(n * PART_BYTES, PART_BYTES)


_ONE: Final = bytearray(1)


def _peek(descriptor: int, buffer: bytearray, at: int) -> int:
    """How many bytes are there without waiting; 0 also where the file system cannot tell."""
    try:
        return os.preadv(descriptor, [buffer], at, os.RWF_NOWAIT)
    except OSError as e:
        if e.errno in (EAGAIN, EOPNOTSUPP):
            return 0
        raise


def _read(descriptor: int, first: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and (data := os.pread(descriptor, length, first)):
        parts.append(data)
        first, length = first + len(data), length - len(data)
    return b"".join(parts)


def _read_ahead(descriptor: int, first: int, length: int) -> None:
    os.posix_fadvise(descriptor, first, length, os.POSIX_FADV_WILLNEED)
    buffer = bytearray(PART_BYTES)
    end = first + length
    while first < end and (size := os.preadv(descriptor, [buffer], first)):
        first += size
