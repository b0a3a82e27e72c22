"""Slots and the one timer behind them."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.ops.waiters import AT_ONCE, Waiters
from gamed.waits import Woken


class Slots(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.waiters = Waiters(self.clock)

    def test_one_timer_for_all(self) -> None:
        """However many wait, one call is scheduled, and none when nobody does."""
        waits = [self.waiters.open(bytes([n])).wait(1 + n / 10) for n in range(100)]
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        for _ in range(60):
            self.clock.advance(0.2)
        self.assertEqual({self.successResultOf(wait) for wait in waits}, {Woken.TIME})
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_nobody_is_woken_early_or_late(self) -> None:
        """A wait ends in the quarter second after its time, a shorter one that came later before it."""
        long, short = self.waiters.open(b"l").wait(20), self.waiters.open(b"s").wait(1)
        self.clock.advance(0.99)
        self.assertNoResult(short)
        self.clock.advance(0.27)
        self.assertIs(self.successResultOf(short), Woken.TIME)
        self.clock.advance(18.7)
        self.assertNoResult(long)
        self.clock.advance(0.3)
        self.assertIs(self.successResultOf(long), Woken.TIME)

    def test_only_the_key_is_woken(self) -> None:
        """News for one is none for another; a key nobody holds is no error."""
        one, two = self.waiters.open(b"1").wait(9), self.waiters.open(b"2").wait(9)
        self.waiters.wake(b"1")
        self.waiters.wake(b"3")
        self.assertIs(self.successResultOf(one), Woken.NEWS)
        self.assertNoResult(two)

    def test_news_before_the_wait(self) -> None:
        """It ends the next wait at once, and only that one."""
        slot = self.waiters.open(b"k")
        self.waiters.wake(b"k")
        self.assertIs(self.successResultOf(slot.wait(9)), Woken.NEWS)
        self.assertNoResult(slot.wait(9))

    def test_an_end_outweighs_news(self) -> None:
        """Whatever came before, a slot that was superseded or closed does not wait again."""
        superseded, closed = self.waiters.open(b"s"), self.waiters.open(b"c")
        self.waiters.wake(b"s")
        self.waiters.open(b"s")
        self.waiters.wake(b"c")
        self.waiters.close()
        self.assertIs(self.successResultOf(superseded.wait(9)), Woken.SUPERSEDED)
        self.assertIs(self.successResultOf(closed.wait(9)), Woken.CLOSING)

    def test_superseded(self) -> None:
        """The newest slot of a key has it; an older one ends, now or when it waits, and leaving frees nothing."""
        older = self.waiters.open(b"k")
        waiting = self.waiters.open(b"k").wait(9)
        self.assertIs(self.successResultOf(older.wait(9)), Woken.SUPERSEDED)
        newest = self.waiters.open(b"k")
        self.assertIs(self.successResultOf(waiting), Woken.SUPERSEDED)
        older.__exit__(None, None, None)
        self.assertEqual(len(self.waiters), 1)
        newest.__exit__(None, None, None)
        self.assertEqual(len(self.waiters), 0)

    def test_many_are_woken_in_portions(self) -> None:
        """The reactor gets its turn after every 250, and everyone is told in the end."""
        waits = [self.waiters.open(n.to_bytes(2, "big")).wait(25) for n in range(2 * AT_ONCE + 1)]
        self.waiters.close()
        self.assertEqual(sum(wait.called for wait in waits), AT_ONCE)
        self.clock.advance(0)
        self.assertEqual({self.successResultOf(wait) for wait in waits}, {Woken.CLOSING})
        self.assertIs(self.successResultOf(self.waiters.open(b"late").wait(25)), Woken.CLOSING)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_waiter_that_leaves(self) -> None:
        """Cancelled while it waits or while its answer is queued, it is not told, and the others are."""
        waits = [self.waiters.open(n.to_bytes(2, "big")).wait(25) for n in range(AT_ONCE + 2)]
        waits[0].addErrback(lambda _: None).cancel()
        self.waiters.close()
        waits[-1].addErrback(lambda _: None).cancel()
        self.clock.advance(0)
        self.assertEqual({self.successResultOf(wait) for wait in waits[1:-1]}, {Woken.CLOSING})
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_waiter_that_wakes_others(self) -> None:
        """An answer may wake another; that one is told, too."""
        one, two = self.waiters.open(b"1").wait(9), self.waiters.open(b"2").wait(9)
        one.addCallback(lambda _: self.waiters.wake(b"2"))
        self.waiters.wake(b"1")
        self.clock.advance(0)
        self.assertIs(self.successResultOf(two), Woken.NEWS)
