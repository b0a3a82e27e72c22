"""A periodic task goes on after its own failures."""

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.errors import DatabaseBusy, DiskFull
from gamed.database.periodic import PeriodicTask


class PeriodicTaskTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.begun: list[Deferred[None]] = []
        self.task = PeriodicTask(self.clock, 60, self.work, "clean_up_saves")

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

    def test_coroutine(self) -> None:
        """The work may be a coroutine: the interval begins when it has ended."""

        async def work() -> None:
            await self.work()

        PeriodicTask(self.clock, 60, work, "clean_up_saves").start(now=True)
        self.clock.advance(60)
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
        line = "periodic_task_postponed task=clean_up_saves error=DatabaseBusy retry_seconds=60"
        self.assertEqual(formatEvent(event), line)
        self.clock.advance(60)
        self.assertEqual(len(self.begun), 2)

    def test_busy_for_long(self) -> None:
        """The same database error is logged once until a call succeeds, another one at once."""
        self.task.start(now=True)
        full = DiskFull("The disk is full.")
        with capturedLogs() as events:
            for error in (full, full, full, DatabaseBusy("The server is busy."), full, None, full):
                self.begun[-1].errback(error) if error else self.begun[-1].callback(None)
                self.clock.advance(60)
        logged = [formatEvent(event).split()[2] for event in events]
        self.assertEqual(logged, ["error=DiskFull", "error=DatabaseBusy", "error=DiskFull", "error=DiskFull"])

    def test_stopped(self) -> None:
        """After stop() there is no further call, and a failure of the last one is not logged."""
        self.task.start(now=True)
        self.task.stop()
        self.begun[0].errback(ArithmeticError())
        self.clock.advance(600)
        self.assertEqual((len(self.begun), self.flushLoggedErrors()), (1, []))
