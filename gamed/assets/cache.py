"""Work that several wait for, done once.

The bytes of files by their hash: small ones in memory, large ones as open files (PROTOCOL 5).

What is kept is read anew after a minute: what the owner deleted is gone then.

Channels and releases as they are now, in memory; the folder is looked at again while somebody asks (PROTOCOL 5).
"""

import os
from collections.abc import Callable, Hashable, Mapping
from io import FileIO
from typing import Final, Generic, TypeVar

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.assets.channel import Channel, ChannelSnapshot, Release, catalogue, hex_digest
from gamed.assets.errors import (
    AssetsDamaged,
    AssetsError,
    AssetsUnreadable,
    ChannelNotFound,
    NotFound,
    ObjectMissing,
    ObjectNotFound,
    ReleaseNotFound,
    TooManyOpen,
)
from gamed.assets.manifest import parse_manifest
from gamed.assets.open_file import SharedFile, ThreadRunner
from gamed.assets.service import StoredObject
from gamed.assets.store import AssetStore
from gamed.event_log import EventLog

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Who comes while it is under way waits for the same; who gives up waiting does not stop it."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[Deferred[T]]] = {}

    def join(self, key: Hashable, begin: Callable[[], Deferred[T]]) -> Deferred[T]:
        """The result of `begin()`, which nobody else can cancel."""
        watcher: Deferred[T] = Deferred()
        if key in self._waiting:
            self._waiting[key].append(watcher)
        else:
            self._waiting[key] = [watcher]
            begin().addBoth(self._land, key)
        return watcher

    def _land(self, result: T | Failure, key: Hashable) -> None:
        for watcher in self._waiting.pop(key):
            if not watcher.called:
                watcher.callback(result)


SMALL_BYTES: Final = 64 * 1024
CACHE_BYTES: Final = 32 * 1024 * 1024
"""All small ones together."""
OVERHEAD_BYTES: Final = 512
"""Of each of them."""
OBJECT_TTL_SECONDS: Final = 60
KEPT_OPEN: Final = 64
"""Large ones that nobody reads just now."""
_log = EventLog(Logger())


class _MemoryObject(Struct, frozen=True):
    """Bytes that give their hash."""

    data: bytes
    modified_ms: int
    until: float

    @property
    def weight(self) -> int:
        """Bytes of memory."""
        return len(self.data) + OVERHEAD_BYTES

    def stored(self) -> StoredObject:
        return StoredObject(len(self.data), self.modified_ms, self.data)


class _FileObject(Struct, frozen=True):
    """A file, whose size was judged by nobody yet."""

    file: SharedFile
    until: float

    def stored(self) -> StoredObject:
        return StoredObject(self.file.size, self.file.modified_ms, self.file.lease())


class ObjectCache:
    """`run` does what blocks; `seconds` is a clock that never goes back; `most_open` files are open at once."""

    def __init__(self, store: AssetStore, run: ThreadRunner, seconds: Callable[[], float], most_open: int) -> None:
        self._store = store
        self._run = run
        self._seconds = seconds
        self._most_open = most_open
        self._small: dict[str, _MemoryObject] = {}
        self._large: dict[str, _FileObject] = {}
        """Both with the least recently used first."""
        self._weight = 0
        self.open: set[SharedFile] = set()
        self._loads: SingleFlight[_MemoryObject | _FileObject] = SingleFlight()

    def in_memory(self, sha256: str, size: int) -> bytes | None:
        """All bytes of a small one, if they need not be read and are as many."""
        small = self._small.get(sha256)
        if small is None or small.until <= self._seconds() or len(small.data) != size:
            return None
        self._small[sha256] = self._small.pop(sha256)
        return small.data

    async def get(self, sha256: str, size: int | None = None) -> StoredObject:
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

    def _hit(self, sha256: str) -> _MemoryObject | _FileObject | None:
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

    def _load(self, sha256: str) -> Deferred[_MemoryObject | _FileObject]:
        def landed(found: FileIO | tuple[bytes, int]) -> _MemoryObject | _FileObject:
            until = self._seconds() + OBJECT_TTL_SECONDS
            self._drop(sha256)
            if isinstance(found, tuple):
                return self._keep_small(sha256, _MemoryObject(*found, until))
            return self._keep_large(sha256, found, until)

        return self._run(lambda: _load_object(self._store, sha256)).addCallbacks(landed, _told)

    def _keep_small(self, sha256: str, small: _MemoryObject) -> _MemoryObject:
        self._small[sha256] = small
        self._weight += small.weight
        while self._weight > CACHE_BYTES:
            self._drop(next(iter(self._small)))
        return small

    def _keep_large(self, sha256: str, content: FileIO, until: float) -> _FileObject:
        """TooManyOpen where no file is idle that could be closed for it."""
        idle = sum(each.file.idle for each in self._large.values())
        self._close_idle(min(self._most_open - 1, len(self.open) - idle + KEPT_OPEN - 1))
        if len(self.open) >= self._most_open:
            content.close()
            raise TooManyOpen
        file = SharedFile(content, self._run, self._seconds, self.open.discard)
        self.open.add(file)
        large = self._large[sha256] = _FileObject(file, until)
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


