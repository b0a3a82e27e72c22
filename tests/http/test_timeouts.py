"""A timeout is cheap to move."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.timeouts import Timeout


class TimeoutTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.fired: list[float] = []
        self.timeout = Timeout(self.clock, lambda: self.fired.append(self.clock.seconds()))

    def calls(self) -> list[float]:
        return [call.getTime() for call in self.clock.getDelayedCalls()]

    def test_fires_once(self) -> None:
        """A timeout fires at its time and leaves nothing in the reactor."""
        self.timeout.reset(0.25)
        self.assertEqual(self.calls(), [0.25])
        self.clock.pump([0.2, 0.1, 10])
        self.assertEqual(len(self.fired), 1)
        self.assertEqual(self.calls(), [])

    def test_moved_away(self) -> None:
        """The reactor's call stays where it was, and is made again for the new time when it is due."""
        self.timeout.reset(10)
        self.clock.advance(9)
        self.timeout.reset(10)
        self.assertEqual(self.calls(), [10])
        self.clock.advance(1)
        self.assertEqual(self.calls(), [19])
        self.clock.advance(9)
        self.assertEqual(self.fired, [19])

    def test_moved_closer(self) -> None:
        """The reactor's call is made anew, and there is only one."""
        self.timeout.reset(75)
        self.timeout.reset(1)
        self.assertEqual(self.calls(), [1])
        self.clock.advance(1)
        self.assertEqual(self.fired, [1])

    def test_cleared(self) -> None:
        """A cleared timeout does not fire; it can be set again before and after its old time."""
        self.timeout.reset(10)
        self.timeout.reset(None)
        self.clock.advance(10)
        self.assertEqual((self.fired, self.calls()), ([], []))
        self.timeout.reset(10)
        self.timeout.reset(None)
        self.timeout.reset(20)
        self.clock.pump([10, 10])
        self.assertEqual(self.fired, [30])

    def test_closed(self) -> None:
        """A cancelled timeout leaves nothing in the reactor and never fires."""
        self.timeout.reset(10)
        self.timeout.cancel()
        self.assertEqual(self.calls(), [])
        self.timeout.reset(1)
        self.clock.advance(1)
        self.timeout.cancel()
        self.assertEqual((self.fired, self.calls()), ([], []))

    def test_set_while_firing(self) -> None:
        """The called function may set the timeout again."""
        again = Timeout(self.clock, lambda: (self.fired.append(self.clock.seconds()), again.reset(1)))
        again.reset(1)
        self.clock.pump([1, 1, 1])
        self.assertEqual(self.fired, [1, 2, 3])
        again.cancel()

    def test_fails(self) -> None:
        """An error of the called function is not repeated."""

        def fail() -> None:
            raise ZeroDivisionError

        Timeout(self.clock, fail).reset(1)
        self.assertRaises(ZeroDivisionError, self.clock.advance, 1)
        self.clock.advance(10)
        self.assertEqual(self.calls(), [])
