"""The bytes of files by their hash: small ones in memory, large ones as open files (PROTOCOL 5).

What is kept is read anew after a minute: what the owner deleted is gone then.
"""

import os
from collections.abc import Callable
from io import FileIO
from typing import Final

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.assets.catalogue import hex_digest
from gamed.assets.delivery import Stored
from gamed.assets.errors import AssetsDamaged, NotFound, ObjectMissing, ObjectNotFound, TooManyOpen
from gamed.assets.flights import Flights
from gamed.assets.open_file import OpenFile
from gamed.assets.running import Run
from gamed.assets.store import AssetStore
from gamed.event_log import EventLog

SMALL_BYTES: Final = 64 * 1024
CACHE_BYTES: Final = 32 * 1024 * 1024
"""All small ones together."""
OVERHEAD_BYTES: Final = 512
"""Of each of them."""
KEPT_SECONDS: Final = 60
KEPT_OPEN: Final = 64
"""Large ones that nobody reads just now."""
_log = EventLog(Logger())


class _Small(Struct, frozen=True):
    """Bytes that give their hash."""

    data: bytes
    modified_ms: int
    until: float

    @property
    def weight(self) -> int:
        """Bytes of memory."""
        return len(self.data) + OVERHEAD_BYTES

    def stored(self) -> Stored:
        return Stored(len(self.data), self.modified_ms, self.data)


class _Large(Struct, frozen=True):
    """A file, whose size was judged by nobody yet."""

    file: OpenFile
    until: float

    def stored(self) -> Stored:
        return Stored(self.file.size, self.file.modified_ms, self.file.lease())


class Objects:
    """`run` does what blocks; `seconds` is a clock that never goes back; `most_open` files are open at once."""

    def __init__(self, store: AssetStore, run: Run, seconds: Callable[[], float], most_open: int) -> None:
        self._store = store
        self._run = run
        self._seconds = seconds
        self._most_open = most_open
        self._small: dict[str, _Small] = {}
        self._large: dict[str, _Large] = {}
        """Both with the least recently used first."""
        self._weight = 0
        self.open: set[OpenFile] = set()
        self._loads: Flights[_Small | _Large] = Flights()

    def in_memory(self, sha256: str, size: int) -> bytes | None:
        """All bytes of a small one, if they need not be read and are as many."""
        small = self._small.get(sha256)
        if small is None or small.until <= self._seconds() or len(small.data) != size:
            return None
        self._small[sha256] = self._small.pop(sha256)
        return small.data

    async def get(self, sha256: str, size: int | None = None) -> Stored:
        """Of the `size` that a manifest gives it. ObjectNotFound, AssetsDamaged, AssetsUnreadable."""
        try:
            kept = self._hit(sha256) or await self._loads.join(sha256, lambda: self._load(sha256))
        except ObjectNotFound:
            if size is None:
                raise
            raise _complaint(f"object {sha256} is missing", ObjectMissing) from None
        stored = kept.stored()
        if size is not None and stored.size != size:
            stored.close()
            self._drop(sha256)
            raise _complaint(f"object {sha256} has {stored.size} bytes instead of {size}")
        return stored

    def sweep(self) -> None:
        """Let go of what is old."""
        now = self._seconds()
        for kept in (self._small, self._large):
            for sha256 in [sha256 for sha256, each in kept.items() if each.until <= now]:
                self._drop(sha256)

    def close(self) -> None:
        """Keep nothing; what is being sent goes on."""
        for sha256 in (*self._small, *self._large):
            self._drop(sha256)

    def _hit(self, sha256: str) -> _Small | _Large | None:
        now = self._seconds()
        if small := self._small.pop(sha256, None):
            self._small[sha256] = small
            if small.until > now:
                return small
        elif large := self._large.pop(sha256, None):
            self._large[sha256] = large
            if large.until > now and large.file.current:
                return large
        self._drop(sha256)
        return None

    def _load(self, sha256: str) -> Deferred[_Small | _Large]:
        def landed(found: FileIO | tuple[bytes, int]) -> _Small | _Large:
            until = self._seconds() + KEPT_SECONDS
            self._drop(sha256)
            if isinstance(found, tuple):
                return self._keep_small(sha256, _Small(*found, until))
            return self._keep_large(sha256, found, until)

        return self._run(lambda: _loaded(self._store, sha256)).addCallbacks(landed, _told)

    def _keep_small(self, sha256: str, small: _Small) -> _Small:
        self._small[sha256] = small
        self._weight += small.weight
        while self._weight > CACHE_BYTES:
            self._drop(next(iter(self._small)))
        return small

    def _keep_large(self, sha256: str, content: FileIO, until: float) -> _Large:
        """TooManyOpen where no file is idle that could be closed for it."""
        idle = sum(each.file.idle for each in self._large.values())
        self._close_idle(min(self._most_open - 1, len(self.open) - idle + KEPT_OPEN - 1))
        if len(self.open) >= self._most_open:
            content.close()
            raise TooManyOpen
        file = OpenFile(content, self._run, self._seconds, self.open.discard)
        self.open.add(file)
        large = self._large[sha256] = _Large(file, until)
        return large

    def _close_idle(self, most: int) -> None:
        """So that at most so many are open, if enough of them are idle."""
        for sha256, large in tuple(self._large.items()):
            if len(self.open) <= most:
                return
            if large.file.idle:
                self._drop(sha256)

    def _drop(self, sha256: str) -> None:
        if small := self._small.pop(sha256, None):
            self._weight -= small.weight
        if large := self._large.pop(sha256, None):
            large.file.retire()


def _loaded(store: AssetStore, sha256: str) -> FileIO | tuple[bytes, int]:
    """In a thread: a large one's file; a small one's bytes, judged, and since when they are there."""
    file = store.open_object(sha256)
    try:
        status = os.fstat(file.fileno())
        if status.st_size > SMALL_BYTES:
            return file
        with file:
            data = file.readall() or b""
    except BaseException:
        file.close()
        raise
    if hex_digest(data) != sha256:
        raise AssetsDamaged(f"object {sha256} is not as it was written")
    return data, status.st_mtime_ns // 1_000_000


def _told(reason: Failure) -> Failure:
    """What is wrong with the store is told to its owner."""
    if not reason.check(NotFound, TooManyOpen):
        _log.error("asset_unreadable", detail=f"{reason.value}; see gamed assets verify")
    return reason


def _complaint(text: str, kind: type[AssetsDamaged] = AssetsDamaged) -> AssetsDamaged:
    _log.error("asset_unreadable", detail=f"{text}; see gamed assets verify")
    return kind(text)
