"""These tests link and adopt accounts without the game's proof: nothing is written.

See docs/protocol.md: Collect, Accounts.
"""

from collections.abc import Callable

from gamed.login.collect import Failed, Linked, Pending
from gamed.login.errors import InvalidProof
from gamed.login.start import StartedLogin
from gamed.login.transaction import LoginIntent
from gamed.outcomes import LoginFailure
from tests.login.fake_provider import ISSUER, FakeProvider
from tests.login.fixtures import PASSWORD, LoginCase, LoginServer
from tests.login.test_login import lasting

ENDS: tuple[tuple[Callable[[LoginServer, StartedLogin], object], LoginFailure], ...] = (
    (lambda server, started: server.cancel(started), LoginFailure.LOGIN_CANCELLED),
    (lambda server, started: server.decline(started), LoginFailure.LOGIN_DENIED),
    (lambda server, started: server.clock.advance(600), LoginFailure.LOGIN_EXPIRED),
    (lambda server, started: guess_wrong(server, started, 4), LoginFailure.PROOF_ATTEMPTS_EXCEEDED),
)


def guess_wrong(server: LoginServer, started: StartedLogin, times: int) -> None:
    for _ in range(times):
        try:
            server.collect(started, code="BBBBBB")
        except InvalidProof:
            continue
        raise AssertionError("a wrong code was taken")


class WithoutProof(LoginCase):
    def linking(self) -> tuple[LoginServer, StartedLogin]:
        server = self.oauth_server(FakeProvider(), FakeProvider("google", issuer=ISSUER))
        asker = server.signed_in("anna")
        token = server.collect(asker, code=server.code(asker)).result.pair.access.reveal().decode()
        return server, server.signed_in("eve", provider="google", intent=LoginIntent.LINK, token=token)

    def adopting(self) -> tuple[LoginServer, StartedLogin]:
        server = self.oauth_server(FakeProvider())
        started = server.start(intent=LoginIntent.ADOPT)
        server.finish_callback(server.redirect_state(started, name="Anna", password=PASSWORD), who="eve")
        return server, started

    def test_nothing_is_left(self) -> None:
        """No proof, a wrong ticket, wrong codes, and each end leave player, identity and session unchanged."""
        for begin in (self.linking, self.adopting):
            for end, outcome in ENDS:
                server, started = begin()
                before, code = lasting(server), server.code(started)
                self.assertIsInstance(server.collect(started), Pending)
                with self.assertRaises(InvalidProof):
                    server.collect(started, ticket="A" * 43)
                guess_wrong(server, started, 1)
                end(server, started)
                self.assertEqual(server.collect(started, code=code), Failed(outcome))
                self.assertEqual(lasting(server), before)

    def test_with_proof(self) -> None:
        """With the proof both succeed."""
        server, started = self.linking()
        self.assertEqual(server.collect(started, code=server.code(started)), Linked("google"))
        server, started = self.adopting()
        self.assertFalse(server.collect(started, code=server.code(started)).result.created)
