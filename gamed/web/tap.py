"""What comes from the network, turned off and on again."""

from typing import Any


class Tap:
    """A transport as producer, which hears only what is news: to be told to go on costs it as much as to begin."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._off = False

    def pauseProducing(self) -> None:
        if not self._off:
            self._off = True
            self._transport.pauseProducing()

    def resumeProducing(self) -> None:
        if self._off:
            self._off = False
            self._transport.resumeProducing()

    def unregisterProducer(self) -> None:
        """Nobody is told any more when the transport is full."""
        self._transport.unregisterProducer()
