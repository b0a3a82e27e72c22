"""What the service tells the manager that runs it, such as systemd: that it serves, lives, stops."""

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from gamed.ops.sd_notify import Manager
from gamed.storage.stores import Stores
from gamed.storage.ticker import Ticker

EXTEND_SECONDS = 30
"""How long a manager waits for the next word while the service stops."""
REPEAT_SECONDS = 10
EXTENSIONS = 12
"""Then the manager's patience is asked for no more: a disk that hangs must not hold up the machine's shutdown."""


class Supervision:
    """Says nothing where no manager listens."""

    def __init__(self, reactor: Any, manager: Manager, stores: Stores) -> None:
        self._reactor = reactor
        self._manager = manager
        self._stores = stores
        self._stopping = False
        self._extensions = 0
        self._extending = Ticker(reactor, REPEAT_SECONDS, self._extend)
        self._beating: Ticker | None = None

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
        self._pulse = self._stores.pulse()
        self._beating = Ticker(self._reactor, seconds, self._beat)
        self._beating.start(now=True)

    def _beat(self) -> Deferred[None]:
        return self._pulse.beat().addCallback(lambda _: self._manager.tell("WATCHDOG=1"))

    def stopping(self) -> None:
        self._stopping = True
        if self._beating is not None:
            self._beating.stop()
            self._pulse.close()
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
