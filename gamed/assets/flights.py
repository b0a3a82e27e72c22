"""Work that several wait for, done once."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

T = TypeVar("T")


class Flights(Generic[T]):
    """Who comes while it is under way waits for the same; who gives up waiting does not stop it."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[Deferred[T]]] = {}

    def join(self, key: Hashable, begin: Callable[[], Deferred[T]]) -> Deferred[T]:
        """The result of `begin()`, which nobody else can cancel."""
        watcher: Deferred[T] = Deferred()
        if key in self._waiting:
            self._waiting[key].append(watcher)
        else:
            self._waiting[key] = [watcher]
            begin().addBoth(self._land, key)
        return watcher

    def _land(self, result: T | Failure, key: Hashable) -> None:
        for watcher in self._waiting.pop(key):
            if not watcher.called:
                watcher.callback(result)
