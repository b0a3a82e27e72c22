"""The caches of channels, releases and objects, so that few requests wait for the disk.

The channels are read again after half a second, releases and objects after a minute: a file that the operator deletes
is not served longer. Requests that need the same file at the same time share one read.

Nothing notifies a cache of a change, because `gamed assets publish` is another process that shares only the folder:
the times below alone bound how long a server may serve what was deleted.
"""

import os
from collections.abc import Callable, Hashable, Mapping
from io import FileIO
from typing import Final, Generic, TypeVar

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

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
from gamed.assets.open_file import FileLease, SharedFile, ThreadRunner
from gamed.assets.snapshot import Channel, ChannelSnapshot, Release, Stamp, hex_digest, make_snapshot
from gamed.assets.store import AssetStore
from gamed.event_log import EventLog
from gamed.structs import redacts

E = TypeVar("E", bound=BaseException | None)
T = TypeVar("T")
SNAPSHOT_TTL_SECONDS: Final = 0.5
"""Half of the second within which players see a moved channel (docs/protocol.md: Assets); the rest is for the reading
itself."""
RELEASE_TTL_SECONDS: Final = 60
"""How long a release that no channel points at is served without a check that it still exists."""
CACHED_RELEASES: Final = 8
"""Beside those of channels. A manifest may have 32 MiB, and one of 10,000 files takes 70 ms to parse."""
OBJECT_TTL_SECONDS: Final = 60
SMALL_BYTES: Final = 64 * 1024
"""Objects up to this size are cached in memory, larger ones as open files, which the kernel caches.

Hashing this much takes 0.05 ms, a call in a thread 0.2 ms: a small object costs less to check than to fetch.
"""
CACHE_BYTES: Final = 32 * 1024 * 1024
"""All objects in memory together."""
OVERHEAD_BYTES: Final = 512
"""The cost of an object in memory besides its bytes: without it a million empty files would count as nothing."""
IDLE_FILES: Final = 64
"""Open files that no response uses just now."""
_log = EventLog(Logger())


class ReleaseCache:
    """The channels and releases of a store. `run` does the blocking work; `seconds` is a monotonic clock."""

    def __init__(self, store: AssetStore, run: ThreadRunner, seconds: Callable[[], float]) -> None:
        self._store = store
        self._run = run
        self._seconds = seconds
        self._snapshot: ChannelSnapshot | None = None
        self._snapshot_expires = 0.0
        self._snapshot_reads: SingleFlight[ChannelSnapshot] = SingleFlight()
        self._releases: dict[str, tuple[Release, float]] = {}
        """With the time when each expires; the oldest first."""
        self._release_reads: SingleFlight[Release] = SingleFlight()

    def cached_snapshot(self) -> ChannelSnapshot | None:
        """Return all channels; None if they must be read again."""
        return self._snapshot if self._seconds() < self._snapshot_expires else None

    async def snapshot(self) -> ChannelSnapshot:
        """Return all channels; raise AssetsUnreadable if they could never be read."""
        return self.cached_snapshot() or await self._snapshot_reads.join("", self._read_snapshot)

    def cached_release(self, name: str) -> Release | None:
        """Return a release; None if it must be read."""
        if (now := self.cached_snapshot()) is not None and (release := now.releases.get(name)) is not None:
            return release
        cached, expires = self._releases.get(name, (None, 0.0))
        return cached if self._seconds() < expires else None

    async def release(self, name: str) -> Release:
        """Return a release of a well-formed id; raise ReleaseNotFound, AssetsDamaged or AssetsUnreadable."""
        now = self._snapshot
        if now is not None and name in now.releases:
            # It costs less than to parse the manifest, and serves on if the disk fails. It is what was just read: on a
            # slow disk that has expired by now.
            now = await self.snapshot()
            if (found := now.releases.get(name)) is not None:
                return found
        return self.cached_release(name) or await self.reload(name)

    async def reload(self, name: str) -> Release:
        """Read a release from disk; raise what release() raises."""
        return await self._release_reads.join(name, lambda: self._read_release(name))

    def _read_snapshot(self) -> Deferred[ChannelSnapshot]:
        # The half second counts from before the reading: a change during a slow read is seen by the next one.
        before, began = self._snapshot, self._seconds()
        known = {name: release for name, (release, _) in self._releases.items()}

        def done(now: ChannelSnapshot) -> ChannelSnapshot:
            if before is None or now.damaged != before.damaged:
                for channel, reason in now.damaged.items():
                    _log.error("channel_unavailable", channel=channel, detail=reason)
            self._snapshot, self._snapshot_expires = now, began + SNAPSHOT_TTL_SECONDS
            return now

        return self._run(lambda: _refresh_snapshot(self._store, before, known)).addCallback(done)

    def _read_release(self, name: str) -> Deferred[Release]:
        def done(release: Release) -> Release:
            self._releases.pop(name, None)  # so that it is the newest again: a dict keeps the place of an old key
            self._releases[name] = release, self._seconds() + RELEASE_TTL_SECONDS
            while len(self._releases) > CACHED_RELEASES:
                self._releases.pop(next(iter(self._releases)))
            return release

        return self._run(lambda: _load_release(self._store, name)).addCallback(done)


