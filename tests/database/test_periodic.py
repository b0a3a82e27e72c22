"""A periodic task goes on after its own failures."""

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.errors import DatabaseBusy
from gamed.database.periodic import PeriodicTask


class PeriodicTaskTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.begun: list[Deferred[None]] = []
        self.task = PeriodicTask(self.clock, 60, self.work)

    def work(self) -> Deferred[None]:
        self.begun.append(Deferred())
        return self.begun[-1]

    def test_from_end_to_start(self) -> None:
        """The interval begins when the work has ended: it never runs beside itself."""
        self.task.start()
        self.clock.advance(60)
        self.clock.advance(120)
        self.assertEqual(len(self.begun), 1)
        self.begun[0].callback(None)
        self.clock.advance(60)
        self.assertEqual(len(self.begun), 2)

    def test_goes_on_after_a_failure(self) -> None:
        """A failure is logged, and the next call comes in time."""
        self.task.start(now=True)
        self.begun[0].errback(ArithmeticError())
        self.assertEqual(len(self.flushLoggedErrors(ArithmeticError)), 1)
        self.clock.advance(60)
        self.assertEqual(len(self.begun), 2)

    def test_a_busy_store(self) -> None:
        """A busy database is one line without a traceback, and the next call comes in time."""
        self.task.start(now=True)
        with capturedLogs() as events:
            self.begun[0].errback(DatabaseBusy("The server is busy."))
        (event,) = events
        self.assertEqual(event["log_level"], LogLevel.warn)
        self.assertEqual(formatEvent(event), "periodic_task_postponed error=DatabaseBusy retry_seconds=60")
        self.clock.advance(60)
        self.assertEqual(len(self.begun), 2)

    def test_stopped(self) -> None:
        """After stop() there is no further call, and a failure of the last one is not logged."""
        self.task.start(now=True)
        self.task.stop()
        self.begun[0].errback(ArithmeticError())
        self.clock.advance(600)
        self.assertEqual((len(self.begun), self.flushLoggedErrors()), (1, []))
