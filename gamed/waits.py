"""How work waits for news without knowing who keeps the time (PROTOCOL 3.5, 4.2)."""

from collections.abc import Awaitable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Protocol


class Woken(Enum):
    """Why a wait has ended."""

    NEWS = "news"
    TIME = "time"
    SUPERSEDED = "superseded"
    """A newer wait took this one's place."""
    CLOSING = "closing"
    """The service is going down."""


class Slot(Protocol):
    """One waiter's place. News that came since it was opened is not lost: the next wait ends at once."""

    def wait(self, seconds: float) -> Awaitable[Woken]: ...


class Waits(Protocol):
    """All waiters of one kind, by the key of what they wait for."""

    def open(self, key: bytes) -> AbstractContextManager[Slot]:
        """Take the place for this key; who held it is superseded."""

    def wake(self, key: bytes) -> None:
        """There is news."""
