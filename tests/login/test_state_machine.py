"""These tests run games, browsers, a provider, the clock and restarts in any order, and check invariants."""

import contextlib
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct, field

from gamed.login.authorize import RedirectToProvider
from gamed.login.browser import ReturnToGame, ShowFinishCode, SignInPrompt
from gamed.login.collect import Complete, Failed
from gamed.login.errors import InvalidProof, LoginCollected, LoginError
from gamed.login.transaction import FINAL, UNDECIDED, LoginStage, LoginTransaction
from gamed.outcomes import LoginFailure
from gamed.providers.base import ProviderError, ProviderUnavailable
from gamed.rate_limit import RateLimited
from tests.login.examples import BROWSER, OTHER
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import LoginCase, done
from tests.login.test_login import lasting

WALKS, STEPS = 60, 30
DOWN, BAD = ProviderUnavailable("down"), ProviderError("bad")


class LoginModel(Struct):
    """A login as it is known from outside."""

    states: list[tuple[str, Any]] = field(default_factory=list)
    """With the browser that was sent."""
    proofs: set[str] = field(default_factory=set)
    """Codes that were shown."""
    tickets: set[str] = field(default_factory=set)
    delivered: Any = None


class StateMachineTests(LoginCase):
    def setUp(self) -> None:
        self.fake = FakeProvider()
        self.server = self.oauth_server(self.fake, ttl_seconds=240)

    def test_any_order(self) -> None:
        """Any order of steps raises only expected errors, keeps the invariants of `holds`, and reaches every end."""
        ends: set[object] = set()
        for seed in range(WALKS):
            self.dice, self.walk = Random(seed), LoginModel()
            self.before = lasting(self.server)
            self.fake.down = self.fake.failure = None
            self.server.clock.advance(60)
            self.started = self.server.start(port=self.dice.choice((None, 51004)), address=f"10.0.{seed}.1")
            self.last = self.server.login(self.started)
            self.who = f"p{seed}"
            for _ in range(STEPS):
                act = self.dice.choice(self.acts())
                with contextlib.suppress(LoginError, RateLimited):
                    act()
                with self.subTest(seed=seed, act=act.__name__):
                    self.holds()
            ends |= {self.last.outcome or self.last.stage, *(["ticket"] if self.walk.tickets else [])}
        wanted = {
            LoginFailure.LOGIN_DENIED,
            LoginFailure.LOGIN_CANCELLED,
            LoginFailure.LOGIN_EXPIRED,
            LoginFailure.PROVIDER_ERROR,
        }
        self.assertLessEqual(wanted | {LoginFailure.PROVIDER_UNAVAILABLE, LoginStage.DELIVERED, "ticket"}, ends)

    # -- what may happen --

    def acts(self) -> list[Callable[[], Any]]:
        """Return the steps; those that advance a login occur several times."""
        return [
            *[self.opens, self.goes_on, self.comes_back, self.looks_at_done] * 3,
            *[self.collects] * 2,
            self.guesses,
            self.shows_a_code,
            self.declines,
            self.cancels,
            self.provider_changes,
            self.time_passes,
            self.sweeps,
            self.restarts,
        ]

    def browser(self) -> Any:
        return self.dice.choice((BROWSER, BROWSER, OTHER))

    def opens(self) -> None:
        browser, site = self.browser(), self.dice.choice((None, "none", "cross-site"))
        self.sent(
            browser, self.server.open_link(self.started, browser, site, self.dice.choice(("10.0.0.1", "10.9.9.9")))
        )

    def goes_on(self) -> None:
        browser = self.browser()
        self.sent(browser, self.server.press_continue(self.started, browser))

    def sent(self, browser: Any, answer: Any) -> None:
        if isinstance(answer, RedirectToProvider):
            self.walk.states.append((answer.url.partition("state=")[2], browser))
        self.assertFalse(isinstance(answer, SignInPrompt) and self.stage() not in UNDECIDED)

    def comes_back(self) -> None:
        if not self.walk.states:
            return
        state, sender = self.dice.choice(self.walk.states)
        browser = self.dice.choice((sender, sender, BROWSER, OTHER, None))
        other = self.dice.choice(({}, {}, {}, {"error": "access_denied"}, {"provider": "nobody", "code": "c"}))
        calls = len(self.fake.calls)
        try:
            self.server.finish_callback(state, browser, **({"who": self.who} | other))
        finally:
            if browser is not sender:
                self.assertEqual(len(self.fake.calls), calls)

    def looks_at_done(self) -> None:
        browser = self.browser()
        shown = self.server.result(self.started, browser)
        self.assertTrue(self.server.login(self.started).belongs_to(browser))
        if isinstance(shown, ShowFinishCode):
            self.walk.proofs.add(shown.code)
        if isinstance(shown, ReturnToGame):
            self.assertEqual(self.walk.tickets, set(), "the ticket leaves once")
            self.walk.tickets.add(shown.ticket)

    def collects(self) -> None:
        answer = self.server.collect(self.started, wait_seconds=5, seen="")
        if isinstance(answer, Complete):
            self.assertIsNotNone(self.walk.delivered, "credentials without a proof")
            self.assertTrue(answer.result.pair.access.matches(self.walk.delivered.result.pair.access))

    def guesses(self) -> None:
        if self.walk.delivered is None:
            with contextlib.suppress(InvalidProof):
                self.assertNotIsInstance(self.server.collect(self.started, code="ZXZ-XZX"), Complete)

    def shows_a_code(self) -> None:
        for ticket in self.walk.tickets:
            self.proven(self.server.collect(self.started, ticket=ticket))
            return
        for code in self.walk.proofs:
            self.proven(self.server.collect(self.started, code=code))

    def proven(self, answer: Any) -> None:
        if isinstance(answer, Complete) and self.walk.delivered is None:
            self.walk.delivered = answer
        if isinstance(answer, Failed):
            self.assertIn(self.stage(), FINAL)

    def declines(self) -> None:
        if self.dice.random() < 0.3:
            self.server.decline(self.started, self.browser())

    def cancels(self) -> None:
        if self.walk.delivered or self.dice.random() < 0.2:
            try:
                self.server.cancel(self.started)
            except LoginCollected:
                self.assertIs(self.stage(), LoginStage.COLLECTED)

    def provider_changes(self) -> None:
        self.fake.down = self.dice.choice((None, None, DOWN))
        self.fake.failure = self.dice.choice((None, None, BAD))

    def time_passes(self) -> None:
        self.server.clock.advance(self.dice.choice((1, 30, 60, 400)))

    def sweeps(self) -> None:
        self.server.collects = self.server.new_collects()
        done(self.server.lifecycle.expire())

    def restarts(self) -> None:
        done(self.server.lifecycle.recover())

    # -- what must hold --

    def stage(self) -> LoginStage:
        return self.login().stage

    def login(self) -> LoginTransaction:
        return self.server.login(self.started).at_time(self.server.now_ms())

    def holds(self) -> None:
        login, walk = self.login(), self.walk
        if self.last.final:
            self.assertEqual((login.stage, login.outcome), (self.last.stage, self.last.outcome), "an end is an end")
        if self.last.browser_index is not None:
            self.assertEqual(login.browser_index, self.last.browser_index, "won is won")
        self.last = login
        if walk.delivered is None:
            self.assertEqual(lasting(self.server), self.before, "nothing lasting before the proof")
        codes = [call["code"] for call in self.fake.calls]
        self.assertEqual(len(codes), len(set(codes)), "a code leaves once")
        kept = self.server.rows(
            "SELECT count(sealed_verifier) FROM authorization_attempt WHERE login_id = :login_id",
            login_id=login.login_id,
        )
        if self.server.login(self.started).stage not in UNDECIDED:
            self.assertEqual(kept, [(0,)], "verifiers are gone once a browser has won")
        self.assertLessEqual(len(walk.proofs), 1)
        if login.final:
            live = "SELECT count(*) FROM session WHERE session_id = :session_id AND revoked_ms IS NULL"
            expected = 1 if login.stage is LoginStage.COLLECTED else 0
            self.assertEqual(self.server.rows(live, session_id=login.session_id or ""), [(expected,)])