def _load_object(store: AssetStore, sha256: str) -> FileIO | tuple[bytes, int]:
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


LOOK_SECONDS: Final = 0.5
"""A channel that was moved is seen within a second (PROTOCOL 5)."""
RELEASE_TTL_SECONDS: Final = 60
"""So long a release that no channel points at is served without a look at whether it is still there."""
KEPT_RELEASES: Final = 8


class ReleaseCache:
    """Blocking work is done by `run`; `seconds` is a clock that never goes back."""

    def __init__(self, store: AssetStore, run: ThreadRunner, seconds: Callable[[], float]) -> None:
        self._store = store
        self._run = run
        self._seconds = seconds
        self._now: ChannelSnapshot | None = None
        self._look_at = 0.0
        self._looks: SingleFlight[ChannelSnapshot] = SingleFlight()
        self._kept: dict[str, tuple[Release, float]] = {}
        self._loads: SingleFlight[Release] = SingleFlight()

    def at_hand(self) -> ChannelSnapshot | None:
        """All channels, until it is time to look at them again."""
        return self._now if self._seconds() < self._look_at else None

    async def catalogue(self) -> ChannelSnapshot:
        """All channels; AssetsUnreadable when they could never be read."""
        return self.at_hand() or await self._looks.join("", self._look)

    def kept(self, name: str) -> Release | None:
        """A release that need not be read again."""
        shown = self._now.releases.get(name) if self._now is not None else None
        if shown is not None:
            return shown
        release, until = self._kept.get(name, (None, 0.0))
        return release if self._seconds() < until else None

    async def release(self, name: str) -> Release:
        """Of a well-formed name. ReleaseNotFound, AssetsDamaged, AssetsUnreadable."""
        return self.kept(name) or await self.again(name)

    async def again(self, name: str) -> Release:
        """The same, as it is on disk now."""
        return await self._loads.join(name, lambda: self._load(name))

    def _look(self) -> Deferred[ChannelSnapshot]:
        before, began = self._now, self._seconds()
        known = {name: release for name, (release, _) in self._kept.items()}

        def landed(now: ChannelSnapshot) -> ChannelSnapshot:
            if before is None or now.damaged != before.damaged:
                for channel, reason in now.damaged.items():
                    _log.error("channel_unavailable", channel=channel, detail=reason)
            self._now, self._look_at = now, began + LOOK_SECONDS
            return now

        return self._run(lambda: _looked(self._store, before, known)).addCallback(landed)

    def _load(self, name: str) -> Deferred[Release]:
        def landed(release: Release) -> Release:
            self._kept.pop(name, None)
            self._kept[name] = release, self._seconds() + RELEASE_TTL_SECONDS
            while len(self._kept) > KEPT_RELEASES:
                self._kept.pop(next(iter(self._kept)))
            return release

        return self._run(lambda: _load_release(self._store, name)).addCallback(landed)


def _looked(store: AssetStore, before: ChannelSnapshot | None, known: Mapping[str, Release]) -> ChannelSnapshot:
    """In a thread. What cannot be read at all stays as it was seen last."""
    try:
        stamp = store.stamp()
        if before is not None and stamp == before.stamp and not before.damaged:
            return before
        return _read(store, before, known)
    except AssetsUnreadable as e:
        if before is None:
            raise
        _log.error("channels_unreadable", detail=e)
        return before


def _read(store: AssetStore, before: ChannelSnapshot | None, known: Mapping[str, Release]) -> ChannelSnapshot:
    stamp, modified_ms = store.stamp(), store.changed_ms()  # first: what changes after them the next look sees
    channels: dict[str, Channel] = {}
    damaged: dict[str, str] = {}
    for name in store.channels():
        try:
            pointer = store.pointer(name)
            shown = known.get(pointer.release) or (before.releases.get(pointer.release) if before else None)
            channels[name] = Channel(pointer, shown or _load_release(store, pointer.release))
        except ChannelNotFound:
            continue
        except TooManyOpen:
            raise
        except ReleaseNotFound as e:
            damaged[name] = f"it points at {e}, which is not there"
        except AssetsError as e:
            damaged[name] = str(e)
    return catalogue(stamp, modified_ms, channels, damaged)


def _load_release(store: AssetStore, name: str) -> Release:
    """In a thread."""
    text = store.manifest(name)
    return Release(name, text, hex_digest(text), parse_manifest(text))
