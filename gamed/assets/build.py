"""Builds the released assets, and their route."""

from functools import partial
from typing import Final

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from gamed.assets.cache import ObjectCache, ReleaseCache
from gamed.assets.routes import AssetRoutes
from gamed.assets.service import AssetService
from gamed.assets.store import FOLDER, AssetStore, close_to_group
from gamed.config.game import AssetAccess
from gamed.context import ServiceContext
from gamed.event_log import EventLog
from gamed.open_files import spare_files
from gamed.sessions.service import SessionService

_log = EventLog(Logger())
ASSET_THREADS: Final = 4
"""The assets have threads of their own, so that a slow disk under them does not delay a save."""


class AssetComponents:
    """The released assets under /assets/ (docs/protocol.md: Assets)."""

    def __init__(self, context: ServiceContext, sessions: SessionService) -> None:
        reactor, settings = context.reactor, context.settings
        self._pool = ThreadPool(0, ASSET_THREADS, "assets")
        run = partial(deferToThreadPool, reactor, self._pool)
        store = AssetStore(settings.data / FOLDER)
        self._objects = ObjectCache(store, run, reactor.seconds, spare_files(settings.config.limits.connections))
        assets = AssetService(
            releases=ReleaseCache(store, run, reactor.seconds), objects=self._objects, started_ms=context.now_ms()
        )
        players_only = settings.game.assets.access is AssetAccess.PLAYERS
        # A proxy that reads the files itself, as by `gamed nginx --assets`, cannot ask who a player is.
        if players_only and close_to_group(settings.data / FOLDER):
            _log.warn("assets_closed")
        self.routes = AssetRoutes(assets=assets, sessions=sessions if players_only else None)

    def open(self) -> None:
        """Start the threads, after the service became a daemon: a fork does not copy threads."""
        self._pool.start()

    async def clean_up(self) -> None:
        """Close cached files that no request has used for a while."""
        self._objects.discard_expired()

    def close(self) -> None:
        self._objects.close()
        if self._pool.started:
            self._pool.stop()
