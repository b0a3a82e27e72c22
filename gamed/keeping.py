"""The wiring of saves: what stands between a request for a save and the bytes in state.db."""

from collections.abc import Callable, Sequence
from functools import partial
from secrets import token_bytes
from shutil import disk_usage
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from gamed.config.settings import Settings
from gamed.crypto import Indexer
from gamed.http.app import RouteGroup
from gamed.instants import Now
from gamed.ops.waiters import Waiters
from gamed.saves.commits import Commits
from gamed.saves.disk import Announced
from gamed.saves.erasure import Erasure
from gamed.saves.exports import Exports
from gamed.saves.player_waits import PlayerWaits
from gamed.saves.shelf import Shelf
from gamed.saves.write_rate import WriteRate
from gamed.sessions.keeper import Sessions
from gamed.storage.state.news import StoreNews
from gamed.storage.state.stored_exports import StoredExport
from gamed.storage.state.stored_saves import StoredSaves
from gamed.storage.state.stored_shelves import StoredShelves
from gamed.storage.state.sweeper import Sweeper
from gamed.storage.stores import Stores
from gamed.web.commits import CommitRoutes
from gamed.web.detached import Detached
from gamed.web.export import ExportRoutes
from gamed.web.incoming import Intake
from gamed.web.saves import SaveRoutes
from gamed.web.upload import SaveGate


class Keeping:
    """Everything about saves; `waits` also hears of sessions that end."""

    def __init__(self, reactor: Any, settings: Settings, stores: Stores, now_ms: Now) -> None:
        self._reactor = reactor
        self._settings = settings
        self._stores = stores
        self._now_ms = now_ms
        self._limits = settings.game.saves
        self._waiters = Waiters(reactor)
        self.waits = PlayerWaits(self._waiters, StoreNews(stores))
        self._exports: Exports | None = None
        self._sweeper = Sweeper(stores, self._limits, now_ms, token_bytes, self.waits.changed)

    def rooms(self, indexer: Indexer, sessions: Sessions, detached: Detached) -> Sequence[RouteGroup]:
        limits, folder = self._limits, self._settings.data / "tmp"
        announced = Announced(self._free_bytes, limits.min_free_bytes)
        store = StoredSaves(self._stores, indexer, limits)
        shelf = Shelf(store, sessions, limits, self._now_ms, token_bytes, self.waits, WriteRate.of(limits))
        intake = Intake(limits, folder, announced, self._disk)
        commits = Commits(
            shelf,
            store,
            limits,
            self._settings.game.staged_seconds,
            self._now_ms,
            token_bytes,
            self.waits,
            WriteRate.of_staging(limits),
        )
        shelves = StoredShelves(self._stores, token_bytes)
        erasure = Erasure(shelf, shelves, self._now_ms, token_bytes, self.waits)
        self._exports = Exports(shelf, partial(StoredExport, self._stores, folder), announced)
        return (
            SaveRoutes(shelf, detached, SaveGate(shelf, limits, intake), erasure),
            CommitRoutes(commits, limits, detached, intake),
            ExportRoutes(self._exports, detached, self._reactor),
        )

    def _free_bytes(self) -> int:
        return disk_usage(self._settings.data).free

    def _disk(self, work: Callable[[], None]) -> Deferred[None]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work)

    @property
    def waiting(self) -> int:
        """Requests that wait for changes."""
        return len(self._waiters)

    @property
    def exporting(self) -> int:
        """Exports that are made or sent."""
        return 0 if self._exports is None else self._exports.running

    async def sweep(self) -> None:
        await self._sweeper.sweep()

    def close(self) -> None:
        """Whoever waits is answered; exports end."""
        self._waiters.close()
        if self._exports is not None:
            self._exports.close()
