"""The HTTP client for providers accepts, repeats and reports responses, here in memory.

See docs/internals/threats.md: Providers.
"""

from collections.abc import Sequence
from gzip import compress
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.error import ConnectionRefusedError, DNSLookupError, TimeoutError
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.client import RequestTransmissionFailed, ResponseNeverReceived
from twisted.web.iweb import IAgent
from zope.interface import implementer

from gamed.crypto import Secret
from gamed.outcomes import LoginFailure
from gamed.providers.base import ProviderError, ProviderFailure, ProviderUnavailable
from gamed.providers.circuit_breaker import FAILURES, REJECTION_WINDOW_SECONDS, REJECTIONS, CircuitBreaker
from gamed.providers.client import TIMEOUT_SECONDS, ProviderHttpClient
from gamed.providers.messages import ProviderRequest, ProviderResponse, document_request
from gamed.providers.transport import MAX_BODY_BYTES
from gamed.timestamps import http_date
from tests.providers.fake_provider import START_MS, ProviderFixture, Reply, discord, started
from tests.support.covers import covers

TOKEN = "/api/v10/oauth2/token"
ME = "/api/v10/users/@me"
ACCOUNT = ProviderRequest("userinfo_endpoint", "GET", "https://discord.com" + ME)
OK = b'{"id":"7","access_token":"a-7","token_type":"Bearer"}'


@implementer(IAgent)
class FailingAgent:
    """An agent that fails with each of these errors in turn, then calls the other agent."""

    def __init__(self, errors: Sequence[Exception], agent: Any) -> None:
        self.errors = list(errors)
        self.agent = agent
        self.tries = 0

    def request(self, *arguments: Any) -> "Deferred[Any]":
        self.tries += 1
        return fail(self.errors.pop(0)) if self.errors else self.agent.request(*arguments)


class ClientTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.fixture = discord()

    def failure(self, fixture: ProviderFixture | None = None) -> ProviderFailure:
        """Return the failure of a sign-in that fails at once."""
        failed = self.failureResultOf(started((fixture or self.fixture).identify()), ProviderFailure)
        assert isinstance(failed.value, ProviderFailure)
        return failed.value


