"""Sending browsers to a provider: who goes straight, what an attempt is, what happens when nobody is there."""

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
from tests.login.fake_provider import ISSUER, FarProvider
from tests.login.fixtures import ADDRESS, BASE, PASSWORD, Desk, HandoffCase
from tests.support.covers import covers

HERE, ELSEWHERE = Index(b"a" * 32), Index(b"z" * 32)


class Straight(SynchronousTestCase):
    @covers("threats/2")
    def test_every_combination(self) -> None:
        """Only with a port, to sign in, from the starter's own address, and not from a link on some page."""
        sites = (None, "none", "same-origin", "same-site", "cross-site", "none,none", "")
        for port, intent, address, site in product((51004, None), LoginIntent, (HERE, ELSEWHERE), sites):
            login = a_login(loopback_port=port, intent=intent)
            straight = port == 51004 and intent is LoginIntent.LOGIN and address == HERE and site in (None, "none")
            self.assertEqual(may_skip_consent_page(login, address, site), straight, (port, intent, site))


class Entering(HandoffCase):
    def test_straight(self) -> None:
        """The game on this machine opened it: no page in between, and it is told so."""
        desk = self.oauth(far := FarProvider())
        started = desk.start(port=51004)
        for site in (None, "none"):
            self.assertIsInstance(desk.enter(started, site=site), RedirectToProvider)
        self.assertEqual(desk.collect(started), Pending("at_provider", 600))
        self.assertEqual(len(far.journeys), 2)

    def test_the_page(self) -> None:
        """Everyone else is asked first; that changes nothing, however often."""
        desk = self.oauth(far := FarProvider())
        started, before = desk.start(port=51004), desk.rows("SELECT * FROM login")
        for answer in (
            desk.enter(started, site="cross-site"),
            desk.enter(started, address="198.51.100.9"),
            desk.enter(started, OTHER, address="2001:db8::7"),
            desk.enter(codeless := desk.start()),
        ):
            self.assertIsInstance(answer, SignInPrompt)
        self.assertEqual(desk.rows("SELECT * FROM login WHERE loopback_port = 51004"), before)
        self.assertEqual((desk.rows("SELECT 1 FROM authorization_attempt"), far.journeys), ([], []))
        self.assertIs(desk.login(codeless).stage, LoginStage.PENDING)

    def test_the_same_home(self) -> None:
        """One /64 of IPv6 is one home; the address of a browser behind another one is not."""
        desk = self.oauth(FarProvider())
        started = desk.start(port=51004)
        started = replace(started, login=desk.login(started))
        self.assertIsInstance(desk.enter(started, address="::ffff:203.0.113.7"), RedirectToProvider)
        self.assertIsInstance(desk.enter(started, address="203.0.113.8"), SignInPrompt)

    def test_after_a_change_of_mode(self) -> None:
        """A login whose way to sign in is gone since a restart is ended with a word, from either mode."""
        for was, now in ((None, FarProvider()), (FarProvider(), None), (FarProvider("google"), FarProvider())):
            desk = self.oauth(*[was] if was else []) if was else self.desk()
            started = desk.start()
            desk.providers.clear()
            desk.providers.update({now.name: now} if now else {})
            self.assertEqual(desk.enter(started), RedirectToResult(started.login.login_id))
            self.assertEqual(desk.collect(started), Failed(LoginFailure.PROVIDER_UNAVAILABLE))
            name = was.name if was else "local"
            self.assertEqual(desk.log.lines, [f"failed {name} provider_unavailable req-1: {NOT_CONFIGURED}"])

    def test_a_provider_taken_out(self) -> None:
        """While the page was open: the button says so, whatever was asked."""
        for intent in (LoginIntent.LOGIN, LoginIntent.ADOPT):
            desk = self.oauth(FarProvider(), FarProvider("google"))
            started = desk.start(intent=intent)
            del desk.providers["discord"]
            self.assertEqual(desk.go(started), RedirectToResult(started.login.login_id))
            self.assertEqual(desk.collect(started), Failed(LoginFailure.PROVIDER_UNAVAILABLE))
            self.assertEqual(desk.log.lines, [f"failed discord provider_unavailable req-1: {NOT_CONFIGURED}"])

    def test_where_nothing_is_asked(self) -> None:
        """Unknown, over, another browser's: as everywhere."""
        desk = self.oauth(FarProvider())
        started = desk.start()
        state = desk.depart(started)
        desk.returned(state)
        with self.assertRaises(WrongBrowser):
            desk.enter(started, OTHER)
        with self.assertRaises(WrongBrowser):
            desk.go(started, OTHER)
        self.assertEqual(desk.go(started), RedirectToResult(started.login.login_id))
        desk.cancel(started)
        for act in (desk.enter, desk.go):
            with self.assertRaises(LoginEnded):
                act(started)
            with self.assertRaises(UnknownLoginLink):
                act(replace(started, token="A" * 22))


