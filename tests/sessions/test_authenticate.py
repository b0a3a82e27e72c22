"""Access tokens are authenticated against a real auth.db, and their first use is marked there."""

from base64 import urlsafe_b64decode
from functools import partial

from gamed.crypto import Index, TokenType, generate_token
from gamed.login import tables as login_tables
from gamed.login.transaction import ClientInfo, LoginIntent, LoginStage, LoginTransaction, ProofMethod
from gamed.players import tables as player_tables
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import AuthenticatedSession, RefreshRejected
from gamed.sessions.errors import (
    PlayerBlocked,
    RefreshInvalid,
    SessionRevoked,
    TokenExpired,
    TokenInvalid,
)
from tests.sessions.fixtures import ANNA, BERT, DAY_MS, NOW_MS, STRANGE_TOKEN, STRANGER, TransactionTestCase
from tests.support.covers import covers
from tests.support.stores import read_only


class AuthenticateTests(TransactionTestCase):
    """Authentication of a request's token."""

    def test_caller(self) -> None:
        """The result has player, session, owner and sign-in, and the first use of a generation until it is marked."""
        self.assertEqual(
            self.authenticate(self.first.access), AuthenticatedSession(ANNA, self.session_id, False, NOW_MS, 1)
        )
        self.assertEqual(self.use(self.first.access).first_use_of, 1)
        self.assertEqual(self.use(self.first.access).first_use_of, None)
        self.auth.connection.execute("UPDATE player SET owner = 1 WHERE player_id = ?", (ANNA,))
        self.assertTrue(self.authenticate(self.first.access).owner)

    def test_reads_only(self) -> None:
        """Authentication may run in the read queue: it writes nothing."""
        read_only(self.auth.connection)
        self.authenticate(self.first.access)

    @covers("threats/24")
    def test_expiry(self) -> None:
        """A token lives until just before its instant."""
        self.auth.now_ms = self.first.access_expires_ms - 1
        self.authenticate(self.first.access)
        self.auth.wait(1)
        self.assertRaises(TokenExpired, self.authenticate, self.first.access)

    def test_refusals(self) -> None:
        """Unknown, revoked and blocked tokens raise different errors; a revoked and expired token is revoked."""
        self.assertRaises(TokenInvalid, self.authenticate, STRANGE_TOKEN)
        player_tables.set_state(self.auth.connection, ANNA, "blocked")
        self.assertRaises(PlayerBlocked, self.authenticate, self.first.access)
        session_tables.revoke(self.auth.connection, self.session_id, self.auth.now_ms)
        self.assertRaises(SessionRevoked, self.authenticate, self.first.access)
        self.auth.wait(DAY_MS)
        self.assertRaises(SessionRevoked, self.authenticate, self.first.access)

    def test_another_tick(self) -> None:
        """A credential with other first bytes, which say when it was issued, is unknown; the others stay valid."""
        for credential in (self.first.access, self.first.refresh):
            kind = TokenType(credential.reveal()[:4].decode())
            entropy = bytearray(urlsafe_b64decode(credential.reveal()[4:47] + b"="))
            for place in (0, 1):
                entropy[place] ^= 1
                forged = generate_token(kind, bytes(entropy))
                if kind is TokenType.ACCESS_TOKEN:
                    self.assertRaises(TokenInvalid, self.authenticate, forged)
                else:
                    self.assertEqual(self.refresh(forged), RefreshRejected(RefreshInvalid))
                entropy[place] ^= 1
            self.assertTrue(generate_token(kind, bytes(entropy)).matches(credential))
        self.authenticate(self.first.access)

    def test_refresh_credential_is_no_access_token(self) -> None:
        """The same bytes mean nothing as a credential of the other kind."""
        self.assertRaises(TokenInvalid, self.authenticate, self.first.refresh)
        self.assertEqual(self.refresh(self.first.access), RefreshRejected(RefreshInvalid))

    def test_old_tokens_live_on(self) -> None:
        """A rotation ends no access token; the end of the session ends all."""
        second = self.rotated(self.first.refresh)
        self.authenticate(self.first.access)
        session_tables.revoke(self.auth.connection, self.session_id, self.auth.now_ms)
        for pair in (self.first, second):
            self.assertRaises(SessionRevoked, self.authenticate, pair.access)

    def test_mark_once(self) -> None:
        """A late mark for a generation that was rotated away does not touch its successor."""
        second = self.rotated(self.first.refresh)
        session_tables.mark_used(self.auth.connection, self.session_id, 1, self.auth.now_ms)
        self.assertEqual(self.authenticate(second.access).first_use_of, 2)


