"""The keeper of sessions over real stores, for tests above the rows."""

from collections.abc import Awaitable
from sqlite3 import Connection
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Keys, Secret
from gamed.database.databases import Databases
from gamed.database.queues import QUEUE_ITEMS
from gamed.ops.logging import TwistedAuditLog
from gamed.players import tables as player_tables
from gamed.players.tables import State
from gamed.rate_limit import UNLIMITED, RateLimit
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import CredentialIssuer, CredentialPair
from gamed.sessions.service import FirstUses, SessionService
from gamed.sessions.store import SqliteSessionStore
from tests.sessions.fixtures import ANNA, NOW_MS, POLICY, Counting, sign_in
from tests.support.databases import memory_databases

T = TypeVar("T")


class Waits:
    """Whoever waits for something of a player's, as far as it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def revoked(self, player_id: str) -> None:
        self.told.append(player_id)


class Heard:
    """The audit, line by line as the owner reads it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.record = TwistedAuditLog(self.lines.append).record


class House:
    """The keeper on its stores, and a clock that stands still."""

    def __init__(self, stores: Databases, refreshes: RateLimit = UNLIMITED) -> None:
        self.stores = stores
        self.now_ms = NOW_MS
        self.waits = Waits()
        self.audit = Heard()
        random = Counting()
        self.issuer = CredentialIssuer(Keys.of(Secret(bytes(32)), random), POLICY, random)
        stored = SqliteSessionStore(stores.reads, stores.auth, self.issuer, refreshes)
        self.uses = FirstUses()
        self.sessions = SessionService(stored, self.waits, lambda: self.now_ms, self.audit, self.uses)

    def open(self, player_id: str = ANNA) -> Deferred[tuple[str, CredentialPair]]:
        """A new player with a session."""

        def unit(connection: Connection) -> tuple[str, CredentialPair]:
            if player_tables.find_player(connection, player_id) is None:
                player_tables.create_player(connection, player_id, self.now_ms)
            return sign_in(connection, self.issuer, self.now_ms, player_id=player_id)

        return self.stores.auth.submit(unit)

    def rows(self, query: str) -> Deferred[list[tuple[Any, ...]]]:
        return self.stores.reads.submit(lambda connection: connection.execute(query).fetchall())


def text(secret: Secret) -> str:
    return secret.reveal().decode()


class HouseCase(SynchronousTestCase):
    """One player with one session, over stores in memory."""

    def setUp(self) -> None:
        self.house = House(memory_databases())
        self.keeper = self.house.sessions
        self.session_id, self.pair = self.wait(self.house.open())

    def wait(self, work: Awaitable[T]) -> T:
        return self.successResultOf(ensureDeferred(work))  # type: ignore[arg-type]

    def refused(self, work: Awaitable[object], error: type[Exception]) -> None:
        self.failureResultOf(ensureDeferred(work), error)  # type: ignore[arg-type]

    def revoke(self) -> None:
        self.wait(
            self.house.stores.auth.submit(lambda connection: session_tables.revoke(connection, self.session_id, NOW_MS))
        )

    def set_state(self, state: State) -> None:
        self.wait(self.house.stores.auth.submit(lambda connection: player_tables.set_state(connection, ANNA, state)))

    def used(self) -> list[tuple[int, int]]:
        return self.wait(self.house.rows("SELECT generation, used FROM session"))  # type: ignore[return-value]

    def fill(self) -> None:
        """Make the write lane of auth.db refuse."""
        self.house.stores.auth.pause()
        for _ in range(QUEUE_ITEMS):
            self.house.stores.auth.submit(lambda connection: None)
