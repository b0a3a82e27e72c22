"""One connection: pipelines, keep-alive, gates that take their time, clients that leave."""

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.connection import HELD_BYTES
from gamed.http.errors import BadRequest
from tests.http.apps import EchoRoom, OpenGate, Sink, Turnstile
from tests.support.covers import covers
from tests.support.http import Browser, Connection, request_bytes

GET = request_bytes("GET", "/echo/text")
JSON = {"Content-Type": "application/json"}
READ_BYTES = 64 * 1024


def put(body: bytes, **headers: str) -> bytes:
    return request_bytes("PUT", "/echo/any", headers, body)


class EagerClient:
    """A client whose bytes are always there when the server reads: one read in each turn of the reactor."""

    def __init__(self, connection: Connection, request: bytes, count: int) -> None:
        self.connection = connection
        self.count = count
        self.most = 0
        """The most bytes that the connection has held after a read."""
        self._left = request * count
        transport = connection.transport
        resume = transport.resumeProducing
        transport.resumeProducing = lambda: (resume(), self._be_read_soon())
        self._be_read_soon()
        connection.turn()

    def _be_read_soon(self) -> None:
        self.connection._clock.callLater(0, self._be_read)

    def _be_read(self) -> None:
        if self._left and self.connection.transport.producerState == "producing":
            self.connection.channel.dataReceived(self._left[:READ_BYTES])
            self._left = self._left[READ_BYTES:]
            self.most = max(self.most, len(self.connection.channel._buffer))
            self._be_read_soon()


def narrowed(connection: Connection) -> Connection:
    """Its transport is full after each answer."""
    write = connection.transport.write

    def write_and_be_full(data: bytes) -> None:
        write(data)
        connection.channel.flow.pauseProducing()

    connection.transport.write = write_and_be_full
    return connection


class PipelineTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.room = EchoRoom()
        self.browser = Browser([self.room])
        self.connection = self.browser.connect()

    def statuses(self) -> list[int]:
        return [answer.status for answer in self.connection.answers]

    def test_many_at_once(self) -> None:
        """Answered in order, over one connection, however the bytes are cut."""
        data = (GET + request_bytes("POST", "/echo/any", {"Content-Type": "application/json"}, b"{}") + GET) * 20
        for step in (1, 7, 1000, len(data)):
            with self.subTest(step):
                connection = self.browser.connect()
                for at in range(0, len(data), step):
                    connection.send(data[at : at + step])
                self.assertEqual([answer.body[:3] for answer in connection.answers], [b"tex", b'{"s', b"tex"] * 20)
                self.assertFalse(connection.closing)

    def test_very_many_at_once(self) -> None:
        """More than Python's frames would reach if each were answered inside the one before it."""
        connection = Browser([EchoRoom()]).connect()
        connection.send(put(b"hello") * 600 + GET * 600)
        self.assertEqual(len(connection.answers), 1200)

    def test_order_is_kept_when_the_first_is_slow(self) -> None:
        """The second is not begun before the first is answered."""
        self.connection.send(request_bytes("GET", "/echo/later") + GET)
        self.assertEqual((self.statuses(), self.room.calls), ([], []))
        self.room.waiting.pop().callback(b"late")
        self.assertEqual([answer.body for answer in self.connection.answers], [b"late", b"text"])

    @covers("threats/37")
    def test_a_flood_behind_a_slow_answer_pauses_the_transport(self) -> None:
        """At most some 16 KiB wait in memory; reading goes on after the answer."""
        self.connection.send(request_bytes("GET", "/echo/later") + GET * 400)
        self.assertEqual(self.connection.transport.producerState, "paused")
        self.room.waiting.pop().callback(b"late")
        self.assertEqual(len(self.statuses()), 401)
        self.assertEqual(self.connection.transport.producerState, "producing")

    def test_memory_of_a_pipeline(self) -> None:
        """Requests with and without a body that arrive faster than they are answered wait in at most two reads."""
        chunked = request_bytes("PUT", "/echo/any", JSON | {"Transfer-Encoding": "chunked"}, b"3\r\nabc\r\n0\r\n\r\n")
        for request in (GET, request_bytes("PUT", "/echo/any", JSON, b"a" * 5000), chunked):
            with self.subTest(request[:40]):
                client = EagerClient(self.browser.connect(), request, 20 * READ_BYTES // len(request))
                self.assertEqual(client.connection.raw.count(b"HTTP/1.1 200 "), client.count)
                self.assertLessEqual(client.most, HELD_BYTES + READ_BYTES)

    @covers("threats/37")
    def test_who_does_not_read_is_not_answered_on(self) -> None:
        """The next request waits until the transport has room for its answer."""
        connection = Browser([EchoRoom()]).connect()
        channel = narrowed(connection).channel
        connection.send(GET * 500)
        self.assertEqual((len(connection.answers), connection.transport.producerState), (1, "paused"))
        for answered in range(2, 501):
            channel.flow.resumeProducing()
            self.assertEqual(len(connection.answers), answered)
        channel.flow.resumeProducing()
        self.assertEqual(connection.transport.producerState, "producing")
        self.assertFalse(connection.closing)

    def test_who_says_all_and_reads_later(self) -> None:
        """A side that is closed meanwhile takes no answer away."""
        self.connection.send(request_bytes("GET", "/echo/later") + GET * 2)
        self.connection.channel.flow.pauseProducing()
        self.room.waiting.pop().callback(b"late")
        self.connection.channel.readConnectionLost()
        self.assertEqual((len(self.statuses()), self.connection.closing), (1, False))
        self.connection.channel.flow.resumeProducing()
        self.assertEqual((len(self.statuses()), self.connection.closing), (3, True))

    @covers("threats/37")
    def test_a_flood_from_who_does_not_read(self) -> None:
        """Nothing more is read of a client that does not take an answer that has begun."""
        self.connection.send(request_bytes("GET", "/echo/stream"))
        self.connection.channel.flow.pauseProducing()
        self.connection.send(GET * 400)
        self.assertEqual(self.connection.transport.producerState, "paused")

    def test_empty_lines(self) -> None:
        """One empty line before each request of a connection is skipped, a second one is a bad request."""
        for parts in ([b"\r\n", GET, b"\r\n", GET], [b"\r\n" + GET + b"\r\n" + GET], [GET + b"\r", b"\n" + GET]):
            connection = self.browser.connect()
            for part in parts:
                connection.send(part)
            self.assertEqual([answer.status for answer in connection.answers], [200, 200])
            connection.send(b"\r\n")
            self.assertFalse(connection.closing)
            connection.send(b"\r\n")
            self.assertEqual([answer.status for answer in connection.answers], [200, 200, 400])
            self.assertTrue(connection.closing)

    def test_only_changes_reach_the_transport(self) -> None:
        """Reading is neither paused nor resumed twice in a row: each call costs a change of the poll set."""
        calls: list[str] = []
        connection = self.browser.connect()
        transport = connection.transport
        pause, resume = transport.pauseProducing, transport.resumeProducing
        transport.pauseProducing = lambda: (calls.append("pause"), pause())
        transport.resumeProducing = lambda: (calls.append("resume"), resume())
        connection.send(GET).send(GET)
        self.assertEqual(calls, [])
        connection.send(request_bytes("GET", "/echo/later") + GET * 400).send(GET * 10).send(GET * 10)
        self.assertEqual(calls, ["pause"])
        self.room.waiting.pop().callback(b"late")
        self.assertEqual(len(connection.answers), 423)
        self.assertEqual(calls, ["pause", "resume"])
        for _ in range(2):
            connection.channel.flow.pauseProducing()
        for _ in range(2):
            connection.channel.flow.resumeProducing()
        self.assertEqual(calls, ["pause", "resume"] * 2)

    def test_errors_whose_body_was_read_keep_the_connection(self) -> None:
        """404, 405, 413, 415, 400 of a body: whatever was here to its end."""
        self.connection.send(request_bytes("GET", "/nope"))
        self.connection.send(request_bytes("POST", "/echo/text", {}, b"abc"))
        self.connection.send(request_bytes("POST", "/echo/json", {"Content-Type": "text/plain"}, b"abc"))
        self.connection.send(request_bytes("POST", "/echo/json", {"Content-Type": "application/json"}, b"{"))
        self.connection.send(put(b"a" * 9000))
        self.connection.send(GET)
        self.assertEqual(self.statuses(), [404, 405, 415, 400, 413, 200])
        self.assertFalse(self.connection.closing)

    def test_errors_before_the_body_close_the_connection(self) -> None:
        """The rest of the body cannot be told from a request: Connection: close, and nothing after it is obeyed."""
        head = put(b"a" * 9000)[:-8000]
        self.connection.send(head)
        self.assertEqual(self.statuses(), [413])
        self.assertEqual(self.connection.answer.headers["connection"], "close")
        self.connection.send(GET)
        self.assertEqual(self.statuses(), [413])

    def test_close_is_obeyed(self) -> None:
        """`Connection: close`, and every HTTP/1.0 request, is the last."""
        self.connection.send(request_bytes("GET", "/echo/text", {"Connection": "close"}) + GET)
        self.assertEqual((self.statuses(), self.connection.closing), ([200], True))
        self.assertEqual(self.connection.answer.headers["connection"], "close")
        old = self.browser.connect().send(b"GET /echo/text HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + GET)
        self.assertEqual(([answer.status for answer in old.answers], old.closing), ([200], True))
        last = self.browser.connect().send(request_bytes("GET", "/echo/text", {"Connection": "close"}))
        self.assertTrue(last.closed)

    def test_an_answer_is_read_before_the_end(self) -> None:
        """After a refusal the rest is read and thrown away for a moment, so that no reset overtakes the answer."""
        self.connection.send(put(b"a" * 9000)[:-8000])
        self.connection.send(b"a" * 7000)
        self.assertFalse(self.connection.closed)
        self.browser.clock.advance(5)
        self.assertTrue(self.connection.closed)

    def test_an_endless_body_is_not_read_for_ever(self) -> None:
        """After 32 MiB thrown away the connection is closed at once."""
        self.connection.send(put(b"a" * 9000)[:-8000])
        for _ in range(33):
            self.connection.send(b"a" * 1024 * 1024)
        self.assertTrue(self.connection.closed)


class GateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gate = Turnstile()
        self.room = EchoRoom(body_policies={"echo_any": self.gate})
        self.browser = Browser([self.room])
        self.connection = self.browser.connect()

    def send(self, data: bytes) -> Connection:
        self.browser.watched(lambda: self.connection.send(data))
        return self.connection

    def test_the_head_is_what_the_gate_sees(self) -> None:
        """Method, path, arguments, headers, size, address: before a byte of the body is taken."""
        self.send(request_bytes("PUT", "/echo/any?a=b", {"If-Match": "*", "X-Forwarded-For": "192.0.2.7"}, b"hello"))
        [head] = self.gate.heads
        self.assertEqual((head.method, head.path, head.query, head.length), ("PUT", "/echo/any", b"a=b", 5))
        self.assertEqual((head.single("if-match"), head.address, head.has_framing), ("*", "192.0.2.7", True))
        self.assertEqual(self.room.calls, [])

    def test_the_body_waits(self) -> None:
        """Until the gate has spoken; then all of it comes, in order, then the handler."""
        self.send(put(b"hello ")[:-3])
        self.send(b"lo ")
        sink = Sink()
        self.gate.waiting.pop().callback(sink)
        self.assertEqual((b"".join(sink.parts), sink.aborted), (b"hello ", 0))
        self.assertEqual(self.connection.answer.json["size"], 6)

    def test_the_transport_is_paused_while_much_waits(self) -> None:
        """16 KiB wait in memory, the rest in the kernel; afterwards reading goes on."""
        self.send(put(b"a" * 100_000)[:-50_000])
        self.assertEqual(self.connection.transport.producerState, "paused")
        sink = Sink()
        self.gate.waiting.pop().callback(sink)
        self.assertEqual((sink.size, self.connection.transport.producerState), (50_000, "producing"))
        self.send(b"a" * 50_000)
        self.assertEqual(self.connection.answer.json["size"], 100_000)

    def test_the_transport_is_full_meanwhile(self) -> None:
        """Nothing more is read before it has room again."""
        self.send(put(b"a" * 100_000)[:-50_000])
        self.connection.channel.flow.pauseProducing()
        self.gate.waiting.pop().callback(Sink())
        self.assertEqual(self.connection.transport.producerState, "paused")
        self.connection.channel.flow.resumeProducing()
        self.assertEqual(self.connection.transport.producerState, "producing")

    def test_what_follows_the_body_is_the_next_request(self) -> None:
        """Also when it came while the gate judged."""
        self.send(put(b"hello") + GET)
        self.gate.waiting.pop().callback(Sink())
        self.assertEqual([answer.status for answer in self.connection.answers], [200, 200])

    def test_continue_comes_after_the_gate(self) -> None:
        """100 Continue is sent once, when the gate lets the body in."""
        head = put(b"hello", Expect="100-continue")[:-5]
        self.send(head)
        self.assertEqual(self.connection.interim, 0)
        self.gate.waiting.pop().callback(Sink())
        self.assertEqual(self.connection.interim, 1)
        self.send(b"hello")
        self.assertEqual(self.connection.answer.json["size"], 5)

    def test_no_continue_when_refused(self) -> None:
        """The final answer comes instead, and the connection ends."""
        self.send(put(b"hello", Expect="100-continue")[:-5])
        self.gate.waiting.pop().errback(BadRequest("No."))
        self.assertEqual((self.connection.interim, self.connection.answer.code), (0, "bad_request"))
        self.assertTrue(self.connection.closing)

    def test_no_continue_when_it_would_say_nothing(self) -> None:
        """Not without a body, not when the body is here already, not to HTTP/1.0."""
        for data in (
            request_bytes("GET", "/echo/any", {"Expect": "100-continue"}),
            put(b"hello", Expect="100-continue"),
            b"PUT /echo/any HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
        ):
            with self.subTest(data):
                connection = self.browser.connect().send(data)
                self.gate.waiting.pop().callback(Sink())
                self.assertEqual(connection.interim, 0)

    def test_a_refusal_is_typed(self) -> None:
        """What the gate raises is answered as from a handler; a whole body that is here keeps the connection."""
        self.send(put(b"hello") + GET)
        self.gate.waiting.pop().errback(BadRequest("No."))
        self.assertEqual([answer.status for answer in self.connection.answers], [400, 200])

    def test_a_gate_that_crashes(self) -> None:
        """500 internal_error, logged; nothing of the body was taken."""
        browser = Browser([self.room], crashes=True)
        connection = browser.connect().send(put(b"hello"))
        browser.watched(lambda: self.gate.waiting.pop().errback(ValueError("broken")))
        self.assertEqual(connection.answer.code, "internal_error")
        self.assertIn("ValueError: broken", "".join(browser.events))

    def test_the_client_leaves_while_the_gate_judges(self) -> None:
        """The sink that the gate makes all the same is aborted; no handler runs."""
        self.send(put(b"hello"))
        self.connection.leave()
        sink = Sink()
        self.browser.watched(lambda: self.gate.waiting.pop().callback(sink))
        self.assertEqual((sink.aborted, sink.parts, self.room.calls), (1, [], []))

    def test_the_client_leaves_and_the_gate_refuses(self) -> None:
        """Nobody is there to hear it; nothing breaks."""
        self.send(put(b"hello"))
        self.connection.leave()
        self.browser.watched(lambda: self.gate.waiting.pop().errback(BadRequest()))
        self.assertEqual(self.connection.answers, [])


class SinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gate = OpenGate(refuse_at=10)
        self.room = EchoRoom(body_policies={"echo_any": self.gate})
        self.browser = Browser([self.room])

    def test_torn_uploads(self) -> None:
        """A client that leaves in its body: aborted once, no handler, no answer, 499 in the log."""
        for data in (
            put(b"hello")[:-1],
            request_bytes("PUT", "/echo/any", {"Transfer-Encoding": "chunked"}, b"5\r\nhello\r\n"),
        ):
            with self.subTest(data):
                connection = self.browser.connect().send(data)
                connection.leave()
                self.assertEqual(self.gate.sinks[-1].aborted, 1)
                self.assertEqual((self.room.calls, connection.answers), ([], []))
                self.assertEqual(self.browser.log.lines[-1]["status"], 499)

    def test_a_sink_that_refuses(self) -> None:
        """Its typed error is answered at once; it is aborted and gets no more."""
        connection = self.browser.connect().send(put(b"a" * 100)[:-80])
        self.assertEqual((connection.answer.code, connection.closing), ("busy", True))
        [sink] = self.gate.sinks
        self.assertEqual((sink.aborted, self.room.calls), (1, []))
        connection.send(b"a" * 80)
        self.assertEqual(sink.size, 20)

    def test_a_sink_that_refuses_the_last_bytes(self) -> None:
        """The body was read to its end: the connection goes on."""
        connection = self.browser.connect().send(put(b"a" * 20) + GET)
        self.assertEqual([answer.status for answer in connection.answers], [503, 200])
        self.assertEqual(self.gate.sinks[0].aborted, 1)

    def test_a_whole_body_is_not_aborted(self) -> None:
        """Not after the answer, and not when the client leaves while the handler works."""
        connection = self.browser.connect().send(put(b"hello"))
        connection.leave()
        self.assertEqual(self.gate.sinks[0].aborted, 0)


class LeavingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.room = EchoRoom()
        self.browser = Browser([self.room])

    def test_the_handler_is_cancelled(self) -> None:
        """It learns that nobody waits any more; nothing is logged but 499."""
        connection = self.browser.send("GET", "/echo/later")
        self.browser.watched(connection.leave)
        self.assertEqual(self.room.calls, [CancelledError])
        self.assertEqual((self.browser.log.lines[-1]["status"], self.browser.events), (499, []))

    def test_a_handler_without_a_coroutine_is_cancelled(self) -> None:
        """The same for one that returns a Deferred."""
        connection = self.browser.send("GET", "/echo/later/deferred")
        self.browser.watched(connection.leave)
        self.assertEqual(self.room.calls, [CancelledError])
        self.assertEqual((self.browser.log.lines[-1]["status"], self.browser.events), (499, []))

    def test_a_handler_that_writes_on(self) -> None:
        """What nobody reads goes nowhere; there is one line, of the client that left."""
        connection = self.browser.send("GET", "/echo/stubborn")
        self.browser.watched(connection.leave)
        self.assertEqual(self.room.calls, ["written"])
        self.assertEqual([(line["status"], line["size"]) for line in self.browser.log.lines], [(499, 3)])
        self.assertEqual(self.browser.events, [])

    def test_detached_work_goes_on(self) -> None:
        """It ends as if the client were there, and shutdown can wait for it."""
        connection = self.browser.send("POST", "/echo/detached")
        connection.leave()
        waited = self.room.detached.drain()
        self.assertNoResult(waited)
        self.room.waiting.pop().callback(b"done")
        self.successResultOf(waited)
        self.assertEqual(self.room.calls, ["finished"])

    def test_detached_work_answers_who_stays(self) -> None:
        """The handler gets its result, or its error."""
        connection = self.browser.send("POST", "/echo/detached")
        self.room.waiting.pop().callback(b"done")
        self.assertEqual(connection.answer.body, b"done")
        connection = self.browser.send("POST", "/echo/detached")
        self.room.waiting.pop().errback(BadRequest("No."))
        self.assertEqual(connection.answer.code, "bad_request")

    def test_detached_work_that_fails_alone_is_logged(self) -> None:
        """With its trace; there is nobody else to tell."""
        connection = self.browser.send("POST", "/echo/detached")
        connection.leave()
        self.browser.watched(lambda: self.room.waiting.pop().errback(ValueError("too late")))
        self.assertIn("ValueError: too late", "".join(self.browser.events))

    def test_streams(self) -> None:
        """A handler may write by itself; None ends it."""
        connection = self.browser.send("GET", "/echo/stream")
        self.room.waiting.pop().callback(None)
        self.assertEqual(connection.answer.body, b"abcdef")
        self.assertFalse(connection.closing)
