"""Ports as they are opened."""

import os
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from twisted.internet import reactor
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.ops.listeners import TURN_SECONDS, InheritedPort, ListenerService, SharedTcpPort, SharedUnixPort

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

    def test_mode(self) -> None:
        """Other users cannot connect to a unix socket, unless its endpoint string has a mode that allows it."""
        for options, mode in (("", 0o660), (":mode=666", 0o666), (":mode=600", 0o600), (":640", 0o640)):
            path = f"/tmp/gamed-mode-{os.getpid()}-{mode:o}"
            self.listen(f"unix:{path}{options}")
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), mode)


class FakeReactor(Clock):
    """A clock that remembers what a real reactor would wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.reading: set[Any] = set()

    def addReader(self, reader: Any) -> None:
        self.reading.add(reader)

    def removeReader(self, reader: Any) -> None:
        self.reading.discard(reader)

    def removeWriter(self, writer: Any) -> None: ...


class CountingFactory(Factory):
    """A factory that counts its connections."""

    protocol = Protocol
    count = 0

    def buildProtocol(self, address: Any) -> Any:
        self.count += 1
        return super().buildProtocol(address)


class TurnTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor, self.factory = FakeReactor(), CountingFactory()

    def opened(self, kind: type[Any], family: socket.AddressFamily, address: Any) -> Any:
        """Open a port for which ten clients wait."""
        listening = socket.socket(family)
        listening.bind(address)
        listening.listen(64)
        for _ in range(10):
            client = socket.socket(family)
            self.addCleanup(client.close)
            client.connect(listening.getsockname())
        port = kind(listening.detach(), self.factory, self.reactor)
        port.startListening()
        return port

    def test_turns(self) -> None:
        """A port accepts one of ten waiting clients, then after pauses two, four and the rest; then one again."""
        for kind, family, address in (
            (SharedTcpPort, socket.AF_INET, ("127.0.0.1", 0)),
            (SharedTcpPort, socket.AF_INET6, ("::1", 0)),
            (SharedUnixPort, socket.AF_UNIX, ""),
        ):
            self.setUp()
            port, counts = self.opened(kind, family, address), []
            for _ in range(4):
                self.assertIn(port, self.reactor.reading)
                port.doRead()
                counts.append(self.factory.count)
                self.reactor.advance(TURN_SECONDS)
            self.assertEqual(counts, [1, 3, 7, 10])
            port.stopListening()
            self.reactor.advance(0)

    def test_stopped_in_a_pause(self) -> None:
        """A port that is closed between two turns is not opened again, and leaves no timer."""
        port = self.opened(SharedTcpPort, socket.AF_INET, ("127.0.0.1", 0))
        port.doRead()
        self.assertNotIn(port, self.reactor.reading)
        port.stopListening()
        self.reactor.advance(TURN_SECONDS)
        self.assertEqual((port in self.reactor.reading, self.reactor.getDelayedCalls()), (False, []))

    def test_alone(self) -> None:
        """A port of one process accepts all clients at once."""
        port = self.opened(InheritedPort, socket.AF_UNIX, "")
        port.doRead()
        self.assertEqual(self.factory.count, 10)
        port.stopListening()
        self.reactor.advance(0)
