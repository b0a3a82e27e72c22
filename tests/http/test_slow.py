"""Nobody may be slow without end: heads, bodies, readers, and those who say nothing."""

from resource import RLIMIT_NOFILE, getrlimit

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.client_address import RESERVED_FILES, HttpSettings, spare_files
from gamed.http.closing import LAST_ANSWER_SECONDS
from gamed.http.connection import FIRST_REQUEST_SECONDS
from gamed.http.direct_socket import PROGRESS_BYTES, StalledWrite
from tests.http.apps import EchoRoom, OpenGate, Sink, Turnstile
from tests.support.covers import covers
from tests.support.http import BASE_HOST, Browser, Connection, request_bytes

GET = request_bytes("GET", "/echo/text")
STRANGER = IPv4Address("TCP", "203.0.113.9", 50000)


class SlowCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.gate = OpenGate()
        self.room = EchoRoom(body_policies={"echo_any": self.gate})
        self.browser = Browser([self.room], peer=STRANGER)
        self.clock = self.browser.clock
        self.connection = self.browser.connect()

    def status(self, connection: Connection | None = None) -> tuple[int, str]:
        answer = (connection or self.connection).answer
        return answer.status, answer.code


@covers("threats/36")
class HeadTests(SlowCase):
    def test_ten_seconds_from_the_first_byte(self) -> None:
        """A byte now and then does not start the time again: 408, and the end."""
        for at in range(9):
            self.connection.send(GET[at : at + 1])
            self.clock.advance(1)
        self.assertEqual(self.connection.answers, [])
        self.connection.send(GET[9:10])
        self.clock.advance(1)
        self.assertEqual(self.status(), (408, "request_timeout"))
        self.assertTrue(self.connection.closing)

    def test_the_second_head_of_a_connection(self) -> None:
        """Has its own ten seconds, also when its begin came with the first."""
        self.connection.send(GET + GET[:5])
        self.clock.advance(9)
        self.connection.send(GET[5:] + GET[:5])
        self.clock.advance(9.5)
        self.assertEqual([answer.status for answer in self.connection.answers], [200, 200])
        self.clock.advance(0.5)
        self.assertEqual([answer.status for answer in self.connection.answers], [200, 200, 408])

    def test_a_slow_answer_is_not_a_slow_head(self) -> None:
        """While a handler works no clock runs against the client."""
        self.connection.send(request_bytes("GET", "/echo/later"))
        self.clock.advance(3600)
        self.room.waiting.pop().callback(b"late")
        self.assertEqual(self.connection.answer.body, b"late")

    def test_a_slow_gate_is_not_a_slow_body(self) -> None:
        """The body cannot come faster than it is let in."""
        gate = Turnstile()
        browser = Browser([EchoRoom(body_policies={"echo_any": gate})])
        connection = browser.connect().send(request_bytes("PUT", "/echo/any", {}, b"hello"))
        browser.clock.advance(60)
        gate.waiting.pop().callback(Sink())
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

    def test_strangers(self) -> None:
        """30 seconds without a request, at first and between; closed without a word."""
        self.closes_after(STRANGER, 30)

    def test_proxies(self) -> None:
        """180 seconds for trusted peers and local sockets, longer than proxies keep theirs."""
        self.closes_after(IPv4Address("TCP", "127.0.0.1", 50000), 180)
        self.closes_after(UNIXAddress(None), 180)

    def test_a_closed_connection_that_does_not_go(self) -> None:
        """A client that does not read its answer to the end is cut off after a minute."""
        self.clock.advance(30)
        self.assertFalse(self.connection.transport.disconnected)
        self.clock.advance(60)
        self.assertTrue(self.connection.transport.disconnected)


@covers("threats/36")
class BodyTests(SlowCase):
    HEAD = request_bytes("PUT", "/echo/any", {"Content-Length": "100000000"})

    def test_a_trickle(self) -> None:
        """Less than 10 KiB in ten seconds: 408, the sink aborted, no handler."""
        self.connection.send(self.HEAD)
        for _ in range(10):
            self.connection.send(b"a" * 1000)
            self.clock.advance(1)
        self.assertEqual(self.status(), (408, "request_timeout"))
        [sink] = self.gate.sinks
        self.assertEqual((sink.aborted, self.room.calls), (1, []))
        self.assertTrue(self.connection.closing)

    def test_a_body_that_never_begins(self) -> None:
        """The same, after 100 Continue as well."""
        for expect in ({}, {"Expect": "100-continue"}):
            connection = self.browser.connect().send(
                request_bytes("PUT", "/echo/any", {"Content-Length": "5", **expect})
            )
            self.clock.advance(10)
            self.assertEqual(self.status(connection), (408, "request_timeout"))

    def test_a_slow_line(self) -> None:
        """1 KiB a second is enough."""
        self.connection.send(self.HEAD)
        for _ in range(60):
            self.connection.send(b"a" * 1024)
            self.clock.advance(1)
        self.assertEqual(self.connection.answers, [])

    def test_not_for_ever(self) -> None:
        """`upload_seconds` in all."""
        self.connection.send(self.HEAD)
        for _ in range(60):
            self.connection.send(b"a" * 20_000)
            self.clock.advance(10)
        self.assertEqual(self.status(), (408, "request_timeout"))


