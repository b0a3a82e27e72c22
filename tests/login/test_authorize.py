"""These tests redirect browsers to a provider: with and without a page, and when the provider is unavailable."""

from base64 import urlsafe_b64decode
from collections.abc import Callable
from itertools import product

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Index, Purpose, Secret
from gamed.login import errors
from gamed.login.attempt import LIVE_ATTEMPTS
from gamed.login.authorize import NOT_CONFIGURED, RedirectToProvider, may_skip_consent_page
from gamed.login.browser import Ended, RedirectToResult, SignInPrompt
from gamed.login.callback_rules import CallbackCheck, CallbackRejected
from gamed.login.collect import Failed, Pending
from gamed.login.errors import LoginEnded, UnknownLoginLink, WrongBrowser
from gamed.login.local import FormRejected
from gamed.login.transaction import LoginIntent, LoginStage
from gamed.outcomes import LoginFailure
from gamed.providers.base import (
    AuthorizationRequest,
    AuthorizationUrl,
    ProviderError,
    ProviderMisconfigured,
    ProviderUnavailable,
)
from gamed.providers.messages import challenge_of
from tests.login.examples import BROWSER, OTHER, a_login
from tests.login.fake_provider import ISSUER, FakeProvider
from tests.login.fixtures import ADDRESS, BASE, PASSWORD, LoginCase, LoginServer
from tests.support.covers import covers

HERE, ELSEWHERE = Index(b"a" * 32), Index(b"z" * 32)


class SkippedPage(SynchronousTestCase):
    @covers("threats/2")
    def test_every_combination(self) -> None:
        """The page is skipped only with a port, to sign in, from the starter's address, without a referring site.

        An app never skips it.
        """
        sites = (None, "none", "same-origin", "same-site", "cross-site", "none,none", "")
        for port, intent, address, site in product((51004, None), LoginIntent, (HERE, ELSEWHERE), sites):
            login = a_login(loopback_port=port, intent=intent)
            skipped = port == 51004 and intent is LoginIntent.LOGIN and address == HERE and site in (None, "none")
            self.assertEqual(may_skip_consent_page(login, address, site), skipped, (port, intent, site))
            app = replace(login, loopback_port=None, return_uri="com.example.game:/signin")
            self.assertFalse(may_skip_consent_page(app, address, site))


