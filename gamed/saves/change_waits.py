"""Who waits for changes of which player's saves (PROTOCOL 4.2)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct, field

from gamed.long_poll import LongPollRegistry, Waiter
from gamed.saves.model import EMPTY_CURSOR, Cursor

MAX_WAITERS = 4
"""Of one player; the next one to come takes the oldest's place, which is answered."""


class ChangeSource(Protocol):
    """Where word of changes comes from that this process did not make itself."""

    def start(self, waits: "ChangeWaiters") -> None:
        """Somebody waits."""

    def stop(self) -> None:
        """Nobody waits any more."""


class _Waiter(Struct, eq=False):
    number: int
    key: bytes
    known: Cursor


class ChangeWaiters(Struct, eq=False):
    """Waiting requests by player. A session that ends is news too: who wakes shows the token again."""

    _registry: LongPollRegistry
    _source: ChangeSource
    _players: dict[str, list[_Waiter]] = field(default_factory=dict)

    @contextmanager
    def register(self, player_id: str, seen: Cursor) -> Iterator[Waiter]:
        """A place for a request that knows the shelf as it was at `seen`."""
        if not self._players:
            self._source.start(self)
        waiters = self._players.setdefault(player_id, [])
        place = _free_place(waiters)
        waiter = _Waiter(place, f"{player_id}/{place}".encode(), seen)
        waiters.append(waiter)
        try:
            with self._registry.open(waiter.key) as slot:
                yield slot
        finally:
            self._leave(player_id, waiter)

    def changed(self, player_id: str) -> None:
        """Something of this player's saves was changed."""
        for waiter in tuple(self._players.get(player_id, ())):
            self._registry.wake(waiter.key)

    def revoked(self, player_id: str) -> None:
        """A session of this player has ended."""
        self.changed(player_id)

    def all_changed(self) -> None:
        """Anything may have changed."""
        for player_id in tuple(self._players):
            self.changed(player_id)

    def compare(self, now: Mapping[str, Cursor]) -> None:
        """Where each shelf stands, of all that are waited for; a player without one is left out."""
        for player_id, waiters in tuple(self._players.items()):
            cursor = now.get(player_id, EMPTY_CURSOR)
            if any([waiter.known != cursor for waiter in waiters]):
                self.changed(player_id)

    @property
    def players(self) -> list[str]:
        """Whose saves are waited for."""
        return list(self._players)

    def _leave(self, player_id: str, waiter: _Waiter) -> None:
        waiters = self._players.get(player_id, [])
        if waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                del self._players[player_id]
                if not self._players:
                    self._source.stop()


def _free_place(waiters: list[_Waiter]) -> int:
    """The lowest that is free, else the oldest waiter's, who is out then."""
    if len(waiters) >= MAX_WAITERS:
        return waiters.pop(0).number
    return min(set(range(MAX_WAITERS)) - {waiter.number for waiter in waiters})
