"""A client that closes its writing side gets answers to complete requests and a 400 for an incomplete one."""

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from tests.http.apps import AcceptingPolicy, BlockingPolicy, EchoRoutes, RecordingReceiver
from tests.support.http import Browser, Connection, request_bytes

GET = request_bytes("GET", "/echo/text")
LATER = request_bytes("GET", "/echo/later")


def put(body: bytes) -> bytes:
    return request_bytes("PUT", "/echo/any", {}, body)


class HalfClosedCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.policy = AcceptingPolicy()
        self.routes = EchoRoutes(body_policies={"echo_any": self.policy})
        self.browser = Browser([self.routes])
        self.connection = self.browser.connect()

    def say_all(self, data: bytes = b"") -> None:
        """Send bytes, then close the writing side."""

        def act() -> None:
            if data:
                self.connection.send(data)
            self.connection.channel.readConnectionLost()

        self.browser.watched(act)

    def statuses(self) -> list[int]:
        return [answer.status for answer in self.connection.answers]


class WholeTests(HalfClosedCase):
    def test_nothing_asked(self) -> None:
        """A connection that carries no request is closed."""
        self.say_all()
        self.assertEqual((self.connection.raw, self.connection.closed), (b"", True))

    def test_between_requests(self) -> None:
        """A connection that is idle after a response is closed."""
        self.connection.send(GET)
        self.say_all()
        self.assertEqual((self.statuses(), self.connection.closed), ([200], True))

    def test_an_answer_that_takes_a_moment(self) -> None:
        """The response is sent, then the connection is closed."""
        self.say_all(LATER)
        self.assertFalse(self.connection.closed)
        self.routes.waiting.pop().callback(b"late")
        self.assertEqual((self.statuses(), self.connection.closed), ([200], True))

    def test_a_pipeline(self) -> None:
        """All complete requests are answered in order."""
        self.say_all(LATER + GET + LATER + put(b"hello"))
        self.routes.waiting.pop().callback(b"one")
        self.assertEqual((self.statuses(), self.connection.closed), ([200, 200], False))
        self.routes.waiting.pop().callback(b"two")
        self.assertEqual((self.statuses(), self.connection.closed), ([200] * 4, True))

    def test_no_answer(self) -> None:
        """After five seconds without a response the client counts as gone, and the handler is cancelled."""
        self.say_all(LATER)
        self.browser.clock.advance(4.9)
        self.assertEqual(self.routes.calls, [])
        self.browser.clock.advance(0.1)
        self.assertTrue(self.connection.transport.disconnected)
        self.connection.leave()
        self.assertEqual(self.routes.calls, [CancelledError])

    def test_an_answer_that_is_on_its_way(self) -> None:
        """A response that has begun is completed."""
        self.say_all(request_bytes("GET", "/echo/stream"))
        self.browser.clock.advance(30)
        self.assertFalse(self.connection.closed)
        self.routes.waiting.pop().callback(None)
        self.assertEqual((self.statuses(), self.connection.closed), ([200], True))

    def test_no_timer_is_left(self) -> None:
        """No timer is left once the connection is lost."""
        self.say_all(GET)
        self.connection.leave()
        self.assertEqual(self.browser.clock.getDelayedCalls(), [])


class TornTests(HalfClosedCase):
    def test_a_head(self) -> None:
        """An incomplete head is 400."""
        self.say_all(GET[:-3])
        self.assertEqual((self.connection.answer.code, self.connection.closed), ("bad_request", True))
        self.assertIn("ended before", self.connection.answer.json["detail"])

    def test_a_body(self) -> None:
        """An incomplete body is 400; the receiver is aborted once, and no handler runs."""
        for torn in (
            put(b"hello")[:-1],
            put(b"hello")[:-5],
            request_bytes("PUT", "/echo/any", {"Transfer-Encoding": "chunked"}, b"5\r\nhello\r\n"),
        ):
            with self.subTest(torn):
                self.connection = self.browser.connect()
                self.say_all(torn)
                self.assertEqual((self.connection.answer.code, self.connection.closed), ("bad_request", True))
                self.assertEqual((self.policy.receivers[-1].aborted, self.routes.calls), (1, []))
                self.assertEqual(self.browser.log.lines[-1]["status"], 400)

    def test_behind_a_complete_one(self) -> None:
        """A complete request before an incomplete one is answered first."""
        self.say_all(LATER + put(b"hello")[:-1])
        self.routes.waiting.pop().callback(b"one")
        self.assertEqual((self.statuses(), self.connection.closed), ([200, 400], True))

    def test_refused_before(self) -> None:
        """The end of input after a refusal changes nothing."""
        self.say_all(request_bytes("PUT", "/echo/json", {}, b"a" * 100)[:-50])
        self.assertEqual((self.statuses(), self.connection.closed), ([405], True))


class PolicyTests(HalfClosedCase):
    def setUp(self) -> None:
        self.turnstile, self.receiver = BlockingPolicy(), RecordingReceiver()
        self.routes = EchoRoutes(body_policies={"echo_any": self.turnstile, "echo_later": self.turnstile})
        self.browser = Browser([self.routes])
        self.connection: Connection = self.browser.connect()

    def admit(self) -> None:
        self.browser.watched(lambda: self.turnstile.waiting.pop().callback(self.receiver))

    def test_whole(self) -> None:
        """A request whose input ends during the policy's decision is answered."""
        self.say_all(put(b"hello"))
        self.admit()
        self.assertEqual((self.statuses(), self.connection.closed), ([200], True))

    def test_incomplete(self) -> None:
        """A body that is too short is 400, also after the policy has accepted it."""
        self.say_all(put(b"hello")[:-1])
        self.admit()
        self.assertEqual((self.connection.answer.code, self.connection.closed), ("bad_request", True))
        self.assertEqual((self.receiver.aborted, self.routes.calls), (1, []))

    def test_no_body_and_no_answer(self) -> None:
        """Abort a request without a body whose handler needs over five seconds after its policy has accepted it."""
        self.say_all(request_bytes("GET", "/echo/later"))
        self.admit()
        self.browser.clock.advance(4.9)
        self.assertFalse(self.connection.transport.disconnected)
        self.browser.clock.advance(0.1)
        self.assertTrue(self.connection.transport.disconnected)

    def test_complete_and_no_answer(self) -> None:
        """A policy that needs more than five seconds is given up, too."""
        self.say_all(request_bytes("GET", "/echo/later", {}, b"hello"))
        self.admit()
        self.browser.clock.advance(4.9)
        self.assertFalse(self.connection.transport.disconnected)
        self.browser.clock.advance(0.1)
        self.assertTrue(self.connection.transport.disconnected)
