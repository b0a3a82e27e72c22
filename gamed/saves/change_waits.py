"""This module registers the clients that wait for changes of a player's saves, and notifies them (PROTOCOL 4.2).

While clients wait, it watches for changes that other processes make. The service's own appended blobs count as changes
of state.db, so that it compares cursors before it wakes clients.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from msgspec import Struct, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from gamed.database.connection import AUTH, STATE
from gamed.database.databases import Databases
from gamed.database.sqlite.error_mapping import attributed
from gamed.event_log import EventLog
from gamed.long_poll import LongPollRegistry, Waiter
from gamed.saves import tables
from gamed.saves.model import EMPTY_CURSOR, Cursor

_log = EventLog(Logger())
MAX_WAITERS = 4
"""Waiting requests of one player; one more supersedes the oldest, which is answered."""


class _Waiter(Struct, eq=False):
    number: int
    """0 to MAX_WAITERS - 1; a waiter with the same number supersedes this one in the registry."""
    key: bytes
    known: Cursor
    """The cursor that the client knows."""


class ChangeWaiters(Struct, eq=False):
    """The waiting requests of each player.

    The end of a session notifies them, too: each request authenticates again when it wakes.
    """

    _registry: LongPollRegistry
    _databases: Databases
    _players: dict[str, list[_Waiter]] = field(default_factory=dict)

    @contextmanager
    def register(self, player_id: str, known: Cursor) -> Iterator[Waiter]:
        """Register a request whose client knows the saves at this cursor, until the context ends."""
        if not self._players:
            self._databases.watch(self.notify_all, AUTH)
            self._databases.watch(self._state_changed, STATE)
        waiters = self._players.setdefault(player_id, [])
        if len(waiters) >= MAX_WAITERS:
            number = waiters.pop(0).number
        else:
            number = min(set(range(MAX_WAITERS)) - {waiter.number for waiter in waiters})
        waiter = _Waiter(number, f"{player_id}/{number}".encode(), known)
        waiters.append(waiter)
        try:
            with self._registry.open(waiter.key) as opened:
                yield opened
        finally:
            self._remove(player_id, waiter)

    def notify(self, player_id: str) -> None:
        """Wake all requests of this player, because a save changed."""
        for waiter in tuple(self._players.get(player_id, ())):
            self._registry.wake(waiter.key)

    def revoked(self, player_id: str) -> None:
        """Wake all requests of this player, because one of their sessions ended."""
        self.notify(player_id)

    def notify_all(self) -> None:
        """Wake all requests, which authenticate again: a session may have ended, or a player may be blocked."""
        for player_id in tuple(self._players):
            self.notify(player_id)

    def _state_changed(self) -> None:
        comparing = Deferred.fromCoroutine(self._compare())
        comparing.addErrback(lambda reason: _log.failure("external_change_check_failed", reason))

    async def _compare(self) -> None:
        """Wake the requests that do not know the current cursor of their player."""
        read = partial(tables.cursors, players=list(self._players))
        cursors = await self._databases.reads.submit(attributed(STATE, read))
        for player_id, waiters in tuple(self._players.items()):
            cursor = cursors.get(player_id, EMPTY_CURSOR)
            if any([waiter.known != cursor for waiter in waiters]):
                self.notify(player_id)

    def _remove(self, player_id: str, waiter: _Waiter) -> None:
        waiters = self._players.get(player_id, [])
        if waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                del self._players[player_id]
                if not self._players:
                    self._databases.unwatch(self.notify_all)
                    self._databases.unwatch(self._state_changed)
