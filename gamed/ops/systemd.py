"""The service notifies systemd (sd_notify(3)) of its start, its stop and, for the watchdog, that it works.

A message is one datagram to the socket that $NOTIFY_SOCKET names, or lines in the pipe to the parent of --workers.
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
"""How long a full socket may delay a message before it is dropped: systemd must not hold up the service."""
START_INTERVAL_SECONDS, START_EXTENSION_SECONDS = 10, 60
PIPE = "pipe:"
EXTEND_SECONDS = 30
"""How long systemd waits for the next message while the service stops."""
REPEAT_SECONDS = 10
EXTENSIONS = 12
"""After so many extensions the stop timeout ends: a disk that hangs must not hold up the machine's shutdown."""
_MICRO = 1_000_000


class SystemdNotifier(Struct, frozen=True):
    """The socket for notifications and the watchdog's settings; without an address no method does anything."""

    address: str | None = None
    """A path, an abstract name that begins with @, or `pipe:` and a descriptor."""
    watchdog_usec: int = 0
    """0: there is no watchdog."""
    watchdog_pid: int | None = None
    """The process that the watchdog expects messages from; None is the process that was started."""

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str]) -> "SystemdNotifier":
        """Remove the variables from `environ`, so that child processes send nothing to systemd, and read them."""
        address, usec, pid = (environ.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"))
        descriptor = _number(address.removeprefix(PIPE)) if address.startswith(PIPE) else None
        if descriptor is not None:
            os.set_blocking(descriptor, False)
            os.set_inheritable(descriptor, False)
        known = address if address[:1] in ("/", "@") or descriptor is not None else None
        return cls(known, _number(usec) or 0, _number(pid))

    @property
    def heartbeat_seconds(self) -> float | None:
        """Return half of the watchdog's timeout; None if the watchdog does not expect messages of this process."""
        asked = self.address is not None and self.watchdog_usec > 0 and self.watchdog_pid in (None, os.getpid())
        return self.watchdog_usec / 2 / _MICRO if asked else None

    def notify(self, *lines: str) -> None:
        """Send lines such as `READY=1`; a socket that cannot be reached is ignored."""
        if self.address is None:
            return
        if self.address.startswith(PIPE):
            with suppress(OSError):  # the parent has ended, or does not read
                os.write(int(self.address.removeprefix(PIPE)), "".join(f"{line}\n" for line in lines).encode())
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(SEND_SECONDS)
            sender.sendto("\n".join(lines).encode("utf-8", "backslashreplace"), address)

    def status(self, text: str) -> None:
        """Set the line that `systemctl status` shows."""
        self.notify("STATUS=" + " ".join(text.split("\n")))

    def extend(self, seconds: float) -> None:
        """Extend the timeout of the start or stop in progress to this time from now."""
        self.notify(f"EXTEND_TIMEOUT_USEC={int(seconds * _MICRO)}")


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None


class StartTimeoutExtender:
    """A callback that extends systemd's start timeout during work whose length is not known."""

    def __init__(self, notifier: SystemdNotifier) -> None:
        self._notifier = notifier
        self._next = 0.0

    def extend(self) -> None:
        """Extend the timeout by a minute, at most every 10 seconds; call this often."""
        if monotonic() >= self._next:
            self._next = monotonic() + START_INTERVAL_SECONDS
            self._notifier.extend(START_EXTENSION_SECONDS)


class SystemdSupervisor:
    """The notifications of a running service; without a notifier's address it sends nothing."""

    def __init__(self, reactor: Any, notifier: SystemdNotifier, databases: Databases) -> None:
        self._reactor = reactor
        self._notifier = notifier
        self._databases = databases
        self._stopping = False
        self._extensions = 0
        self._extending = PeriodicTask(reactor, REPEAT_SECONDS, self._extend, "stop_timeout")
        self._beating: PeriodicTask | None = None

    def started(self, base: str) -> None:
        """Send READY once the reactor runs and the databases were asked: then requests are answered, also with 503."""
        self._databases.check().addBoth(self._ready, base)

    def _ready(self, result: Failure | None, base: str) -> None:
        if self._stopping:
            return
        reason = "" if result is None else f"; a database does not respond: {type(result.value).__name__}"
        self._notifier.notify("READY=1", f"STATUS=serving at {base}{reason}")
        self._watch()

    def _watch(self) -> None:
        """Notify the watchdog only while the reactor runs and both databases respond; else systemd restarts."""
        seconds = self._notifier.heartbeat_seconds
        if seconds is None:
            return
        self._probe = self._databases.watchdog_probe()
        self._beating = PeriodicTask(self._reactor, seconds, self._beat, "watchdog")
        self._beating.start(now=True)

    def _beat(self) -> Deferred[None]:
        return self._probe.ping().addCallback(lambda _: self._notifier.notify("WATCHDOG=1"))

    def stopping(self) -> None:
        self._stopping = True
        if self._beating is not None:
            self._beating.stop()
            self._probe.close()
        self._notifier.notify("STOPPING=1", "STATUS=finishing requests in progress")
        self._extending.start(now=True)

    def _extend(self) -> Deferred[None]:
        self._extensions += 1
        if self._extensions > EXTENSIONS:
            self._extending.stop()
        else:
            self._notifier.extend(EXTEND_SECONDS)
        return succeed(None)

    def stopped(self) -> None:
        self._extending.stop()
