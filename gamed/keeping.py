"""The wiring of saves: what stands between a request for a save and the bytes in state.db."""

from collections.abc import Callable
from secrets import token_bytes
from shutil import disk_usage
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from gamed.config.settings import Settings
from gamed.crypto import Indexer
from gamed.instants import Now
from gamed.ops.waiters import Waiters
from gamed.saves.player_waits import PlayerWaits
from gamed.saves.shelf import Shelf
from gamed.saves.write_rate import WriteRate
from gamed.sessions.keeper import Sessions
from gamed.storage.state.news import StoreNews
from gamed.storage.state.stored_saves import StoredSaves
from gamed.storage.state.sweeper import Sweeper
from gamed.storage.stores import Stores
from gamed.web.detached import Detached
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
        self._sweeper = Sweeper(stores, self._limits, now_ms, token_bytes, self.waits.changed)

    def room(self, indexer: Indexer, sessions: Sessions, detached: Detached) -> SaveRoutes:
        limits, data = self._limits, self._settings.data
        store = StoredSaves(self._stores, indexer, limits)
        shelf = Shelf(store, sessions, limits, self._now_ms, token_bytes, self.waits, WriteRate.of(limits))
        gate = SaveGate(shelf, limits, data / "tmp", lambda: disk_usage(data).free, self._disk)
        return SaveRoutes(shelf, detached, gate)

    def _disk(self, work: Callable[[], None]) -> Deferred[None]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work)

    async def sweep(self) -> None:
        await self._sweeper.sweep()

    def close(self) -> None:
        """Whoever waits is answered."""
        self._waiters.close()
