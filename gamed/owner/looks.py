"""Looks at folders for the owner's page: all requests that want the same one at a time wait for one thread."""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred


class SharedLooks:
    """The looks that run. A folder that does not respond holds one thread, however many requests ask for it."""

    def __init__(self, clock: Any, seconds: float) -> None:
        """Let each request wait `seconds`."""
        self._clock = clock
        self._seconds = seconds
        self._waiting: dict[str, set[Deferred[Any]]] = {}
        """By look; one without requests that wait is here, too, until it ends."""

    def join(self, name: str, begin: Callable[[], Deferred[Any]]) -> Deferred[Any]:
        """Return the result of the look with this name, which begins unless it runs.

        The Deferred is the caller's own: it may fail with TimeoutError, or be cancelled, and the others go on waiting.
        """
        waiting: Deferred[Any] = Deferred()
        waiting.addTimeout(self._seconds, self._clock)
        runs = name in self._waiting
        waiters = self._waiting.setdefault(name, set())
        waiters.add(waiting)
        waiting.addBoth(_left, waiters, waiting)
        if not runs:
            maybeDeferred(begin).addBoth(self._end, name)
        return waiting

    def _end(self, found: Any, name: str) -> None:
        for waiting in tuple(self._waiting.pop(name)):
            if not waiting.called:
                waiting.callback(found)


def _left(found: Any, waiters: set[Deferred[Any]], waiting: Deferred[Any]) -> Any:
    """Forget a request that waits no more; pass the result on."""
    waiters.discard(waiting)
    return found
