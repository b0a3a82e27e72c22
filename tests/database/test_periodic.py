"""Periodic work that outlives its own failures."""

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.errors import DatabaseBusy
from gamed.database.periodic import PeriodicTask


class TickerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.begun: list[Deferred[None]] = []
        self.ticker = PeriodicTask(self.clock, 60, self.work)

    def work(self) -> Deferred[None]:
        self.begun.append(Deferred())
        return self.begun[-1]

    def test_from_end_to_start(self) -> None:
        """The interval begins when the work has ended: it never runs beside itself."""
        self.ticker.start()
        self.clock.advance(60)
        self.clock.advance(120)
        self.assertEqual(len(self.begun), 1)
        self.begun[0].callback(None)
        self.clock.advance(60)
        self.assertEqual(len(self.begun), 2)

    def test_goes_on_after_a_failure(self) -> None:
        """It is logged, and the next call comes in time."""
        self.ticker.start(now=True)
        self.begun[0].errback(ArithmeticError())
        self.assertEqual(len(self.flushLoggedErrors(ArithmeticError)), 1)
        self.clock.advance(60)
        self.assertEqual(len(self.begun), 2)

    def test_a_busy_store(self) -> None:
        """One line and no traceback: the next call does what this one could not."""
        self.ticker.start(now=True)
        with capturedLogs() as events:
            self.begun[0].errback(DatabaseBusy("The server is busy."))
        (event,) = events
        self.assertEqual(event["log_level"], LogLevel.warn)
        self.assertEqual(formatEvent(event), "periodic_task_postponed error=DatabaseBusy retry_seconds=60")
        self.clock.advance(60)
        self.assertEqual(len(self.begun), 2)

    def test_stopped(self) -> None:
        """No further call; work cut off by the end of what it works on is nobody's trouble."""
        self.ticker.start(now=True)
        self.ticker.stop()
        self.begun[0].errback(ArithmeticError())
        self.clock.advance(600)
        self.assertEqual((len(self.begun), self.flushLoggedErrors()), (1, []))
