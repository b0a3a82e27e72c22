"""The first proven collect judges for itself: what was true when the game asked may be over when it is its turn."""

from gamed.login.collect import Collected, CollectRequest, Complete, Failed, Pending
from gamed.login.keys import PresentedProof
from gamed.login.start import StartedLogin
from gamed.outcomes import LoginFailure
from tests.login.fixtures import Desk, HandoffCase, done

SEALED = "SELECT sealed_identity IS NULL, sealed_proof IS NULL, sealed_result IS NULL, wrong_codes FROM login"


class Delivering(HandoffCase):
    def deliver(self, desk: Desk, started: StartedLogin, presented: PresentedProof | None) -> Collected:
        """Without the look that a collect takes before it."""
        answer: Collected = done(desk.collects.collect(CollectRequest(desk.secret(started), presented=presented)))
        return answer

    def sessions(self, desk: Desk) -> int:
        return len(desk.rows("SELECT 1 FROM session"))

    def test_without_a_proof(self) -> None:
        """Showing nothing opens nothing, and is no wrong code either."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        for _ in range(7):
            self.assertEqual(self.deliver(desk, started, None), Pending("proof_required", 600))
        self.assertEqual((self.sessions(desk), desk.rows(SEALED)), (0, [(0, 0, 1, 0)]))
        self.assertIsInstance(desk.collect(started, code=desk.code(started)), Complete)

    def test_out_of_time(self) -> None:
        """The clock decides, though the row still says that a proof is waited for."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        code = desk.code(started)
        desk.clock.advance(600)
        answer = self.deliver(desk, started, PresentedProof.finish_code(code))
        self.assertEqual((answer, self.sessions(desk)), (Failed(LoginFailure.LOGIN_EXPIRED), 0))

    def test_too_early(self) -> None:
        """At every stage before `ready` a proof is as good as none."""
        desk = self.desk()
        started = desk.start()
        for presented in (PresentedProof.finish_code("BKTRVW"), PresentedProof.ticket("x" * 43), None):
            self.assertEqual(self.deliver(desk, started, presented), Pending("waiting_for_browser", 600))
        self.assertEqual(desk.login(started).wrong_codes, 0)

    def test_too_late(self) -> None:
        """Cancelled or declined a moment before: nobody is signed in."""
        for end in ("cancel", "decline"):
            desk = self.desk()
            started = desk.start()
            desk.sign_in(started)
            presented = PresentedProof.finish_code(desk.code(started))
            getattr(desk, end)(started)
            self.assertIsInstance(self.deliver(desk, started, presented), Failed)
            self.assertEqual(self.sessions(desk), 0)

    def test_what_is_left_of_it(self) -> None:
        """Who it is and the proof have served: only the sealed result stays, until it is used."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        self.assertIsInstance(desk.collect(started, code=desk.code(started)), Complete)
        self.assertEqual(desk.rows(SEALED), [(1, 1, 0, 0)])

    def test_a_proof_shortens_no_wait(self) -> None:
        """One that comes before `ready` waits like a collect without."""
        desk = self.desk()
        started = desk.start()
        waiting = desk.asked(started, wait_seconds=25, presented=PresentedProof.finish_code("BKTRVW"))
        self.assertNoResult(waiting)
        desk.sign_in(started)
        self.assertEqual(self.successResultOf(waiting), Pending("proof_required", 600))
