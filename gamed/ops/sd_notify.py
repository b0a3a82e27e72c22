"""What the service tells its manager, as sd_notify(3) says it: one datagram to the socket that $NOTIFY_SOCKET names."""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from time import monotonic

from msgspec import Struct

SEND_SECONDS = 1.0
"""How long a manager may leave its socket full before a message is dropped: it must not hold the service up."""
ASK_SECONDS, MORE_SECONDS = 10, 60
_MICRO = 1_000_000


class Manager(Struct, frozen=True):
    """Where to tell it; without a manager everything here is silent."""

    address: str | None = None
    """A path, or an abstract name that begins with @."""
    watchdog_usec: int = 0
    """0: nobody waits for signs of life."""
    watchdog_pid: int | None = None
    """Who shall give them; None is whoever was started."""

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str]) -> "Manager":
        """Takes the variables out of `environ`: what this process starts has nothing to say to its manager."""
        address, usec, pid = (environ.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"))
        known = address if address[:1] in ("/", "@") else None
        return cls(known, _number(usec) or 0, _number(pid))

    @property
    def heartbeat_seconds(self) -> float | None:
        """Half of what the manager waits; None where this process, now, is not asked to give signs of life."""
        asked = self.address is not None and self.watchdog_usec > 0 and self.watchdog_pid in (None, os.getpid())
        return self.watchdog_usec / 2 / _MICRO if asked else None

    def tell(self, *lines: str) -> None:
        """Such as `READY=1`; a manager that cannot be reached is not told."""
        if self.address is None:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(SEND_SECONDS)
            sender.sendto("\n".join(lines).encode("utf-8", "backslashreplace"), address)

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self.tell("STATUS=" + " ".join(text.split("\n")))

    def extend(self, seconds: float) -> None:
        """A start or a stop that is under way needs so long from now."""
        self.tell(f"EXTEND_TIMEOUT_USEC={int(seconds * _MICRO)}")


class Patience:
    """Asks for more time while work goes on that nobody can tell the length of."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._next = 0.0

    def ask(self) -> None:
        """To be called often; the manager hears it every 10 seconds."""
        if monotonic() >= self._next:
            self._next = monotonic() + ASK_SECONDS
            self._manager.extend(MORE_SECONDS)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None
