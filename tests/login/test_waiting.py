"""The long poll: ends at once with news, at its time without, and never keeps anybody (PROTOCOL 3.5)."""

from gamed.login.collect import Complete, Failed, Pending
from gamed.login.errors import DeviceSecretInvalid
from gamed.login.keys import PresentedProof
from gamed.outcomes import LoginFailure
from gamed.rate_limit import RateLimited
from tests.login.fixtures import HandoffCase, done


class LongPoll(HandoffCase):
    def test_a_wait_without_news(self) -> None:
        """It ends after its time with the stage the game knows, not before."""
        desk = self.desk()
        waiting = desk.asked(desk.start(), wait_seconds=25)
        desk.clock.advance(24.9)
        self.assertNoResult(waiting)
        desk.clock.advance(0.5)
        self.assertEqual(self.successResultOf(waiting), Pending("waiting_for_browser", 574))
        self.assertEqual(desk.clock.getDelayedCalls(), [])

    def test_every_change_of_stage_is_news(self) -> None:
        """Somebody at the form, signed in, declined, cancelled: each ends a wait at once."""
        desk = self.desk()
        started, declined, cancelled = desk.start(), desk.start(), desk.start()
        waiting = desk.asked(started, wait_seconds=25)
        desk.sign_in(started, name="nobody")
        self.assertEqual(self.successResultOf(waiting), Pending("at_provider", 600))
        waiting = desk.asked(started, wait_seconds=25, seen="at_provider")
        desk.sign_in(started, name="nobody")
        self.assertNoResult(waiting)
        desk.sign_in(started)
        self.assertEqual(self.successResultOf(waiting), Pending("proof_required", 600))
        waiting = desk.asked(declined, wait_seconds=25)
        desk.decline(declined)
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.LOGIN_DENIED))
        waiting = desk.asked(cancelled, wait_seconds=25)
        desk.cancel(cancelled)
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.LOGIN_CANCELLED))

    def test_no_wait_for_what_the_game_does_not_know(self) -> None:
        """A stage other than `seen` is told at once, however long the wait; absent, `seen` is the first stage."""
        desk = self.desk()
        started = desk.start()
        self.assertEqual(desk.collect(started, wait_seconds=25, seen="proof_required").stage, "waiting_for_browser")
        desk.sign_in(started)
        self.assertEqual(desk.collect(started, wait_seconds=25).stage, "proof_required")
        self.assertIsInstance(desk.collect(started, wait_seconds=25, code=desk.code(started)), Complete)
        self.assertIsInstance(desk.collect(started, wait_seconds=25, seen="proof_required"), Complete)

    def test_a_wait_ends_with_the_login(self) -> None:
        """Expiry wakes it by the clock, though no sweep ran."""
        desk = self.desk()
        started = desk.start()
        desk.clock.advance(590)
        waiting = desk.asked(started, wait_seconds=25)
        desk.clock.advance(10.5)
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.LOGIN_EXPIRED))

    def test_a_newer_collect_takes_the_place(self) -> None:
        """The older one gets its 202 at once, whether the newer one waits or not."""
        desk = self.desk()
        started = desk.start()
        first = desk.asked(started, wait_seconds=25)
        desk.clock.advance(20)
        second = desk.asked(started, wait_seconds=25)
        self.assertEqual(self.successResultOf(first), Pending("waiting_for_browser", 580))
        desk.clock.advance(10)
        desk.collect(started)
        self.assertEqual(self.successResultOf(second), Pending("waiting_for_browser", 570))

    def test_closing(self) -> None:
        """Every waiter gets its 202, and whoever comes after that does not wait."""
        desk = self.desk()
        one, two = desk.start(), desk.start()
        waits = [desk.asked(one, wait_seconds=25), desk.asked(two, wait_seconds=25)]
        desk.clock.advance(10)
        desk.waiters.close()
        waits.append(desk.asked(one, wait_seconds=25))
        for wait in waits:
            self.assertEqual(self.successResultOf(wait), Pending("waiting_for_browser", 590))

    def test_a_game_that_leaves(self) -> None:
        """Its place is free again, and the login is as it was."""
        desk = self.desk()
        started = desk.start()
        waiting = desk.asked(started, wait_seconds=25)
        waiting.addErrback(lambda _: None)
        waiting.cancel()
        self.assertEqual((len(desk.waiters), desk.clock.getDelayedCalls()), (0, []))
        self.assertEqual(desk.collect(started).stage, "waiting_for_browser")

    def test_news_between_look_and_wait(self) -> None:
        """What changes while the look is under way is not slept over."""
        desk = self.desk()
        started = desk.start()
        desk.stores.reads.pause()
        waiting = desk.asked(started, wait_seconds=25)
        desk.waiters.wake(desk.secret(started))
        desk.stores.reads.resume()
        self.assertNoResult(waiting)
        desk.sign_in(started)
        self.assertEqual(self.successResultOf(waiting).stage, "proof_required")

    def test_a_poll_beside_the_first_collect(self) -> None:
        """A poll that begins while the first proven collect is being written ends with the same credentials."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        proof = PresentedProof.finish_code(desk.code(started))
        desk.stores.auth.pause()
        proven = desk.asked(started, presented=proof)
        poll = desk.asked(started, wait_seconds=25, seen="proof_required")
        self.assertNoResult(poll)
        desk.stores.auth.resume()
        one, two = self.successResultOf(proven), self.successResultOf(poll)
        self.assertTrue(one.result.pair.access.matches(two.result.pair.access))

    def test_an_unknown_secret_waits_for_nothing(self) -> None:
        """It is refused at once and leaves no place behind."""
        desk = self.desk()
        started = desk.start()
        desk.write(lambda c: c.execute("DELETE FROM login") and None)
        with self.assertRaises(DeviceSecretInvalid):
            desk.collect(started, wait_seconds=25)
        self.assertEqual(len(desk.waiters), 0)


class Haste(HandoffCase):
    def test_hasty_collects(self) -> None:
        """Five at once, then one a second; a refused one changes nothing and says when to come again."""
        desk = self.desk()
        started, other = desk.start(), desk.start()
        for _ in range(5):
            desk.collect(started, wait_seconds=4, seen="")
        with self.assertRaises(RateLimited) as caught:
            desk.collect(started)
        self.assertEqual(caught.exception.retry_after, 1)
        desk.collect(other)
        desk.clock.advance(1)
        desk.collect(started)
        with self.assertRaises(RateLimited):
            desk.collect(started)

    def test_what_is_not_hasty(self) -> None:
        """A wait of five seconds, or a proof, is never counted."""
        desk = self.desk()
        started = desk.start()
        for _ in range(10):
            desk.collect(started, wait_seconds=5, seen="")
            desk.collect(started, code="BBB-BBB")
        told = [desk.collect(started) for _ in range(5)]
        self.assertEqual(told, [Pending("waiting_for_browser", 600)] * 5)
        self.assertRaises(RateLimited, desk.collect, started)

    def test_haste_is_forgotten(self) -> None:
        """The count of a login costs no memory once it is over."""
        desk = self.desk()
        for _ in range(50):
            desk.collect(desk.start())
        desk.clock.advance(2)
        desk.collect(desk.start())
        self.assertEqual(len(desk.collects._arrivals), 1)


class Stopped(HandoffCase):
    def test_an_error_ends_a_wait(self) -> None:
        """A store that fails while somebody waits is told to them, and their place is free."""
        desk = self.desk()
        started = desk.start()
        waiting = desk.asked(started, wait_seconds=25)
        desk.write(lambda c: c.execute("DELETE FROM login") and None)
        desk.waiters.wake(desk.secret(started))
        self.failureResultOf(waiting, DeviceSecretInvalid)
        self.assertEqual(len(desk.waiters), 0)
        done(desk.lifecycle.expire())
