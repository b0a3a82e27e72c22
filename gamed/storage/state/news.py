"""Changes that another process made, told to those who wait for them (PROTOCOL 4.2)."""

from functools import partial

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from gamed.event_log import EventLog
from gamed.saves.player_waits import PlayerWaits
from gamed.storage.errors import attributed
from gamed.storage.files import AUTH, STATE
from gamed.storage.state import shelves
from gamed.storage.stores import Stores

_log = EventLog(Logger())


class StoreNews(Struct, eq=False):
    """gamed.saves.player_waits.News. The service's own appended blobs look like somebody else's change of state.db,
    so that shelves are compared before anyone is woken."""

    _stores: Stores
    _waits: PlayerWaits | None = None

    def start(self, waits: PlayerWaits) -> None:
        self._waits = waits
        self._stores.watch(self._auth_changed, AUTH)
        self._stores.watch(self._state_changed, STATE)

    def stop(self) -> None:
        self._waits = None
        self._stores.unwatch(self._auth_changed)
        self._stores.unwatch(self._state_changed)

    def _auth_changed(self) -> None:
        """A session may have ended, or a player be blocked: each one shows the token again."""
        if self._waits is not None:
            self._waits.all_changed()

    def _state_changed(self) -> None:
        looking = Deferred.fromCoroutine(self._compare())
        looking.addErrback(lambda reason: _log.failure("external_change_check_failed", reason))

    async def _compare(self) -> None:
        if self._waits is None:
            return
        players = self._waits.players
        cursors = await self._stores.reads.submit(attributed(STATE, partial(shelves.cursors, players=players)))
        if self._waits is not None:
            self._waits.compare(cursors)
