"""One connection handles pipelines, keep-alive, slow body policies and clients that leave."""

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.connection import HELD_BYTES
from gamed.http.errors import BadRequest
from tests.http.apps import AcceptingPolicy, BlockingPolicy, EchoRoutes, RecordingReceiver
from tests.support.covers import covers
from tests.support.http import Browser, Connection, request_bytes

GET = request_bytes("GET", "/echo/text")
JSON = {"Content-Type": "application/json"}
READ_BYTES = 64 * 1024


def put(body: bytes, **headers: str) -> bytes:
    return request_bytes("PUT", "/echo/any", headers, body)


class EagerClient:
    """A client whose bytes always wait: the server reads once in each turn of the reactor."""

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
    """A connection whose transport is full after each response."""
    write = connection.transport.write

    def write_and_be_full(data: bytes) -> None:
        write(data)
        connection.channel.flow.pauseProducing()

    connection.transport.write = write_and_be_full
    return connection


class PipelineTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.routes = EchoRoutes()
        self.browser = Browser([self.routes])
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
        """A pipeline longer than Python's recursion limit is answered."""
        connection = Browser([EchoRoutes()]).connect()
        connection.send(put(b"hello") * 600 + GET * 600)
        self.assertEqual(len(connection.answers), 1200)

    def test_order_is_kept_when_the_first_is_slow(self) -> None:
        """A request starts after the response to the one before it."""
        self.connection.send(request_bytes("GET", "/echo/later") + GET)
        self.assertEqual((self.statuses(), self.routes.calls), ([], []))
        self.routes.waiting.pop().callback(b"late")
        self.assertEqual([answer.body for answer in self.connection.answers], [b"late", b"text"])

    @covers("threats/37")
    def test_a_flood_behind_a_slow_answer_pauses_the_transport(self) -> None:
        """At most about 16 KiB wait in memory; reading resumes after the response."""
        self.connection.send(request_bytes("GET", "/echo/later") + GET * 400)
        self.assertEqual(self.connection.transport.producerState, "paused")
        self.routes.waiting.pop().callback(b"late")
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
    def test_a_client_that_does_not_read(self) -> None:
        """The next request waits until the transport has room for its answer."""
        connection = Browser([EchoRoutes()]).connect()
        channel = narrowed(connection).channel
        connection.send(GET * 500)
        self.assertEqual((len(connection.answers), connection.transport.producerState), (1, "paused"))
        for answered in range(2, 501):
            channel.flow.resumeProducing()
            self.assertEqual(len(connection.answers), answered)
        channel.flow.resumeProducing()
        self.assertEqual(connection.transport.producerState, "producing")
        self.assertFalse(connection.closing)

    def test_a_half_closed_client_that_reads_later(self) -> None:
        """A client that closes its side still gets the response."""
        self.connection.send(request_bytes("GET", "/echo/later") + GET * 2)
        self.connection.channel.flow.pauseProducing()
        self.routes.waiting.pop().callback(b"late")
        self.connection.channel.readConnectionLost()
        self.assertEqual((len(self.statuses()), self.connection.closing), (1, False))
        self.connection.channel.flow.resumeProducing()
        self.assertEqual((len(self.statuses()), self.connection.closing), (3, True))

    @covers("threats/37")
    def test_a_flood_from_a_client_that_does_not_read(self) -> None:
        """Reading stops while a client does not read a response that has begun."""
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
        self.routes.waiting.pop().callback(b"late")
        self.assertEqual(len(connection.answers), 423)
        self.assertEqual(calls, ["pause", "resume"])
        for _ in range(2):
            connection.channel.flow.pauseProducing()
        for _ in range(2):
            connection.channel.flow.resumeProducing()
        self.assertEqual(calls, ["pause", "resume"] * 2)

    def test_errors_whose_body_was_read_keep_the_connection(self) -> None:
        """A refused request keeps the connection if its body was read completely."""
        self.connection.send(request_bytes("GET", "/nope"))
        self.connection.send(request_bytes("POST", "/echo/text", {}, b"abc"))
        self.connection.send(request_bytes("POST", "/echo/json", {"Content-Type": "text/plain"}, b"abc"))
        self.connection.send(request_bytes("POST", "/echo/json", {"Content-Type": "application/json"}, b"{"))
        self.connection.send(put(b"a" * 9000))
        self.connection.send(GET)
        self.assertEqual(self.statuses(), [404, 405, 415, 400, 413, 200])
        self.assertFalse(self.connection.closing)

    def test_errors_before_the_body_close_the_connection(self) -> None:
        """A refusal before the end of the body closes the connection; later bytes are ignored."""
        head = put(b"a" * 9000)[:-8000]
        self.connection.send(head)
        self.assertEqual(self.statuses(), [413])
        self.assertEqual(self.connection.answer.headers["connection"], "close")
        self.connection.send(GET)
        self.assertEqual(self.statuses(), [413])

    def test_close_is_obeyed(self) -> None:
        """`Connection: close` and HTTP/1.0 end the connection."""
        self.connection.send(request_bytes("GET", "/echo/text", {"Connection": "close"}) + GET)
        self.assertEqual((self.statuses(), self.connection.closing), ([200], True))
        self.assertEqual(self.connection.answer.headers["connection"], "close")
        old = self.browser.connect().send(b"GET /echo/text HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + GET)
        self.assertEqual(([answer.status for answer in old.answers], old.closing), ([200], True))
        last = self.browser.connect().send(request_bytes("GET", "/echo/text", {"Connection": "close"}))
        self.assertTrue(last.closed)

    def test_an_answer_is_read_before_the_end(self) -> None:
        """After a refusal the rest is discarded for a moment, so that no reset overtakes the response."""
        self.connection.send(put(b"a" * 9000)[:-8000])
        self.connection.send(b"a" * 7000)
        self.assertFalse(self.connection.closed)
        self.browser.clock.advance(5)
        self.assertTrue(self.connection.closed)

    def test_an_endless_body_is_not_read_for_ever(self) -> None:
        """After 32 MiB of discarded bytes the connection is closed at once."""
        self.connection.send(put(b"a" * 9000)[:-8000])
        for _ in range(33):
            self.connection.send(b"a" * 1024 * 1024)
        self.assertTrue(self.connection.closed)


class PolicyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.policy = BlockingPolicy()
        self.routes = EchoRoutes(body_policies={"echo_any": self.policy})
        self.browser = Browser([self.routes])
        self.connection = self.browser.connect()

    def send(self, data: bytes) -> Connection:
        self.browser.watched(lambda: self.connection.send(data))
        return self.connection

    def test_the_policy_gets_the_head(self) -> None:
        """A policy gets method, path, arguments, headers, length and address before the body is read."""
        self.send(request_bytes("PUT", "/echo/any?a=b", {"If-Match": "*", "X-Forwarded-For": "192.0.2.7"}, b"hello"))
        [head] = self.policy.heads
        self.assertEqual((head.method, head.path, head.query, head.length), ("PUT", "/echo/any", b"a=b", 5))
        self.assertEqual((head.single("if-match"), head.address, head.has_framing), ("*", "192.0.2.7", True))
        self.assertEqual(self.routes.calls, [])

    def test_the_body_waits(self) -> None:
        """The body waits for the policy, then reaches the receiver in order, then the handler runs."""
        self.send(put(b"hello ")[:-3])
        self.send(b"lo ")
        receiver = RecordingReceiver()
        self.policy.waiting.pop().callback(receiver)
        self.assertEqual((b"".join(receiver.parts), receiver.aborted), (b"hello ", 0))
        self.assertEqual(self.connection.answer.json["size"], 6)

    def test_the_transport_is_paused_while_much_waits(self) -> None:
        """16 KiB of a body wait in memory, the rest in the kernel, until the policy has decided."""
        self.send(put(b"a" * 100_000)[:-50_000])
        self.assertEqual(self.connection.transport.producerState, "paused")
        receiver = RecordingReceiver()
        self.policy.waiting.pop().callback(receiver)
        self.assertEqual((receiver.size, self.connection.transport.producerState), (50_000, "producing"))
        self.send(b"a" * 50_000)
        self.assertEqual(self.connection.answer.json["size"], 100_000)

    def test_the_transport_is_full_meanwhile(self) -> None:
        """Reading stops while the receiver is busy."""
        self.send(put(b"a" * 100_000)[:-50_000])
        self.connection.channel.flow.pauseProducing()
        self.policy.waiting.pop().callback(RecordingReceiver())
        self.assertEqual(self.connection.transport.producerState, "paused")
        self.connection.channel.flow.resumeProducing()
        self.assertEqual(self.connection.transport.producerState, "producing")

    def test_what_follows_the_body_is_the_next_request(self) -> None:
        """A complete body that arrived before the decision is read, too."""
        self.send(put(b"hello") + GET)
        self.policy.waiting.pop().callback(RecordingReceiver())
        self.assertEqual([answer.status for answer in self.connection.answers], [200, 200])

    def test_continue_after_the_policy(self) -> None:
        """100 Continue is sent once, when the policy accepts the body."""
        head = put(b"hello", Expect="100-continue")[:-5]
        self.send(head)
        self.assertEqual(self.connection.interim, 0)
        self.policy.waiting.pop().callback(RecordingReceiver())
        self.assertEqual(self.connection.interim, 1)
        self.send(b"hello")
        self.assertEqual(self.connection.answer.json["size"], 5)

    def test_no_continue_when_refused(self) -> None:
        """A refusal is sent instead of 100 Continue, and closes the connection."""
        self.send(put(b"hello", Expect="100-continue")[:-5])
        self.policy.waiting.pop().errback(BadRequest("No."))
        self.assertEqual((self.connection.interim, self.connection.answer.code), (0, "bad_request"))
        self.assertTrue(self.connection.closing)

    def test_no_continue_when_it_would_say_nothing(self) -> None:
        """100 Continue is not sent without a body, for a body that is here, or to HTTP/1.0."""
        for data in (
            request_bytes("GET", "/echo/any", {"Expect": "100-continue"}),
            put(b"hello", Expect="100-continue"),
            b"PUT /echo/any HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
        ):
            with self.subTest(data):
                connection = self.browser.connect().send(data)
                self.policy.waiting.pop().callback(RecordingReceiver())
                self.assertEqual(connection.interim, 0)

    def test_a_refusal_is_typed(self) -> None:
        """An error of a policy is answered like one of a handler; a complete body keeps the connection."""
        self.send(put(b"hello") + GET)
        self.policy.waiting.pop().errback(BadRequest("No."))
        self.assertEqual([answer.status for answer in self.connection.answers], [400, 200])

    def test_a_policy_that_crashes(self) -> None:
        """A policy that crashes is a logged 500; the body is discarded."""
        browser = Browser([self.routes], crashes=True)
        connection = browser.connect().send(put(b"hello"))
        browser.watched(lambda: self.policy.waiting.pop().errback(ValueError("broken")))
        self.assertEqual(connection.answer.code, "internal_error")
        self.assertIn("ValueError: broken", "".join(browser.events))

    def test_the_client_leaves_while_the_policy_decides(self) -> None:
        """A receiver that is returned after the client has left is aborted; no handler runs."""
        self.send(put(b"hello"))
        self.connection.leave()
        receiver = RecordingReceiver()
        self.browser.watched(lambda: self.policy.waiting.pop().callback(receiver))
        self.assertEqual((receiver.aborted, receiver.parts, self.routes.calls), (1, [], []))

    def test_the_client_leaves_and_the_policy_refuses(self) -> None:
        """An error of a policy after the client has left is not sent."""
        self.send(put(b"hello"))
        self.connection.leave()
        self.browser.watched(lambda: self.policy.waiting.pop().errback(BadRequest()))
        self.assertEqual(self.connection.answers, [])


class ReceiverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.policy = AcceptingPolicy(refuse_at=10)
        self.routes = EchoRoutes(body_policies={"echo_any": self.policy})
        self.browser = Browser([self.routes])

    def test_incomplete_uploads(self) -> None:
        """A client that leaves during its body: the receiver is aborted once, and 499 is logged."""
        for data in (
            put(b"hello")[:-1],
            request_bytes("PUT", "/echo/any", {"Transfer-Encoding": "chunked"}, b"5\r\nhello\r\n"),
        ):
            with self.subTest(data):
                connection = self.browser.connect().send(data)
                connection.leave()
                self.assertEqual(self.policy.receivers[-1].aborted, 1)
                self.assertEqual((self.routes.calls, connection.answers), ([], []))
                self.assertEqual(self.browser.log.lines[-1]["status"], 499)

    def test_a_receiver_that_refuses(self) -> None:
        """A typed error of a receiver is answered at once, and the receiver is aborted."""
        connection = self.browser.connect().send(put(b"a" * 100)[:-80])
        self.assertEqual((connection.answer.code, connection.closing), ("busy", True))
        [receiver] = self.policy.receivers
        self.assertEqual((receiver.aborted, self.routes.calls), (1, []))
        connection.send(b"a" * 80)
        self.assertEqual(receiver.size, 20)

    def test_a_receiver_that_refuses_the_last_bytes(self) -> None:
        """An error of a receiver at the end of the body keeps the connection."""
        connection = self.browser.connect().send(put(b"a" * 20) + GET)
        self.assertEqual([answer.status for answer in connection.answers], [503, 200])
        self.assertEqual(self.policy.receivers[0].aborted, 1)

    def test_a_whole_body_is_not_aborted(self) -> None:
        """A receiver is not aborted once its body is complete."""
        connection = self.browser.connect().send(put(b"hello"))
        connection.leave()
        self.assertEqual(self.policy.receivers[0].aborted, 0)


class LeavingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.routes = EchoRoutes()
        self.browser = Browser([self.routes])

    def test_the_handler_is_cancelled(self) -> None:
        """A handler is cancelled when its client leaves; only 499 is logged."""
        connection = self.browser.send("GET", "/echo/later")
        self.browser.watched(connection.leave)
        self.assertEqual(self.routes.calls, [CancelledError])
        self.assertEqual((self.browser.log.lines[-1]["status"], self.browser.events), (499, []))

    def test_a_handler_without_a_coroutine_is_cancelled(self) -> None:
        """A handler that returns a Deferred is cancelled, too."""
        connection = self.browser.send("GET", "/echo/later/deferred")
        self.browser.watched(connection.leave)
        self.assertEqual(self.routes.calls, [CancelledError])
        self.assertEqual((self.browser.log.lines[-1]["status"], self.browser.events), (499, []))

    def test_a_handler_that_writes_on(self) -> None:
        """A handler that ignores the cancellation writes nothing; the log has one line."""
        connection = self.browser.send("GET", "/echo/stubborn")
        self.browser.watched(connection.leave)
        self.assertEqual(self.routes.calls, ["written"])
        self.assertEqual([(line["status"], line["size"]) for line in self.browser.log.lines], [(499, 3)])
        self.assertEqual(self.browser.events, [])

    def test_detached_work_goes_on(self) -> None:
        """Shielded work is completed without its client, and shutdown can wait for it."""
        connection = self.browser.send("POST", "/echo/detached")
        connection.leave()
        waited = self.routes.tasks.drain()
        self.assertNoResult(waited)
        self.routes.waiting.pop().callback(b"done")
        self.successResultOf(waited)
        self.assertEqual(self.routes.calls, ["finished"])

    def test_shielded_work_with_its_client(self) -> None:
        """A handler gets the result or the error of shielded work."""
        connection = self.browser.send("POST", "/echo/detached")
        self.routes.waiting.pop().callback(b"done")
        self.assertEqual(connection.answer.body, b"done")
        connection = self.browser.send("POST", "/echo/detached")
        self.routes.waiting.pop().errback(BadRequest("No."))
        self.assertEqual(connection.answer.code, "bad_request")

    def test_detached_work_that_fails_alone_is_logged(self) -> None:
        """An error of shielded work without a client is logged with its traceback."""
        connection = self.browser.send("POST", "/echo/detached")
        connection.leave()
        self.browser.watched(lambda: self.routes.waiting.pop().errback(ValueError("too late")))
        self.assertIn("ValueError: too late", "".join(self.browser.events))

    def test_streams(self) -> None:
        """A handler may write the response itself and return None."""
        connection = self.browser.send("GET", "/echo/stream")
        self.routes.waiting.pop().callback(None)
        self.assertEqual(connection.answer.body, b"abcdef")
        self.assertFalse(connection.closing)
