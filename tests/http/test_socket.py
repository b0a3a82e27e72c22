"""Connections work over real sockets: half-closing, resets and the kernel's buffers."""

from http.client import HTTPConnection
from os import urandom
from socket import AF_UNIX, SHUT_WR, create_connection, socket, socketpair
from time import time

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.main import CONNECTION_LOST
from twisted.internet.tcp import Connection as TCPConnection
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.http import direct_socket
from gamed.http.server import build_server
from gamed.http.settings import HttpSettings
from tests.http.apps import AcceptingPolicy, EchoRoutes
from tests.support.http import Answer, Browser, Lines, parse_answers, request_bytes

GET = request_bytes("GET", "/echo/text")
PATIENCE_SECONDS = 60


class SocketCase(TestCase):
    def setUp(self) -> None:
        self.policy = AcceptingPolicy(refuse_at=200_000)
        self.routes = EchoRoutes(body_policies={"echo_any": self.policy})
        self.log = Lines()
        self.site = build_server(
            [self.routes],
            HttpSettings("game.example"),
            reactor,
            access_log=self.log,
            now_ms=lambda: int(time() * 1000),
            random=urandom,
        )
        self.port = reactor.listenTCP(0, self.site, interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)
        self.addCleanup(self.site.shut_down)
        self.address = ("127.0.0.1", self.port.getHost().port)

    def exchange(self, *pieces: bytes) -> Deferred[list[Answer]]:
        """Send, close the writing side, read to the end."""

        def talk() -> list[Answer]:
            with create_connection(self.address, PATIENCE_SECONDS) as connection:
                for piece in pieces:
                    connection.sendall(piece)
                return parse_answers(read_all(connection))

        return deferToThread(talk)


