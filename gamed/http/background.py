"""Work that must be completed even if the client leaves.

A handler is cancelled when its client leaves. Work that changes something is shielded from that: the handler waits for
another Deferred, and only that one is cancelled.
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
    """All shielded work of the service, so that shutdown can wait for it."""

    def __init__(self) -> None:
        self._running = 0
        self._idle: list[Deferred[None]] = []
        self._given_up = False

    def run(self, coroutine: Coroutine[Deferred[Any], Any, T]) -> Deferred[T]:
        """Start the work and return its result; cancelling the returned Deferred does not stop the work."""
        watcher: Deferred[T] = Deferred()
        self._running += 1

        def done(result: T) -> None:
            self._running -= 1
            if not watcher.called:
                watcher.callback(result)
            self._notify_idle()

        def failed(failure: Failure) -> None:
            self._running -= 1
            if not watcher.called:
                watcher.errback(failure)
            elif not self._given_up:
                _log.error(
                    "background_work_failed",
                    error=type(failure.value).__name__,
                    below=redacted_traceback(failure.value),
                )
            self._notify_idle()

        Deferred.fromCoroutine(coroutine).addCallbacks(done, failed)
        return watcher

    def drain(self) -> Deferred[None]:
        """Return a Deferred that fires when no shielded work is left."""
        idle: Deferred[None] = Deferred()
        self._idle.append(idle)
        self._notify_idle()
        return idle

    def give_up(self) -> None:
        """Log no further errors of the work, because the service stops before it is completed."""
        self._given_up = True
        if self._running:
            _log.warn("requests_interrupted", count=self._running)

    def _notify_idle(self) -> None:
        if not self._running:
            waiting, self._idle = self._idle, []
            for idle in waiting:
                idle.callback(None)
