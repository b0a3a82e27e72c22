"""The owner gives an account a new password: what was proved with the old one counts no more (PROTOCOL 3.5, 3.8)."""

from gamed.login.collect import Complete, Failed
from gamed.login.transaction import LoginIntent
from gamed.outcomes import LoginFailure
from gamed.players.tables import set_password
from tests.login.fake_provider import FarProvider
from tests.login.fixtures import ANNA, PASSWORD, PASSWORD_HASH, Desk, HandoffCase


class NewPasswordTests(HandoffCase):
    def change(self, desk: Desk) -> None:
        desk.write(lambda connection: set_password(connection, ANNA, PASSWORD_HASH, desk.now_ms()))

    def test_sign_in_under_way(self) -> None:
        """Typed before, collected after: no session. A sign-in begun after it is none the worse."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        code = desk.code(started)
        desk.clock.advance(1)
        self.change(desk)
        self.assertEqual(desk.collect(started, code=code), Failed(LoginFailure.SESSION_REVOKED))
        self.assertEqual(desk.rows("SELECT count(*) FROM session"), [(0,)])
        desk.clock.advance(1)
        started = desk.start()
        desk.sign_in(started)
        self.assertIsInstance(desk.collect(started, code=desk.code(started)), Complete)

    def test_adoption_under_way(self) -> None:
        """Nor does an account at a provider get the player of a password that is no more."""
        desk = self.oauth(FarProvider())
        started = desk.start(intent=LoginIntent.ADOPT)
        state = desk.depart(started, name="Anna", password=PASSWORD)
        desk.clock.advance(1)
        self.change(desk)
        desk.returned(state)
        self.assertEqual(desk.collect(started, code=desk.code(started)), Failed(LoginFailure.SESSION_REVOKED))
        self.assertEqual(desk.rows("SELECT count(*) FROM identity"), [(0,)])

    def test_a_clock_set_back(self) -> None:
        """A change that lies in the future keeps nobody out."""
        desk = self.desk()
        self.change(desk)
        desk.shift_ms = -86_400_000
        started = desk.start()
        desk.sign_in(started)
        self.assertIsInstance(desk.collect(started, code=desk.code(started)), Complete)
