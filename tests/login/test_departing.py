"""Sending browsers to a provider: who goes straight, what an attempt is, what happens when nobody is there."""

from base64 import urlsafe_b64decode
from itertools import product

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Index, Purpose, Secret
from gamed.identity.authorization import challenge_of
from gamed.identity.provider import Destination, Journey, ProviderError, ProviderMisconfigured, ProviderUnavailable
from gamed.login import errors
from gamed.login.attempt import LIVE_ATTEMPTS
from gamed.login.browser import Ask, SeeDone
from gamed.login.callback import CallbackRefused, Ruling
from gamed.login.collecting import Failed, Pending
from gamed.login.departing import GONE, Depart
from gamed.login.done import Over
from gamed.login.errors import LinkUnknown, LoginOver, OtherBrowser
from gamed.login.local import Refused
from gamed.login.outcome import Outcome
from gamed.login.straight import goes_straight
from gamed.login.transaction import Intent, Stage
from tests.login.desk import ADDRESS, BASE, PASSWORD, Desk, HandoffCase
from tests.login.examples import BROWSER, OTHER, a_login
from tests.login.far_provider import ISSUER, FarProvider
from tests.support.covers import covers

HERE, ELSEWHERE = Index(b"a" * 32), Index(b"z" * 32)


class Straight(SynchronousTestCase):
    @covers("threats/2")
    def test_every_combination(self) -> None:
        """Only with a port, to sign in, from the starter's own address, and not from a link on some page."""
        sites = (None, "none", "same-origin", "same-site", "cross-site", "none,none", "")
        for port, intent, address, site in product((51004, None), Intent, (HERE, ELSEWHERE), sites):
            login = a_login(loopback_port=port, intent=intent)
            straight = port == 51004 and intent is Intent.LOGIN and address == HERE and site in (None, "none")
            self.assertEqual(goes_straight(login, address, site), straight, (port, intent, site))


