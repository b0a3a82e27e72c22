"""What the service tells its manager, as sd_notify(3) says it: one datagram to the socket that $NOTIFY_SOCKET names.

What the service tells the manager that runs it, such as systemd: that it serves, lives, stops.
"""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from time import monotonic
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from gamed.database.databases import Databases
from gamed.database.periodic import PeriodicTask

SEND_SECONDS = 1.0
"""How long a manager may leave its socket full before a message is dropped: it must not hold the service up."""
ASK_SECONDS, MORE_SECONDS = 10, 60
_MICRO = 1_000_000


class SystemdNotifier(Struct, frozen=True):
    """Where to tell it; without a manager everything here is silent."""

    address: str | None = None
    """A path, or an abstract name that begins with @."""
    watchdog_usec: int = 0
    """0: nobody waits for signs of life."""
    watchdog_pid: int | None = None
    """Who shall give them; None is whoever was started."""

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str]) -> "SystemdNotifier":
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


class StartTimeoutExtender:
    """Asks for more time while work goes on that nobody can tell the length of."""

    def __init__(self, manager: SystemdNotifier) -> None:
        self._manager = manager
        self._next = 0.0

    def ask(self) -> None:
        """To be called often; the manager hears it every 10 seconds."""
        if monotonic() >= self._next:
            self._next = monotonic() + ASK_SECONDS
            self._manager.extend(MORE_SECONDS)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None


EXTEND_SECONDS = 30
"""How long a manager waits for the next word while the service stops."""
REPEAT_SECONDS = 10
EXTENSIONS = 12
"""Then the manager's patience is asked for no more: a disk that hangs must not hold up the machine's shutdown."""


class SystemdSupervisor:
    """Says nothing where no manager listens."""

    def __init__(self, reactor: Any, manager: SystemdNotifier, stores: Databases) -> None:
        self._reactor = reactor
        self._manager = manager
        self._stores = stores
        self._stopping = False
        self._extensions = 0
        self._extending = PeriodicTask(reactor, REPEAT_SECONDS, self._extend)
        self._beating: PeriodicTask | None = None

    def started(self, base: str) -> None:
        """READY once the reactor turns and the stores were asked: a request is answered from now on, be it with 503."""
        self._stores.check().addBoth(self._ready, base)

    def _ready(self, answer: Failure | None, base: str) -> None:
        if self._stopping:
            return
        reason = "" if answer is None else f"; a store does not answer: {type(answer.value).__name__}"
        self._manager.tell("READY=1", f"STATUS=serving at {base}{reason}")
        self._watch()

    def _watch(self) -> None:
        """Only while the reactor turns and both stores answer past every lane; otherwise the manager starts anew."""
        seconds = self._manager.heartbeat_seconds
        if seconds is None:
            return
        self._probe = self._stores.watchdog_probe()
        self._beating = PeriodicTask(self._reactor, seconds, self._beat)
        self._beating.start(now=True)

    def _beat(self) -> Deferred[None]:
        return self._probe.ping().addCallback(lambda _: self._manager.tell("WATCHDOG=1"))

    def stopping(self) -> None:
        self._stopping = True
        if self._beating is not None:
            self._beating.stop()
            self._probe.close()
        self._manager.tell("STOPPING=1", "STATUS=answering what is under way")
        self._extending.start(now=True)

    def _extend(self) -> Deferred[None]:
        self._extensions += 1
        if self._extensions > EXTENSIONS:
            self._extending.stop()
        else:
            self._manager.extend(EXTEND_SECONDS)
        return succeed(None)

    def stopped(self) -> None:
        self._extending.stop()
