"""The session service over real databases, for the tests that send requests or call the service."""

from collections.abc import Awaitable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import AuthLimits, Config
from gamed.crypto import Keys, Secret
from gamed.database.connection import Connection
from gamed.database.databases import Databases
from gamed.database.queues import QUEUE_ITEMS
from gamed.ops.logging import TwistedAuditLog
from gamed.players import tables as player_tables
from gamed.players.model import State
from gamed.sessions import tables as session_tables
from gamed.sessions.build import build_sessions
from gamed.sessions.credentials import CredentialPair
from gamed.sessions.recent import RecentTokens
from gamed.sessions.service import FirstUses
from tests.sessions.fixtures import ANNA, NOW_MS, Counting, sign_in
from tests.support.components import service_context
from tests.support.databases import memory_databases

T = TypeVar("T")


class RecordedAuditLog:
    """An audit log that keeps its lines, as the owner reads them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.record = TwistedAuditLog(self.lines.append).record


class SessionServer:
    """The session service with its databases, and a clock that a test sets."""

    def __init__(self, databases: Databases, refreshes_per_minute: int = 0, recent: RecentTokens | None = None) -> None:
        """Use these databases; `recent` are the tokens of the service, by default those that it keeps itself."""
        self.databases = databases
        self.now_ms = NOW_MS
        self.revoked: list[str] = []
        """The players of whom a session ended."""
        self.audit = RecordedAuditLog()
        random = Counting()
        keys = Keys.of(Secret(bytes(32)), random)
        config = Config(limits=AuthLimits(refreshes_per_minute=refreshes_per_minute))
        self.context = service_context(keys, databases, self.audit, lambda: self.now_ms, config=config, random=random)
        self.uses = FirstUses()
        recent = RecentTokens() if recent is None else recent
        self.sessions = build_sessions(self.context, recent.forgetting(self.revoked.append), self.uses, recent)
        self.issuer = self.sessions.store.issuer

    def open(self, player_id: str = ANNA, client: str = "{}") -> Deferred[tuple[str, CredentialPair]]:
        """Create a session of a player, who is created if need be."""

        def transaction(connection: Connection) -> tuple[str, CredentialPair]:
            if player_tables.find_player(connection, player_id) is None:
                player_tables.create_player(connection, player_id, self.now_ms)
            return sign_in(connection, self.issuer, self.now_ms, player_id=player_id, client=client)

        return self.databases.auth.submit(transaction)

    def rows(self, query: str) -> Deferred[list[tuple[Any, ...]]]:
        return self.databases.reads.submit(lambda connection: connection.execute(query).fetchall())


def text(secret: Secret) -> str:
    return secret.reveal().decode()


class SessionTestCase(SynchronousTestCase):
    """One player with one session, over databases in memory."""

    def setUp(self) -> None:
        self.server = SessionServer(memory_databases(self))
        self.sessions = self.server.sessions
        self.session_id, self.pair = self.wait(self.server.open())

    def wait(self, work: Awaitable[T]) -> T:
        return self.successResultOf(ensureDeferred(work))  # type: ignore[arg-type]

    def refused(self, work: Awaitable[object], error: type[Exception]) -> None:
        self.failureResultOf(ensureDeferred(work), error)  # type: ignore[arg-type]

    def revoke(self) -> None:
        self.wait(
            self.server.databases.auth.submit(
                lambda connection: session_tables.revoke(connection, self.session_id, NOW_MS)
            )
        )

    def set_state(self, state: State) -> None:
        self.wait(
            self.server.databases.auth.submit(lambda connection: player_tables.set_state(connection, ANNA, state))
        )

    def used(self) -> list[tuple[int, int]]:
        return self.wait(self.server.rows("SELECT generation, used FROM session"))  # type: ignore[return-value]

    def fill(self) -> None:
        """Fill the write queue of auth.db, so that it rejects the next transaction."""
        self.server.databases.auth.pause()
        for _ in range(QUEUE_ITEMS):
            self.server.databases.auth.submit(lambda connection: None)
