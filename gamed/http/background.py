"""Work that must finish though the client has left.

A handler is cancelled when its client leaves. What has begun to change something runs detached from it: the handler
waits for a watcher, and only the watcher is cancelled.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.event_log import EventLog
from gamed.http.tracebacks import redacted_traceback

T = TypeVar("T")
_log = EventLog(Logger())


class ShieldedTasks:
    """All detached work of the service, so that shutdown can wait for it."""

    def __init__(self) -> None:
        self._running = 0
        self._idle: list[Deferred[None]] = []
        self._abandoned = False

    def run(self, coroutine: Coroutine[Deferred[Any], Any, T]) -> Deferred[T]:
        """Start the work; the result is the work's, or CancelledError for a watcher that gave up."""
        watcher: Deferred[T] = Deferred()
        self._running += 1

        def done(result: T) -> None:
            self._running -= 1
            if not watcher.called:
                watcher.callback(result)
            self._tell_idle()

        def failed(failure: Failure) -> None:
            self._running -= 1
            if not watcher.called:
                watcher.errback(failure)
            elif not self._abandoned:
                _log.error(
                    "background_work_failed",
                    error=type(failure.value).__name__,
                    below=redacted_traceback(failure.value),
                )
            self._tell_idle()

        Deferred.fromCoroutine(coroutine).addCallbacks(done, failed)
        return watcher

    def wait(self) -> Deferred[None]:
        """Fires when no detached work is left; at once when there is none."""
        idle: Deferred[None] = Deferred()
        self._idle.append(idle)
        self._tell_idle()
        return idle

    def abandon(self) -> None:
        """The service ends before this work has: how it fails then is nobody's news."""
        self._abandoned = True
        if self._running:
            _log.warn("requests_interrupted", count=self._running)

    def _tell_idle(self) -> None:
        if not self._running:
            waiting, self._idle = self._idle, []
            for idle in waiting:
                idle.callback(None)