class OpenedLinks(LoginCase):
    def test_without_a_page(self) -> None:
        """A game on the same machine opens the link: no page in between, and the game is notified."""
        server = self.oauth_server(fake := FakeProvider())
        started = server.start(port=51004)
        for site in (None, "none"):
            self.assertIsInstance(server.open_link(started, site=site), RedirectToProvider)
        self.assertEqual(server.collect(started), Pending("at_provider", 600))
        self.assertEqual(len(fake.requests), 2)

    def test_the_page(self) -> None:
        """All other browsers see the page first; opening it changes nothing, however often."""
        server = self.oauth_server(fake := FakeProvider())
        started, before = server.start(port=51004), server.rows("SELECT * FROM login")
        for answer in (
            server.open_link(started, site="cross-site"),
            server.open_link(started, address="198.51.100.9"),
            server.open_link(started, OTHER, address="2001:db8::7"),
            server.open_link(codeless := server.start()),
        ):
            self.assertIsInstance(answer, SignInPrompt)
        self.assertEqual(server.rows("SELECT * FROM login WHERE loopback_port = 51004"), before)
        self.assertEqual((server.rows("SELECT 1 FROM authorization_attempt"), fake.requests), ([], []))
        self.assertIs(server.login(codeless).stage, LoginStage.PENDING)

    def test_the_same_home(self) -> None:
        """A /64 of IPv6 counts as one client; a browser in another network sees the page."""
        server = self.oauth_server(FakeProvider())
        started = server.start(port=51004)
        started = replace(started, login=server.login(started))
        self.assertIsInstance(server.open_link(started, address="::ffff:203.0.113.7"), RedirectToProvider)
        self.assertIsInstance(server.open_link(started, address="203.0.113.8"), SignInPrompt)

    def test_after_a_change_of_mode(self) -> None:
        """A login whose provider was removed by a restart ends with an outcome, in either mode."""
        for was, now in ((None, FakeProvider()), (FakeProvider(), None), (FakeProvider("google"), FakeProvider())):
            server = self.oauth_server(*[was] if was else []) if was else self.local_server()
            started = server.start()
            server.providers.clear()
            server.providers.update({now.name: now} if now else {})
            self.assertEqual(server.open_link(started), RedirectToResult(started.login.login_id))
            self.assertEqual(server.collect(started), Failed(LoginFailure.PROVIDER_UNAVAILABLE))
            name = was.name if was else "local"
            self.assertEqual(server.log.lines, [f"failed {name} provider_unavailable req-1: {NOT_CONFIGURED}"])

    def test_a_provider_taken_out(self) -> None:
        """A provider is removed while the page is open: the button ends the login."""
        for intent in (LoginIntent.LOGIN, LoginIntent.ADOPT):
            server = self.oauth_server(FakeProvider(), FakeProvider("google"))
            started = server.start(intent=intent)
            del server.providers["discord"]
            self.assertEqual(server.press_continue(started), RedirectToResult(started.login.login_id))
            self.assertEqual(server.collect(started), Failed(LoginFailure.PROVIDER_UNAVAILABLE))
            self.assertEqual(server.log.lines, [f"failed discord provider_unavailable req-1: {NOT_CONFIGURED}"])

    def test_where_nothing_is_asked(self) -> None:
        """A login that is unknown, ended or of another browser raises the same errors as elsewhere."""
        server = self.oauth_server(FakeProvider())
        started = server.start()
        state = server.redirect_state(started)
        server.finish_callback(state)
        with self.assertRaises(WrongBrowser):
            server.open_link(started, OTHER)
        with self.assertRaises(WrongBrowser):
            server.press_continue(started, OTHER)
        self.assertEqual(server.press_continue(started), RedirectToResult(started.login.login_id))
        server.cancel(started)
        for act in (server.open_link, server.press_continue):
            with self.assertRaises(LoginEnded):
                act(started)
            with self.assertRaises(UnknownLoginLink):
                act(replace(started, token="A" * 22))


@covers("2.3/4")
class Attempts(LoginCase):
    @covers("2.3/3", "2.3/5", "5/2", "threats/15")
    def test_fresh_values(self) -> None:
        """Each attempt has its own state of 256 bits, S256 challenge and nonce, and the registered redirect URI."""
        server = self.oauth_server(fake := FakeProvider("google", issuer=ISSUER))
        started = server.start()
        states = [server.redirect_state(started) for _ in range(2)]
        for state, request in zip(states, fake.requests, strict=True):
            self.assertEqual((request.state, request.redirect_uri), (state, f"{BASE}/auth/google/callback"))
            self.assertEqual(len(urlsafe_b64decode(state + "=")), 32)
            self.assertRegex(request.challenge, r"\A[A-Za-z0-9_-]{43}\Z")
            self.assertRegex(request.nonce or "", r"\A[A-Za-z0-9_-]{43}\Z")
        for values in zip(*((j.state, j.challenge, j.nonce) for j in fake.requests), strict=True):
            self.assertEqual(len(set(values)), 2)

    @covers("2.3/5")
    def test_no_nonce_without_openid(self) -> None:
        """An OAuth 2.0 request has no nonce, because no signed value would hold it."""
        server = self.oauth_server(fake := FakeProvider())
        server.redirect_state(server.start())
        self.assertIsNone(fake.requests[0].nonce)
        self.assertEqual(server.rows("SELECT sealed_nonce FROM authorization_attempt"), [(None,)])

    @covers("2.2/11", "2.2/12", "threats/15")
    def test_at_rest(self) -> None:
        """The database holds the state as an index, verifier and nonce sealed; the verifier has 86 characters."""
        server = self.oauth_server(fake := FakeProvider("google", issuer=ISSUER, iss_promised=True))
        state = server.redirect_state(server.start())
        row = repr(server.rows("SELECT * FROM authorization_attempt"))
        self.assertNotIn(state, row)
        self.assertNotIn(fake.requests[0].nonce or "-", row)
        query = "SELECT attempt_id, sealed_verifier, iss_promised FROM authorization_attempt"
        [(attempt_id, sealed, promised)] = server.rows(query)
        verifier = Secret(server.keys.sealer.unseal(Purpose.PKCE, attempt_id, sealed))
        self.assertEqual((len(verifier.reveal()), promised), (86, 1))
        self.assertEqual(challenge_of(verifier), fake.requests[0].challenge)

    @covers("threats/7")
    def test_at_most_five(self) -> None:
        """A sixth attempt replaces the oldest; the newest five all work, whichever callback comes first."""
        for chosen in range(LIVE_ATTEMPTS + 1):
            server = self.oauth_server(FakeProvider())
            started = server.start()
            states = [server.redirect_state(started) for _ in range(LIVE_ATTEMPTS + 1)]
            self.assertEqual(len(server.rows("SELECT 1 FROM authorization_attempt")), LIVE_ATTEMPTS)
            if chosen == 0:
                with self.assertRaises(CallbackRejected) as refused:
                    server.finish_callback(states[chosen])
                self.assertIs(refused.exception.check, CallbackCheck.STATE_UNKNOWN)
            else:
                self.assertEqual(server.finish_callback(states[chosen]), RedirectToResult(started.login.login_id))

    def test_five_of_each_login(self) -> None:
        """The attempts of one login do not replace those of another."""
        server = self.oauth_server(FakeProvider())
        mine, other = server.start(), server.start()
        state = server.redirect_state(mine)
        for _ in range(20):
            server.redirect_state(other, OTHER)
        self.assertEqual(server.finish_callback(state), RedirectToResult(mine.login.login_id))

    def test_invalidated_attempts_are_deleted(self) -> None:
        """A login keeps few rows, however often a browser invalidates its own attempts, and can be finished."""
        server = self.oauth_server(FakeProvider("google", issuer=ISSUER))
        started = server.start()
        for _ in range(3 * LIVE_ATTEMPTS):
            state = server.redirect_state(started)
            with self.assertRaises(CallbackRejected):
                server.finish_callback(state, code="c", iss="https://evil.example")
        self.assertLessEqual(len(server.rows("SELECT 1 FROM authorization_attempt")), 2 * LIVE_ATTEMPTS)
        self.assertEqual(
            server.finish_callback(server.redirect_state(started)), RedirectToResult(started.login.login_id)
        )