class HandoffTests(TransactionTestCase):
    """The sign-in that made a session hands out its pair until the first use (docs/protocol.md: Collect)."""

    def setUp(self) -> None:
        super().setUp()
        login = LoginTransaction(
            "lgn_x", Index(b"\x01"), Index(b"\x02"), LoginIntent.LOGIN, "local", ClientInfo(), ProofMethod.CODE, None,
            Index(b"\x03"),
            created_ms=NOW_MS, expires_ms=NOW_MS + 600_000, stage_ms=NOW_MS, stage=LoginStage.DELIVERED,
            sealed_result=b"\x04", sealed_proof=b"\x05", session_id=self.session_id,
        )  # fmt: skip
        login_tables.insert_login(self.auth.connection, login)

    def login(self) -> tuple[object, ...]:
        query = "SELECT stage, sealed_result, sealed_proof, stage_ms FROM login"
        row: tuple[object, ...] = self.auth.connection.execute(query).fetchone()
        return row

    def assert_collected(self) -> None:
        self.assertEqual(self.login(), ("collected", None, None, self.auth.now_ms))

    def test_until_used(self) -> None:
        """Asking changes nothing."""
        self.authenticate(self.first.access)
        self.refresh(STRANGER)
        self.assertEqual(self.login(), ("delivered", b"\x04", b"\x05", NOW_MS))

    def test_access_used(self) -> None:
        """The first use of the access token collects the login and erases what it kept."""
        self.auth.wait(5)
        self.use(self.first.access)
        self.assert_collected()

    def test_refresh_used(self) -> None:
        """So does the first refresh."""
        self.auth.wait(5)
        self.rotated(self.first.refresh)
        self.assert_collected()

    def test_ended(self) -> None:
        """So does any end of the session: a repeated collect must not hand out dead credentials."""
        self.auth.wait(5)
        session_tables.revoke(self.auth.connection, self.session_id, self.auth.now_ms)
        self.assert_collected()

    def test_all_ended(self) -> None:
        """Also of all sessions at once; another player's, and one that is kept, hand out on."""
        end = partial(session_tables.revoke_all, self.auth.connection, now_ms=self.auth.now_ms)
        self.assertEqual((end(BERT), end(ANNA, keep=self.session_id)), (0, 0))
        self.assertEqual(self.login(), ("delivered", b"\x04", b"\x05", NOW_MS))
        self.assertEqual((end(ANNA), end(ANNA)), (1, 0))
        self.assert_collected()


class ListTests(TransactionTestCase):
    """Sessions that a player sees and may end."""

    def test_own_and_live(self) -> None:
        """The list has neither another player's sessions nor ended or expired ones; the last used is first."""
        self.auth.wait(DAY_MS)
        second_id, second = self.auth.sign_in(client='{"name":"MyGame"}')
        ended_id, _ = self.auth.sign_in()
        self.auth.sign_in(BERT)
        session_tables.revoke(self.auth.connection, ended_id, self.auth.now_ms)
        listed = session_tables.list_sessions(self.auth.connection, ANNA, self.auth.now_ms)
        self.assertEqual([row.session_id for row in listed], [second_id, self.session_id])
        self.assertEqual((listed[0].client, listed[0].provider), ('{"name":"MyGame"}', "local"))
        self.auth.now_ms = self.first.refresh_expires_ms
        listed = session_tables.list_sessions(self.auth.connection, ANNA, self.auth.now_ms)
        self.assertEqual([row.session_id for row in listed], [second_id])
        self.auth.now_ms = second.refresh_expires_ms
        self.assertEqual(session_tables.list_sessions(self.auth.connection, ANNA, self.auth.now_ms), [])

    def test_end(self) -> None:
        """Own sessions, again and again; unknown and foreign ones look the same and stay."""
        bert_id, bert = self.auth.sign_in(BERT)
        for session_id in (bert_id, "ses_unknown", ""):
            self.assertIsNone(session_tables.revoke_own(self.auth.connection, ANNA, session_id, self.auth.now_ms))
        self.authenticate(bert.access)
        for ended in (True, False):
            self.assertIs(
                session_tables.revoke_own(self.auth.connection, ANNA, self.session_id, self.auth.now_ms), ended
            )
        self.assertRaises(SessionRevoked, self.authenticate, self.first.access)