def _refresh_snapshot(
    store: AssetStore, before: ChannelSnapshot | None, known: Mapping[str, Release]
) -> ChannelSnapshot:
    """Return `before` if no channel was changed since, or if the channels cannot be read now; else a new snapshot.

    This blocks. Raise AssetsUnreadable if there is no snapshot from before.
    """
    try:
        stamp = store.stamp()
        # A damaged channel is read again although its pointer did not change: a release that is repaired under the
        # same name changes no pointer.
        if before is not None and stamp == before.stamp and not before.damaged:
            return before
        modified_ms = store.changed_ms()  # before the pointers: the next refresh sees a change that happens meanwhile
        return _load_snapshot(store, stamp, modified_ms, {**(before.releases if before else {}), **known})
    except AssetsUnreadable as e:
        if before is None:
            raise
        _log.error("channels_unreadable", detail=e)
        return before


def _load_snapshot(
    store: AssetStore, stamp: Stamp, modified_ms: int | None, known: Mapping[str, Release]
) -> ChannelSnapshot:
    """Read the pointer of each channel, and its release unless that is known."""
    channels: dict[str, Channel] = {}
    damaged: dict[str, str] = {}
    for name in store.channels():
        try:
            pointer = store.pointer(name)
            channels[name] = Channel(pointer, known.get(pointer.release) or _load_release(store, pointer.release))
        except ChannelNotFound:
            continue
        except TooManyOpen:
            raise  # all channels would be "damaged" for a moment; the snapshot from before serves on
        except ReleaseNotFound as e:
            damaged[name] = f"it points at {e}, which is not there"
        except AssetsError as e:
            damaged[name] = str(e)
    return make_snapshot(stamp, modified_ms, channels, damaged)


def _load_release(store: AssetStore, name: str) -> Release:
    """Read a release; this blocks."""
    text = store.manifest(name)
    return Release(name, text, hex_digest(text), parse_manifest(text))


class ObjectCache:
    """The objects of a store, of which at most `most_open` files are open at once.

    `run` does the blocking work; `seconds` is a monotonic clock.
    """

    def __init__(self, store: AssetStore, run: ThreadRunner, seconds: Callable[[], float], most_open: int) -> None:
        self._store = store
        self._run = run
        self._seconds = seconds
        self._most_open = most_open
        self._small: dict[str, _MemoryObject] = {}
        self._large: dict[str, _FileObject] = {}
        """Both with the least recently used first."""
        self._memory_bytes = 0
        self.open: set[SharedFile] = set()
        self._reads: SingleFlight[_MemoryObject | _FileObject] = SingleFlight()

    def in_memory(self, sha256: str, size: int) -> bytes | None:
        """Return an object of this size; None if the disk must be read for it."""
        small = self._small.get(sha256)
        if small is None or small.expires <= self._seconds() or len(small.data) != size:
            return None
        self._small[sha256] = self._small.pop(sha256)
        return small.data

    async def get(self, sha256: str, size: int | None = None) -> "StoredObject":
        """Return an object; `size` is that of the manifest.

        Raise ObjectNotFound, AssetsDamaged, AssetsUnreadable or TooManyOpen.
        """
        try:
            cached = self._cached(sha256) or await self._reads.join(sha256, lambda: self._read(sha256))
        except ObjectNotFound:
            if size is None:
                raise
            raise _log_unreadable(ObjectMissing(f"object {sha256} is missing")) from None
        stored = cached.stored()
        if size is not None and stored.size != size:
            stored.close()
            self._discard(sha256)  # a repair replaces the file, which the cache would not notice for a minute
            raise _log_unreadable(AssetsDamaged(f"object {sha256} has {stored.size} bytes instead of {size}"))
        return stored

    def discard_expired(self) -> None:
        """Discard what has expired: called now and then, as an object that no request names would stay open."""
        now = self._seconds()
        for cached in (self._small, self._large):
            for sha256 in [sha256 for sha256, each in cached.items() if each.expires <= now]:
                self._discard(sha256)

    def close(self) -> None:
        """Discard all objects; a response that is being sent keeps its file."""
        for sha256 in (*self._small, *self._large):
            self._discard(sha256)

    def _cached(self, sha256: str) -> "_MemoryObject | _FileObject | None":
        now = self._seconds()
        if small := self._small.pop(sha256, None):
            self._small[sha256] = small
            if small.expires > now:
                return small
        elif large := self._large.pop(sha256, None):
            self._large[sha256] = large
            if large.expires > now and large.file.is_current:
                return large
        self._discard(sha256)
        return None

    def _read(self, sha256: str) -> "Deferred[_MemoryObject | _FileObject]":
        def done(found: FileIO | tuple[bytes, int]) -> _MemoryObject | _FileObject:
            expires = self._seconds() + OBJECT_TTL_SECONDS
            self._discard(sha256)
            if not isinstance(found, tuple):
                return self._keep_large(sha256, found, expires)
            small = self._small[sha256] = _MemoryObject(*found, expires)
            self._memory_bytes += small.memory_bytes
            while self._memory_bytes > CACHE_BYTES:
                self._discard(next(iter(self._small)))
            return small

        def failed(reason: Failure) -> Failure:
            if not reason.check(NotFound, TooManyOpen):
                _log_unreadable(reason.value)
            return reason

        return self._run(lambda: _load_object(self._store, sha256)).addCallbacks(done, failed)

    def _keep_large(self, sha256: str, content: FileIO, expires: float) -> "_FileObject":
        """Keep an open file; raise TooManyOpen if there is no idle one that could be closed for it."""
        # Idle files are bounded apart from those in use: a slow client must not push out the files of all others. One
        # place is left for the file that is open already.
        self._close_idle(place=1)
        if len(self.open) >= self._most_open:
            content.close()
            raise TooManyOpen
        file = SharedFile(content, self._run, self._seconds, closed=self.open.discard, unused=self._close_idle)
        self.open.add(file)
        kept = self._large[sha256] = _FileObject(file, expires)
        return kept

    def _close_idle(self, place: int = 0) -> None:
        """Close the least recently used idle files until no more are open than may be, with `place` for others."""
        if len(self._large) + place <= IDLE_FILES and len(self.open) + place <= self._most_open:
            return
        idle = sum(each.file.is_idle for each in self._large.values())
        most = min(self._most_open, len(self.open) - idle + IDLE_FILES) - place
        for sha256, large in tuple(self._large.items()):
            if len(self.open) > most and large.file.is_idle:
                self._discard(sha256)

    def _discard(self, sha256: str) -> None:
        if small := self._small.pop(sha256, None):
            self._memory_bytes -= small.memory_bytes
        if large := self._large.pop(sha256, None):
            large.file.retire()


