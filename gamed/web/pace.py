"""How slowly and how wastefully a body may come."""

from msgspec import Struct

WINDOW_SECONDS = 10
WINDOW_BYTES = 10 * 1024
"""A body that has not ended brings at least this in each window: 1 KiB a second."""
OVERHEAD_BYTES = 64 * 1024
OVERHEAD_FACTOR = 3
"""Chunk sizes, extensions and trailers may cost 64 KiB and thrice the body; one-byte chunks cost five times."""


class Pace(Struct):
    """Counts one body. `upload_seconds` bounds all of it."""

    _upload_seconds: int
    _windows: int = 0
    _in_window: int = 0
    _body: int = 0
    _wire: int = 0

    def on_wire(self, size: int) -> None:
        self._wire += size

    def decoded(self, size: int) -> None:
        self._body += size
        self._in_window += size

    @property
    def wasteful(self) -> bool:
        return self._wire - self._body > OVERHEAD_BYTES + OVERHEAD_FACTOR * self._body

    def window_over(self) -> bool:
        """A window has passed and the body has not ended: True if it was too slow, or took too long in all."""
        slow = self._in_window < WINDOW_BYTES
        self._windows += 1
        self._in_window = 0
        return slow or self._windows * WINDOW_SECONDS >= self._upload_seconds