@covers("threats/36")
class ReaderTests(SlowCase):
    def test_a_client_that_does_not_read(self) -> None:
        """Its connection is cut after a minute in which nothing could be sent."""
        self.browser.watched(lambda: self.connection.send(request_bytes("GET", "/echo/stream")))
        self.connection.channel.flow.pauseProducing()
        self.clock.advance(59)
        self.assertFalse(self.connection.transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(self.connection.transport.disconnected)

    def test_a_client_that_reads_slowly(self) -> None:
        """Each time it has read what was there, its minute begins again."""
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
        """Who takes 16 KiB in a minute of what the kernel holds for them goes on; who takes less is gone."""
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
        """When all have left, nothing waits any more."""
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
        """Half of them may be files that are being sent: some stay for the stores, however many may connect."""
        soft, _hard = getrlimit(RLIMIT_NOFILE)
        self.assertEqual(spare_files(10), (soft - 10) // 2)
        self.assertEqual(spare_files(10**9), RESERVED_FILES // 2)

    def browser(self, **limits: int) -> Browser:
        return Browser([EchoRoom()], HttpSettings(BASE_HOST, **limits), peer=STRANGER)

    def test_so_many_from_one_stranger(self) -> None:
        """64 from one address; one that left makes room, and others are not touched."""
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
        self.assertTrue(browser.connect(IPv6Address("TCP", f"::ffff:{STRANGER.host}", 1)).refused)

    def test_proxies_and_neighbours_are_not_counted(self) -> None:
        """Loopback, trusted peers and local sockets carry many players."""
        browser = self.browser(connections_per_address=1)
        for peer in (IPv4Address("TCP", "127.0.0.1", 1), UNIXAddress(None)):
            self.assertEqual([browser.connect(peer).refused for _ in range(5)], [False] * 5)

    def test_so_many_in_all(self) -> None:
        """`limits.connections`, whoever they are."""
        browser = self.browser(connections=3)
        peer = IPv4Address("TCP", "127.0.0.1", 1)
        self.assertEqual([browser.connect(peer).refused for _ in range(4)], [False, False, False, True])


class ShutdownTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.room = EchoRoom()
        self.browser = Browser([self.room])

    def test_nobody_there(self) -> None:
        """Done at once."""
        self.successResultOf(self.browser.site.shut_down())

    def test_idle_connections_are_closed(self) -> None:
        """Those that asked nothing need no answer."""
        connection = self.browser.connect().send(GET)
        done = self.browser.site.shut_down()
        self.assertTrue(connection.closed)
        self.assertNoResult(done)
        connection.leave()
        self.successResultOf(done)

    def test_an_answer_that_is_not_taken_yet(self) -> None:
        """A connection whose answer is written, but not read yet, ends with that answer: it asks nothing more."""
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

    def test_who_came_just_now(self) -> None:
        """A connection that has said nothing yet is heard for a moment: its request is answered with 503, not torn."""
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

    def test_what_is_under_way_is_answered(self) -> None:
        """The answer is the connection's last; what was pipelined behind it is not begun."""
        connection = self.browser.connect().send(request_bytes("GET", "/echo/later") + GET)
        done = self.browser.site.shut_down()
        self.assertNoResult(done)
        self.room.waiting.pop().callback(b"late")
        self.assertEqual((connection.answer.body, connection.closing), (b"late", True))
        self.assertEqual(connection.answer.headers["connection"], "close")
        self.browser.clock.advance(LAST_ANSWER_SECONDS - 0.01)
        self.assertFalse(connection.closed)
        self.browser.clock.advance(0.01)
        self.assertEqual((connection.transport.disconnecting, connection.transport.disconnected), (True, False))
        connection.leave()
        self.successResultOf(done)

    def test_who_had_said_all(self) -> None:
        """Its connection ends with its last answer: there is nothing that it could still say."""
        connection = self.browser.connect().send(request_bytes("GET", "/echo/later"))
        connection.channel.readConnectionLost()
        self.browser.site.shut_down()
        self.room.waiting.pop().callback(b"late")
        self.assertEqual((connection.answer.body, connection.closed), (b"late", True))
        connection.leave()

    def test_a_client_that_closes_first(self) -> None:
        """Told that this answer was the last it need not wait for us, nor we any longer for it."""
        connection = self.browser.connect().send(request_bytes("GET", "/echo/later"))
        done = self.browser.site.shut_down()
        self.room.waiting.pop().callback(b"late")
        connection.channel.readConnectionLost()
        self.assertTrue(connection.closed)
        connection.leave()
        self.successResultOf(done)
        self.assertEqual(self.browser.clock.getDelayedCalls(), [])

    def test_a_head_that_ends_now_comes_too_late(self) -> None:
        """503 shutting_down with Retry-After; no handler runs."""
        connection = self.browser.connect().send(GET[:-2])
        done = self.browser.site.shut_down()
        self.assertFalse(connection.closed)
        connection.send(GET[-2:])
        answer = connection.answer
        self.assertEqual((answer.status, answer.code, answer.headers["retry-after"]), (503, "shutting_down", "5"))
        self.assertEqual(self.room.calls, [])
        connection.leave()
        self.successResultOf(done)

    def test_new_connections_are_not_taken(self) -> None:
        """The listening port may still be open for a moment."""
        self.browser.site.shut_down()
        self.assertTrue(self.browser.connect().refused)
