"""Failures at rare moments of a connection are answered once and leave nothing open."""

import gc
from time import thread_time
from weakref import ref

from msgspec import Struct, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import ISSLTransport
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import alsoProvides

from gamed.database.errors import DatabaseBusy
from gamed.http.bodies import BODY_BYTES, NO_BODY, RequestHead
from gamed.http.parser import HEAD_BYTES, ChunkedDecoder
from tests.http.apps import BlockingPolicy, EchoRoutes, RecordingReceiver
from tests.support.http import Browser, Connection, request_bytes

GET = request_bytes("GET", "/echo/text")


class StubbornBody(RecordingReceiver):
    """A receiver that cannot even be aborted."""

    def abort(self) -> None:
        super().abort()
        raise OSError("the file is gone")


class StubbornPolicy(Struct, frozen=True):
    """Accepts every body into a receiver that cannot be aborted."""

    bodies: list[StubbornBody] = field(default_factory=list)

    async def accept(self, head: RequestHead) -> StubbornBody:
        self.bodies.append(StubbornBody())
        return self.bodies[-1]


def over_tls(browser: Browser) -> Connection:
    """Return a connection whose transport says that it is TLS."""
    connection = browser.connect()
    connection.transport.setTcpNoDelay = lambda enabled: None
    alsoProvides(connection.transport, ISSLTransport)
    connection.transport.unregisterProducer()
    connection.channel.connectionMade()
    return connection


class PreflightTests(SynchronousTestCase):
    def test_body(self) -> None:
        """An OPTIONS request with a small body is answered like one without; the body is discarded."""
        browser = Browser([EchoRoutes()])
        connection = browser.connect().send(request_bytes("OPTIONS", "/game/", {}, b"hello") + GET)
        self.assertEqual([answer.status for answer in connection.answers], [204, 200])
        self.assertEqual(NO_BODY.size, 0)

    def test_large_body(self) -> None:
        """An OPTIONS request with a body over 8 KiB is 413, announced or chunked, and nothing more of it is read."""
        for path in ("/game/", "/auth/echo"):
            head = request_bytes("OPTIONS", path, {"Content-Length": str(BODY_BYTES + 1)})
            self.too_large(Browser([EchoRoutes()]).connect().send(head))
            head = request_bytes("OPTIONS", path, {"Transfer-Encoding": "chunked"})
            connection = Browser([EchoRoutes()]).connect().send(head)
            connection.send(b"%x\r\n" % BODY_BYTES + bytes(BODY_BYTES) + b"\r\n")
            self.assertEqual(connection.answers, [])
            self.too_large(connection.send(b"1\r\n.\r\n"))

    def too_large(self, connection: Connection) -> None:
        answer = connection.answer
        self.assertEqual((answer.status, answer.code, answer.json["limit"]), (413, "body_too_large", BODY_BYTES))
        self.assertTrue(connection.closing)


class HeadTests(SynchronousTestCase):
    def test_largest_head_in_two_pieces(self) -> None:
        """A head that nearly fills the buffer, behind an empty line, is read to its end."""
        for cut in (HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1):
            start = b"\r\nGET /echo/text HTTP/1.1\r\nHost: game.example\r\nA: "
            head = start + b"a" * (HEAD_BYTES - len(start)) + b"\r\n\r\n"
            connection = Browser([EchoRoutes()]).connect().send(head[:cut])
            self.assertEqual(connection.transport.producerState, "producing")
            self.assertEqual(connection.send(head[cut:]).answer.status, 200)


class TlsTests(SynchronousTestCase):
    def test_turns(self) -> None:
        """Each TLS record arrives by a call of its own in one turn of the reactor; still only one request starts."""
        routes = EchoRoutes()
        connection = over_tls(Browser([routes]))
        for _ in range(5):
            connection.channel.dataReceived(GET)
        self.assertEqual(len(routes.calls), 1)
        self.assertEqual(len(connection.answers), 5)

    def test_shutdown_between_turns(self) -> None:
        """A connection whose turn brings nothing more is closed when the service stops."""
        browser = Browser([EchoRoutes()])
        connection = over_tls(browser)
        connection.channel.dataReceived(GET)
        closed = browser.site.shut_down()
        self.assertTrue(connection.closed)
        connection.leave()
        self.successResultOf(closed)


class ReceiverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.policy = StubbornPolicy()
        self.browser = Browser([EchoRoutes(body_policies={"echo_any": self.policy})], crashes=True)
        self.upload = request_bytes("PUT", "/echo/any", {"Content-Length": "100000"}) + b"abc"

    def test_client_leaves(self) -> None:
        """A receiver that fails to abort does not keep the connection counted."""
        connection = self.browser.connect().send(self.upload)
        self.browser.watched(connection.leave)
        self.assertEqual(self.browser.site.connections, 0)
        self.assertIn("unexpected_error phase=body_abort error=", "".join(self.browser.events))

    def test_slow_body(self) -> None:
        """A body that comes too slowly is still answered."""
        connection = self.browser.connect().send(self.upload)
        self.browser.watched(lambda: self.browser.clock.advance(11))
        self.assertEqual(connection.answer.code, "request_timeout")


class LeavingTests(SynchronousTestCase):
    def setUp(self) -> None:
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)

    def test_while_the_transport_is_full(self) -> None:
        """Leave no reference cycle behind when a connection ends."""
        connection = Browser([EchoRoutes()]).connect().send(GET)
        connection.channel.flow.pauseProducing()
        connection.transport.unregisterProducer()
        connection.leave()
        channel = ref(connection.channel)
        del connection
        self.assertIsNone(channel())

    def test_before_the_policy_refuses(self) -> None:
        """Leave no reference cycle behind when the body policy refuses a request."""
        turnstile = BlockingPolicy()
        browser = Browser([EchoRoutes(body_policies={"echo_any": turnstile})])

        def refuse_late() -> None:
            connection = browser.connect().send(request_bytes("PUT", "/echo/any", {}, b"abc"))
            connection.transport.unregisterProducer()
            connection.leave()
            decision: Deferred[object] = turnstile.waiting.pop()
            decision.errback(DatabaseBusy())
            turnstile.heads.clear()
            browser.log.lines.clear()

        refuse_late()
        gc.collect()
        for _ in range(10):
            refuse_late()
        self.assertLess(gc.collect(), 10)


class TrailerTests(SynchronousTestCase):
    def seconds(self, size: int) -> float:
        decoder = ChunkedDecoder()
        decoder.decode(b"0\r\n")
        began = thread_time()
        for byte in b"A: " + b"a" * size:
            decoder.decode(bytes([byte]))
        self.assertFalse(decoder.malformed)
        return thread_time() - began

    def test_byte_by_byte(self) -> None:
        """A long trailer that arrives byte by byte costs time in proportion to its length."""
        ratios = [self.seconds(60_000) / self.seconds(15_000) for _ in range(3)]
        self.assertLess(min(ratios), 9.0)
