"""Clients that close their writing side and read on: what is whole is answered, what is torn is told so."""

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from tests.http.apps import EchoRoom, OpenGate, Sink, Turnstile
from tests.support.http import Browser, Connection, request_bytes

GET = request_bytes("GET", "/echo/text")
LATER = request_bytes("GET", "/echo/later")


def put(body: bytes) -> bytes:
    return request_bytes("PUT", "/echo/any", {}, body)


class SaidAllCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.gate = OpenGate()
        self.room = EchoRoom(body_policies={"echo_any": self.gate})
        self.browser = Browser([self.room])
        self.connection = self.browser.connect()

    def say_all(self, data: bytes = b"") -> None:
        """Send, and then the end."""

        def act() -> None:
            if data:
                self.connection.send(data)
            self.connection.channel.readConnectionLost()

        self.browser.watched(act)

    def statuses(self) -> list[int]:
        return [answer.status for answer in self.connection.answers]


class WholeTests(SaidAllCase):
    def test_nothing_asked(self) -> None:
        """A connection that carries no request is closed."""
        self.say_all()
        self.assertEqual((self.connection.raw, self.connection.closed), (b"", True))

    def test_between_requests(self) -> None:
        """The same after an answer."""
        self.connection.send(GET)
        self.say_all()
        self.assertEqual((self.statuses(), self.connection.closed), ([200], True))

    def test_an_answer_that_takes_a_moment(self) -> None:
        """It is waited for, and then the connection is closed."""
        self.say_all(LATER)
        self.assertFalse(self.connection.closed)
        self.room.waiting.pop().callback(b"late")
        self.assertEqual((self.statuses(), self.connection.closed), ([200], True))

    def test_a_pipeline(self) -> None:
        """Everything that was asked is answered, in order."""
        self.say_all(LATER + GET + LATER + put(b"hello"))
        self.room.waiting.pop().callback(b"one")
        self.assertEqual((self.statuses(), self.connection.closed), ([200, 200], False))
        self.room.waiting.pop().callback(b"two")
        self.assertEqual((self.statuses(), self.connection.closed), ([200] * 4, True))

    def test_nobody_there(self) -> None:
        """After five seconds without an answer the client is taken to have left, and the handler learns of it."""
        self.say_all(LATER)
        self.browser.clock.advance(4.9)
        self.assertEqual(self.room.calls, [])
        self.browser.clock.advance(0.1)
        self.assertTrue(self.connection.transport.disconnected)
        self.connection.leave()
        self.assertEqual(self.room.calls, [CancelledError])

    def test_an_answer_that_is_on_its_way(self) -> None:
        """A download goes on however long it takes."""
        self.say_all(request_bytes("GET", "/echo/stream"))
        self.browser.clock.advance(30)
        self.assertFalse(self.connection.closed)
        self.room.waiting.pop().callback(None)
        self.assertEqual((self.statuses(), self.connection.closed), ([200], True))

    def test_no_timer_is_left(self) -> None:
        """Nothing is due once the connection is gone."""
        self.say_all(GET)
        self.connection.leave()
        self.assertEqual(self.browser.clock.getDelayedCalls(), [])


class TornTests(SaidAllCase):
    def test_a_head(self) -> None:
        """400, and the end."""
        self.say_all(GET[:-3])
        self.assertEqual((self.connection.answer.code, self.connection.closed), ("bad_request", True))
        self.assertIn("ended before", self.connection.answer.json["detail"])

    def test_a_body(self) -> None:
        """400, the sink is aborted once, no handler runs."""
        for torn in (
            put(b"hello")[:-1],
            put(b"hello")[:-5],
            request_bytes("PUT", "/echo/any", {"Transfer-Encoding": "chunked"}, b"5\r\nhello\r\n"),
        ):
            with self.subTest(torn):
                self.connection = self.browser.connect()
                self.say_all(torn)
                self.assertEqual((self.connection.answer.code, self.connection.closed), ("bad_request", True))
                self.assertEqual((self.gate.sinks[-1].aborted, self.room.calls), (1, []))
                self.assertEqual(self.browser.log.lines[-1]["status"], 400)

    def test_behind_a_whole_one(self) -> None:
        """The whole request is answered first."""
        self.say_all(LATER + put(b"hello")[:-1])
        self.room.waiting.pop().callback(b"one")
        self.assertEqual((self.statuses(), self.connection.closed), ([200, 400], True))

    def test_refused_before(self) -> None:
        """After a refusal nothing is read any more, so the end is no news."""
        self.say_all(request_bytes("PUT", "/echo/json", {}, b"a" * 100)[:-50])
        self.assertEqual((self.statuses(), self.connection.closed), ([405], True))


class GateTests(SaidAllCase):
    def setUp(self) -> None:
        self.turnstile, self.sink = Turnstile(), Sink()
        self.room = EchoRoom(body_policies={"echo_any": self.turnstile, "echo_later": self.turnstile})
        self.browser = Browser([self.room])
        self.connection: Connection = self.browser.connect()

    def admit(self) -> None:
        self.browser.watched(lambda: self.turnstile.waiting.pop().callback(self.sink))

    def test_whole(self) -> None:
        """The end comes while the gate judges: the request is answered all the same."""
        self.say_all(put(b"hello"))
        self.admit()
        self.assertEqual((self.statuses(), self.connection.closed), ([200], True))

    def test_torn(self) -> None:
        """The gate lets the request in, and then there is too little of it."""
        self.say_all(put(b"hello")[:-1])
        self.admit()
        self.assertEqual((self.connection.answer.code, self.connection.closed), ("bad_request", True))
        self.assertEqual((self.sink.aborted, self.room.calls), (1, []))

    def test_whole_and_nobody_there(self) -> None:
        """After five seconds without an answer the client is taken to have left, here too."""
        self.say_all(request_bytes("GET", "/echo/later", {}, b"hello"))
        self.admit()
        self.browser.clock.advance(4.9)
        self.assertFalse(self.connection.transport.disconnected)
        self.browser.clock.advance(0.1)
        self.assertTrue(self.connection.transport.disconnected)
