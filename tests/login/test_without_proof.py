"""To link or adopt an account takes the game's proof as well: without, nothing is left behind (PROTOCOL 3.4, 3.8)."""

from collections.abc import Callable

from gamed.login.collect import Failed, Linked, Pending
from gamed.login.errors import InvalidProof
from gamed.login.start import StartedLogin
from gamed.login.transaction import LoginIntent
from gamed.outcomes import LoginFailure
from tests.login.fake_provider import ISSUER, FarProvider
from tests.login.fixtures import PASSWORD, Desk, HandoffCase
from tests.login.test_handoff import lasting

ENDS: tuple[tuple[Callable[[Desk, StartedLogin], object], LoginFailure], ...] = (
    (lambda desk, started: desk.cancel(started), LoginFailure.LOGIN_CANCELLED),
    (lambda desk, started: desk.decline(started), LoginFailure.LOGIN_DENIED),
    (lambda desk, started: desk.clock.advance(600), LoginFailure.LOGIN_EXPIRED),
    (lambda desk, started: guess_wrong(desk, started, 4), LoginFailure.PROOF_ATTEMPTS_EXCEEDED),
)


def guess_wrong(desk: Desk, started: StartedLogin, times: int) -> None:
    for _ in range(times):
        try:
            desk.collect(started, code="BBBBBB")
        except InvalidProof:
            continue
        raise AssertionError("a wrong code was taken")


class WithoutProof(HandoffCase):
    def linking(self) -> tuple[Desk, StartedLogin]:
        desk = self.oauth(FarProvider(), FarProvider("google", issuer=ISSUER))
        asker = desk.signed_in("anna")
        token = desk.collect(asker, code=desk.code(asker)).result.pair.access.reveal().decode()
        return desk, desk.signed_in("eve", provider="google", intent=LoginIntent.LINK, token=token)

    def adopting(self) -> tuple[Desk, StartedLogin]:
        desk = self.oauth(FarProvider())
        started = desk.start(intent=LoginIntent.ADOPT)
        desk.returned(desk.depart(started, name="Anna", password=PASSWORD), who="eve")
        return desk, started

    def test_nothing_is_left(self) -> None:
        """No proof, a wrong ticket, wrong codes, and each end: player, identity and session are what they were."""
        for begin in (self.linking, self.adopting):
            for end, outcome in ENDS:
                desk, started = begin()
                before, code = lasting(desk), desk.code(started)
                self.assertIsInstance(desk.collect(started), Pending)
                with self.assertRaises(InvalidProof):
                    desk.collect(started, ticket="A" * 43)
                guess_wrong(desk, started, 1)
                end(desk, started)
                self.assertEqual(desk.collect(started, code=code), Failed(outcome))
                self.assertEqual(lasting(desk), before)

    def test_with_proof(self) -> None:
        """The same two, to the end."""
        desk, started = self.linking()
        self.assertEqual(desk.collect(started, code=desk.code(started)), Linked("google"))
        desk, started = self.adopting()
        self.assertFalse(desk.collect(started, code=desk.code(started)).result.created)
