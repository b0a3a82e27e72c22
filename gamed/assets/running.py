"""Where work that waits for the disk is done: not in the thread that serves."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from twisted.internet.defer import Deferred

T = TypeVar("T")


class Run(Protocol):
    """Calls something in another thread; its result, or its error."""

    def __call__(self, work: Callable[[], T]) -> Deferred[T]: ...
