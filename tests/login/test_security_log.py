"""What the owner's log says of sign-ins, and the code of a newcomer who waits (PROTOCOL 3.5, 3.8)."""

from gamed.login.browser import Ended
from gamed.login.collect import Complete, Failed
from gamed.login.errors import InvalidProof
from gamed.login.keys import approval_code, same_code
from gamed.login.transaction import LoginIntent
from gamed.outcomes import LoginFailure
from gamed.players import tables as player_tables
from tests.login.fake_provider import FarProvider
from tests.login.fixtures import ANNA, APPROVAL, REQUEST, Desk, HandoffCase


class SecurityLogTests(HandoffCase):
    def complete(self, desk: Desk, who: str = "anna") -> Complete:
        started = desk.signed_in(who)
        answer = desk.collect(started, code=desk.code(started))
        assert isinstance(answer, Complete), answer
        return answer

    def test_sign_in(self) -> None:
        """One line for the collect that makes the session, none for a repeated one, no name and no address."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        for code in (desk.code(started), None, None):
            session = desk.collect(started, code=code).login.session_id
        self.assertEqual(desk.security, [f"sign_in player={ANNA} session={session} provider=local created=no"])

    def test_new_player(self) -> None:
        """`created=yes`, and the provider's name in the file."""
        desk = self.oauth(FarProvider())
        answer = self.complete(desk)
        player, session = answer.result.player_id, answer.login.session_id
        self.assertEqual(desk.security, [f"sign_in player={player} session={session} provider=discord created=yes"])

    def test_link_and_adopt(self) -> None:
        """A link is one line with its player; adopting an account is a link and a sign-in."""
        desk = self.oauth(FarProvider(), FarProvider("google"))
        answer = self.complete(desk)
        player, token = answer.result.player_id, answer.result.pair.access.reveal().decode()
        linking = desk.signed_in("bo", intent=LoginIntent.LINK, token=token, provider="google")
        desk.collect(linking, code=desk.code(linking))
        self.assertEqual(desk.security[1:], [f"identity_linked player={player} provider=google"])
        adopting = desk.start(intent=LoginIntent.ADOPT)
        state = desk.depart(adopting, name="Anna", password="correct horse")
        desk.returned(state, who="chidi")
        session = desk.collect(adopting, code=desk.code(adopting)).login.session_id
        self.assertEqual(
            desk.security[2:],
            [
                f"identity_linked player={ANNA} provider=discord",
                f"sign_in player={ANNA} session={session} provider=discord created=no",
            ],
        )

    def test_refusals(self) -> None:
        """Blocked players, wrong passwords, too many of them, and "This was not me"."""
        desk = self.desk(passwords_per_minute=2)
        started = desk.start()
        for _ in range(3):
            desk.sign_in(started, password="wrong horse")
        for _ in range(2):
            desk.decline(started)
        desk.clock.advance(120)
        desk.write(lambda connection: player_tables.set_state(connection, ANNA, "blocked"))
        blocked = desk.start()
        desk.sign_in(blocked)
        desk.collect(blocked, code=desk.code(blocked))
        refused = ("sign_in_refused player={} provider=local outcome={} request=" + REQUEST).format
        self.assertEqual(
            desk.security,
            [
                *[refused("-", "wrong_password")] * 2,
                refused("-", "too_many_passwords"),
                refused("-", "login_denied"),
                refused(ANNA, "player_blocked"),
            ],
        )

    def test_wrong_codes(self) -> None:
        """The fifth wrong finish code ends the login, and the owner sees that."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        for _ in range(5):
            self.assertRaises(InvalidProof, desk.collect, started, code="BBB-BBB")
        self.assertEqual(
            desk.security,
            [f"sign_in_refused player=- provider=local outcome=proof_attempts_exceeded request={REQUEST}"],
        )


class ApprovalTests(HandoffCase):
    def test_code(self) -> None:
        """Game, page and owner see one code; it is the same at the next try, and gone once approved."""
        desk = self.oauth(FarProvider(), registration=APPROVAL)
        codes = set()
        for _ in range(2):
            started = desk.signed_in("bo")
            answer = desk.collect(started, code=desk.code(started))
            self.assertEqual(answer, Failed(LoginFailure.PLAYER_PENDING))
            page = desk.done_page(started)
            self.assertEqual(page, Ended(LoginFailure.PLAYER_PENDING, answer.approval_code))
            codes.add(answer.approval_code)
        [(player,)] = desk.rows("SELECT player_id FROM player WHERE state = 'pending'")
        self.assertEqual(codes, {approval_code(desk.keys.indexer, player)})
        self.assertRegex(codes.pop(), "^[B-DF-HJ-NP-TV-XZ]{3}-[B-DF-HJ-NP-TV-XZ]{3}$")
        desk.write(lambda connection: player_tables.change_state(connection, player, "pending", "active"))
        started = desk.signed_in("bo")
        self.assertEqual(desk.collect(started, code=desk.code(started)).result.player_id, player)

    def test_typed(self) -> None:
        """Case, dashes and spaces do not matter."""
        for typed in ("BKT-RVW", "bktrvw", " bkt rvw ", "BKT\u2010RVW"):
            self.assertTrue(same_code("BKT-RVW", typed))
        for typed in ("", "BKT-RVX", "BKT"):
            self.assertFalse(same_code("BKT-RVW", typed))
