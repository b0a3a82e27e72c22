"""Ports as they are opened."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from twisted.internet import reactor
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import TestCase

from gamed.ops.listeners import ListenerService

GAMES = 200


class QueueTests(TestCase):
    def listen(self, endpoint: str) -> ListenerService:
        listening = ListenerService(reactor, [endpoint], Factory.forProtocol(Protocol))
        listening.startService()
        self.addCleanup(listening.stopService)
        return listening

    @contextmanager
    def at_once(self, family: socket.AddressFamily, address: Any) -> Iterator[Sequence[socket.socket]]:
        """They have all asked to be let in, and the reactor had no turn yet."""
        with ExitStack() as stack:
            games = [stack.enter_context(socket.socket(family)) for _ in range(GAMES)]
            for game in games:
                game.setblocking(False)
                game.connect_ex(address)
            yield games

    def test_many_at_once(self) -> None:
        """However many games come back in one moment, each finds its connection open at once."""
        port = self.listen("tcp:0:interface=127.0.0.1").port
        with self.at_once(socket.AF_INET, ("127.0.0.1", port)) as games:
            for game in games:
                self.assertEqual(game.getpeername()[1], port)

    def test_a_unix_socket(self) -> None:
        """The same, where a proxy on this machine comes in."""
        path = f"/tmp/gamed-queue-{os.getpid()}"
        self.listen(f"unix:{path}")
        with self.at_once(socket.AF_UNIX, path) as games:
            for game in games:
                self.assertEqual(game.getpeername(), path)
