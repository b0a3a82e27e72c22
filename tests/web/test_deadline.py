"""One timer for all connections."""

from collections.abc import Callable

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.web.deadline import TICK_SECONDS, Deadline, deadlines


class DeadlineTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.deadlines = deadlines(self.clock)
        self.over: list[tuple[str, float]] = []

    def deadline(self, name: str, then: Callable[[], object] = lambda: None) -> Deadline:
        def act() -> None:
            self.over.append((name, self.clock.seconds()))
            then()

        return Deadline(self.deadlines, act)

    def timers(self) -> list[float]:
        return [call.getTime() for call in self.clock.getDelayedCalls()]

    def test_one_timer(self) -> None:
        """Set to the earliest; each has its time, and nothing is left."""
        for seconds in (75, 10, 10, 0.25):
            self.deadline(str(seconds)).set(seconds)
        self.assertEqual(self.timers(), [0.25])
        self.clock.pump([TICK_SECONDS] * 8 * 80)
        self.assertEqual(self.over, [("0.25", 0.25), ("10", 10), ("10", 10), ("75", 75)])
        self.assertEqual(self.timers(), [])

    def test_rounded_up(self) -> None:
        """Never too early, and a tick late at most."""
        for number in range(100):
            self.deadline(str(number)).set(0.01 * number)
        self.clock.pump([0.01] * 130)
        self.assertEqual(len(self.over), 100)
        for name, at in self.over:
            self.assertTrue(-1e-9 <= at - 0.01 * int(name) <= TICK_SECONDS + 0.01, (name, at))

    def test_moved_away(self) -> None:
        """Looked at once where it was, and then where it is."""
        moved = self.deadline("moved")
        moved.set(10)
        self.clock.advance(9)
        moved.set(10)
        self.assertEqual(self.timers(), [10])
        self.clock.advance(1)
        self.assertEqual(self.timers(), [19])
        self.clock.advance(9)
        self.assertEqual(self.over, [("moved", 19)])

    def test_moved_closer(self) -> None:
        moved = self.deadline("moved")
        moved.set(75)
        moved.set(1)
        self.assertEqual(self.timers(), [1])
        self.clock.advance(1)
        self.assertEqual(self.over, [("moved", 1)])

    def test_taken_back(self) -> None:
        """And set again, before its old time and after it."""
        moved = self.deadline("moved")
        moved.set(10)
        moved.set(None)
        self.clock.advance(10)
        self.assertEqual((self.over, self.timers()), ([], []))
        moved.set(10)
        moved.set(None)
        moved.set(20)
        self.clock.pump([10, 10])
        self.assertEqual(self.over, [("moved", 30)])

    def test_ended(self) -> None:
        """Nothing is left, and nothing comes of it, also when it is set once more."""
        gone = self.deadline("gone")
        gone.set(10)
        gone.end()
        self.assertEqual(self.timers(), [])
        gone.set(1)
        self.clock.advance(1)
        gone.end()
        self.assertEqual((self.over, self.timers()), ([], []))

    def test_one_ends_others(self) -> None:
        """Of its own tick and of a later one that is due, too."""
        others = [self.deadline(f"other {number}") for number in range(4)]
        self.deadline("first", lambda: [other.end() for other in others]).set(1)
        for other, seconds in zip(others, (1, 1, 2, 3), strict=True):
            other.set(seconds)
        self.clock.advance(3)
        self.assertEqual(self.over, [("first", 3)])
        self.assertEqual(self.timers(), [])

    def test_one_sets_others(self) -> None:
        """Earlier than all the rest, and itself anew."""
        again = self.deadline("again")
        late = self.deadline("late")
        late.set(75)
        self.deadline("first", lambda: (again.set(1), late.set(2))).set(1)
        self.clock.pump([1, 1, 1])
        self.assertEqual(self.over, [("first", 1), ("again", 2), ("late", 3)])

    def test_one_fails(self) -> None:
        """The others have their time all the same."""

        def fail() -> None:
            raise ZeroDivisionError

        self.deadline("bad", fail).set(1)
        self.deadline("good").set(1)
        self.deadline("later").set(2)
        self.assertRaises(ZeroDivisionError, self.clock.advance, 1)
        self.clock.pump([0, 1])
        self.assertEqual([name for name, _ in self.over], ["bad", "good", "later"])
        self.assertEqual(self.timers(), [])
