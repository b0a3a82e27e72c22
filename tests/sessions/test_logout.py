"""A logout ends the sessions of its scope (docs/protocol.md: Sessions)."""

from gamed.account import store as account_store
from gamed.crypto import Secret
from gamed.players import tables as player_tables
from gamed.sessions import store as session_store
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import LogoutScope, RefreshRejected
from gamed.sessions.errors import (
    RefreshInvalid,
    RefreshReused,
    SessionError,
    TokenExpired,
    TokenInvalid,
)
from tests.sessions.fixtures import ANNA, BERT, DAY_MS, STRANGE_TOKEN, STRANGER, TransactionTestCase


class LogoutTests(TransactionTestCase):
    """The transactions of a logout."""

    def setUp(self) -> None:
        super().setUp()
        self.other_id, self.other = self.auth.sign_in()
        self.bert_id, _ = self.auth.sign_in(BERT)

    def this(self, access: Secret | None, refresh: Secret | None) -> frozenset[str]:
        return session_store.log_out_this(self.auth.connection, self.auth.issuer, (access, refresh), self.auth.now_ms)

    def more(
        self, scope: LogoutScope, access: Secret | None, refresh: Secret | None
    ) -> frozenset[str] | RefreshRejected:
        shown = access, refresh
        return session_store.log_out_more(self.auth.connection, self.auth.issuer, shown, scope, self.auth.now_ms)

    def live(self) -> set[str]:
        query = "SELECT session_id FROM session WHERE revoked_ms IS NULL"
        return {session_id for (session_id,) in self.auth.connection.execute(query)}

    def test_this(self) -> None:
        """The session of an access token or a refresh credential ends, and no other; a repetition changes nothing."""
        self.assertEqual(self.this(self.first.access, None), {ANNA})
        self.assertEqual(self.live(), {self.other_id, self.bert_id})
        self.assertEqual(self.this(self.first.access, None), frozenset())
        self.assertEqual(self.this(None, self.other.refresh), {ANNA})
        self.assertEqual(self.live(), {self.bert_id})

    def test_device_is_forgotten(self) -> None:
        """Nothing is left of the device of a session that ends, in whichever way; the others keep theirs."""
        kept = '{"name": "MyGame", "device_name": "Anna\'s phone"}'
        ended, pair = self.auth.sign_in(client=kept)
        self.auth.sign_in(client=kept)
        stays, _ = self.auth.sign_in(client=kept)
        self.this(None, pair.refresh)
        self.assertEqual(self.devices(), {ended: "{}"} | dict.fromkeys(self.devices().keys() - {ended}, kept))
        session_tables.revoke_all(self.auth.connection, ANNA, self.auth.now_ms, keep=stays)
        self.assertEqual([each for each in self.devices().values() if each != "{}"], [kept])
        account_store.sign_out_all(self.auth.connection, self.auth.now_ms)
        self.assertEqual(set(self.devices().values()), {"{}"})

    def devices(self) -> dict[str, str]:
        """Return the device of each of Anna's sessions that began with one, as it is stored."""
        query = "SELECT session_id, client FROM session WHERE player_id = :anna AND created_ms = :now_ms"
        values = {"anna": ANNA, "now_ms": self.auth.now_ms}
        begun = {self.session_id, self.other_id}
        rows = self.auth.connection.execute(query, values).fetchall()
        return {session_id: client for session_id, client in rows if session_id not in begun}

    def test_this_with_what_ran_out(self) -> None:
        """An expired access token, an exchanged credential and a blocked player can log out, too."""
        self.auth.wait(DAY_MS)
        self.assertEqual(self.this(self.first.access, self.first.refresh), {ANNA})
        self.rotated(self.rotated(self.other.refresh).refresh)
        player_tables.set_state(self.auth.connection, ANNA, "blocked")
        self.assertEqual(self.this(None, self.other.refresh), {ANNA})
        self.assertEqual(self.live(), {self.bert_id})

    def test_this_of_nobody(self) -> None:
        """Unknown credentials change nothing."""
        self.assert_changes_nothing(lambda: self.assertEqual(self.this(STRANGE_TOKEN, STRANGER), frozenset()))

    def test_others(self) -> None:
        """All sessions but the requesting one end, which stays usable and counts as used."""
        for access, refresh in ((self.first.access, None), (None, self.first.refresh)):
            self.other_id, self.other = self.auth.sign_in()
            self.assertEqual(self.more(LogoutScope.OTHERS, access, refresh), {ANNA})
            self.assertEqual(self.live(), {self.session_id, self.bert_id})
            self.assertIsNone(self.authenticate(self.first.access).first_use_of)

    def test_others_when_alone(self) -> None:
        """The result is empty if there was nothing to end, so that no long poll is notified."""
        self.more(LogoutScope.OTHERS, self.first.access, None)
        self.assertEqual(self.more(LogoutScope.OTHERS, self.first.access, None), frozenset())

    def test_all(self) -> None:
        """Every session of the player ends, the requesting one too, and no other player's."""
        self.assertEqual(self.more(LogoutScope.ALL, self.first.access, None), {ANNA})
        self.assertEqual(self.live(), {self.bert_id})

    def test_all_beside_an_expired_token(self) -> None:
        """A valid refresh credential suffices beside an expired access token."""
        self.auth.wait(DAY_MS)
        self.assertEqual(self.more(LogoutScope.ALL, self.first.access, self.first.refresh), {ANNA})
        self.assertEqual(self.live(), {self.bert_id})

    def test_more_needs_a_live_credential(self) -> None:
        """Invalid credentials end no session, and the result says why."""
        old = self.first.refresh
        self.auth.wait(DAY_MS)
        refusals: list[tuple[Secret | None, Secret | None, type[SessionError]]] = [
            (self.first.access, None, TokenExpired),
            (STRANGE_TOKEN, None, TokenInvalid),
            (None, STRANGER, RefreshInvalid),
            (self.first.access, STRANGER, RefreshInvalid),
        ]
        for access, refresh, error in refusals:
            for scope in (LogoutScope.OTHERS, LogoutScope.ALL):
                self.assert_changes_nothing(
                    lambda access=access, refresh=refresh, error=error, scope=scope: self.assertEqual(
                        self.more(scope, access, refresh), RefreshRejected(error)
                    )
                )
        self.rotated(self.rotated(old).refresh)
        self.assertEqual(self.more(LogoutScope.ALL, None, old), RefreshRejected(RefreshReused, ANNA, self.session_id))
        self.assertEqual(self.live(), {self.other_id, self.bert_id})
