"""Slow heads, bodies and readers and idle connections have time limits."""

from resource import RLIMIT_NOFILE, getrlimit

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.connection import DRAIN_SECONDS, FIRST_REQUEST_SECONDS
from gamed.http.settings import HttpSettings
from gamed.http.timeouts import LAST_ANSWER_SECONDS, PROGRESS_BYTES, StalledWrite
from gamed.open_files import IDLE_FILES, RESERVED_FILES, is_limited, most_connections, spare_files
from tests.http.apps import AcceptingPolicy, BlockingPolicy, EchoRoutes, RecordingReceiver
from tests.support.covers import covers
from tests.support.http import BASE_HOST, Browser, Connection, request_bytes

GET = request_bytes("GET", "/echo/text")
UNTRUSTED = IPv4Address("TCP", "203.0.113.9", 50000)


class SlowCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.policy = AcceptingPolicy()
        self.routes = EchoRoutes(body_policies={"echo_any": self.policy})
        self.browser = Browser([self.routes], peer=UNTRUSTED)
        self.clock = self.browser.clock
        self.connection = self.browser.connect()

    def status(self, connection: Connection | None = None) -> tuple[int, str]:
        answer = (connection or self.connection).answer
        return answer.status, answer.code


@covers("threats/36")
class HeadTests(SlowCase):
    def test_ten_seconds_from_the_first_byte(self) -> None:
        """Single bytes do not restart the time for a head: 408."""
        for at in range(9):
            self.connection.send(GET[at : at + 1])
            self.clock.advance(1)
        self.assertEqual(self.connection.answers, [])
        self.connection.send(GET[9:10])
        self.clock.advance(1)
        self.assertEqual(self.status(), (408, "request_timeout"))
        self.assertTrue(self.connection.closing)

    def test_the_second_head_of_a_connection(self) -> None:
        """The second head has ten seconds of its own."""
        self.connection.send(GET + GET[:5])
        self.clock.advance(9)
        self.connection.send(GET[5:] + GET[:5])
        self.clock.advance(9.5)
        self.assertEqual([answer.status for answer in self.connection.answers], [200, 200])
        self.clock.advance(0.5)
        self.assertEqual([answer.status for answer in self.connection.answers], [200, 200, 408])

    def test_a_slow_answer_is_not_a_slow_head(self) -> None:
        """No timeout runs while a handler works."""
        self.connection.send(request_bytes("GET", "/echo/later"))
        self.clock.advance(3600)
        self.routes.waiting.pop().callback(b"late")
        self.assertEqual(self.connection.answer.body, b"late")

    def test_a_slow_policy_is_not_a_slow_body(self) -> None:
        """No timeout runs while a policy decides."""
        policy = BlockingPolicy()
        browser = Browser([EchoRoutes(body_policies={"echo_any": policy})])
        connection = browser.connect().send(request_bytes("PUT", "/echo/any", {}, b"hello"))
        browser.clock.advance(60)
        policy.waiting.pop().callback(RecordingReceiver())
        self.assertEqual(connection.answer.status, 200)


class IdleTests(SlowCase):
    def closes_after(self, peer: object, seconds: int) -> None:
        for first in (b"", GET):
            connection = self.browser.connect(peer)  # type: ignore[arg-type]
            connection.send(first)
            self.clock.advance(seconds - 1)
            self.assertFalse(connection.closed)
            self.clock.advance(1)
            self.assertTrue(connection.closed)
            self.assertEqual(len(connection.answers), 1 if first else 0)

    def test_untrusted_peers(self) -> None:
        """A connection without a request is closed after 30 seconds."""
        self.closes_after(UNTRUSTED, 30)

    def test_proxies(self) -> None:
        """Trusted peers and local sockets have 180 seconds, longer than proxies keep connections."""
        self.closes_after(IPv4Address("TCP", "127.0.0.1", 50000), 180)
        self.closes_after(UNIXAddress(None), 180)

    def test_a_closed_connection_that_does_not_go(self) -> None:
        """A client that does not read the last response is aborted after a minute."""
        self.clock.advance(30)
        self.assertFalse(self.connection.transport.disconnected)
        self.clock.advance(60)
        self.assertTrue(self.connection.transport.disconnected)