class AnswerTests(ClientTestCase):
    def test_every_status(self) -> None:
        """From either endpoint only 200 identifies a player; each other status has its own outcome."""
        for path in (TOKEN, ME):
            for status in (*range(200, 227), *range(300, 309), *range(400, 452), *range(500, 512), 599):
                fixture = discord()
                fixture.fake.script(path, Reply(status, OK), Reply(status, OK))
                if status == 200:
                    self.assertEqual(self.successResultOf(fixture.identify()).subject, "7")
                    continue
                misconfigured = path == TOKEN and status == 401
                unavailable = status in (408, 425, 429) or status >= 500
                expected = LoginFailure.PROVIDER_MISCONFIGURED if misconfigured else LoginFailure.PROVIDER_ERROR
                failure = self.failure(fixture)
                self.assertIs(failure.outcome, LoginFailure.PROVIDER_UNAVAILABLE if unavailable else expected, status)
                self.assertIn(str(status), str(failure))

    @covers("threats/18")
    def test_redirects_are_not_followed(self) -> None:
        """A redirect ends the sign-in; no request is sent to its target."""
        for path in (TOKEN, ME):
            for status in (301, 302, 303, 307, 308):
                fixture = discord()
                fixture.fake.script(path, Reply(status, OK, {"Location": "https://evil.example/"}))
                self.assertIsInstance(self.failure(fixture), ProviderError)
                self.assertEqual({call.url.split("/")[2] for call in fixture.fake.seen}, {"discord.com"})

    def test_bodies(self) -> None:
        """HTML, arrays, repeated names, depth, incomplete and empty content are provider errors, and are not quoted."""
        for path in (TOKEN, ME):
            for body in (
                *(b"", b"<html>LEAK</html>", b"[" + OK + b"]", b'"LEAK"', OK[:-1], OK + OK, OK + b" LEAK", b"null"),
                *(OK[:-1] + b',"id":"8"}', OK[:-1] + b',"access_token":"LEAK"}', b'{"id":' + b"[" * 9999, b"\x1f\x8b"),
                OK[:-1] + b',"x":' + b'{"a":' * 40 + b"1" + b"}" * 41,
            ):
                fixture = discord()
                fixture.fake.script(path, Reply(200, body))
                failure = self.failure(fixture)
                self.assertIs(failure.outcome, LoginFailure.PROVIDER_ERROR)
                self.assertNotIn("LEAK", str(failure))

    def test_size(self) -> None:
        """64 KiB are accepted, one byte more is not, with a length or in chunks."""
        for path in (TOKEN, ME):
            padded = OK[:-1] + b',"x":"' + b"x" * (MAX_BODY_BYTES - len(OK) - 7) + b'"}'
            self.assertEqual((len(padded), MAX_BODY_BYTES), (65536, 65536))
            self.fixture.fake.script(path, Reply(200, padded), Reply(200, padded + b" "))
            self.assertEqual(self.successResultOf(self.fixture.identify()).subject, "7")
            failure = self.failure()
            self.assertIsInstance(failure, ProviderError)
            self.assertIn(str(MAX_BODY_BYTES), str(failure))

    @covers("threats/20")
    def test_codings(self) -> None:
        """Only identity is requested, and a response with another coding is not decoded."""
        for path in (TOKEN, ME):
            for coding in (
                "gzip",
                "GZIP",
                "br",
                "deflate",
                "x-gzip",
                "identity, gzip",
                "gzip, gzip",
                "zstd",
                "unheard-of",
            ):
                fixture = discord()
                fixture.fake.script(path, Reply(200, compress(OK), {"Content-Encoding": coding}))
                failure = self.failure(fixture)
                self.assertIsInstance(failure, ProviderError)
                self.assertIn("coding", str(failure))
            self.fixture.fake.script(path, Reply(200, OK, {"Content-Encoding": "identity"}))
            self.assertEqual(self.successResultOf(self.fixture.identify()).subject, "7")
        self.assertEqual({call.headers["accept-encoding"][0] for call in self.fixture.fake.seen}, {"identity"})

    @covers("threats/19")
    def test_cookies(self) -> None:
        """A cookie of one player's sign-in is never sent with the next."""
        for path in (TOKEN, ME):
            self.fixture.fake.script(path, Reply(200, OK, {"Set-Cookie": "who=anna; Path=/; Secure"}))
        for _ in range(2):
            self.successResultOf(self.fixture.identify())
        self.assertEqual([call for call in self.fixture.fake.seen if "cookie" in call.headers], [])

    @covers("threats/17")
    def test_errors_that_look_like_players(self) -> None:
        """An error object with status 200 makes no player, even with an id in it."""
        for body in (
            {"error": "x", "id": "7"},
            {"error": {"code": 1}, "id": "7"},
            {"message": "401: Unauthorized", "code": 0},
        ):
            self.fixture.fake.script(ME, Reply.json(body))
            self.assertIsInstance(self.failure(), ProviderError)
        self.fixture.fake.script(
            TOKEN, Reply.json({"error": "invalid_grant", "access_token": "a", "token_type": "Bearer"})
        )
        self.assertIsInstance(self.failure(), ProviderError)
        self.assertEqual(len(self.fixture.fake.calls(ME)), 3)


