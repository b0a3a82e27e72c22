"""Reads of large saves: how many a player may have open, how many copies lie on the disk, and for how long.

A read of any part checks the hash of the whole save, so that damaged bytes are never sent as good ones. A copy of them
keeps a slow client from the database; its number, and the time that a client may take, are bounded.

See docs/protocol.md: Saves; docs/internals/storage.md: Large saves.
"""

from collections.abc import Callable
from contextlib import suppress
from errno import EMFILE, ENFILE
from functools import partial
from os import pread
from typing import IO, Any, Final, Protocol, TypeVar

from msgspec import Struct, field
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as DeadlineError
from twisted.python.failure import Failure

from gamed.database.blob_rows import PART_BYTES as BLOB_PART_BYTES
from gamed.database.blobs import BlobStore
from gamed.database.errors import DiskFull
from gamed.http.conditional import ByteRange
from gamed.saves.commands import SavePartReader
from gamed.saves.limits import MAX_READS, DiskReservations, TooManyReads

T = TypeVar("T")
PART_BYTES: Final = 256 * 1024
SHORT_BYTES: Final = PART_BYTES
"""A part up to this size is kept in memory, at most two stored parts: it is sent at once, so it needs no copy."""
READ_SECONDS: Final = 3600
"""The longest time for one response, as for an export; a client can continue with a range."""
LEAST_RATE: Final = 16 * 1024
"""Bytes per second; a save that takes longer than READ_SECONDS with it may take that long."""


class FileThreads(Protocol):
    """A function that calls another one in a thread and returns its result or error."""

    def __call__(self, work: Callable[[], T]) -> Deferred[T]: ...


class FileParts:
    """An unlinked file that is read in threads, because a read may wait for the disk longer than the reactor may.

    It belongs to one response, which reads one part at a time and closes it.
    """

    part_bytes = PART_BYTES

    def __init__(self, file: IO[bytes], run: FileThreads) -> None:
        self._file, self._run = file, run
        self._reading = self._closed = False

    def part(self, n: int) -> Deferred[bytes]:
        """Return part `n`; the last one is shorter."""
        self._reading = True
        reading = self._run(partial(pread, self._file.fileno(), PART_BYTES, n * PART_BYTES))
        return reading.addBoth(self._was_read)

    def close(self) -> None:
        """Close the file, in a thread: this frees the blocks of a large file."""
        if not self._closed:
            self._closed = True
            if not self._reading:  # a thread that reads a closed descriptor may read another file, which got its number
                self._run(self._close)

    def _was_read(self, result: T) -> T:
        self._reading = False
        if self._closed:
            self._run(self._close)
        return result

    def _close(self) -> None:
        with suppress(OSError):
            self._file.close()


class MemoryParts(Struct, eq=False):
    """The stored parts that a short range needs, by number."""

    _parts: dict[int, bytes]
    part_bytes: int = BLOB_PART_BYTES

    async def part(self, n: int) -> bytes:
        return self._parts[n]

    def close(self) -> None:
        self._parts.clear()


class LargeReads(Struct, eq=False):
    """The large saves that clients of this process are reading."""

    _blobs: BlobStore
    _reservations: DiskReservations
    _run: FileThreads
    _clock: Any
    """The reactor; its seconds stay right when an operator sets the system's clock."""
    _most_copies: int
    """Copies that are open at a time, each with a descriptor; further saves are read where they are stored."""
    _copies: int = 0
    _players: dict[str, int] = field(default_factory=dict)

    async def open(self, player_id: str, blob_id: int, size: int, part: ByteRange | None) -> "OpenRead":
        """Check a blob of `size` bytes, and return a reader for a part of them, or for all; the caller closes it.

        Raise TooManyReads, BlobNotFound, BlobCorrupt or another DatabaseError.
        """
        under_way = self._players.get(player_id, 0)
        if under_way >= MAX_READS:
            raise TooManyReads
        self._players[player_id] = under_way + 1
        try:
            content: SavePartReader
            if part is not None and part.length <= SHORT_BYTES:
                wanted = range(part.first // BLOB_PART_BYTES, (part.first + part.length - 1) // BLOB_PART_BYTES + 1)
                content = MemoryParts(await self._blobs.read_some(blob_id, wanted))
            else:
                content = await self._copy(player_id, blob_id, size) or await self._blobs.read_parts(blob_id)
        except BaseException:
            self._end(player_id)
            raise
        seconds = max(READ_SECONDS, size // LEAST_RATE)
        return OpenRead(self, player_id, content, self._clock.seconds() + seconds)

    async def _copy(self, player_id: str, blob_id: int, size: int) -> FileParts | None:
        """Return a copy of a blob; None if the disk or the process has no room for it.

        If the client leaves while the thread writes the copy, it counts as a read and a copy until it is written.
        """
        if self._copies >= self._most_copies:
            return None
        try:
            self._reservations.reserve(size)
        except DiskFull:
            return None
        self._copies += 1
        copying = self._blobs.fetch(blob_id)

        def leave(_: object) -> None:
            if not self._blobs.queue.withdraw(copying):
                self._players[player_id] += 1  # open() counts one less at once

        copied: Deferred[IO[bytes]] = Deferred(leave)

        def finish(result: Any) -> None:
            self._reservations.bytes -= size  # what is written lowers the free space itself
            left, failed = copied.called, isinstance(result, Failure)
            if left or failed:
                self._copies -= 1
            if not left:
                copied.callback(result)
                return
            self._end(player_id)
            if not failed:
                FileParts(result, self._run).close()

        copying.addBoth(finish)
        try:
            return FileParts(await copied, self._run)
        except (DiskFull, OSError) as e:
            if isinstance(e, DiskFull) or e.errno in {EMFILE, ENFILE}:
                return None
            raise

    def _end(self, player_id: str) -> None:
        self._players[player_id] -= 1
        if not self._players[player_id]:
            del self._players[player_id]


class OpenRead(Struct, eq=False):
    """The content of one response, which counts as one of the player's reads until it is closed."""

    _reads: LargeReads
    _player_id: str
    _content: SavePartReader
    _ends: float
    """By the reactor's clock, in seconds."""
    _closed: bool = False

    @property
    def part_bytes(self) -> int:
        return self._content.part_bytes

    async def part(self, n: int) -> bytes:
        """Return part `n`; raise DeadlineError for a client that has taken too long."""
        if self._reads._clock.seconds() >= self._ends:
            raise DeadlineError
        return await self._content.part(n)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._content.close()
            if isinstance(self._content, FileParts):
                self._reads._copies -= 1
            self._reads._end(self._player_id)
