"""The requests that wait for changes of a player's saves (docs/protocol.md: Saves)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec import Struct

from gamed.database.changes import ExternalChangeNotifier, Topic
from gamed.database.connection import STATE, Connection, attributed
from gamed.database.databases import Databases
from gamed.long_poll import LongPollRegistry, Waiter
from gamed.saves import tables
from gamed.saves.model import EMPTY_CURSOR, Cursor
from gamed.sessions.tables import living_sessions

MAX_WAITERS = 4
"""Waiting requests of one player; one more supersedes the oldest, which is answered."""


class KnownSaves(Struct, frozen=True):
    """The state that a waiting client knows: its session is valid, and its saves have this cursor."""

    player_id: str
    session_id: str
    cursor: Cursor


class _NumberedKey(Struct, eq=False):
    number: int
    """0 to MAX_WAITERS - 1; a waiter with the same number supersedes this one in the registry."""
    key: bytes


class ChangeWaiters:
    """The waiting requests of each player.

    The end of a session notifies them, too: each request authenticates again when it wakes.
    """

    def __init__(self, registry: LongPollRegistry, databases: Databases) -> None:
        self._registry = registry
        self._players: dict[str, list[_NumberedKey]] = {}
        find_outdated = {Topic.SESSIONS: _find_ended, Topic.SAVES: _find_changed}
        ExternalChangeNotifier(databases.changes, databases.reads, registry, find_outdated)

    @contextmanager
    def register(self, player_id: str) -> Iterator[Waiter]:
        """Register a request until the context ends; the caller sets what it knows after each read."""
        entries = self._players.setdefault(player_id, [])
        if len(entries) >= MAX_WAITERS:
            # A game that lost its connection asks again: the oldest request is the one that no client waits for.
            number = entries.pop(0).number
        else:
            number = min(set(range(MAX_WAITERS)) - {entry.number for entry in entries})
        entry = _NumberedKey(number, f"{player_id}/{number}".encode())
        entries.append(entry)
        try:
            with self._registry.open(entry.key) as waiter:
                yield waiter
        finally:
            if entry in entries:  # not the oldest one, which a later request took out of the list
                entries.remove(entry)
            # Another request may have begun a new list after this one was empty.
            if not entries and self._players.get(player_id) is entries:
                del self._players[player_id]

    def notify(self, player_id: str) -> None:
        """Wake all requests of this player: a save changed, or one of their sessions ended."""
        for entry in tuple(self._players.get(player_id, ())):
            self._registry.wake(entry.key)


def _find_ended(connection: Connection, waiters: Sequence[Waiter]) -> list[Waiter]:
    """Return the waiters whose session has ended or whose player may not use it."""
    living = living_sessions(connection, [waiter.known.session_id for waiter in waiters if waiter.known])
    return [waiter for waiter in waiters if not waiter.known or waiter.known.session_id not in living]


def _find_changed(connection: Connection, waiters: Sequence[Waiter]) -> list[Waiter]:
    players = [waiter.known.player_id for waiter in waiters if waiter.known]
    cursors = attributed(STATE, partial(tables.cursors, players=players))(connection)
    return [
        waiter
        for waiter in waiters
        if not waiter.known or waiter.known.cursor != cursors.get(waiter.known.player_id, EMPTY_CURSOR)
    ]