@covers("threats/20")
class TimeTests(ClientTestCase):
    def test_no_answer(self) -> None:
        """An endpoint that says nothing ends the sign-in after 10 s as unavailable, not sooner."""
        for path in (TOKEN, ME):
            fixture = discord()
            fixture.fake.script(path, Reply(hang=True))
            waiting = started(fixture.identify())
            fixture.clock.advance(TIMEOUT_SECONDS - 0.5)
            self.assertNoResult(waiting)
            fixture.clock.advance(0.5)
            failure = self.failureResultOf(waiting, ProviderUnavailable).value
            self.assertIn("within 10 s", str(failure))
            self.assertEqual(fixture.clock.getDelayedCalls(), [])

    def test_ten_seconds_in_all(self) -> None:
        """Subtract the token endpoint's time from that of the user endpoint."""
        self.fixture.fake.script(ME, Reply(503, headers={"Retry-After": "3"}), Reply(hang=True))
        waiting = started(self.fixture.identify())
        self.fixture.clock.advance(3)
        self.assertEqual(len(self.fixture.fake.calls(ME)), 2)
        self.fixture.clock.advance(6.9)
        self.assertNoResult(waiting)
        self.fixture.clock.advance(0.1)
        self.failureResultOf(waiting, ProviderUnavailable)


class AgainTests(ClientTestCase):
    def test_not_sent(self) -> None:
        """A connection that could not be made is tried once more, for a code as for anything; then no more."""
        for error in (ConnectionRefusedError(), DNSLookupError("no"), TimeoutError()):
            for failing, worked in (([error], True), ([error, error], False)):
                fixture = discord()
                agent = FailingAgent(failing, fixture.agent)
                waiting = started(_identify(fixture, agent))
                if worked:
                    self.assertEqual(self.successResultOf(waiting).subject, "7")
                else:
                    self.failureResultOf(waiting, ProviderUnavailable)
                    self.assertEqual(agent.tries, 2)
                self.assertLessEqual(len(fixture.fake.calls(TOKEN)), 1)

    def test_perhaps_sent(self) -> None:
        """A request of which a byte may have left is never sent again."""
        broken = Failure(ConnectionRefusedError())
        for error in (RequestTransmissionFailed([broken]), ResponseNeverReceived([broken])):
            fixture = discord()
            agent = FailingAgent([error], fixture.agent)
            self.failureResultOf(started(_identify(fixture, agent)), ProviderFailure)
            self.assertEqual((agent.tries, fixture.fake.seen), (1, []))

    @covers("threats/14")
    def test_a_code_is_sent_once(self) -> None:
        """The code is not sent again, whatever the token endpoint's Retry-After."""
        for status in (429, 503):
            for patience in ("0", "1", "3", http_date(START_MS + 2000)):
                fixture = discord()
                fixture.fake.script(TOKEN, Reply(status, headers={"Retry-After": patience}))
                self.assertIsInstance(self.failure(fixture), ProviderUnavailable)
                fixture.clock.advance(9)
                self.assertEqual(len(fixture.fake.calls(TOKEN)), 1)

    def test_one_wait(self) -> None:
        """The user endpoint is asked once more after a Retry-After of at most 3 s, and not a moment earlier."""
        for status in (429, 503):
            for patience, seconds in (("0", 0), ("2", 2), ("3", 3), (http_date(START_MS + 2000), 2)):
                fixture = discord()
                fixture.fake.script(ME, Reply(status, headers={"Retry-After": patience}))
                waiting = started(fixture.identify())
                if seconds:
                    fixture.clock.advance(seconds - 0.1)
                    self.assertEqual(len(fixture.fake.calls(ME)), 1)
                fixture.clock.advance(0.1)
                self.assertEqual(self.successResultOf(waiting).subject, "7")
                self.assertEqual((len(fixture.fake.calls(TOKEN)), len(fixture.fake.calls(ME))), (1, 2))

    def test_no_second_wait(self) -> None:
        """A second Retry-After ends the sign-in."""
        patience = Reply(429, headers={"Retry-After": "1"})
        self.fixture.fake.script(ME, patience, patience)
        waiting = started(self.fixture.identify())
        self.fixture.clock.advance(1)
        self.failureResultOf(waiting, ProviderUnavailable)
        self.assertEqual(len(self.fixture.fake.calls(ME)), 2)

    def test_wait_before_and_after(self) -> None:
        """A silence that was sat out before the request was the one wait there is."""
        breaker = CircuitBreaker(self.fixture.clock.seconds)
        breaker.record_failure(1)
        self.fixture.fake.script(ME, Reply(429, headers={"Retry-After": "1"}))
        endpoint = _endpoint(self.fixture, breaker)
        waiting = started(endpoint.call(ACCOUNT, endpoint.deadline()))
        self.assertEqual(self.fixture.fake.seen, [])
        self.fixture.clock.advance(1)
        self.failureResultOf(waiting, ProviderUnavailable)
        self.assertEqual(len(self.fixture.fake.seen), 1)

    def test_no_wait(self) -> None:
        """Without a number that is short enough there is no second try."""
        for patience in ("4", "86400", "-1", "1.5", "soon", "", "\u0661", "9" * 30, http_date(START_MS + 60_000)):
            fixture = discord()
            fixture.fake.script(ME, Reply(503, headers={"Retry-After": patience}))
            self.assertIsInstance(self.failure(fixture), ProviderUnavailable)
            self.assertEqual(len(fixture.fake.calls(ME)), 1)

    def test_500_is_not_asked_again(self) -> None:
        """Retry-After means something with 429 and 503 only."""
        self.fixture.fake.script(ME, Reply(500, headers={"Retry-After": "1"}))
        self.failure()
        self.assertEqual(len(self.fixture.fake.calls(ME)), 1)