@covers("threats/36")
class BodyTests(SlowCase):
    HEAD = request_bytes("PUT", "/echo/any", {"Content-Length": "100000000"})

    def test_a_trickle(self) -> None:
        """A body with less than 10 KiB in ten seconds is 408; the receiver is aborted."""
        self.connection.send(self.HEAD)
        for _ in range(10):
            self.connection.send(b"a" * 1000)
            self.clock.advance(1)
        self.assertEqual(self.status(), (408, "request_timeout"))
        [receiver] = self.policy.receivers
        self.assertEqual((receiver.aborted, self.routes.calls), (1, []))
        self.assertTrue(self.connection.closing)

    def test_a_body_that_never_begins(self) -> None:
        """The same holds after 100 Continue."""
        for expect in ({}, {"Expect": "100-continue"}):
            connection = self.browser.connect().send(
                request_bytes("PUT", "/echo/any", {"Content-Length": "5", **expect})
            )
            self.clock.advance(10)
            self.assertEqual(self.status(connection), (408, "request_timeout"))

    def test_a_slow_line(self) -> None:
        """A body of 1 KiB a second is accepted."""
        self.connection.send(self.HEAD)
        for _ in range(60):
            self.connection.send(b"a" * 1024)
            self.clock.advance(1)
        self.assertEqual(self.connection.answers, [])

    def test_not_for_ever(self) -> None:
        """A whole body has `upload_seconds`."""
        self.connection.send(self.HEAD)
        for _ in range(60):
            self.connection.send(b"a" * 20_000)
            self.clock.advance(10)
        self.assertEqual(self.status(), (408, "request_timeout"))


