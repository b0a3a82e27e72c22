"""The spool of a body that is too large for memory: an unlinked file, written without blocking the reactor."""

from collections.abc import Callable
from contextlib import suppress
from errno import EIO
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Protocol, TypeVar, cast

from twisted.internet.defer import Deferred, execute, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database.errors import DatabaseFailing, DiskFull
from gamed.event_log import EventLog

_log = EventLog(Logger())
T = TypeVar("T")


class SpoolThreads(Protocol):
    """A function that runs long or blocking work outside the reactor's thread."""

    def __call__(self, work: Callable[[], T]) -> Deferred[T]: ...


PIECE_BYTES = 128 * 1024
"""The bytes that a thread writes at a time; the same amount may gather in memory meanwhile."""


def run_inline(work: Callable[[], T]) -> Deferred[T]:
    """Run the work at once in this thread."""
    return execute(work)


class SpooledBody:
    """A body in a file of a folder, written in pieces."""

    def __init__(self, folder: Path, disk: SpoolThreads = run_inline) -> None:
        self._folder = folder
        self._disk = disk
        self._held = bytearray()
        self._file: BinaryIO | None = None
        self._writing: Deferred[None] | None = None
        """Fires when the current piece is written; None while no piece is written."""
        self._failure: BaseException | None = None
        """The error of the disk."""
        self._discarded = False

    def write(self, data: bytes) -> Deferred[None] | None:
        """Add bytes; raise DiskFull. A returned Deferred fires when the disk has caught up; write no more before."""
        if self._failure is not None:
            raise self._disk_error()
        self._held += data
        if len(self._held) < PIECE_BYTES:
            return None
        if self._writing is None:
            self._write_piece()
        return self._piece_written() if self._writing is not None and len(self._held) >= PIECE_BYTES else None

    async def finish(self) -> BinaryIO:
        """Return the file of the complete body, which is not empty, until discard(); raise DiskFull."""
        while self._writing is not None or (self._held and not self._failure):
            if self._writing is None:
                self._write_piece()
            await self._piece_written()
        if self._failure is not None:
            raise self._disk_error()
        assert self._file is not None
        return self._file

    def discard(self) -> None:
        """Delete everything."""
        self._held.clear()
        self._discarded = True
        if self._writing is None and self._file is not None:
            self._disk(self._close)

    def _write_piece(self) -> None:
        data = bytes(self._held)
        self._held.clear()
        self._writing = Deferred()
        self._disk(partial(self._append, data)).addBoth(self._written)

    def _append(self, data: bytes) -> None:
        """Write a piece to the file; this blocks."""
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
        if self._discarded and self._file is not None:
            self._disk(self._close)
        if writing is not None:
            writing.callback(None)

    def _disk_error(self) -> DiskFull:
        """Return a new error for each caller: an instance that is raised twice collects the frames of both."""
        if _is_io_error(self._failure):
            error: DiskFull = DatabaseFailing(
                "The server's disk reports an I/O error; nothing was stored. Try again later."
            )
        else:
            error = DiskFull("The server's disk takes no more. Try again later; nothing was stored.")
        error.__cause__ = self._failure
        return error

    def _piece_written(self) -> Deferred[None]:
        if self._writing is None:
            return succeed(None)
        written: Deferred[None] = Deferred()
        self._writing.addBoth(lambda _: written.callback(None))
        return written

    def _close(self) -> None:
        """Close and so delete the file; this blocks, because freeing the blocks of a large file takes time."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # bytes that a full disk has not taken are not needed any more
                file.close()


def _is_io_error(error: BaseException | None) -> bool:
    """Return whether the disk itself failed; otherwise it is full or cannot be written."""
    return isinstance(error, OSError) and error.errno == EIO
