"""A client that does not read its answer."""

from collections.abc import Callable
from fcntl import ioctl
from sys import byteorder
from termios import TIOCOUTQ

from twisted.internet.tcp import Connection

from gamed.web.deadline import Deadline

STALL_SECONDS = 60
"""How long an answer may stay unread."""
PROGRESS_BYTES = 16 * 1024
"""Less than this taken in that time is nothing."""


class Stall:
    """Runs from the moment the transport is full until it has room again.

    A kernel's buffer is full of megabytes before it has room again: a slow line may need minutes for them. `unread` is
    how many bytes the client has yet to take; while they become fewer it is slow, not gone. None: nobody knows.
    """

    def __init__(self, beside: Deadline, unread: Callable[[], int | None], give_up: Callable[[], None]) -> None:
        self._deadline = beside.another(self._judge)
        self._unread = unread
        self._give_up = give_up
        self._running = False
        self._before: int | None = None

    def begin(self) -> None:
        if not self._running:
            self._running = True
            self._before = self._unread()
            self._deadline.set(STALL_SECONDS)

    def end(self) -> None:
        self._deadline.end()

    def _judge(self) -> None:
        self._running = False
        before, now = self._before, self._unread()
        if before is None or now is None or before - now < PROGRESS_BYTES:
            self._give_up()
        else:
            self.begin()


def unread(transport: object) -> int | None:
    """What was written to a plain socket and is not with the client's machine yet; None of any other transport."""
    if not isinstance(transport, Connection) or not transport.connected or transport.TLS:
        return None
    waiting = len(transport.dataBuffer) - transport.offset + transport._tempDataLen
    sent = int.from_bytes(ioctl(transport.fileno(), TIOCOUTQ, bytes(4)), byteorder)
    return int(waiting) + sent
