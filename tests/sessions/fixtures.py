"""These fixtures provide an auth.db in memory with two players, a clock that a test sets, and repeatable randomness."""

from collections.abc import Callable
from itertools import count

from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Keys, Secret, TokenType, generate_token
from gamed.database.connection import AUTH, Connection
from gamed.players import tables as player_tables
from gamed.sessions import store as session_store
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import (
    AuthenticatedSession,
    CredentialIssuer,
    CredentialPair,
    Refreshed,
    RefreshRejected,
    SessionPolicy,
    generate_pair,
    new_session_id,
)
from tests.support.stores import open_database

NOW_MS = 1_800_000_000_000
SECOND_MS = 1000
DAY_MS = 24 * 3600 * 1000
POLICY = SessionPolicy(access_seconds=900, refresh_seconds=30 * 24 * 3600)
ANNA = "ply_" + "A" * 22
BERT = "ply_" + "B" * 22
STRANGER = generate_token(TokenType.REFRESH_CREDENTIAL, bytes(32))
STRANGE_TOKEN = generate_token(TokenType.ACCESS_TOKEN, bytes(32))


class Counting:
    """A random source for tests: every value is different, and every run is the same."""

    def __init__(self) -> None:
        self._drawn = count(1)

    def __call__(self, size: int) -> bytes:
        return next(self._drawn).to_bytes(size, "big")


class AuthDatabase:
    """An open auth.db, and the arguments of its transactions."""

    def __init__(self, policy: SessionPolicy = POLICY) -> None:
        self.random = Counting()
        self.issuer = CredentialIssuer(keys=Keys.of(Secret(bytes(32)), self.random), policy=policy, random=self.random)
        self.keys = self.issuer.keys
        self.now_ms = NOW_MS
        self.connection = open_database(AUTH)
        self.connection.clocks_ms = 0  # one machine, also on PostgreSQL; tests.players.test_clocks has several
        for player_id in (ANNA, BERT):
            player_tables.create_player(self.connection, player_id, self.now_ms)

    def sign_in(
        self, player_id: str = ANNA, login_id: str | None = None, client: str = "{}"
    ) -> tuple[str, CredentialPair]:
        """Open a session; return its id and its first pair."""
        return sign_in(self.connection, self.issuer, self.now_ms, player_id=player_id, login_id=login_id, client=client)

    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    def rows(self, table: str) -> list[tuple[object, ...]]:
        return self.connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()

    def everything(self) -> list[list[tuple[object, ...]]]:
        """Return the rows of every table that a transaction could change."""
        tables = ("player", "session", "credential", "login")
        return [self.rows(table) for table in tables]


def sign_in(
    connection: Connection,
    issuer: CredentialIssuer,
    now_ms: int,
    *,
    player_id: str = ANNA,
    login_id: str | None = None,
    client: str = "{}",
) -> tuple[str, CredentialPair]:
    """Open a session of an existing player, in the caller's transaction."""
    session_id = new_session_id(issuer.random)
    pair = generate_pair(issuer.random, now_ms, issuer.policy, now_ms)
    session_tables.open_session(
        connection,
        issuer.keys,
        session_id=session_id,
        player_id=player_id,
        provider="local",
        client=client,
        login_id=login_id,
        pair=pair,
        now_ms=now_ms,
    )
    return session_id, pair


class TransactionTestCase(SynchronousTestCase):
    """A player with one session, and the transactions as methods."""

    policy = POLICY

    def setUp(self) -> None:
        self.auth = AuthDatabase(self.policy)
        self.addCleanup(self.auth.connection.close)
        self.session_id, self.first = self.auth.sign_in()

    def refresh(self, credential: Secret) -> Refreshed | RefreshRejected:
        return session_store.refresh(self.auth.connection, self.auth.issuer, credential, self.auth.now_ms)

    def rotated(self, credential: Secret) -> CredentialPair:
        outcome = self.refresh(credential)
        assert isinstance(outcome, Refreshed), outcome
        return outcome.pair

    def authenticate(self, token: Secret) -> AuthenticatedSession:
        return session_tables.authenticate(self.auth.connection, self.auth.keys.indexer, token, self.auth.now_ms)

    def use(self, token: Secret) -> AuthenticatedSession:
        """Authenticate a request and mark its first use, as the service does."""
        caller = self.authenticate(token)
        if caller.first_use_of is not None:
            session_tables.mark_used(self.auth.connection, caller.session_id, caller.first_use_of, self.auth.now_ms)
        return caller

    def assert_same(self, pair: CredentialPair, other: CredentialPair) -> None:
        self.assertTrue(pair.access.matches(other.access))
        self.assertTrue(pair.refresh.matches(other.refresh))

    def assert_changes_nothing(self, act: Callable[[], object]) -> None:
        before = self.auth.everything()
        act()
        self.assertEqual(self.auth.everything(), before)
