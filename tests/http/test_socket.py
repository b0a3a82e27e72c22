"""The same channel on real sockets: what memory cannot show (half-closing, resets, the kernel's buffers)."""

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
from gamed.http.client_address import HttpSettings
from gamed.http.server import build_server
from tests.http.apps import EchoRoom, OpenGate
from tests.support.http import Answer, Browser, Lines, parse_answers, request_bytes

GET = request_bytes("GET", "/echo/text")
PATIENCE_SECONDS = 60


class SocketCase(TestCase):
    def setUp(self) -> None:
        self.gate = OpenGate(refuse_at=200_000)
        self.room = EchoRoom(body_policies={"echo_any": self.gate})
        self.log = Lines()
        self.site = build_server(
            [self.room],
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
    """Something of what has come."""
    try:
        return connection.recv(1_000_000)
    except BlockingIOError:
        return b""


class Waiting:
    """A reactor that is told who wants to write, and does nothing about it."""

    def addWriter(self, writer: object) -> None: ...

    def removeWriter(self, writer: object) -> None: ...


class OrderTests(SynchronousTestCase):
    def test_nothing_overtakes(self) -> None:
        """What the kernel did not take goes first, also where it would take something now."""
        ours, theirs = socketpair()
        self.addCleanup(theirs.close)
        self.addCleanup(ours.close)
        theirs.setblocking(False)
        channel = Browser([EchoRoom()]).connect().channel
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
        """What cannot be sent is left to the transport, which finds it out."""
        ours, theirs = socketpair()
        self.addCleanup(ours.close)
        theirs.close()
        channel = Browser([EchoRoom()]).connect().channel
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

    async def test_a_sink_that_refuses_in_the_middle(self) -> None:
        """The same when the refusal comes after some of the body."""
        head = request_bytes("PUT", "/echo/any", {"Content-Length": str(8 * 1024 * 1024)})
        answers = await self.exchange(head, b"a" * (8 * 1024 * 1024))
        self.assertEqual([answer.code for answer in answers], ["busy"])
        self.assertEqual([sink.aborted for sink in self.gate.sinks], [1])

    async def test_bad_bytes(self) -> None:
        """A typed answer, then the end of the connection from our side."""
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
        self.assertEqual(len(self.gate.sinks), 1)

    async def test_a_torn_upload(self) -> None:
        """The client is gone: the sink is aborted, no handler runs."""

        def tear() -> None:
            with create_connection(self.address, PATIENCE_SECONDS) as connection:
                connection.sendall(request_bytes("PUT", "/echo/any", {"Content-Length": "1000"}) + b"a" * 500)

        await deferToThread(tear)
        while not self.log.lines:
            await self.pause()
        self.assertEqual([line["status"] for line in self.log.lines], [400])
        self.assertEqual(([sink.aborted for sink in self.gate.sinks], self.room.calls), ([1], []))

    async def test_a_client_that_has_said_all(self) -> None:
        """One that closes its writing side is answered, and then the connection ends."""

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
        """The client's address is what the proxy says, or `unix`."""
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
        self.assertEqual([head.address for head in self.room.calls], ["unix", "192.0.2.7"])

    async def test_shutdown(self) -> None:
        """Idle connections are closed, and it is told when the last one is gone."""

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
