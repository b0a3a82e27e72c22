"""This module registers the clients that wait for changes of a player's saves, and notifies them (PROTOCOL 4.2)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct, field

from gamed.long_poll import LongPollRegistry, Waiter
from gamed.saves.model import EMPTY_CURSOR, Cursor

MAX_WAITERS = 4
"""Waiting requests of one player; one more supersedes the oldest, which is answered."""


class ChangeSource(Protocol):
    """A source of changes that other processes made; it notifies the waiters while there are any."""

    def start(self, waiters: "ChangeWaiters") -> None:
        """Begin to watch, because the first client waits."""

    def stop(self) -> None:
        """End the watch, because no client waits."""


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
    _source: ChangeSource
    _players: dict[str, list[_Waiter]] = field(default_factory=dict)

    @contextmanager
    def register(self, player_id: str, known: Cursor) -> Iterator[Waiter]:
        """Register a request whose client knows the saves at this cursor, until the context ends."""
        if not self._players:
            self._source.start(self)
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
        """Wake all requests of all players."""
        for player_id in tuple(self._players):
            self.notify(player_id)

    def notify_changed(self, cursors: Mapping[str, Cursor]) -> None:
        """Wake the requests that do not know the current cursor of their player; `cursors` omits empty players."""
        for player_id, waiters in tuple(self._players.items()):
            cursor = cursors.get(player_id, EMPTY_CURSOR)
            if any([waiter.known != cursor for waiter in waiters]):
                self.notify(player_id)

    @property
    def players(self) -> list[str]:
        """Return the players who have waiting requests."""
        return list(self._players)

    def _remove(self, player_id: str, waiter: _Waiter) -> None:
        waiters = self._players.get(player_id, [])
        if waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                del self._players[player_id]
                if not self._players:
                    self._source.stop()
