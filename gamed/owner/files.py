"""The game files on the owner's page: channels and releases, read and changed in a thread, as a disk may block."""

from collections.abc import Callable
from errno import EACCES, EISDIR, EPERM, EROFS
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet import defer
from twisted.internet.defer import Deferred

from gamed.assets import channel_store
from gamed.assets import verify as asset_verify
from gamed.assets.channel_store import ChannelUpdate
from gamed.assets.errors import AssetsBusy, AssetsError, AssetsReadOnly, ChannelMoved
from gamed.assets.manifest import is_channel, is_release
from gamed.assets.snapshot import Overview
from gamed.assets.store import FOLDER, AssetStore
from gamed.owner.looks import SharedLooks
from gamed.owner.model import FilesChanged
from gamed.timestamps import Now

FOLDER_SECONDS = 5
"""How long a page waits for the folder."""
UNWRITABLE = {EACCES, EISDIR, EPERM, EROFS}
"""Errors that the owner can end by rights or a mount; all others are a disk that fails, or a defect."""
InThread = Callable[..., Deferred[Any]]


class OwnerFiles:
    """The assets folder; what changes it are the functions of `gamed assets`."""

    def __init__(self, clock: Any, data: Path, keep: int, now_ms: Now, in_thread: InThread) -> None:
        self._store = AssetStore(data / FOLDER)
        self._keep = keep
        self._now_ms = now_ms
        self._in_thread = in_thread
        self._looks = SharedLooks(clock, FOLDER_SECONDS)
        self._changing = False

    async def overview(self) -> Overview | None:
        """Return channels, releases and sizes; None if the folder cannot be read, or does not respond."""
        look = partial(asset_verify.overview, self._store, self._keep, self._now_ms())
        try:
            found = await self._looks.join("files", lambda: self._in_thread(look))
        except (AssetsError, OSError, defer.TimeoutError):
            return None
        return found if isinstance(found, Overview) else None

    async def point(self, channel: str, release: str, before: str) -> bool:
        """Point a channel at a release, as `assets set-channel`; return whether it pointed elsewhere.

        Raise FilesChanged if it does not point at the release that the page showed, or AssetsError.
        """
        if not (is_channel(channel) and is_release(release) and is_release(before)):
            raise FilesChanged
        moved = await self._change(partial(self._point, channel, release, before))
        return moved.release != moved.before

    async def roll_back(self, channel: str, before: str) -> bool:
        """Point a channel at the release before, as `assets rollback`; raise FilesChanged or AssetsError."""
        if not (is_channel(channel) and is_release(before)):
            raise FilesChanged
        await self._change(partial(self._roll_back, channel, before))
        return True

    async def _change(self, work: Callable[[], ChannelUpdate]) -> ChannelUpdate:
        """Do the work in a thread, if none does such work: a disk that does not respond holds one of them.

        Raise AssetsReadOnly if the folder cannot be written, as behind a link that the unit does not know.
        """
        if self._changing:
            raise AssetsBusy("Another change of the game files has not ended yet. Try again in a moment.")
        self._changing = True
        try:
            update: ChannelUpdate = await self._in_thread(work)
        except OSError as e:
            if e.errno not in UNWRITABLE:
                raise
            raise AssetsReadOnly(e.strerror) from None
        finally:
            self._changing = False
        return update

    def _point(self, channel: str, release: str, before: str) -> ChannelUpdate:
        try:
            return channel_store.set_channel(self._store, channel, release, self._keep, self._now_ms(), expected=before)
        except ChannelMoved:
            raise FilesChanged from None

    def _roll_back(self, channel: str, before: str) -> ChannelUpdate:
        try:
            return channel_store.rollback(self._store, channel, self._keep, self._now_ms(), expected=before)
        except ChannelMoved:
            raise FilesChanged from None
