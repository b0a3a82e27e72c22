"""Which sessions a sign-out ends (PROTOCOL 3.7)."""

from gamed.crypto import Secret
from gamed.players import tables as player_tables
from gamed.sessions import refresh_store
from gamed.sessions.credentials import LogoutScope
from gamed.sessions.errors import (
    RefreshInvalid,
    RefreshReused,
    SessionError,
    TokenExpired,
    TokenInvalid,
)
from gamed.sessions.rotation import RefreshRejected
from tests.sessions.fixtures import ANNA, BERT, DAY_MS, STRANGE_TOKEN, STRANGER, DeskCase


class LogoutTests(DeskCase):
    """Which sessions a sign-out ends."""

    def setUp(self) -> None:
        super().setUp()
        self.other_id, self.other = self.desk.sign_in()
        self.bert_id, _ = self.desk.sign_in(BERT)

    def this(self, access: Secret | None, refresh: Secret | None) -> frozenset[str]:
        return refresh_store.log_out_this(self.desk.connection, self.desk.issuer, (access, refresh), self.desk.now_ms)

    def more(
        self, scope: LogoutScope, access: Secret | None, refresh: Secret | None
    ) -> frozenset[str] | RefreshRejected:
        shown = access, refresh
        return refresh_store.log_out_more(self.desk.connection, self.desk.issuer, shown, scope, self.desk.now_ms)

    def live(self) -> set[str]:
        query = "SELECT session_id FROM session WHERE revoked_ms IS NULL"
        return {session_id for (session_id,) in self.desk.connection.execute(query)}

    def test_this(self) -> None:
        """By access token or refresh credential: that session and no other; again: nothing more."""
        self.assertEqual(self.this(self.first.access, None), {ANNA})
        self.assertEqual(self.live(), {self.other_id, self.bert_id})
        self.assertEqual(self.this(self.first.access, None), frozenset())
        self.assertEqual(self.this(None, self.other.refresh), {ANNA})
        self.assertEqual(self.live(), {self.bert_id})

    def test_this_with_what_ran_out(self) -> None:
        """A dead access token, a credential that was exchanged, a blocked player: signed out all the same."""
        self.desk.wait(DAY_MS)
        self.assertEqual(self.this(self.first.access, self.first.refresh), {ANNA})
        self.rotated(self.rotated(self.other.refresh).refresh)
        player_tables.set_state(self.desk.connection, ANNA, "blocked")
        self.assertEqual(self.this(None, self.other.refresh), {ANNA})
        self.assertEqual(self.live(), {self.bert_id})

    def test_this_of_nobody(self) -> None:
        """Credentials nobody knows change nothing."""
        self.assert_changes_nothing(lambda: self.assertEqual(self.this(STRANGE_TOKEN, STRANGER), frozenset()))

    def test_others(self) -> None:
        """All but the asking session, which stays usable and counts as used."""
        for access, refresh in ((self.first.access, None), (None, self.first.refresh)):
            self.other_id, self.other = self.desk.sign_in()
            self.assertEqual(self.more(LogoutScope.OTHERS, access, refresh), {ANNA})
            self.assertEqual(self.live(), {self.session_id, self.bert_id})
            self.assertIsNone(self.authenticate(self.first.access).unused)

    def test_others_when_alone(self) -> None:
        """Nobody's waits are disturbed when there was nothing to end."""
        self.more(LogoutScope.OTHERS, self.first.access, None)
        self.assertEqual(self.more(LogoutScope.OTHERS, self.first.access, None), frozenset())

    def test_all(self) -> None:
        """Every session of the player, the asking one too, and no other player's."""
        self.assertEqual(self.more(LogoutScope.ALL, self.first.access, None), {ANNA})
        self.assertEqual(self.live(), {self.bert_id})

    def test_all_beside_an_expired_token(self) -> None:
        """A live refresh credential is enough beside a dead access token."""
        self.desk.wait(DAY_MS)
        self.assertEqual(self.more(LogoutScope.ALL, self.first.access, self.first.refresh), {ANNA})
        self.assertEqual(self.live(), {self.bert_id})

    def test_more_needs_a_live_credential(self) -> None:
        """What is not live ends nobody's sessions, and says why."""
        old = self.first.refresh
        self.desk.wait(DAY_MS)
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
        self.assertEqual(self.more(LogoutScope.ALL, None, old), RefreshRejected(RefreshReused, ANNA))
        self.assertEqual(self.live(), {self.other_id, self.bert_id})
