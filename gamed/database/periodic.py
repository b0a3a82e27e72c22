"""A periodic task runs on the reactor's clock and goes on after its own failures."""

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database.errors import DatabaseError
from gamed.event_log import EventLog

_log = EventLog(Logger())


class PeriodicTask:
    """A call of `work` every `seconds`, counted from the end of one call to the start of the next."""

    def __init__(self, clock: Any, seconds: float, work: Callable[[], Awaitable[Any]], name: str) -> None:
        """Call `work`, which returns a Deferred or a coroutine; log failures with this name."""
        self._clock = clock
        self._name = name
        self._seconds = seconds
        self._work = work
        self._call: IDelayedCall | None = None
        self._running = False
        self._working = False
        self._postponed = ""
        """The database error of the last call, which was logged; "" after one that succeeded."""

    def start(self, now: bool = False) -> None:
        """Start, unless it is running; make the first call after one interval, or now."""
        self._running = True
        if now and not self._working:
            self._cancel()
            self._tick()
        else:
            self._schedule()

    def stop(self) -> None:
        """Make no further call; a failure of one under way is not logged, as what it works on is being closed."""
        self._running = False
        self._cancel()

    def _cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _schedule(self) -> None:
        if self._running and not self._working and self._call is None:
            self._call = self._clock.callLater(self._seconds, self._tick)

    def _tick(self) -> None:
        self._call = None
        self._working = True
        work = maybeDeferred(self._work)
        work.addCallbacks(self._succeeded, self._failed)
        work.addBoth(lambda _: self._done())

    def _succeeded(self, _: object) -> None:
        self._postponed = ""

    def _failed(self, reason: Failure) -> None:
        """Log expected database errors in one line; log a traceback only for unexpected ones.

        The same database error is logged once until a call succeeds: a dozen tasks repeat it for as long as it lasts,
        some of them every five seconds.
        """
        if not self._running:
            return
        if reason.check(DatabaseError):
            problem = type(reason.value).__name__
            if problem != self._postponed:
                _log.warn("periodic_task_postponed", task=self._name, error=problem, retry_seconds=self._seconds)
            self._postponed = problem
        else:
            _log.failure("periodic_task_failed", reason, task=self._name)

    def _done(self) -> None:
        self._working = False
        self._schedule()
