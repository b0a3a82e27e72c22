"""Slots and the one timer behind them."""

from collections import Counter
from itertools import pairwise
from time import process_time

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.long_poll import AWAKE, SLICE_SECONDS, LongPollRegistry, TimerWheel, Waiter, WakeReason

MANY = 2 * AWAKE + 1


class Busy(Clock):
    """Time passes at each look at the clock."""

    def seconds(self) -> float:
        self.rightNow += SLICE_SECONDS / 10
        return super().seconds()


class Slots(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.waiters = LongPollRegistry(self.clock)

    def test_one_timer_for_all(self) -> None:
        """However many wait, one call is scheduled, and none when no client waits."""
        waits = [self.waiters.open(bytes([n])).wait(1 + n / 10) for n in range(100)]
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        for _ in range(60):
            self.clock.advance(0.2)
        self.assertEqual({self.successResultOf(wait) for wait in waits}, {WakeReason.TIMEOUT})
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_notified_on_time(self) -> None:
        """A wait ends in the quarter second after its time, a shorter one that came later before it."""
        long, short = self.waiters.open(b"l").wait(20), self.waiters.open(b"s").wait(1)
        self.clock.advance(0.99)
        self.assertNoResult(short)
        self.clock.advance(0.27)
        self.assertIs(self.successResultOf(short), WakeReason.TIMEOUT)
        self.clock.advance(18.7)
        self.assertNoResult(long)
        self.clock.advance(0.3)
        self.assertIs(self.successResultOf(long), WakeReason.TIMEOUT)

    def test_only_the_key_is_notified(self) -> None:
        """News for one is none for another; a key without a waiter is no error."""
        one, two = self.waiters.open(b"1").wait(9), self.waiters.open(b"2").wait(9)
        self.waiters.wake(b"1")
        self.waiters.wake(b"3")
        self.assertIs(self.successResultOf(one), WakeReason.CHANGED)
        self.assertNoResult(two)

    def test_news_before_the_wait(self) -> None:
        """It ends the next wait at once, and only that one."""
        slot = self.waiters.open(b"k")
        self.waiters.wake(b"k")
        self.assertIs(self.successResultOf(slot.wait(9)), WakeReason.CHANGED)
        self.assertNoResult(slot.wait(9))

    def test_an_end_outweighs_news(self) -> None:
        """A slot that was superseded or closed does not wait again, also after other news."""
        superseded, closed = self.waiters.open(b"s"), self.waiters.open(b"c")
        self.waiters.wake(b"s")
        self.waiters.open(b"s")
        self.waiters.wake(b"c")
        self.waiters.close()
        self.assertIs(self.successResultOf(superseded.wait(9)), WakeReason.SUPERSEDED)
        self.assertIs(self.successResultOf(closed.wait(9)), WakeReason.SHUTTING_DOWN)

    def test_superseded(self) -> None:
        """The newest slot of a key has it; an older one ends, now or when it waits, and leaving frees nothing."""
        older = self.waiters.open(b"k")
        waiting = self.waiters.open(b"k").wait(9)
        self.assertIs(self.successResultOf(older.wait(9)), WakeReason.SUPERSEDED)
        newest = self.waiters.open(b"k")
        self.assertIs(self.successResultOf(waiting), WakeReason.SUPERSEDED)
        older.__exit__(None, None, None)
        self.assertEqual(len(self.waiters), 1)
        newest.__exit__(None, None, None)
        self.assertEqual(len(self.waiters), 0)

    def test_a_waiter_that_leaves(self) -> None:
        """Cancelled while it waits or while it is due, it is not notified, and the others are."""
        notified: list[WakeReason] = []
        waits = [self.waiters.open(bytes([n])).wait(25).addCallbacks(notified.append, lambda _: None) for n in range(9)]
        waits[0].cancel()
        waits[1].addCallback(lambda _: waits[2].cancel())
        self.waiters.close()
        self.assertEqual(notified, [WakeReason.SHUTTING_DOWN] * 7)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_waiter_that_wakes_others(self) -> None:
        """An answer may wake another; that one is notified, too."""
        one, two = self.waiters.open(b"1").wait(9), self.waiters.open(b"2").wait(9)
        one.addCallback(lambda _: self.waiters.wake(b"2"))
        self.waiters.wake(b"1")
        self.clock.advance(0)
        self.assertIs(self.successResultOf(two), WakeReason.CHANGED)

    def test_an_end_overtakes_news(self) -> None:
        """A waiter that is due when a newer one comes, or the service stops, is notified of the end."""
        first, second, third = (self.waiters.open(key) for key in (b"1", b"2", b"3"))
        notified: list[tuple[bytes, WakeReason]] = []
        for slot in (second, third):
            slot.wait(9).addCallback(lambda why, key=slot.key: notified.append((key, why)))

        def end(_: WakeReason) -> None:
            for key in (b"2", b"3"):
                self.waiters.wake(key)
            self.waiters.open(b"2")
            self.waiters.close()

        first.wait(9).addCallback(end)
        self.waiters.wake(b"1")
        self.assertEqual(notified, [(b"2", WakeReason.SUPERSEDED), (b"3", WakeReason.SHUTTING_DOWN)])
        self.assertIs(self.successResultOf(third.wait(9)), WakeReason.SHUTTING_DOWN)

    def test_an_end_is_for_ever(self) -> None:
        """News that comes after it does not hide it; and who comes after the end of the service does not wait."""
        first = self.waiters.open(b"1")
        self.waiters.close()
        self.waiters.wake(b"1")
        self.assertIs(self.successResultOf(first.wait(25)), WakeReason.SHUTTING_DOWN)
        self.assertIs(self.successResultOf(self.waiters.open(b"2").wait(25)), WakeReason.SHUTTING_DOWN)

    def test_a_wait_that_is_given_up(self) -> None:
        """Forget a cancelled wait, so that its place can be used again."""
        slot = self.waiters.open(b"1")
        slot.wait(1).addErrback(lambda _: None).cancel()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        again = slot.wait(9)
        self.clock.advance(2)
        self.assertNoResult(again)

    def test_who_is_superseded_comes_again_at_once(self) -> None:
        """Its client sent the next request behind the first: of three for one key each is notified."""
        first, again = self.waiters.open(b"1"), []
        first.wait(25).addCallback(lambda _: again.append(self.waiters.open(b"1").wait(25)))
        third = self.waiters.open(b"1").wait(25)
        self.waiters.wake(b"1")
        self.assertEqual(
            {self.successResultOf(wait) for wait in (*again, third)}, {WakeReason.CHANGED, WakeReason.SUPERSEDED}
        )

    def test_times_that_are_over_together(self) -> None:
        """The reactor was late: the first that is notified may end the wait of another, and later ones still end."""
        waits = [self.waiters.open(key).wait(seconds) for key, seconds in ((b"1", 1), (b"2", 2), (b"3", 9))]
        waits[0].addCallback(lambda _: self.waiters.open(b"2"))
        self.clock.advance(3)
        self.assertTrue(waits[1].called)
        self.clock.advance(7)
        self.assertIs(self.successResultOf(waits[2]), WakeReason.TIMEOUT)


class ManyWaitersTests(SynchronousTestCase):
    """More waiters than may be notified at once."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.waiters = LongPollRegistry(self.clock)
        self.store: list[Deferred[None]] = []
        """Record the notified waiters."""
        self.notified: Counter[tuple[int, WakeReason]] = Counter()

    async def wait(self, number: int) -> None:
        """Wait as a handler does: again after every change."""
        with self.waiters.open(number.to_bytes(2, "big")) as slot:
            why = None
            while why in (None, WakeReason.CHANGED):
                why = await slot.wait(25)
                self.notified[number, why] += 1
                if why is WakeReason.CHANGED:
                    self.store.append(Deferred())
                    await self.store[-1]

    def answer(self, count: int) -> None:
        """The store answers the first."""
        answered, self.store = self.store[:count], self.store[count:]
        for answer in answered:
            answer.callback(None)
        self.clock.advance(0)

    def begin(self) -> list[Deferred[None]]:
        return [Deferred.fromCoroutine(self.wait(number)) for number in range(MANY)]

    def test_the_store_is_not_flooded(self) -> None:
        """The first waiters are notified; the next as those are done, each once, in order."""
        self.begin()
        for number in range(MANY):
            self.waiters.wake(number.to_bytes(2, "big"))
        self.assertEqual(list(self.notified), [(number, WakeReason.CHANGED) for number in range(AWAKE)])
        self.answer(3)
        self.assertEqual(len(self.notified), AWAKE + 3)
        while self.store:
            self.answer(AWAKE)
        self.assertEqual(self.notified, Counter((number, WakeReason.CHANGED) for number in range(MANY)))

    def test_who_leaves_makes_room(self) -> None:
        """A client that leaves while the store is asked delays no other client."""
        handlers = self.begin()
        for number in range(MANY):
            self.waiters.wake(number.to_bytes(2, "big"))
        for handler in handlers[:7]:
            handler.addErrback(lambda _: None).cancel()
        self.clock.advance(0)
        self.assertEqual(len(self.notified), AWAKE + 7)

    def test_the_end_waits_for_no_store(self) -> None:
        """When the service stops all are notified at once, whatever the database does."""
        handlers = self.begin()
        for number in range(MANY):
            self.waiters.wake(number.to_bytes(2, "big"))
        self.waiters.close()
        closing = Counter((number, WakeReason.SHUTTING_DOWN) for number in range(AWAKE, MANY))
        self.assertEqual(self.notified, Counter((number, WakeReason.CHANGED) for number in range(AWAKE)) + closing)
        self.answer(AWAKE)
        for handler in handlers:
            self.successResultOf(handler)
        self.assertEqual((len(self.waiters), self.clock.getDelayedCalls()), (0, []))

    def test_the_reactor_gets_its_turn(self) -> None:
        """While notifying takes long, other requests are served; each waiter is notified once, in order."""
        self.clock = Busy()
        self.waiters = LongPollRegistry(self.clock)
        served = [0]

        def serve() -> None:
            served.append(len(self.notified))
            if len(self.notified) < MANY:
                self.clock.callLater(0, serve)

        handlers = self.begin()
        self.waiters.close()
        serve()
        self.clock.advance(0)
        self.assertLessEqual(max(after - before for before, after in pairwise(served)), 2 * 11)
        self.assertEqual(
            list(self.notified.items()), [((number, WakeReason.SHUTTING_DOWN), 1) for number in range(MANY)]
        )
        for handler in handlers:
            self.successResultOf(handler)


class TimerTests(SynchronousTestCase):
    """Timers that end in one tick."""

    def test_reactor_gets_its_turn(self) -> None:
        """Timers are fired for some milliseconds at a time; all of them are, in their order."""
        clock, fired = Clock(), []

        def fire(waiter: Waiter) -> None:
            fired.append(waiter)
            clock.rightNow += SLICE_SECONDS / 2

        wheel = TimerWheel(clock, 1.0, fire)
        waiters = [Waiter(LongPollRegistry(clock), b"%d" % number) for number in range(10)]
        for waiter in waiters:
            wheel.schedule(waiter, 1)
        served: list[int] = []
        clock.callLater(1, lambda: served.append(len(fired)))
        clock.advance(1)
        self.assertEqual(fired, waiters)
        self.assertLess(served[0], 5)

    def test_cost(self) -> None:
        """Each timer costs as much as the one before, however many end together."""
        clock, fired = Clock(), []
        wheel = TimerWheel(clock, 1.0, fired.append)
        registry = LongPollRegistry(clock)
        for _ in range(100_000):
            wheel.schedule(Waiter(registry, b""), 1)
        began = process_time()
        clock.advance(1)
        self.assertEqual(len(fired), 100_000)
        self.assertLess(process_time() - began, 1.5)  # about 0.1; it was 4
