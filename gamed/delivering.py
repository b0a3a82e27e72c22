"""The wiring of assets: what stands between a request under /assets/ and the files in the data folder."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from gamed.assets.library import Library
from gamed.assets.objects import Objects
from gamed.assets.reading import AssetReader
from gamed.assets.store import FOLDER, AssetStore
from gamed.config.game import AssetAccess
from gamed.config.settings import Settings
from gamed.http.client_address import spare_files
from gamed.instants import Now
from gamed.sessions.keeper import Sessions
from gamed.web.assets import AssetRoutes

T = TypeVar("T")
THREADS: Final = 4
"""A disk that is slow to read keeps these busy, and nobody who saves."""


class Delivering:
    """Everything about assets."""

    def __init__(self, reactor: Any, settings: Settings, now_ms: Now) -> None:
        self._reactor = reactor
        self._pool = ThreadPool(0, THREADS, "assets")
        self._settings = settings
        files = spare_files(settings.config.limits.connections)
        store = AssetStore(settings.data / FOLDER)
        self._objects = Objects(store, self._run, reactor.seconds, files)
        self._reader = AssetReader(Library(store, self._run, reactor.seconds), self._objects, now_ms())

    def room(self, sessions: Sessions) -> AssetRoutes:
        players = self._settings.game.assets.access is AssetAccess.PLAYERS
        return AssetRoutes(self._reader, sessions if players else None)

    def open(self) -> None:
        """Not before the service has become a daemon: threads stay behind in a fork."""
        self._pool.start()

    async def sweep(self) -> None:
        self._objects.sweep()

    def close(self) -> None:
        self._objects.close()
        if self._pool.started:
            self._pool.stop()

    def _run(self, work: Callable[[], T]) -> Deferred[T]:
        return deferToThreadPool(self._reactor, self._pool, work)
