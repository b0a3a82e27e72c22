"""A coroutine on its way: what Deferred.fromCoroutine does, for who needs no Deferred in return.

A Deferred per coroutine costs a context, a status, two callback lists and, once it has failed, a reference cycle.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure


class Steps:
    """Runs until it waits, and on when what it waits for has come; then `done` or `failed` is called, once."""

    __slots__ = ("_coroutine", "_done", "_failed", "_waits")

    def __init__(
        self,
        coroutine: Coroutine[Deferred[Any], Any, Any],
        done: Callable[[Any], object],
        failed: Callable[[BaseException], object],
    ) -> None:
        self._coroutine = coroutine
        self._done = done
        self._failed = failed
        self._waits: Deferred[Any] | None = None

    def go(self, result: object = None) -> None:
        """The coroutine takes a result from the Deferred that it waited for; a failure has to be thrown."""
        self._waits = None
        try:
            if isinstance(result, Failure):
                waits = result.throwExceptionIntoGenerator(self._coroutine)
            else:
                waits = self._coroutine.send(None)
        except StopIteration as e:
            outcome, tell = e.value, self._done
        except Exception as e:
            outcome, tell = e, self._failed
        else:
            self._waits = waits
            waits.addBoth(self.go)
            return
        try:
            tell(outcome)
        finally:
            outcome = None  # an error knows this frame, which must not know the error

    def cancel(self) -> None:
        """What it waits for fails with CancelledError, which it may catch."""
        if self._waits is not None:
            self._waits.cancel()