def read_all(connection: socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def taken(connection: socket) -> bytes:
    """Return some of the received bytes."""
    try:
        return connection.recv(1_000_000)
    except BlockingIOError:
        return b""


class Waiting:
    """A fake reactor that records writers and does nothing."""

    def addWriter(self, writer: object) -> None: ...

    def removeWriter(self, writer: object) -> None: ...


class OrderTests(SynchronousTestCase):
    def test_nothing_overtakes(self) -> None:
        """Bytes that the kernel has not taken are sent before later ones."""
        ours, theirs = socketpair()
        self.addCleanup(theirs.close)
        self.addCleanup(ours.close)
        theirs.setblocking(False)
        channel = Browser([EchoRoutes()]).connect().channel
        transport = channel.transport = TCPConnection(ours, channel, Waiting())
        transport.connected = True
        sent, read = [(b"h", b"a" * 1_000_000), (b"b" * 1_000_000, b"B"), (b"c", b"")], b""
        for head, body in sent:
            direct_socket.write(transport, head, body)
            read += taken(theirs)
        while transport.dataBuffer or transport._tempDataBuffer:
            transport.doWrite()
            read += taken(theirs)
        read += taken(theirs)
        self.assertTrue(read == b"".join(head + body for head, body in sent))

    def test_a_connection_that_is_gone(self) -> None:
        """Bytes for a closed socket are left to the transport."""
        ours, theirs = socketpair()
        self.addCleanup(ours.close)
        theirs.close()
        channel = Browser([EchoRoutes()]).connect().channel
        transport = channel.transport = TCPConnection(ours, channel, Waiting())
        transport.connected = True
        direct_socket.write(transport, b"head", b"body")
        self.assertEqual(transport._tempDataBuffer, [b"headbody"])
        self.assertIs(transport.doWrite(), CONNECTION_LOST)


class SocketTests(SocketCase):
    async def test_pipeline(self) -> None:
        """A hundred requests in one write, answered in order."""
        answers = await self.exchange(GET * 100 + request_bytes("GET", "/nope", {"Connection": "close"}))
        self.assertEqual([answer.status for answer in answers], [200] * 100 + [404])

    async def test_a_refused_upload_sees_its_answer(self) -> None:
        """A client that sends all 16 MiB before it reads still finds the 413, not a reset."""
        head = request_bytes("PUT", "/echo/json", {"Content-Length": str(16 * 1024 * 1024)})
        answers = await self.exchange(head, b"a" * (16 * 1024 * 1024))
        self.assertEqual([(answer.status, answer.headers["connection"]) for answer in answers], [(405, "close")])

    async def test_bytes_behind_the_last_request(self) -> None:
        """A client that sends 8 MiB behind `Connection: close` still finds the answer, not a reset (RFC 9112 9.6)."""
        last = request_bytes("GET", "/echo/text", {"Connection": "close"})
        answers = await self.exchange(last + b"a" * (8 * 1024 * 1024))
        self.assertEqual([(answer.status, answer.headers["connection"]) for answer in answers], [(200, "close")])

    async def test_a_receiver_that_refuses_in_the_middle(self) -> None:
        """The same when the refusal comes after some of the body."""
        head = request_bytes("PUT", "/echo/any", {"Content-Length": str(8 * 1024 * 1024)})
        answers = await self.exchange(head, b"a" * (8 * 1024 * 1024))
        self.assertEqual([answer.code for answer in answers], ["busy"])
        self.assertEqual([receiver.aborted for receiver in self.policy.receivers], [1])

    async def test_bad_bytes(self) -> None:
        """A bad request gets a typed response, then the server closes."""
        for data, code in ((b"hello\r\n\r\n", "bad_request"), (b"a" * 20_000, "head_too_large")):
            answers = await self.exchange(data)
            self.assertEqual([answer.code for answer in answers], [code])

    async def test_keep_alive(self) -> None:
        """One connection carries requests, refusals whose body was read, and requests again."""

        def talk() -> list[int]:
            connection = HTTPConnection(*self.address, timeout=PATIENCE_SECONDS)
            statuses = []
            for method, path, body in (
                ("GET", "/echo/text", None),
                ("POST", "/echo/text", b"x" * 5000),
                ("PUT", "/echo/any", b"x" * 100_000),
                ("HEAD", "/echo/text", None),
                ("GET", "/nope", None),
            ):
                connection.request(method, path, body, {"Host": "localhost"})
                response = connection.getresponse()
                response.read()
                statuses.append(response.status)
            connection.close()
            return statuses

        statuses = await deferToThread(talk)
        self.assertEqual(statuses, [200, 405, 200, 200, 404])
        self.assertEqual(len(self.policy.receivers), 1)

    async def test_an_incomplete_upload(self) -> None:
        """A reset during a body aborts the receiver; no handler runs."""

        def tear() -> None:
            with create_connection(self.address, PATIENCE_SECONDS) as connection:
                connection.sendall(request_bytes("PUT", "/echo/any", {"Content-Length": "1000"}) + b"a" * 500)

        await deferToThread(tear)
        while not self.log.lines:
            await self.pause()
        self.assertEqual([line["status"] for line in self.log.lines], [400])
        self.assertEqual(([receiver.aborted for receiver in self.policy.receivers], self.routes.calls), ([1], []))

    async def test_a_client_that_has_said_all(self) -> None:
        """A client that closes its writing side is answered, then the connection is closed."""

        def talk(data: bytes) -> list[Answer]:
            with create_connection(self.address, PATIENCE_SECONDS) as connection:
                connection.sendall(data)
                connection.shutdown(SHUT_WR)
                return parse_answers(read_all(connection))

        torn = request_bytes("PUT", "/echo/any", {"Content-Length": "1000"}) + b"a" * 500
        for data, statuses in ((GET, [200]), (GET * 3, [200] * 3), (torn, [400]), (GET + torn, [200, 400]), (b"", [])):
            answers = await deferToThread(talk, data)
            self.assertEqual([answer.status for answer in answers], statuses)

    async def test_a_local_socket(self) -> None:
        """Over a unix socket the address is that of X-Forwarded-For, or `unix`."""
        path = self.mktemp()
        port = reactor.listenUNIX(path, self.site)
        self.addCleanup(port.stopListening)

        def talk() -> list[Answer]:
            with socket(AF_UNIX) as connection:
                connection.connect(path)
                connection.sendall(GET)
                connection.sendall(
                    request_bytes("GET", "/echo/text", {"X-Forwarded-For": "192.0.2.7", "Connection": "close"})
                )
                return parse_answers(read_all(connection))

        answers = await deferToThread(talk)
        self.assertEqual([answer.status for answer in answers], [200, 200])
        self.assertEqual([head.address for head in self.routes.calls], ["unix", "192.0.2.7"])

    async def test_shutdown(self) -> None:
        """Shutdown closes idle connections and fires when all are closed."""

        def talk() -> bytes:
            with create_connection(self.address, PATIENCE_SECONDS) as connection:
                connection.sendall(GET)
                return read_all(connection)

        talking = deferToThread(talk)
        while not self.log.lines:
            await self.pause()
        await self.site.shut_down()
        self.assertEqual(parse_answers(await talking)[0].status, 200)

    def pause(self) -> Deferred[None]:
        """Let the reactor turn."""
        turned: Deferred[None] = Deferred()
        reactor.callLater(0.01, turned.callback, None)
        return turned