class Entering(HandoffCase):
    def test_straight(self) -> None:
        """The game on this machine opened it: no page in between, and it is told so."""
        desk = self.oauth(far := FarProvider())
        started = desk.start(port=51004)
        for site in (None, "none"):
            self.assertIsInstance(desk.enter(started, site=site), Depart)
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
            self.assertIsInstance(answer, Ask)
        self.assertEqual(desk.rows("SELECT * FROM login WHERE loopback_port = 51004"), before)
        self.assertEqual((desk.rows("SELECT 1 FROM authorization_attempt"), far.journeys), ([], []))
        self.assertIs(desk.login(codeless).stage, Stage.PENDING)

    def test_the_same_home(self) -> None:
        """One /64 of IPv6 is one home; the address of a browser behind another one is not."""
        desk = self.oauth(FarProvider())
        started = desk.start(port=51004)
        started = replace(started, login=desk.login(started))
        self.assertIsInstance(desk.enter(started, address="::ffff:203.0.113.7"), Depart)
        self.assertIsInstance(desk.enter(started, address="203.0.113.8"), Ask)

    def test_after_a_change_of_mode(self) -> None:
        """A login whose way to sign in is gone since a restart is ended with a word, from either mode."""
        for was, now in ((None, FarProvider()), (FarProvider(), None), (FarProvider("google"), FarProvider())):
            desk = self.oauth(*[was] if was else []) if was else self.desk()
            started = desk.start()
            desk.providers.clear()
            desk.providers.update({now.name: now} if now else {})
            self.assertEqual(desk.enter(started), SeeDone(started.login.login_id))
            self.assertEqual(desk.collect(started), Failed(Outcome.PROVIDER_UNAVAILABLE))
            name = was.name if was else "local"
            self.assertEqual(desk.log.lines, [f"failed {name} provider_unavailable req-1: {GONE}"])

    def test_a_provider_taken_out(self) -> None:
        """While the page was open: the button says so, whatever was asked."""
        for intent in (Intent.LOGIN, Intent.ADOPT):
            desk = self.oauth(FarProvider(), FarProvider("google"))
            started = desk.start(intent=intent)
            del desk.providers["discord"]
            self.assertEqual(desk.go(started), SeeDone(started.login.login_id))
            self.assertEqual(desk.collect(started), Failed(Outcome.PROVIDER_UNAVAILABLE))
            self.assertEqual(desk.log.lines, [f"failed discord provider_unavailable req-1: {GONE}"])

    def test_where_nothing_is_asked(self) -> None:
        """Unknown, over, another browser's: as everywhere."""
        desk = self.oauth(FarProvider())
        started = desk.start()
        state = desk.depart(started)
        desk.returned(state)
        with self.assertRaises(OtherBrowser):
            desk.enter(started, OTHER)
        with self.assertRaises(OtherBrowser):
            desk.go(started, OTHER)
        self.assertEqual(desk.go(started), SeeDone(started.login.login_id))
        desk.cancel(started)
        for act in (desk.enter, desk.go):
            with self.assertRaises(LoginOver):
                act(started)
            with self.assertRaises(LinkUnknown):
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
                with self.assertRaises(CallbackRefused) as refused:
                    desk.returned(states[chosen])
                self.assertIs(refused.exception.ruling, Ruling.STATE_UNKNOWN)
            else:
                self.assertEqual(desk.returned(states[chosen]), SeeDone(started.login.login_id))

    def test_five_of_each_login(self) -> None:
        """One login's attempts do not push out another's."""
        desk = self.oauth(FarProvider())
        mine, other = desk.start(), desk.start()
        state = desk.depart(mine)
        for _ in range(20):
            desk.depart(other, OTHER)
        self.assertEqual(desk.returned(state), SeeDone(mine.login.login_id))

    def test_burned_ones_do_not_pile_up(self) -> None:
        """However often a browser spoils its own attempts, a login keeps a handful of rows, and can be finished."""
        desk = self.oauth(FarProvider("google", issuer=ISSUER))
        started = desk.start()
        for _ in range(3 * LIVE_ATTEMPTS):
            state = desk.depart(started)
            with self.assertRaises(CallbackRefused):
                desk.returned(state, code="c", iss="https://evil.example")
        self.assertLessEqual(len(desk.rows("SELECT 1 FROM authorization_attempt")), 2 * LIVE_ATTEMPTS)
        self.assertEqual(desk.returned(desk.depart(started)), SeeDone(started.login.login_id))