@covers("2.3/4")
class Attempts(HandoffCase):
    @covers("2.3/3", "2.3/5", "5/2", "threats/15")
    def test_fresh_values(self) -> None:
        """Each trip has its own state of 256 bits, S256 challenge and nonce; the redirect URI is the one registered."""
        desk = self.oauth(far := FarProvider("google", issuer=ISSUER))
        started = desk.start()
        states = [desk.depart(started) for _ in range(2)]
        for state, journey in zip(states, far.journeys, strict=True):
            self.assertEqual((journey.state, journey.redirect_uri), (state, f"{BASE}/auth/google/callback"))
            self.assertEqual(len(urlsafe_b64decode(state + "=")), 32)
            self.assertRegex(journey.challenge, r"\A[A-Za-z0-9_-]{43}\Z")
            self.assertRegex(journey.nonce or "", r"\A[A-Za-z0-9_-]{43}\Z")
        for values in zip(*((j.state, j.challenge, j.nonce) for j in far.journeys), strict=True):
            self.assertEqual(len(set(values)), 2)

    @covers("2.3/5")
    def test_no_nonce_without_openid(self) -> None:
        """OAuth 2.0 signs nothing that could hold one."""
        desk = self.oauth(far := FarProvider())
        desk.depart(desk.start())
        self.assertIsNone(far.journeys[0].nonce)
        self.assertEqual(desk.rows("SELECT sealed_nonce FROM authorization_attempt"), [(None,)])

    @covers("2.2/11", "2.2/12", "threats/15")
    def test_at_rest(self) -> None:
        """The state only as an index, verifier and nonce only sealed; the verifier has 86 characters and fits."""
        desk = self.oauth(far := FarProvider("google", issuer=ISSUER, iss_promised=True))
        state = desk.depart(desk.start())
        row = repr(desk.rows("SELECT * FROM authorization_attempt"))
        self.assertNotIn(state, row)
        self.assertNotIn(far.journeys[0].nonce or "-", row)
        query = "SELECT attempt_id, sealed_verifier, iss_promised FROM authorization_attempt"
        [(attempt_id, sealed, promised)] = desk.rows(query)
        verifier = Secret(desk.keys.sealer.unseal(Purpose.PKCE, attempt_id, sealed))
        self.assertEqual((len(verifier.reveal()), promised), (86, 1))
        self.assertEqual(challenge_of(verifier), far.journeys[0].challenge)

    @covers("threats/7")
    def test_at_most_five(self) -> None:
        """The oldest is dropped for a sixth; the newest five all work, whichever comes back."""
        for chosen in range(LIVE_ATTEMPTS + 1):
            desk = self.oauth(FarProvider())
            started = desk.start()
            states = [desk.depart(started) for _ in range(LIVE_ATTEMPTS + 1)]
            self.assertEqual(len(desk.rows("SELECT 1 FROM authorization_attempt")), LIVE_ATTEMPTS)
            if chosen == 0:
                with self.assertRaises(CallbackRejected) as refused:
                    desk.returned(states[chosen])
                self.assertIs(refused.exception.check, CallbackCheck.STATE_UNKNOWN)
            else:
                self.assertEqual(desk.returned(states[chosen]), RedirectToResult(started.login.login_id))

    def test_five_of_each_login(self) -> None:
        """One login's attempts do not push out another's."""
        desk = self.oauth(FarProvider())
        mine, other = desk.start(), desk.start()
        state = desk.depart(mine)
        for _ in range(20):
            desk.depart(other, OTHER)
        self.assertEqual(desk.returned(state), RedirectToResult(mine.login.login_id))

    def test_burned_ones_do_not_pile_up(self) -> None:
        """However often a browser spoils its own attempts, a login keeps a handful of rows, and can be finished."""
        desk = self.oauth(FarProvider("google", issuer=ISSUER))
        started = desk.start()
        for _ in range(3 * LIVE_ATTEMPTS):
            state = desk.depart(started)
            with self.assertRaises(CallbackRejected):
                desk.returned(state, code="c", iss="https://evil.example")
        self.assertLessEqual(len(desk.rows("SELECT 1 FROM authorization_attempt")), 2 * LIVE_ATTEMPTS)
        self.assertEqual(desk.returned(desk.depart(started)), RedirectToResult(started.login.login_id))


