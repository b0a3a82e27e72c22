"""The first proven collect checks everything again in its transaction, because the state may have changed."""

from gamed.login.collect import Collected, CollectRequest, Complete, Failed, Pending
from gamed.login.errors import InvalidProof
from gamed.login.keys import PresentedProof
from gamed.login.start import StartedLogin
from gamed.outcomes import LoginFailure
from tests.login.fixtures import LoginCase, LoginServer, done

SEALED = "SELECT sealed_identity IS NULL, sealed_proof IS NULL, sealed_result IS NULL, wrong_codes FROM login"


class CollectServiceTests(LoginCase):
    def deliver(self, server: LoginServer, started: StartedLogin, presented: PresentedProof | None) -> Collected:
        """Collect without the read that precedes it."""
        answer: Collected = done(server.collects.collect(CollectRequest(server.secret(started), presented=presented)))
        return answer

    def sessions(self, server: LoginServer) -> int:
        return len(server.rows("SELECT 1 FROM session"))

    def test_without_a_proof(self) -> None:
        """A collect without a proof delivers nothing and counts no wrong code."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        for _ in range(7):
            self.assertEqual(self.deliver(server, started, None), Pending("proof_required", 600))
        self.assertEqual((self.sessions(server), server.rows(SEALED)), (0, [(0, 0, 1, 0)]))
        self.assertIsInstance(server.collect(started, code=server.code(started)), Complete)

    def test_wrong_ticket(self) -> None:
        """Wrong tickets, which no limit counts, are refused by reads alone; the right one and codes are written."""
        server = self.local_server()
        started = server.start(port=51004)
        server.sign_in(started)
        ticket = server.ticket(started)
        before = server.databases.auth.transactions
        for _ in range(20):
            with self.assertRaises(InvalidProof) as caught:
                server.collect(started, ticket="x" * 43)
            self.assertEqual(caught.exception.members, {"attempts_left": 5})
        self.assertEqual(server.databases.auth.transactions, before)
        with self.assertRaises(InvalidProof) as caught:
            server.collect(started, code="BBB-BBB")
        self.assertEqual(caught.exception.members, {"attempts_left": 4})
        self.assertIsInstance(server.collect(started, ticket=ticket), Complete)
        self.assertEqual(server.databases.auth.transactions, before + 2)

    def test_out_of_time(self) -> None:
        """The deadline decides, though the row is still `ready`."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        code = server.code(started)
        server.clock.advance(600)
        answer = self.deliver(server, started, PresentedProof.finish_code(code))
        self.assertEqual((answer, self.sessions(server)), (Failed(LoginFailure.LOGIN_EXPIRED), 0))

    def test_too_early(self) -> None:
        """Before `ready` a proof is ignored in every stage."""
        server = self.local_server()
        started = server.start()
        for presented in (PresentedProof.finish_code("BKTRVW"), PresentedProof.ticket("x" * 43), None):
            self.assertEqual(self.deliver(server, started, presented), Pending("waiting_for_browser", 600))
        self.assertEqual(server.login(started).wrong_codes, 0)

    def test_too_late(self) -> None:
        """A login that was cancelled or declined just before signs in no player."""
        for end in ("cancel", "decline"):
            server = self.local_server()
            started = server.start()
            server.sign_in(started)
            presented = PresentedProof.finish_code(server.code(started))
            getattr(server, end)(started)
            self.assertIsInstance(self.deliver(server, started, presented), Failed)
            self.assertEqual(self.sessions(server), 0)

    def test_what_is_left_of_it(self) -> None:
        """After the delivery identity and proof are erased; the sealed result stays until its first use."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        self.assertIsInstance(server.collect(started, code=server.code(started)), Complete)
        self.assertEqual(server.rows(SEALED), [(1, 1, 0, 0)])

    def test_a_proof_shortens_no_wait(self) -> None:
        """A proof before `ready` does not shorten the wait."""
        server = self.local_server()
        started = server.start()
        waiting = server.begin_collect(started, wait_seconds=25, presented=PresentedProof.finish_code("BKTRVW"))
        self.assertNoResult(waiting)
        server.sign_in(started)
        self.assertEqual(self.successResultOf(waiting), Pending("proof_required", 600))