class NobodyThere(HandoffCase):
    def test_start_while_it_is_left_alone(self) -> None:
        """503 with the seconds the breaker says, and no row."""
        desk = self.oauth(far := FarProvider(down=ProviderUnavailable("left alone", 17)))
        with self.assertRaises(errors.ProviderUnavailable) as refused:
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
            (ProviderMisconfigured("discovery: another issuer"), Outcome.PROVIDER_MISCONFIGURED),
            (ProviderError("discovery: not JSON"), Outcome.PROVIDER_ERROR),
            (ProviderUnavailable("discovery: no connection", 17), Outcome.PROVIDER_UNAVAILABLE),
        ):
            for straight in (True, False):
                desk = self.oauth(far := FarProvider())
                started = desk.start(port=51004)
                waiting = desk.asked(started, wait_seconds=25)
                far.down = cause
                answer = desk.enter(started) if straight else desk.go(started)
                self.assertEqual(answer, SeeDone(started.login.login_id))
                self.assertEqual(self.successResultOf(waiting), Failed(outcome))
                self.assertEqual(desk.done_page(started), Over(outcome))
                self.assertEqual(desk.log.lines, [f"failed discord {outcome.value} req-1: {cause}"])
                self.assertEqual(desk.rows("SELECT 1 FROM authorization_attempt"), [])
                with self.assertRaises(OtherBrowser):
                    desk.done_page(started, OTHER)
                with self.assertRaises(LoginOver) as over:
                    desk.enter(started, OTHER)
                self.assertIs(over.exception.outcome, outcome)
                far.down = None
                again = desk.start()
                self.assertEqual(desk.returned(desk.depart(again)), SeeDone(again.login.login_id))

    @covers("threats/7")
    def test_who_cannot_end_it(self) -> None:
        """Whoever only opens the link and is shown the page ends nothing, whatever the provider does meanwhile."""
        for intent, port, site, address in (
            (Intent.LOGIN, None, None, ADDRESS),
            (Intent.LOGIN, 51004, "cross-site", ADDRESS),
            (Intent.LOGIN, 51004, None, "198.51.100.9"),
            (Intent.ADOPT, 51004, None, ADDRESS),
        ):
            desk = self.oauth(far := FarProvider())
            started = desk.start(port=port, intent=intent)
            far.down = ProviderUnavailable("left alone", 17)
            for browser in (OTHER, BROWSER):
                self.assertIsInstance(desk.enter(started, browser, site, address), Ask)
            self.assertEqual(desk.collect(started), Pending("waiting_for_browser", 600))
            self.assertEqual(desk.log.lines, [])
            far.down = None
            state = desk.depart(started, name="Anna", password=PASSWORD)
            self.assertEqual(desk.returned(state), SeeDone(started.login.login_id))

    def test_adopting_without_the_password(self) -> None:
        """The name and password are asked first: a wrong one ends nothing, though the provider is down."""
        desk = self.oauth(far := FarProvider())
        started = desk.start(intent=Intent.ADOPT)
        far.down = ProviderUnavailable("left alone", 17)
        self.assertIsInstance(desk.go(started, OTHER, name="Anna", password="wrong horse"), Refused)
        self.assertEqual(desk.collect(started), Pending("waiting_for_browser", 600))
        self.assertEqual(desk.go(started, name="Anna", password=PASSWORD), SeeDone(started.login.login_id))
        self.assertEqual(desk.collect(started), Failed(Outcome.PROVIDER_UNAVAILABLE))

    def test_too_late_to_end_it(self) -> None:
        """The provider fails one browser while another one comes back from it: who won keeps the login."""

        class Failing(FarProvider):
            meanwhile: str | None = None

            async def authorization_url(self, journey: Journey) -> Destination:
                if self.meanwhile is None:
                    return await super().authorization_url(journey)
                desk.returned(self.meanwhile)
                raise ProviderUnavailable("discovery: no connection")

        desk = self.oauth(far := Failing())
        started = desk.start()
        far.meanwhile = desk.depart(started)
        with self.assertRaises(OtherBrowser):
            desk.go(started, OTHER)
        self.assertEqual(desk.collect(started, desk.code(started)).result.created, True)

    def test_the_login_ends_meanwhile(self) -> None:
        """Cancelled or taken by another browser while the provider was asked where to go: nobody is sent there."""

        class Slow(FarProvider):
            meanwhile = staticmethod(lambda: None)

            async def authorization_url(self, journey):  # type: ignore[no-untyped-def]
                self.meanwhile()
                return await super().authorization_url(journey)

        def desk_of(far: Slow) -> tuple[Desk, object]:
            desk = self.oauth(far)
            return desk, desk.start()

        desk, started = desk_of(far := Slow())
        far.meanwhile = lambda: desk.cancel(started)
        with self.assertRaises(LoginOver):
            desk.go(started)
        desk, started = desk_of(far := Slow())

        def another() -> None:
            far.meanwhile = lambda: None
            desk.returned(desk.depart(started, OTHER), OTHER)

        far.meanwhile = another
        with self.assertRaises(OtherBrowser):
            desk.go(started)
        self.assertEqual(desk.rows("SELECT count(*) FROM authorization_attempt"), [(1,)])
        desk, started = desk_of(far := Slow())

        def another_tab() -> None:
            far.meanwhile = lambda: None
            desk.returned(desk.depart(started))

        far.meanwhile = another_tab
        self.assertEqual(desk.go(started), SeeDone(started.login.login_id))
        self.assertEqual(desk.rows("SELECT count(*) FROM authorization_attempt"), [(1,)])