@covers("threats/21")
class BreakerTests(ClientTestCase):
    def test_opens_and_closes(self) -> None:
        """After five failures in a row no sign-in begins for 30 s; then one that works closes it for good."""
        for number in range(FAILURES):
            self.fixture.provider.require_available()
            self.fixture.fake.script(TOKEN, Reply(500))
            self.failure()
            self.assertEqual(len(self.fixture.fake.seen), number + 1)
        with self.assertRaises(ProviderUnavailable) as closed:
            self.fixture.provider.require_available()
        self.assertEqual(closed.exception.retry_after, 30)
        self.fixture.clock.advance(30)
        self.fixture.provider.require_available()
        self.successResultOf(self.fixture.identify())
        self.fixture.fake.script(TOKEN, Reply(500))
        self.failure()
        self.fixture.provider.require_available()

    @covers("threats/22")
    def test_one_login_alone(self) -> None:
        """Failures of one login's requests count once, however many there are: they may be about its code only."""
        for path in (TOKEN, ME):
            fixture = discord()
            fixture.fake.script(path, *[Reply(503)] * 2 * FAILURES)
            for _ in range(2 * FAILURES):
                failed = started(fixture.identify(login_id="lgn_a"))
                self.failureResultOf(failed, ProviderUnavailable)
                fixture.provider.require_available()
            self.assertEqual(len(fixture.fake.calls(path)), 2 * FAILURES)
        for number in range(FAILURES - 1):
            fixture.provider.require_available()
            fixture.fake.script(TOKEN, Reply(503))
            self.failureResultOf(started(fixture.identify(login_id=f"lgn_b{number}")), ProviderUnavailable)
        self.assertRaises(ProviderUnavailable, fixture.provider.require_available)

    def test_half_open(self) -> None:
        """One failure after the pause opens it again, for twice as long."""
        self.fixture.fake.script(TOKEN, *[Reply(500)] * (FAILURES + 1))
        for _ in range(FAILURES):
            self.failure()
        self.fixture.clock.advance(30)
        self.failure()
        with self.assertRaises(ProviderUnavailable) as closed:
            self.fixture.provider.require_available()
        self.assertEqual(closed.exception.retry_after, 60)

    def test_under_way(self) -> None:
        """A player who is back from the provider is tried although the breaker is open; success closes it."""
        self.fixture.fake.script(TOKEN, *[Reply(500)] * FAILURES)
        for _ in range(FAILURES):
            self.failure()
        self.successResultOf(self.fixture.identify())
        self.fixture.provider.require_available()

    def test_what_is_no_failure(self) -> None:
        """A wrong secret, a refused code and nonsense do not open it: the provider is there."""
        for reply in (Reply(401), Reply.json({"error": "invalid_grant"}, 400), Reply(200, b"<html>")):
            for _ in range(FAILURES):
                self.fixture.fake.script(TOKEN, reply)
                self.assertNotIsInstance(self.failure(), ProviderUnavailable)
        self.fixture.provider.require_available()

    def test_left_alone(self) -> None:
        """During a cooldown no request is sent, and new logins get its duration."""
        self.fixture.fake.script(TOKEN, Reply(429, headers={"Retry-After": "120"}))
        self.failure()
        for _ in range(3):
            failure = self.failure()
            self.assertIsInstance(failure, ProviderUnavailable)
        self.assertEqual(len(self.fixture.fake.seen), 1)
        self.fixture.clock.advance(20)
        with self.assertRaises(ProviderUnavailable) as closed:
            self.fixture.provider.require_available()
        self.assertEqual(closed.exception.retry_after, 100)
        self.fixture.clock.advance(100)
        self.fixture.provider.require_available()
        self.successResultOf(self.fixture.identify())

    def test_silence_of_four_seconds(self) -> None:
        """Refuse at once during a long cooldown, although the deadline would allow the wait."""
        self.fixture.fake.script(TOKEN, Reply(429, headers={"Retry-After": "4"}))
        self.failure()
        self.failure()
        self.assertEqual(len(self.fixture.fake.seen), 1)

    def test_short_silence(self) -> None:
        """A short one is waited out before the code is sent, and keeps no sign-in from starting."""
        self.fixture.fake.script(TOKEN, Reply(429, headers={"Retry-After": "2"}))
        self.failure()
        self.fixture.provider.require_available()
        waiting = started(self.fixture.identify())
        self.assertEqual(len(self.fixture.fake.seen), 1)
        self.fixture.clock.advance(2)
        self.successResultOf(waiting)

    def test_ban_rule(self) -> None:
        """A thousand refusals within ten minutes, far below what bans an address, and nothing is sent for ten."""
        for status, counts in ((401, True), (403, True), (429, True), (400, False), (404, False), (503, False)):
            fixture, breaker = discord(), CircuitBreaker(self.fixture.clock.seconds)
            for _ in range(REJECTIONS - 1):
                breaker.count_rejection(403)
            fixture.fake.script(ME, Reply(status), Reply(200, OK))
            endpoint = _endpoint(fixture, breaker)
            for _ in range(2):
                asked = started(endpoint.call(ACCOUNT, endpoint.deadline()))
                asked.addErrback(lambda failed: failed.trap(ProviderFailure))
                self.successResultOf(asked)
            self.assertEqual(len(fixture.fake.seen), 1 if counts else 2)
            self.assertEqual(breaker.cooldown(), REJECTION_WINDOW_SECONDS if counts else 0)


