"""A body too large for memory, on its way to an unlinked file; the disk may take its time, the reactor has none."""

from collections.abc import Callable
from contextlib import suppress
from errno import EIO
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from twisted.internet.defer import Deferred, execute, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database.errors import DatabaseFailing, DiskFull
from gamed.event_log import EventLog

_log = EventLog(Logger())
SpoolThreads = Callable[[Callable[[], None]], Deferred[None]]
"""Runs what may wait for the disk, outside the reactor's thread."""
PIECE_BYTES = 128 * 1024
"""Written at once; as much again may gather meanwhile."""


def run_inline(work: Callable[[], None]) -> Deferred[None]:
    """A disk that never waits."""
    return execute(work)


class SpooledBody:
    """Bytes in memory, until there are too many of them; then a file takes them, one piece after another."""

    def __init__(self, folder: Path, memory_bytes: int, disk: SpoolThreads = run_inline) -> None:
        """Keep up to `memory_bytes` in memory; the file for more is made in `folder`."""
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._disk = disk
        self._held = bytearray()
        self._size = 0
        self._file: BinaryIO | None = None
        self._writing: Deferred[None] | None = None
        """The piece that is on its way."""
        self._failure: BaseException | None = None
        """The reason why the disk took no more."""
        self._dropped = False

    def add(self, data: bytes) -> Deferred[None] | None:
        """StoreFull when the disk took no more; a Deferred when it lags behind, to be waited for."""
        if self._failure is not None:
            raise self._full()
        self._held += data
        self._size += len(data)
        if self._size <= self._memory_bytes or len(self._held) < PIECE_BYTES:
            return None
        if self._writing is None:
            self._spill()
        return self._piece() if self._writing is not None and len(self._held) >= PIECE_BYTES else None

    async def whole(self) -> bytes | BinaryIO:
        """Everything, once it is all here: in memory or as a file; StoreFull. It ends with drop()."""
        while self._writing is not None or (self._held and self._size > self._memory_bytes and not self._failure):
            if self._writing is None:
                self._spill()
            await self._piece()
        if self._failure is not None:
            raise self._full()
        return bytes(self._held) if self._file is None else self._file

    def drop(self) -> None:
        """Let go of everything."""
        self._held.clear()
        self._dropped = True
        if self._writing is None and self._file is not None:
            self._disk(self._close)

    def _spill(self) -> None:
        data = bytes(self._held)
        self._held.clear()
        self._writing = Deferred()
        self._disk(partial(self._append, data)).addBoth(self._written)

    def _append(self, data: bytes) -> None:
        """In the disk's thread, one piece at a time."""
        if self._file is None:
            self._file = cast(BinaryIO, TemporaryFile(dir=self._folder))  # noqa: SIM115  _close() closes it
        self._file.write(data)
        self._file.flush()

    def _written(self, result: object) -> None:
        if isinstance(result, Failure):
            self._failure = result.value
            if _is_io_error(result.value):
                _log.error("disk_io_error", queue="uploads", code="EIO")
        writing, self._writing = self._writing, None
        if self._dropped and self._file is not None:
            self._disk(self._close)
        if writing is not None:
            writing.callback(None)

    def _full(self) -> DiskFull:
        """Return a new error for each caller: an instance that is raised twice collects the frames of both."""
        if _is_io_error(self._failure):
            error: DiskFull = DatabaseFailing(
                "The server's disk reports an I/O error; nothing was stored. Try again later."
            )
        else:
            error = DiskFull("The server's disk takes no more. Try again later; nothing was stored.")
        error.__cause__ = self._failure
        return error

    def _piece(self) -> Deferred[None]:
        """Fires when the piece that is being written is."""
        if self._writing is None:
            return succeed(None)
        written: Deferred[None] = Deferred()
        self._writing.addBoth(lambda _: written.callback(None))
        return written

    def _close(self) -> None:
        """In the disk's thread: to free the blocks of a large file takes time too."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # what a full disk did not take is not wanted any more
                file.close()


def _is_io_error(error: BaseException | None) -> bool:
    """Return whether the disk itself failed; otherwise it is full or cannot be written."""
    return isinstance(error, OSError) and error.errno == EIO
