"""Large bodies over real sockets, real files and real threads: memory stays small, slow readers cost nothing."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from gamed.config.game import GameSettings, SaveLimits
from gamed.http.server import build_server
from gamed.http.settings import HttpSettings
from gamed.http.spool import run_inline
from gamed.saves.build import build_saves, build_waits
from tests.sessions.fixtures import Counting
from tests.sessions.server import SessionServer, text
from tests.support.components import service_context
from tests.support.databases import data_folder, file_databases
from tests.support.http import BASE_HOST, Lines, request_bytes

MIB = 1024 * 1024
CLIENTS = 4
SIZE = 16 * MIB
GROWTH_MIB = 24
"""The most memory of the process, with clients and SQLite, during four transfers of 16 MiB."""


class Seeded:
    """16 MiB that are different for each client, made piece by piece."""

    def __init__(self, seed: int) -> None:
        self._piece = sha256(bytes([seed])).digest() * 2048

    def pieces(self) -> Iterator[bytes]:
        for n in range(SIZE // len(self._piece)):
            yield n.to_bytes(4, "big") + self._piece[4:]

    @property
    def sha256(self) -> str:
        digest = sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()


@implementer(IPushProducer)
class Exchange(Protocol):
    """One request; its body sent as fast as the server reads, the answer's body hashed and not kept."""

    def __init__(self, head: bytes, pieces: Iterator[bytes]) -> None:
        self._head, self._pieces = head, pieces
        self._sending = False
        self._buffer = b""
        self._left: int | None = None
        self.status = 0
        self.digest, self.size = sha256(), 0
        self.done: Deferred[Exchange] = Deferred()
        self.slow = False

    def connectionMade(self) -> None:
        self.transport.write(self._head)
        self.transport.registerProducer(self, True)
        self.resumeProducing()

    def resumeProducing(self) -> None:
        self._sending = True
        while self._sending:
            piece = next(self._pieces, None)
            if piece is None:
                self.transport.unregisterProducer()
                return
            self.transport.write(piece)

    def pauseProducing(self) -> None:
        self._sending = False

    def stopProducing(self) -> None:
        self._sending = False

    def dataReceived(self, data: bytes) -> None:
        if self._left is None:
            self._buffer += data
            head, mark, data = self._buffer.partition(b"\r\n\r\n")
            if not mark:
                return
            self.status = int(head.split(b" ")[1])
            lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
            self._left = int(lengths[0].split(b":")[1])
            if self.slow:
                self.transport.pauseProducing()
        self.digest.update(data)
        self.size += len(data)
        self._left -= len(data)
        if not self._left:
            self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.done.callback(self)


class StreamTest(TestCase):
    """The service's own parts from the socket to the disk."""

    async def setUp(self) -> None:  # type: ignore[override]
        data = data_folder(self)
        server = SessionServer(file_databases(self, reactor, data=data))
        _, pair = await server.open()
        self.bearer = {"Authorization": f"Bearer {text(pair.access)}"}
        self.log = Lines()
        game = GameSettings(saves=SaveLimits(writes_per_minute=0))
        values = {"reactor": reactor, "random": Counting(), "data": data}
        context = service_context(
            server.issuer.keys, server.databases, server.audit, lambda: server.now_ms, game=game, **values
        )
        saves = build_saves(
            context, server.sessions, build_waits(context), in_thread=run_inline, usage_of_disk=lambda: (0, 0, 2**40)
        )
        site = build_server(
            saves.routes,
            HttpSettings(BASE_HOST),
            reactor,
            access_log=self.log,
            now_ms=lambda: server.now_ms,
            random=Counting(),
        )
        port = reactor.listenTCP(0, site, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        self.port = port.getHost().port
        self.running: list[Exchange] = []

    def exchange(
        self, method: str, slot: str, headers: Mapping[str, str] | None = None, body: Seeded | None = None
    ) -> Deferred[Exchange]:
        sizes = {"Content-Length": str(SIZE)} if body else {}
        fields = {**self.bearer, **sizes, **(headers or {})}
        head = request_bytes(method, f"/game/saves/{slot}", fields)
        made = Exchange(head, body.pieces() if body else iter(()))
        made.slow = method == "GET"
        self.running.append(made)
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", self.port)
        return connectProtocol(endpoint, made).addCallback(lambda _: made.done)

    async def together(self, *args: Any) -> list[Exchange]:
        return list(await gatherResults([self.exchange(*each) for each in args]))

    async def test_memory(self) -> None:
        """Four uploads of 16 MiB at once, then four downloads whose clients stop reading for a while."""
        bodies = {f"s{n}": Seeded(n) for n in range(CLIENTS)}
        before = peak_mib(reset=True)
        puts = await self.together(*(("PUT", slot, {"If-None-Match": "*"}, body) for slot, body in bodies.items()))
        self.assertEqual([put.status for put in puts], [201] * CLIENTS)
        self.running.clear()
        gets = self.together(*(("GET", slot) for slot in bodies))
        waiting = Deferred.fromCoroutine(gets)
        await self.stalled()
        for get in self.running:
            get.transport.resumeProducing()
        for get, body in zip(await waiting, bodies.values(), strict=True):
            self.assertEqual((get.status, get.size, get.digest.hexdigest()), (200, SIZE, body.sha256))
        self.assertLess(peak_mib() - before, GROWTH_MIB)

    async def stalled(self) -> None:
        """Wait until every download has begun and none continues."""
        while not all(get.status for get in self.running):
            await deferLater(reactor, 0.02, lambda: None)
        seen = -1
        while (now := sum(get.size for get in self.running)) != seen:
            seen = now
            await deferLater(reactor, 0.05, lambda: None)
        self.assertLess(seen, CLIENTS * SIZE // 4)


def peak_mib(reset: bool = False) -> float:
    """The most memory this process had since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