class CauseTests(ClientTestCase):
    @covers("threats/48")
    def test_nothing_leaks(self) -> None:
        """No cause holds code, verifier, token, secret or anything the provider wrote."""
        replies = [
            Reply(status, b'{"error":"LEAK","message":"LEAK"}') for status in (200, 302, 400, 401, 403, 404, 429, 500)
        ]
        for path in (TOKEN, ME):
            for reply in replies:
                fixture = discord()
                fixture.fake.script(path, reply)
                cause = str(self.failure(fixture))
                for word in ("LEAK", "code-7", "vvv", "at.", "s:e", "discord.com"):
                    self.assertNotIn(word, cause)

    def test_strange_addresses(self) -> None:
        """An address that no request can be made of is a typed failure, too."""
        for url in ("https://[::1", "gopher://id.example/", "https://id.example:x/"):
            endpoint = _endpoint(self.fixture, CircuitBreaker(self.fixture.clock.seconds))
            call = document_request("discovery", url)
            self.failureResultOf(started(endpoint.call(call, endpoint.deadline())), ProviderFailure)

    def test_date(self) -> None:
        """The provider's clock is measured by its Date; a Date that is none measures nothing."""
        for date, offset in (
            (http_date(START_MS + 3_600_000), 3_600_000),
            (http_date(START_MS), 0),
            *[(text, None) for text in ("", "yesterday", "0", "Fri, 99 Foo 2027 00:00:00 GMT", "\x01", "9" * 80)],
            ("Mon, 01 Jan 99999 00:00:00 GMT", None),
        ):
            self.fixture.fake.script(ME, Reply(200, OK, {"Date": date}))
            endpoint = _endpoint(self.fixture, CircuitBreaker(self.fixture.clock.seconds))
            answer: ProviderResponse = self.successResultOf(started(endpoint.call(ACCOUNT, endpoint.deadline())))
            self.assertEqual(answer.offset_ms, offset, date)


class ReportTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fixture = discord()
        self.reported: list[tuple[str, float]] = []
        fixture, breaker = self.fixture, CircuitBreaker(self.fixture.clock.seconds)
        self.client = ProviderHttpClient(
            fixture.agent, fixture.clock, fixture.now_ms, "gamed/0", breaker, lambda *call: self.reported.append(call)
        )

    def test_outcomes(self) -> None:
        """Each call is reported once, however it ends."""
        for reply, outcome in (
            (Reply(200, OK), "answered"),
            (Reply(403, OK), "refused"),
            (Reply(500, OK), "unavailable"),
            (Reply(302, OK, {"Location": "https://evil.example/"}), "error"),
        ):
            self.fixture.fake.script(ME, reply)
            call = started(self.client.call(ACCOUNT, self.client.deadline()))
            call.addErrback(lambda _: None)
            self.assertEqual(self.reported.pop(), (outcome, 0.0))
        self.assertEqual(self.reported, [])

    def test_wait(self) -> None:
        """The reported time includes the wait that the provider asked for, and the second try."""
        self.fixture.fake.script(ME, Reply(429, b"", {"Retry-After": "2"}), Reply(200, OK))
        started(self.client.call(ACCOUNT, self.client.deadline()))
        self.fixture.clock.advance(2)
        self.fixture.agent.flush()
        self.assertEqual(self.reported, [("answered", 2.0)])

    def test_no_answer(self) -> None:
        """A call that takes too long, and one that is cancelled meanwhile, are reported as unavailable."""
        for cancelled in (False, True):
            self.fixture.fake.script(ME, Reply(hang=True))
            call = started(self.client.call(ACCOUNT, self.client.deadline()))
            if cancelled:
                call.cancel()
            else:
                self.fixture.clock.advance(TIMEOUT_SECONDS)
            self.failureResultOf(call)
        self.assertEqual(self.reported, [("unavailable", 10.0), ("unavailable", 0.0)])

    def test_cancelled_between_tries(self) -> None:
        """A call that is cancelled between two tries is reported as cancelled, not as unavailable."""
        self.fixture.fake.script(ME, Reply(429, b"", {"Retry-After": "2"}))
        call = started(self.client.call(ACCOUNT, self.client.deadline()))
        call.cancel()
        self.failureResultOf(call, CancelledError)
        self.assertEqual(self.reported, [("cancelled", 0.0)])


def _endpoint(fixture: ProviderFixture, breaker: CircuitBreaker) -> ProviderHttpClient:
    return ProviderHttpClient(fixture.agent, fixture.clock, fixture.now_ms, "gamed/0", breaker)


async def _identify(fixture: ProviderFixture, agent: Any) -> Any:
    code, verifier = Secret(b"code-7"), Secret(b"v" * 86)
    return await fixture.build(agent).identify(code, verifier, None, "https://game.example/cb", "lgn_a")
