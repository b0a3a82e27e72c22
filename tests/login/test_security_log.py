"""These tests read the security events of sign-ins, and the approval code of a new player (PROTOCOL 3.5, 3.8)."""

from gamed.login.browser import Ended
from gamed.login.collect import Complete, Failed
from gamed.login.errors import InvalidProof
from gamed.login.keys import approval_code, same_code
from gamed.login.transaction import LoginIntent
from gamed.outcomes import LoginFailure
from gamed.players import tables as player_tables
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import ANNA, APPROVAL, REQUEST, LoginCase, LoginServer


class SecurityLogTests(LoginCase):
    def complete(self, server: LoginServer, who: str = "anna") -> Complete:
        started = server.signed_in(who)
        answer = server.collect(started, code=server.code(started))
        assert isinstance(answer, Complete), answer
        return answer

    def test_sign_in(self) -> None:
        """The collect that makes the session logs one line, a repeated one none; no name and no address."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        for code in (server.code(started), None, None):
            session = server.collect(started, code=code).login.session_id
        self.assertEqual(server.security, [f"sign_in player={ANNA} session={session} provider=local created=no"])

    def test_new_player(self) -> None:
        """A new player has `created=yes` and the provider's name in the configuration."""
        server = self.oauth_server(FakeProvider())
        answer = self.complete(server)
        player, session = answer.result.player_id, answer.login.session_id
        self.assertEqual(server.security, [f"sign_in player={player} session={session} provider=discord created=yes"])

    def test_link_and_adopt(self) -> None:
        """A link logs one line with its player; adopting an account logs a link and a sign-in."""
        server = self.oauth_server(FakeProvider(), FakeProvider("google"))
        answer = self.complete(server)
        player, token = answer.result.player_id, answer.result.pair.access.reveal().decode()
        linking = server.signed_in("bo", intent=LoginIntent.LINK, token=token, provider="google")
        server.collect(linking, code=server.code(linking))
        self.assertEqual(server.security[1:], [f"identity_linked player={player} provider=google"])
        adopting = server.start(intent=LoginIntent.ADOPT)
        state = server.redirect_state(adopting, name="Anna", password="correct horse")
        server.finish_callback(state, who="chidi")
        session = server.collect(adopting, code=server.code(adopting)).login.session_id
        self.assertEqual(
            server.security[2:],
            [
                f"identity_linked player={ANNA} provider=discord",
                f"sign_in player={ANNA} session={session} provider=discord created=no",
            ],
        )

    def test_refusals(self) -> None:
        """Blocked players, wrong passwords, too many of them, and "This was not me" log a refusal."""
        server = self.local_server(passwords_per_minute=2)
        started = server.start()
        for _ in range(3):
            server.sign_in(started, password="wrong horse")
        for _ in range(2):
            server.decline(started)
        server.clock.advance(120)
        server.write(lambda connection: player_tables.set_state(connection, ANNA, "blocked"))
        blocked = server.start()
        server.sign_in(blocked)
        server.collect(blocked, code=server.code(blocked))
        refused = ("sign_in_refused player={} provider=local outcome={} request=" + REQUEST).format
        self.assertEqual(
            server.security,
            [
                *[refused("-", "wrong_password")] * 2,
                refused("-", "too_many_passwords"),
                refused("-", "login_denied"),
                refused(ANNA, "player_blocked"),
            ],
        )

    def test_wrong_codes(self) -> None:
        """The fifth wrong finish code ends the login and logs a line."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        for _ in range(5):
            self.assertRaises(InvalidProof, server.collect, started, code="BBB-BBB")
        self.assertEqual(
            server.security,
            [f"sign_in_refused player=- provider=local outcome=proof_attempts_exceeded request={REQUEST}"],
        )


class ApprovalTests(LoginCase):
    def test_code(self) -> None:
        """Game, page and owner see the same code; it stays the same until the player is approved."""
        server = self.oauth_server(FakeProvider(), registration=APPROVAL)
        codes = set()
        for _ in range(2):
            started = server.signed_in("bo")
            answer = server.collect(started, code=server.code(started))
            self.assertEqual(answer, Failed(LoginFailure.PLAYER_PENDING))
            page = server.result(started)
            self.assertEqual(page, Ended(LoginFailure.PLAYER_PENDING, answer.approval_code))
            codes.add(answer.approval_code)
        [(player,)] = server.rows("SELECT player_id FROM player WHERE state = 'pending'")
        self.assertEqual(codes, {approval_code(server.keys.indexer, player)})
        self.assertRegex(codes.pop(), "^[B-DF-HJ-NP-TV-XZ]{3}-[B-DF-HJ-NP-TV-XZ]{3}$")
        server.write(lambda connection: player_tables.change_state(connection, player, "pending", "active"))
        started = server.signed_in("bo")
        self.assertEqual(server.collect(started, code=server.code(started)).result.player_id, player)

    def test_typed(self) -> None:
        """Case, dashes and spaces of a typed code do not matter."""
        for typed in ("BKT-RVW", "bktrvw", " bkt rvw ", "BKT\u2010RVW"):
            self.assertTrue(same_code("BKT-RVW", typed))
        for typed in ("", "BKT-RVX", "BKT"):
            self.assertFalse(same_code("BKT-RVW", typed))