@redacts("content")
class StoredObject(Struct, frozen=True, eq=False):
    """The bytes with one hash, stored since `modified_ms`."""

    size: int
    modified_ms: int
    content: bytes | FileLease

    def close(self) -> None:
        if not isinstance(self.content, bytes):
            self.content.close()


class _MemoryObject(Struct, frozen=True):
    """A small object, whose bytes were hashed."""

    data: bytes
    modified_ms: int
    expires: float

    @property
    def memory_bytes(self) -> int:
        return len(self.data) + OVERHEAD_BYTES

    def stored(self) -> StoredObject:
        return StoredObject(len(self.data), self.modified_ms, self.data)


class _FileObject(Struct, frozen=True):
    """A large object as an open file, whose size is not compared with a manifest yet."""

    file: SharedFile
    expires: float

    def stored(self) -> StoredObject:
        return StoredObject(self.file.size, self.file.modified_ms, self.file.lease())


def _load_object(store: AssetStore, sha256: str) -> FileIO | tuple[bytes, int]:
    """Return the open file of a large object, or the bytes of a small one and its last change in epoch milliseconds.

    This blocks. Raise AssetsDamaged if the bytes of a small object do not have its hash.
    """
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
    # Only small objects are hashed: they are read anyway, and their bytes in memory serve a minute of requests. A large
    # one would delay its first byte by the time to read it all; `gamed assets verify` and clients check those.
    if hex_digest(data) != sha256:
        raise AssetsDamaged(f"object {sha256} is not as it was written")
    return data, status.st_mtime_ns // 1_000_000


def _log_unreadable(error: E) -> E:
    _log.error("asset_unreadable", detail=f"{error}; see gamed assets verify")
    return error


class SingleFlight(Generic[T]):
    """Work that several callers wait for and that is done once; a caller that is cancelled does not stop it."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[Deferred[T]]] = {}

    def join(self, key: Hashable, begin: Callable[[], Deferred[T]]) -> Deferred[T]:
        """Return the result of `begin()`, which is called unless work with this key is under way."""
        watcher: Deferred[T] = Deferred()
        if key in self._waiting:
            self._waiting[key].append(watcher)
        else:
            self._waiting[key] = [watcher]
            begin().addBoth(self._done, key)
        return watcher

    def _done(self, result: T | Failure, key: Hashable) -> None:
        for watcher in self._waiting.pop(key):  # before the callbacks, which may ask for the same key again
            if not watcher.called:
                watcher.callback(result)
