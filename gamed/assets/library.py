"""Channels and releases as they are now, in memory; the folder is looked at again while somebody asks (PROTOCOL 5)."""

from collections.abc import Callable, Mapping
from typing import Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from gamed.assets.catalogue import Catalogue, Channel, Release, catalogue, hex_digest
from gamed.assets.errors import (
    AssetsError,
    AssetsUnreadable,
    ChannelNotFound,
    ReleaseNotFound,
    TooManyOpen,
)
from gamed.assets.flights import Flights
from gamed.assets.release import parse_manifest
from gamed.assets.running import Run
from gamed.assets.store import AssetStore
from gamed.event_log import EventLog

LOOK_SECONDS: Final = 0.5
"""A channel that was moved is seen within a second (PROTOCOL 5)."""
KEPT_SECONDS: Final = 60
"""So long a release that no channel points at is served without a look at whether it is still there."""
KEPT_RELEASES: Final = 8
_log = EventLog(Logger())


class Library:
    """Blocking work is done by `run`; `seconds` is a clock that never goes back."""

    def __init__(self, store: AssetStore, run: Run, seconds: Callable[[], float]) -> None:
        self._store = store
        self._run = run
        self._seconds = seconds
        self._now: Catalogue | None = None
        self._look_at = 0.0
        self._looks: Flights[Catalogue] = Flights()
        self._kept: dict[str, tuple[Release, float]] = {}
        self._loads: Flights[Release] = Flights()

    def at_hand(self) -> Catalogue | None:
        """All channels, until it is time to look at them again."""
        return self._now if self._seconds() < self._look_at else None

    async def catalogue(self) -> Catalogue:
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

    def _look(self) -> Deferred[Catalogue]:
        before, began = self._now, self._seconds()
        known = {name: release for name, (release, _) in self._kept.items()}

        def landed(now: Catalogue) -> Catalogue:
            if before is None or now.damaged != before.damaged:
                for channel, reason in now.damaged.items():
                    _log.error("channel_unavailable", channel=channel, detail=reason)
            self._now, self._look_at = now, began + LOOK_SECONDS
            return now

        return self._run(lambda: _looked(self._store, before, known)).addCallback(landed)

    def _load(self, name: str) -> Deferred[Release]:
        def landed(release: Release) -> Release:
            self._kept.pop(name, None)
            self._kept[name] = release, self._seconds() + KEPT_SECONDS
            while len(self._kept) > KEPT_RELEASES:
                self._kept.pop(next(iter(self._kept)))
            return release

        return self._run(lambda: _loaded(self._store, name)).addCallback(landed)


def _looked(store: AssetStore, before: Catalogue | None, known: Mapping[str, Release]) -> Catalogue:
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


def _read(store: AssetStore, before: Catalogue | None, known: Mapping[str, Release]) -> Catalogue:
    stamp, modified_ms = store.stamp(), store.changed_ms()  # first: what changes after them the next look sees
    channels: dict[str, Channel] = {}
    damaged: dict[str, str] = {}
    for name in store.channels():
        try:
            pointer = store.pointer(name)
            shown = known.get(pointer.release) or (before.releases.get(pointer.release) if before else None)
            channels[name] = Channel(pointer, shown or _loaded(store, pointer.release))
        except ChannelNotFound:
            continue
        except TooManyOpen:
            raise
        except ReleaseNotFound as e:
            damaged[name] = f"it points at {e}, which is not there"
        except AssetsError as e:
            damaged[name] = str(e)
    return catalogue(stamp, modified_ms, channels, damaged)


def _loaded(store: AssetStore, name: str) -> Release:
    """In a thread."""
    text = store.manifest(name)
    return Release(name, text, hex_digest(text), parse_manifest(text))
