"""What is said of each call to a provider, to whoever counts."""

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from gamed.providers.circuit_breaker import CircuitBreaker
from gamed.providers.client import TIMEOUT_SECONDS, WatchedEndpoint
from tests.providers.fake_provider import Reply, discord, started
from tests.providers.test_endpoint import ACCOUNT, ME, OK


class WatchedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.desk = discord()
        self.said: list[tuple[str, str, float]] = []
        desk = self.desk
        self.endpoint = WatchedEndpoint(
            desk.agent,
            desk.clock,
            desk.now_ms,
            "gamed/0",
            CircuitBreaker(desk.clock.seconds),
            provider="discord",
            called=lambda *words: self.said.append(words),
        )

    def test_outcomes(self) -> None:
        """Once for each call, however it ends."""
        for reply, outcome in (
            (Reply(200, OK), "answered"),
            (Reply(403, OK), "refused"),
            (Reply(500, OK), "unavailable"),
            (Reply(302, OK, {"Location": "https://evil.example/"}), "error"),
        ):
            self.desk.far.script(ME, reply)
            call = started(self.endpoint.call(ACCOUNT, self.endpoint.deadline()))
            call.addErrback(lambda _: None)
            self.assertEqual(self.said.pop(), ("discord", outcome, 0.0))
        self.assertEqual(self.said, [])

    def test_patience(self) -> None:
        """The time is the whole call's: the wait that the provider asked for, and the second try."""
        self.desk.far.script(ME, Reply(429, b"", {"Retry-After": "2"}), Reply(200, OK))
        started(self.endpoint.call(ACCOUNT, self.endpoint.deadline()))
        self.desk.clock.advance(2)
        self.desk.agent.flush()
        self.assertEqual(self.said, [("discord", "answered", 2.0)])

    def test_no_answer(self) -> None:
        """A call that takes too long, and one that is given up, count as the provider's silence."""
        for give_up in (False, True):
            self.desk.far.script(ME, Reply(hang=True))
            call = started(self.endpoint.call(ACCOUNT, self.endpoint.deadline()))
            if give_up:
                call.cancel()
            else:
                self.desk.clock.advance(TIMEOUT_SECONDS)
            self.failureResultOf(call)
        self.assertEqual(self.said, [("discord", "unavailable", 10.0), ("discord", "unavailable", 0.0)])

    def test_given_up_while_it_sleeps(self) -> None:
        """Between two tries nothing is asked of the provider: that is no word about it."""
        self.desk.far.script(ME, Reply(429, b"", {"Retry-After": "2"}))
        call = started(self.endpoint.call(ACCOUNT, self.endpoint.deadline()))
        call.cancel()
        self.failureResultOf(call, CancelledError)
        self.assertEqual(self.said, [("discord", "cancelled", 0.0)])