class NobodyThere(HandoffCase):
    def test_start_while_it_is_left_alone(self) -> None:
        """503 with the seconds the breaker says, and no row."""
        desk = self.oauth(far := FarProvider(down=ProviderUnavailable("left alone", 17)))
        with self.assertRaises(errors.LoginProviderUnavailable) as refused:
            desk.start()
        self.assertEqual(refused.exception.retry_after, 17)
        self.assertNotIn("left alone", str(refused.exception))
        self.assertEqual(desk.rows("SELECT 1 FROM login"), [])
        far.down = None
        desk.start()

    def test_no_use_at_the_link(self) -> None:
        """On the way past the page and at the button the login ends: game and browser are told at once, the owner why.

        No other browser is shown anything; the next sign-in works as soon as the provider does.
        """
        for cause, outcome in (
            (ProviderMisconfigured("discovery: another issuer"), LoginFailure.PROVIDER_MISCONFIGURED),
            (ProviderError("discovery: not JSON"), LoginFailure.PROVIDER_ERROR),
            (ProviderUnavailable("discovery: no connection", 17), LoginFailure.PROVIDER_UNAVAILABLE),
        ):
            for straight in (True, False):
                desk = self.oauth(far := FarProvider())
                started = desk.start(port=51004)
                waiting = desk.asked(started, wait_seconds=25)
                far.down = cause
                answer = desk.enter(started) if straight else desk.go(started)
                self.assertEqual(answer, RedirectToResult(started.login.login_id))
                self.assertEqual(self.successResultOf(waiting), Failed(outcome))
                self.assertEqual(desk.done_page(started), Ended(outcome))
                self.assertEqual(desk.log.lines, [f"failed discord {outcome.value} req-1: {cause}"])
                self.assertEqual(desk.rows("SELECT 1 FROM authorization_attempt"), [])
                with self.assertRaises(WrongBrowser):
                    desk.done_page(started, OTHER)
                with self.assertRaises(LoginEnded) as over:
                    desk.enter(started, OTHER)
                self.assertIs(over.exception.outcome, outcome)
                far.down = None
                again = desk.start()
                self.assertEqual(desk.returned(desk.depart(again)), RedirectToResult(again.login.login_id))

    @covers("threats/7")
    def test_who_cannot_end_it(self) -> None:
        """Whoever only opens the link and is shown the page ends nothing, whatever the provider does meanwhile."""
        for intent, port, site, address in (
            (LoginIntent.LOGIN, None, None, ADDRESS),
            (LoginIntent.LOGIN, 51004, "cross-site", ADDRESS),
            (LoginIntent.LOGIN, 51004, None, "198.51.100.9"),
            (LoginIntent.ADOPT, 51004, None, ADDRESS),
        ):
            desk = self.oauth(far := FarProvider())
            started = desk.start(port=port, intent=intent)
            far.down = ProviderUnavailable("left alone", 17)
            for browser in (OTHER, BROWSER):
                self.assertIsInstance(desk.enter(started, browser, site, address), SignInPrompt)
            self.assertEqual(desk.collect(started), Pending("waiting_for_browser", 600))
            self.assertEqual(desk.log.lines, [])
            far.down = None
            state = desk.depart(started, name="Anna", password=PASSWORD)
            self.assertEqual(desk.returned(state), RedirectToResult(started.login.login_id))

    def test_adopting_without_the_password(self) -> None:
        """The name and password are asked first: a wrong one ends nothing, though the provider is down."""
        desk = self.oauth(far := FarProvider())
        started = desk.start(intent=LoginIntent.ADOPT)
        far.down = ProviderUnavailable("left alone", 17)
        self.assertIsInstance(desk.go(started, OTHER, name="Anna", password="wrong horse"), FormRejected)
        self.assertEqual(desk.collect(started), Pending("waiting_for_browser", 600))
        self.assertEqual(desk.go(started, name="Anna", password=PASSWORD), RedirectToResult(started.login.login_id))
        self.assertEqual(desk.collect(started), Failed(LoginFailure.PROVIDER_UNAVAILABLE))

    def test_too_late_to_end_it(self) -> None:
        """The provider fails one browser while another one comes back from it: who won keeps the login."""

        class Failing(FarProvider):
            meanwhile: str | None = None

            async def authorization_url(self, journey: AuthorizationRequest) -> AuthorizationUrl:
                if self.meanwhile is None:
                    return await super().authorization_url(journey)
                desk.returned(self.meanwhile)
                raise ProviderUnavailable("discovery: no connection")

        desk = self.oauth(far := Failing())
        started = desk.start()
        far.meanwhile = desk.depart(started)
        with self.assertRaises(WrongBrowser):
            desk.go(started, OTHER)
        self.assertEqual(desk.collect(started, desk.code(started)).result.created, True)

    def test_the_login_ends_meanwhile(self) -> None:
        """Cancelled or taken by another browser while the provider was asked where to go: nobody is sent there."""

        class Slow(FarProvider):
            meanwhile: Callable[[], None] = lambda: None

            async def authorization_url(self, journey):  # type: ignore[no-untyped-def]
                self.meanwhile()
                return await super().authorization_url(journey)

        def desk_of(far: Slow) -> tuple[Desk, object]:
            desk = self.oauth(far)
            return desk, desk.start()

        desk, started = desk_of(far := Slow())
        far.meanwhile = lambda: desk.cancel(started)
        with self.assertRaises(LoginEnded):
            desk.go(started)
        desk, started = desk_of(far := Slow())

        def another() -> None:
            far.meanwhile = lambda: None
            desk.returned(desk.depart(started, OTHER), OTHER)

        far.meanwhile = another
        with self.assertRaises(WrongBrowser):
            desk.go(started)
        self.assertEqual(desk.rows("SELECT count(*) FROM authorization_attempt"), [(1,)])
        desk, started = desk_of(far := Slow())

        def another_tab() -> None:
            far.meanwhile = lambda: None
            desk.returned(desk.depart(started))

        far.meanwhile = another_tab
        self.assertEqual(desk.go(started), RedirectToResult(started.login.login_id))
        self.assertEqual(desk.rows("SELECT count(*) FROM authorization_attempt"), [(1,)])