@covers("threats/36")
class ReaderTests(SlowCase):
    def test_a_client_that_does_not_read(self) -> None:
        """A client that reads nothing for a minute is aborted."""
        self.browser.watched(lambda: self.connection.send(request_bytes("GET", "/echo/stream")))
        self.connection.channel.flow.pauseProducing()
        self.clock.advance(59)
        self.assertFalse(self.connection.transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(self.connection.transport.disconnected)

    def test_a_client_that_reads_slowly(self) -> None:
        """The minute begins again whenever the client has read everything."""
        self.connection.send(request_bytes("GET", "/echo/stream"))
        for _ in range(5):
            self.connection.channel.flow.pauseProducing()
            self.clock.advance(50)
            self.connection.channel.flow.resumeProducing()
        self.assertFalse(self.connection.closed)
        self.connection.channel.flow.pauseProducing()
        self.clock.advance(60)
        self.assertTrue(self.connection.transport.disconnected)

    def test_a_slow_line(self) -> None:
        """A client that takes 16 KiB a minute from the kernel stays; one that takes less is aborted."""
        left, cut = 4_000_000, []
        stall = StalledWrite(self.clock, lambda: left, lambda: cut.append(left))
        stall.start()
        for _ in range(20):
            left -= PROGRESS_BYTES
            self.clock.advance(60)
        self.assertEqual(cut, [])
        left -= PROGRESS_BYTES - 1
        self.clock.advance(60)
        self.assertEqual(cut, [left])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_no_timer_is_left(self) -> None:
        """No timer is left once all connections are lost."""
        for data in (b"", GET, GET[:5], self.head(), request_bytes("GET", "/echo/later"), b"x\r\n\r\n"):
            connection = self.browser.connect().send(data)
            connection.channel.flow.pauseProducing()
            connection.leave()
        self.connection.leave()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def head(self) -> bytes:
        return request_bytes("PUT", "/echo/any", {"Content-Length": "5"})


@covers("threats/36")
class ConnectionsTests(SynchronousTestCase):
    def test_descriptors_of_no_connection(self) -> None:
        """Half of the spare descriptors are for files; some remain for the databases."""
        soft, _hard = getrlimit(RLIMIT_NOFILE)
        self.assertEqual(spare_files(10), (soft - 10 - IDLE_FILES) // 2)
        self.assertEqual(spare_files(10**9), (RESERVED_FILES - IDLE_FILES) // 2)

    def test_few_descriptors(self) -> None:
        """A quarter of the descriptors is for other files than connections, but at most 256."""
        for files, connections in ((256, 192), (300, 225), (1024, 768), (4096, 3840), (20_256, 20_000), (1, 1)):
            self.assertEqual(most_connections(20_000, files), connections)
            self.assertEqual(is_limited(connections, 20_000), files < 20_000)

    def test_which_are_reported(self) -> None:
        """Every number below the configured one is reported, except one of 2 % less, as with 20,000 files."""
        self.assertEqual((most_connections(20_000, 20_000), is_limited(19_744, 20_000)), (19_744, False))
        self.assertEqual((most_connections(400, 256), is_limited(192, 400)), (192, True))
        self.assertEqual([is_limited(most, 100) for most in (97, 98, 100)], [True, False, False])
        self.assertEqual([is_limited(most, 10) for most in (9, 10)], [True, False])

    def browser(self, **limits: int) -> Browser:
        return Browser([EchoRoutes()], HttpSettings(BASE_HOST, **limits), peer=UNTRUSTED)

    def test_limit_of_one_address(self) -> None:
        """One address has 64 connections; other addresses are not affected."""
        browser = self.browser()
        connections = [browser.connect() for _ in range(64)]
        self.assertTrue(browser.connect().refused)
        self.assertFalse(browser.connect(IPv4Address("TCP", "203.0.113.10", 1)).refused)
        connections[0].leave()
        self.assertFalse(browser.connect().refused)
        self.assertTrue(browser.connect().refused)

    def test_networks_of_ipv6(self) -> None:
        """Addresses of one /64 count as one, and the /64s of one /48 share eight times as much; others do not."""
        browser = self.browser(connections_per_address=2)

        def connect(address: str) -> Connection:
            return browser.connect(IPv6Address("TCP", address, 1))

        same = [connect(f"2001:db8:1:1::{number}") for number in range(1, 4)]
        self.assertEqual([connection.refused for connection in same], [False, False, True])
        others = [connect(f"2001:db8:1:{network:x}::1") for network in range(2, 17)]
        self.assertEqual([connection.refused for connection in others], [False] * 14 + [True])
        self.assertFalse(connect("2001:db8:2::1").refused)
        self.assertEqual(browser.site.refused()["connections_per_address"], 2)
        same[0].leave()
        self.assertFalse(connect("2001:db8:1:1::9").refused)
        self.assertTrue(connect("2001:db8:1:ff::1").refused)

    def test_ipv4_inside_ipv6(self) -> None:
        """A mapped address counts as the IPv4 address that it is."""
        browser = self.browser(connections_per_address=1)
        self.assertFalse(browser.connect().refused)
        self.assertTrue(browser.connect(IPv6Address("TCP", f"::ffff:{UNTRUSTED.host}", 1)).refused)

    def test_proxies_and_neighbours_are_not_counted(self) -> None:
        """Loopback, trusted peers and local sockets have no limit per address."""
        browser = self.browser(connections_per_address=1)
        for peer in (IPv4Address("TCP", "127.0.0.1", 1), UNIXAddress(None)):
            self.assertEqual([browser.connect(peer).refused for _ in range(5)], [False] * 5)

    def test_so_many_in_all(self) -> None:
        """`limits.connections` counts all connections."""
        browser = self.browser(connections=3)
        peer = IPv4Address("TCP", "127.0.0.1", 1)
        with capturedLogs() as events:
            connections = [browser.connect(peer) for _ in range(5)]
            self.assertEqual([each.refused for each in connections], [False, False, False, True, True])
            self.assertEqual([formatEvent(event) for event in events], ["connections_full connections=3"])
            connections[0].leave()
            self.assertEqual([browser.connect(peer).refused for _ in range(2)], [False, True])
            self.assertEqual(len(events), 1)
            for each in connections[1:3]:
                each.leave()
            self.assertEqual([browser.connect(peer).refused for _ in range(3)], [False, False, True])
            self.assertEqual(len(events), 2)


class ShutdownTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.routes = EchoRoutes()
        self.browser = Browser([self.routes])

    def test_no_connections(self) -> None:
        """Shutdown without connections is done at once."""
        self.successResultOf(self.browser.site.shut_down())

    def test_idle_connections_are_closed(self) -> None:
        """Idle connections are closed."""
        connection = self.browser.connect().send(GET)
        done = self.browser.site.shut_down()
        self.assertTrue(connection.closed)
        self.assertNoResult(done)
        connection.leave()
        self.successResultOf(done)

    def test_an_answer_that_is_not_taken_yet(self) -> None:
        """A connection whose last response is not read yet is closed after it."""
        for later in (b"", GET):
            connection = self.browser.connect()
            write = connection.transport.write
            connection.transport.write = lambda data: (write(data), connection.channel.flow.pauseProducing())  # noqa: B023
            connection.send(GET + later)
            done = self.browser.site.shut_down()
            connection.channel.flow.resumeProducing()
            self.assertEqual((len(connection.answers), connection.closed), (1, True))
            connection.leave()
            self.successResultOf(done)
            self.browser.site.site.shutting_down = False

    def test_new_connections(self) -> None:
        """A new connection is kept for a moment, so that its first request gets a 503."""
        asking, silent = self.browser.connect(), self.browser.connect()
        done = self.browser.site.shut_down()
        asking.send(GET)
        self.assertEqual((asking.answer.status, asking.answer.code), (503, "shutting_down"))
        self.assertFalse(silent.closed)
        self.browser.clock.advance(FIRST_REQUEST_SECONDS)
        self.assertTrue(silent.closed)
        for connection in (asking, silent):
            connection.leave()
        self.successResultOf(done)

    def test_drained(self) -> None:
        """Where another process serves on, open connections get one more answer, also if the request comes late."""
        browser = Browser([self.routes], HttpSettings(BASE_HOST, drains=True))
        late, silent, begun = browser.connect(), browser.connect(), browser.connect().send(GET[:-2])
        done = browser.site.shut_down()
        browser.clock.advance(DRAIN_SECONDS - 0.01)
        for connection, rest in ((late, GET), (begun, GET[-2:])):
            connection.send(rest)
            self.assertEqual((connection.answer.status, connection.answer.headers["connection"]), (200, "close"))
        self.assertFalse(silent.closed)
        browser.clock.advance(0.01)
        self.assertTrue(silent.closed)
        for connection in (late, silent, begun):
            connection.leave()
        self.successResultOf(done)
        self.assertTrue(browser.connect().refused)

    def test_what_is_under_way_is_answered(self) -> None:
        """The current response is the last one; pipelined requests are not started."""
        connection = self.browser.connect().send(request_bytes("GET", "/echo/later") + GET)
        done = self.browser.site.shut_down()
        self.assertNoResult(done)
        self.routes.waiting.pop().callback(b"late")
        self.assertEqual((connection.answer.body, connection.closing), (b"late", True))
        self.assertEqual(connection.answer.headers["connection"], "close")
        self.browser.clock.advance(LAST_ANSWER_SECONDS - 0.01)
        self.assertFalse(connection.closed)
        self.browser.clock.advance(0.01)
        self.assertEqual((connection.transport.disconnecting, connection.transport.disconnected), (True, False))
        connection.leave()
        self.successResultOf(done)

    def test_half_closed_clients(self) -> None:
        """A client that has closed its side is closed with the last response."""
        connection = self.browser.connect().send(request_bytes("GET", "/echo/later"))
        connection.channel.readConnectionLost()
        self.browser.site.shut_down()
        self.routes.waiting.pop().callback(b"late")
        self.assertEqual((connection.answer.body, connection.closed), (b"late", True))
        connection.leave()

    def test_a_client_that_closes_first(self) -> None:
        """A client that closes after the last response ends the connection at once."""
        connection = self.browser.connect().send(request_bytes("GET", "/echo/later"))
        done = self.browser.site.shut_down()
        self.routes.waiting.pop().callback(b"late")
        connection.channel.readConnectionLost()
        self.assertTrue(connection.closed)
        connection.leave()
        self.successResultOf(done)
        self.assertEqual(self.browser.clock.getDelayedCalls(), [])

    def test_a_head_that_ends_now_comes_too_late(self) -> None:
        """A new request during shutdown is 503 shutting_down with Retry-After."""
        connection = self.browser.connect().send(GET[:-2])
        done = self.browser.site.shut_down()
        self.assertFalse(connection.closed)
        connection.send(GET[-2:])
        answer = connection.answer
        self.assertEqual((answer.status, answer.code, answer.headers["retry-after"]), (503, "shutting_down", "5"))
        self.assertEqual(self.routes.calls, [])
        connection.leave()
        self.successResultOf(done)

    def test_new_connections_are_not_taken(self) -> None:
        """A connection during shutdown is closed."""
        self.browser.site.shut_down()
        self.assertTrue(self.browser.connect().refused)