class UnavailableProvider(LoginCase):
    def test_start_while_it_is_left_alone(self) -> None:
        """A start while the circuit is open is 503 with its seconds, and writes no row."""
        server = self.oauth_server(fake := FakeProvider(down=ProviderUnavailable("left alone", 17)))
        with self.assertRaises(errors.LoginProviderUnavailable) as refused:
            server.start()
        self.assertEqual(refused.exception.retry_after, 17)
        self.assertNotIn("left alone", str(refused.exception))
        self.assertEqual(server.rows("SELECT 1 FROM login"), [])
        fake.down = None
        server.start()

    def test_no_use_at_the_link(self) -> None:
        """A failing provider ends the login, with and without the page: game, browser and log get the outcome.

        No other browser learns anything; the next sign-in works once the provider does.
        """
        for cause, outcome in (
            (ProviderMisconfigured("discovery: another issuer"), LoginFailure.PROVIDER_MISCONFIGURED),
            (ProviderError("discovery: not JSON"), LoginFailure.PROVIDER_ERROR),
            (ProviderUnavailable("discovery: no connection", 17), LoginFailure.PROVIDER_UNAVAILABLE),
        ):
            for skipped in (True, False):
                server = self.oauth_server(fake := FakeProvider())
                started = server.start(port=51004)
                waiting = server.begin_collect(started, wait_seconds=25)
                fake.down = cause
                answer = server.open_link(started) if skipped else server.press_continue(started)
                self.assertEqual(answer, RedirectToResult(started.login.login_id))
                self.assertEqual(self.successResultOf(waiting), Failed(outcome))
                self.assertEqual(server.result(started), Ended(outcome))
                self.assertEqual(server.log.lines, [f"failed discord {outcome.value} req-1: {cause}"])
                self.assertEqual(server.rows("SELECT 1 FROM authorization_attempt"), [])
                with self.assertRaises(WrongBrowser):
                    server.result(started, OTHER)
                with self.assertRaises(LoginEnded) as over:
                    server.open_link(started, OTHER)
                self.assertIs(over.exception.outcome, outcome)
                fake.down = None
                again = server.start()
                self.assertEqual(
                    server.finish_callback(server.redirect_state(again)), RedirectToResult(again.login.login_id)
                )

    @covers("threats/7")
    def test_who_cannot_end_it(self) -> None:
        """A browser that only sees the page ends nothing, whatever state the provider is in."""
        for intent, port, site, address in (
            (LoginIntent.LOGIN, None, None, ADDRESS),
            (LoginIntent.LOGIN, 51004, "cross-site", ADDRESS),
            (LoginIntent.LOGIN, 51004, None, "198.51.100.9"),
            (LoginIntent.ADOPT, 51004, None, ADDRESS),
        ):
            server = self.oauth_server(fake := FakeProvider())
            started = server.start(port=port, intent=intent)
            fake.down = ProviderUnavailable("left alone", 17)
            for browser in (OTHER, BROWSER):
                self.assertIsInstance(server.open_link(started, browser, site, address), SignInPrompt)
            self.assertEqual(server.collect(started), Pending("waiting_for_browser", 600))
            self.assertEqual(server.log.lines, [])
            fake.down = None
            state = server.redirect_state(started, name="Anna", password=PASSWORD)
            self.assertEqual(server.finish_callback(state), RedirectToResult(started.login.login_id))

    def test_adopting_without_the_password(self) -> None:
        """Adopting asks for name and password first: a wrong password ends nothing, though the provider is down."""
        server = self.oauth_server(fake := FakeProvider())
        started = server.start(intent=LoginIntent.ADOPT)
        fake.down = ProviderUnavailable("left alone", 17)
        self.assertIsInstance(server.press_continue(started, OTHER, name="Anna", password="wrong horse"), FormRejected)
        self.assertEqual(server.collect(started), Pending("waiting_for_browser", 600))
        self.assertEqual(
            server.press_continue(started, name="Anna", password=PASSWORD), RedirectToResult(started.login.login_id)
        )
        self.assertEqual(server.collect(started), Failed(LoginFailure.PROVIDER_UNAVAILABLE))

    def test_too_late_to_end_it(self) -> None:
        """The provider fails one browser while the callback of another arrives: the latter keeps the login."""

        class Failing(FakeProvider):
            meanwhile: str | None = None

            async def authorization_url(self, request: AuthorizationRequest) -> AuthorizationUrl:
                if self.meanwhile is None:
                    return await super().authorization_url(request)
                server.finish_callback(self.meanwhile)
                raise ProviderUnavailable("discovery: no connection")

        server = self.oauth_server(fake := Failing())
        started = server.start()
        fake.meanwhile = server.redirect_state(started)
        with self.assertRaises(WrongBrowser):
            server.press_continue(started, OTHER)
        self.assertEqual(server.collect(started, server.code(started)).result.created, True)

    def test_the_login_ends_meanwhile(self) -> None:
        """The login is cancelled or bound to another browser while the provider is asked: no browser is redirected."""

        class Slow(FakeProvider):
            meanwhile: Callable[[], None] = lambda: None

            async def authorization_url(self, request):  # type: ignore[no-untyped-def]
                self.meanwhile()
                return await super().authorization_url(request)

        def server_of(far: Slow) -> tuple[LoginServer, object]:
            server = self.oauth_server(fake)
            return server, server.start()

        server, started = server_of(fake := Slow())
        fake.meanwhile = lambda: server.cancel(started)
        with self.assertRaises(LoginEnded):
            server.press_continue(started)
        server, started = server_of(fake := Slow())

        def another() -> None:
            fake.meanwhile = lambda: None
            server.finish_callback(server.redirect_state(started, OTHER), OTHER)

        fake.meanwhile = another
        with self.assertRaises(WrongBrowser):
            server.press_continue(started)
        self.assertEqual(server.rows("SELECT count(*) FROM authorization_attempt"), [(1,)])
        server, started = server_of(fake := Slow())

        def another_tab() -> None:
            fake.meanwhile = lambda: None
            server.finish_callback(server.redirect_state(started))

        fake.meanwhile = another_tab
        self.assertEqual(server.press_continue(started), RedirectToResult(started.login.login_id))
        self.assertEqual(server.rows("SELECT count(*) FROM authorization_attempt"), [(1,)])
