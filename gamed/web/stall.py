"""A client that does not read its answer."""

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall

STALL_SECONDS = 60
"""How long an answer may stay unread."""


class Stall:
    """Runs from the moment the transport is full until it has room again."""

    def __init__(self, call_later: Callable[..., IDelayedCall], give_up: Callable[[], None]) -> None:
        self._call_later = call_later
        self._give_up = give_up
        self._due: IDelayedCall | None = None

    def begin(self) -> None:
        if self._due is None:
            self._due = self._call_later(STALL_SECONDS, self._give_up)

    def end(self) -> None:
        due, self._due = self._due, None
        if due is not None and due.active():
            due.cancel()
