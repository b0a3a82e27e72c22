"""These tests change a password while logins that used the old one are under way.

See docs/protocol.md: Collect, Accounts.
"""

from gamed.login.collect import Complete, Failed
from gamed.login.transaction import LoginIntent
from gamed.outcomes import LoginFailure
from gamed.players.tables import set_password
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import ANNA, PASSWORD, PASSWORD_HASH, LoginCase, LoginServer


class NewPasswordTests(LoginCase):
    def change(self, server: LoginServer) -> None:
        server.write(lambda connection: set_password(connection, ANNA, PASSWORD_HASH, server.now_ms()))

    def test_sign_in_under_way(self) -> None:
        """A sign-in with the old password gets no session at the collect; a later sign-in works."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        code = server.code(started)
        server.clock.advance(1)
        self.change(server)
        self.assertEqual(server.collect(started, code=code), Failed(LoginFailure.SESSION_REVOKED))
        self.assertEqual(server.rows("SELECT count(*) FROM session"), [(0,)])
        server.clock.advance(1)
        started = server.start()
        server.sign_in(started)
        self.assertIsInstance(server.collect(started, code=server.code(started)), Complete)

    def test_adoption_under_way(self) -> None:
        """An adoption with the old password links nothing."""
        server = self.oauth_server(FakeProvider())
        started = server.start(intent=LoginIntent.ADOPT)
        state = server.redirect_state(started, name="Anna", password=PASSWORD)
        server.clock.advance(1)
        self.change(server)
        server.finish_callback(state)
        self.assertEqual(server.collect(started, code=server.code(started)), Failed(LoginFailure.SESSION_REVOKED))
        self.assertEqual(server.rows("SELECT count(*) FROM identity"), [(0,)])

    def test_account_unlinked_under_way(self) -> None:
        """An adoption links nothing if the account whose password was typed is unlinked before its end."""
        server = self.oauth_server(FakeProvider())
        started = server.start(intent=LoginIntent.ADOPT)
        state = server.redirect_state(started, name="Anna", password=PASSWORD)
        server.write(lambda connection: connection.execute("DELETE FROM local_account").close())
        server.finish_callback(state)
        self.assertEqual(server.collect(started, code=server.code(started)), Failed(LoginFailure.SESSION_REVOKED))
        self.assertEqual(server.rows("SELECT count(*) FROM identity"), [(0,)])

    def test_a_clock_set_back(self) -> None:
        """A change that lies in the future refuses no player."""
        server = self.local_server()
        self.change(server)
        server.shift_ms = -86_400_000
        started = server.start()
        server.sign_in(started)
        self.assertIsInstance(server.collect(started, code=server.code(started)), Complete)
