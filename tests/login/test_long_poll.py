"""These tests wait in long polls: a change ends them at once, otherwise their time does (docs/protocol.md: Collect)."""

from gamed.login.collect import Complete, Failed, Pending
from gamed.login.errors import DeviceSecretInvalid
from gamed.login.keys import PresentedProof
from gamed.outcomes import LoginFailure
from gamed.rate_limit import RateLimited
from tests.login.fixtures import LoginCase, done


class LongPoll(LoginCase):
    def test_a_wait_without_a_change(self) -> None:
        """Without a change a wait ends after its time, with the stage that the game knows."""
        server = self.local_server()
        waiting = server.begin_collect(server.start(), wait_seconds=25)
        server.clock.advance(24.9)
        self.assertNoResult(waiting)
        server.clock.advance(0.5)
        self.assertEqual(self.successResultOf(waiting), Pending("waiting_for_browser", 574))
        self.assertEqual(server.clock.getDelayedCalls(), [])

    def test_every_change_of_stage(self) -> None:
        """Opened, signed in, declined and cancelled each end a wait at once."""
        server = self.local_server()
        started, declined, cancelled = server.start(), server.start(), server.start()
        waiting = server.begin_collect(started, wait_seconds=25)
        server.sign_in(started, name="nobody")
        self.assertEqual(self.successResultOf(waiting), Pending("at_provider", 600))
        waiting = server.begin_collect(started, wait_seconds=25, seen="at_provider")
        server.sign_in(started, name="nobody")
        self.assertNoResult(waiting)
        server.sign_in(started)
        self.assertEqual(self.successResultOf(waiting), Pending("proof_required", 600))
        waiting = server.begin_collect(declined, wait_seconds=25)
        server.decline(declined)
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.LOGIN_DENIED))
        waiting = server.begin_collect(cancelled, wait_seconds=25)
        server.cancel(cancelled)
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.LOGIN_CANCELLED))

    def test_no_wait_for_what_the_game_does_not_know(self) -> None:
        """A stage other than `seen` is returned at once; an absent `seen` is the first stage."""
        server = self.local_server()
        started = server.start()
        self.assertEqual(server.collect(started, wait_seconds=25, seen="proof_required").stage, "waiting_for_browser")
        server.sign_in(started)
        self.assertEqual(server.collect(started, wait_seconds=25).stage, "proof_required")
        self.assertIsInstance(server.collect(started, wait_seconds=25, code=server.code(started)), Complete)
        self.assertIsInstance(server.collect(started, wait_seconds=25, seen="proof_required"), Complete)

    def test_a_wait_ends_with_the_login(self) -> None:
        """The deadline ends a wait, before the cleanup runs."""
        server = self.local_server()
        started = server.start()
        server.clock.advance(590)
        waiting = server.begin_collect(started, wait_seconds=25)
        server.clock.advance(10.5)
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.LOGIN_EXPIRED))

    def test_a_newer_collect(self) -> None:
        """A newer collect answers the older one with 202 at once, whether it waits or not."""
        server = self.local_server()
        started = server.start()
        first = server.begin_collect(started, wait_seconds=25)
        server.clock.advance(20)
        second = server.begin_collect(started, wait_seconds=25)
        self.assertEqual(self.successResultOf(first), Pending("waiting_for_browser", 580))
        server.clock.advance(10)
        server.collect(started)
        self.assertEqual(self.successResultOf(second), Pending("waiting_for_browser", 570))

    def test_closing(self) -> None:
        """On shutdown every waiter gets its 202, and later collects do not wait."""
        server = self.local_server()
        one, two = server.start(), server.start()
        waits = [server.begin_collect(one, wait_seconds=25), server.begin_collect(two, wait_seconds=25)]
        server.clock.advance(10)
        server.waiters.close()
        waits.append(server.begin_collect(one, wait_seconds=25))
        for wait in waits:
            self.assertEqual(self.successResultOf(wait), Pending("waiting_for_browser", 590))

    def test_a_client_that_disconnects(self) -> None:
        """A client that disconnects leaves no waiter, and the login is unchanged."""
        server = self.local_server()
        started = server.start()
        waiting = server.begin_collect(started, wait_seconds=25)
        waiting.addErrback(lambda _: None)
        waiting.cancel()
        self.assertEqual((len(server.waiters), server.clock.getDelayedCalls()), (0, []))
        self.assertEqual(server.collect(started).stage, "waiting_for_browser")

    def test_a_change_between_read_and_wait(self) -> None:
        """A change between the read and the wait is not missed."""
        server = self.local_server()
        started = server.start()
        server.databases.reads.pause()
        waiting = server.begin_collect(started, wait_seconds=25)
        server.waiters.wake(server.secret(started))
        server.databases.reads.resume()
        self.assertNoResult(waiting)
        server.sign_in(started)
        self.assertEqual(self.successResultOf(waiting).stage, "proof_required")

    def test_a_poll_beside_the_first_collect(self) -> None:
        """A poll that begins while the first proven collect is written ends with the same credentials."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        proof = PresentedProof.finish_code(server.code(started))
        server.databases.auth.pause()
        proven = server.begin_collect(started, presented=proof)
        poll = server.begin_collect(started, wait_seconds=25, seen="proof_required")
        self.assertNoResult(poll)
        server.databases.auth.resume()
        one, two = self.successResultOf(proven), self.successResultOf(poll)
        self.assertTrue(one.result.pair.access.matches(two.result.pair.access))

    def test_an_unknown_secret_waits_for_nothing(self) -> None:
        """An unknown secret is refused at once and leaves no waiter."""
        server = self.local_server()
        started = server.start()
        server.write(lambda c: c.execute("DELETE FROM login") and None)
        with self.assertRaises(DeviceSecretInvalid):
            server.collect(started, wait_seconds=25)
        self.assertEqual(len(server.waiters), 0)


class PollingLimit(LoginCase):
    def test_short_polls(self) -> None:
        """A game may send five short polls at once, then one a second; a refused one changes nothing."""
        server = self.local_server()
        started, other = server.start(), server.start()
        for _ in range(5):
            server.collect(started, wait_seconds=4, seen="")
        with self.assertRaises(RateLimited) as caught:
            server.collect(started)
        self.assertEqual(caught.exception.retry_after, 1)
        server.collect(other)
        server.clock.advance(1)
        server.collect(started)
        with self.assertRaises(RateLimited):
            server.collect(started)

    def test_long_polls_do_not_count(self) -> None:
        """A wait of five seconds and a proof are never counted."""
        server = self.local_server()
        started = server.start()
        for _ in range(10):
            server.collect(started, wait_seconds=5, seen="")
            server.collect(started, code="BBB-BBB")
        responses = [server.collect(started) for _ in range(5)]
        self.assertEqual(responses, [Pending("waiting_for_browser", 600)] * 5)
        self.assertRaises(RateLimited, server.collect, started)

    def test_counts_of_ended_logins(self) -> None:
        """The count of an ended login takes no memory."""
        server = self.local_server()
        for _ in range(50):
            server.collect(server.start())
        server.clock.advance(2)
        server.collect(server.start())
        self.assertEqual(len(server.collects.arrivals), 1)


class Stopped(LoginCase):
    def test_an_error_ends_a_wait(self) -> None:
        """An error of the database ends a wait with that error, and leaves no waiter."""
        server = self.local_server()
        started = server.start()
        waiting = server.begin_collect(started, wait_seconds=25)
        server.write(lambda c: c.execute("DELETE FROM login") and None)
        server.waiters.wake(server.secret(started))
        self.failureResultOf(waiting, DeviceSecretInvalid)
        self.assertEqual(len(server.waiters), 0)
        done(server.lifecycle.expire())
