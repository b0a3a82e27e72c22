"""This module adapts the pace of responses to the client: it pauses them while the transport is full."""

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IPushProducer, IReactorTime
from zope.interface import implementer

from gamed.http import direct_socket
from gamed.http.direct_socket import StalledWrite


@implementer(IPushProducer)
class FlowControl:
    """The producer that a connection registers with its transport, on behalf of its responses."""

    __slots__ = ("_clock", "_full", "_give_up", "_stalled", "_transport", "_writable", "paused", "producer")

    def __init__(
        self,
        transport: Any,
        clock: IReactorTime,
        *,
        full: Callable[[], object],
        writable: Callable[[], object],
        give_up: Callable[[], object],
    ) -> None:
        """Call `full` and `writable` when the transport is so, `give_up` for a client that does not read."""
        self._transport = transport
        self._clock = clock
        self._full = full
        self._writable = writable
        self._give_up = give_up
        self._stalled: StalledWrite | None = None
        self.paused = False
        """Whether the transport is full."""
        self.producer: IPushProducer | None = None
        """The producer of the current response."""

    def pauseProducing(self) -> None:
        """Pause the response, because the transport is full."""
        self.paused = True
        if self._stalled is None:
            self._stalled = StalledWrite(
                self._clock, lambda: direct_socket.unsent_bytes(self._transport), self._give_up
            )
        self._stalled.start()
        if self.producer is not None:
            self.producer.pauseProducing()
        self._full()

    def resumeProducing(self) -> None:
        """Resume the response, because the transport has room again."""
        self.paused = False
        self.close()
        if self.producer is not None:
            self.producer.resumeProducing()
        if not self.paused:  # else the producer has filled the transport again
            self._writable()

    def stopProducing(self) -> None:
        """Do nothing: connectionLost() follows."""

    def close(self) -> None:
        """Stop watching the client."""
        if self._stalled is not None:
            self._stalled.close()
            self._stalled = None
