"""Requests that look at the same folder at a time wait for one look, each as long as it may."""

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.owner.looks import SharedLooks


class LookTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.looks = SharedLooks(self.clock, 5)
        self.begun: list[Deferred[Any]] = []

    def begin(self) -> Deferred[Any]:
        self.begun.append(Deferred())
        return self.begun[-1]

    def join(self, name: str = "files") -> Deferred[Any]:
        return self.looks.join(name, self.begin)

    def test_shared(self) -> None:
        """Two requests get the result of one look; the next one begins another."""
        one, two = self.join(), self.join()
        self.assertEqual(len(self.begun), 1)
        self.begun[0].callback("found")
        self.assertEqual([self.successResultOf(each) for each in (one, two)], ["found", "found"])
        self.assertNoResult(self.join())
        self.assertEqual(len(self.begun), 2)

    def test_names(self) -> None:
        """A look at another folder does not wait."""
        self.join()
        self.join("other")
        self.assertEqual(len(self.begun), 2)

    def test_timeouts(self) -> None:
        """Each request waits from its own beginning; the look goes on, and none is begun beside it."""
        one = self.join()
        self.clock.advance(3)
        two = self.join()
        self.clock.advance(2)
        self.failureResultOf(one, TimeoutError)
        self.assertNoResult(two)
        self.begun[0].callback("found")
        self.assertEqual(self.successResultOf(two), "found")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_no_response(self) -> None:
        """Requests that gave up are forgotten, while a look that does not end stays the only one."""
        for _ in range(3):
            waiting = self.join()
            self.clock.advance(5)
            self.failureResultOf(waiting, TimeoutError)
        self.assertEqual((len(self.begun), self.looks._waiting), (1, {"files": set()}))
        self.begun[0].callback("late")
        self.assertEqual(self.looks._waiting, {})

    def test_cancelled(self) -> None:
        """A browser that leaves takes nothing from the others."""
        one, two = self.join(), self.join()
        one.cancel()
        self.failureResultOf(one, CancelledError)
        self.begun[0].callback("found")
        self.assertEqual(self.successResultOf(two), "found")

    def test_error(self) -> None:
        """An error is that of each request, and the next look begins anew."""
        waiting = [self.join(), self.join()]
        self.begun[0].errback(OSError())
        for each in waiting:
            self.failureResultOf(each, OSError)
        self.join()
        self.assertEqual(len(self.begun), 2)
