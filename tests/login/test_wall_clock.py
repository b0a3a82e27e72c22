"""The wall clock is set while people sign in: an hour ahead, or a day back. Nobody is locked out (PROTOCOL 3)."""

from msgspec.structs import replace

from gamed.crypto import Secret
from gamed.login.browser import RedirectToResult, SignInPrompt
from gamed.login.collect import Complete, Failed, Pending
from gamed.login.errors import LoginEnded
from gamed.login.local import FormError
from gamed.login.policy import NO_LIMITS
from gamed.outcomes import LoginFailure
from gamed.rate_limit import RateLimited
from gamed.sessions.errors import RefreshReused, TokenExpired
from tests.login.fake_provider import FarProvider
from tests.login.fixtures import Desk, HandoffCase, done

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FORWARD, BACK = HOUR_MS, -DAY_MS


class Handoffs(HandoffCase):
    def test_back_at_every_stage(self) -> None:
        """A sign-in goes on to its end, whenever the clock is set back; local and through a provider."""
        for steps in range(5):
            with self.subTest(steps=steps):
                desk = self.oauth(FarProvider())
                shifts = iter([0] * steps + [BACK] * 5)
                desk.shift_ms = next(shifts)
                started = desk.start()
                desk.shift_ms = next(shifts)
                state = desk.depart(started)
                desk.shift_ms = next(shifts)
                self.assertIsInstance(desk.returned(state), RedirectToResult)
                desk.shift_ms = next(shifts)
                complete = desk.collect(started, code=desk.code(started))
                self.assertIsInstance(complete, Complete)
                desk.shift_ms = next(shifts)
                self.assertEqual(desk.collect(started).result.player_id, complete.result.player_id)

    def test_forward_ends_what_is_unfinished(self) -> None:
        """An hour ahead every waiting sign-in is over, for game and browser alike; the next one works."""
        desk = self.desk()
        started, ready = desk.start(), desk.start()
        desk.sign_in(ready)
        desk.shift_ms = FORWARD
        for each in (started, ready):
            self.assertEqual(desk.collect(each), Failed(LoginFailure.LOGIN_EXPIRED))
            with self.assertRaises(LoginEnded):
                desk.enter(each)
        again = desk.start()
        desk.sign_in(again)
        self.assertIsInstance(desk.collect(again, code=desk.code(again)), Complete)

    def test_a_wait_ends_by_its_own_time(self) -> None:
        """A game that waits while the clock is set back is answered after its 25 seconds, not a day later."""
        desk = self.desk()
        waiting = desk.asked(desk.start(), wait_seconds=25)
        desk.shift_ms = BACK
        desk.clock.advance(25.5)
        self.assertIsInstance(self.successResultOf(waiting), Pending)

    def test_sweeps(self) -> None:
        """A sweep under a clock that is behind ends nothing; when the clock is right again it ends what is due."""
        desk = self.desk()
        started = desk.start()
        desk.shift_ms = BACK
        done(desk.lifecycle.expire())
        self.assertIsInstance(desk.enter(started), SignInPrompt)
        desk.shift_ms = FORWARD
        done(desk.lifecycle.expire())
        self.assertEqual(desk.rows("SELECT stage FROM login"), [("expired",)])


class Sessions(HandoffCase):
    def test_they_stay(self) -> None:
        """Ahead, the access token has run out and is renewed; back, everything handed out works on."""
        for shift_ms in (FORWARD, BACK):
            with self.subTest(shift_ms=shift_ms):
                desk = self.desk()
                started = desk.start()
                desk.sign_in(started)
                pair = desk.collect(started, code=desk.code(started)).result.pair
                self.speaks(desk, pair.access)
                desk.shift_ms = shift_ms
                if shift_ms == FORWARD:
                    with self.assertRaises(TokenExpired):
                        self.speaks(desk, pair.access)
                else:
                    self.speaks(desk, pair.access)
                access, refresh = self.refreshed(desk, pair.refresh)
                self.speaks(desk, access)
                self.refreshed(desk, refresh)

    def test_there_and_back(self) -> None:
        """A session begun while the clock was a day ahead is refreshed, and its reuse is told, once it is right."""
        desk = self.desk()
        desk.shift_ms = DAY_MS
        started = desk.start()
        desk.sign_in(started)
        first = desk.collect(started, code=desk.code(started)).result.pair
        desk.shift_ms = 0
        _, second = self.refreshed(desk, first.refresh)
        access, _ = self.refreshed(desk, second)
        self.speaks(desk, access)
        with self.assertRaises(RefreshReused):
            self.refreshed(desk, first.refresh)

    def speaks(self, desk: Desk, token: Secret) -> None:
        done(desk.sessions.authenticate(token.reveal().decode()))

    def refreshed(self, desk: Desk, credential: Secret) -> tuple[Secret, Secret]:
        """The access token and the refresh credential that come back."""
        answer = done(desk.sessions.refresh(credential.reveal().decode()))
        return Secret(answer["access_token"].encode()), Secret(answer["refresh_credential"].encode())


class Limits(HandoffCase):
    def test_starts_and_entries(self) -> None:
        """Full buckets from tomorrow are empty ones; the limit holds again from there on."""
        desk = self.desk(limits=replace(NO_LIMITS, starts_per_minute=3, entries_per_minute=3))
        for shift_ms in (DAY_MS, DAY_MS + FORWARD, 0, BACK, 0):
            desk.shift_ms = shift_ms
            started = [desk.start() for _ in range(3)]
            for each in started:
                desk.enter(each)
            for act in (desk.start, lambda each=started[0]: desk.enter(each)):
                with self.assertRaises(RateLimited) as caught:
                    act()
                self.assertEqual(caught.exception.retry_after, 20)
            desk.clock.advance(20)
            desk.enter(desk.start())
            desk.clock.advance(60)

    def test_passwords(self) -> None:
        """Five wrong ones just before the clock is set back: the owner of the account tries again at once."""
        desk = self.desk(passwords_per_minute=5)
        started = desk.start()
        for _ in range(5):
            desk.sign_in(started, password="wrong horse")
        self.assertIs(desk.sign_in(started).error, FormError.LIMIT)
        desk.shift_ms = BACK
        self.assertIsInstance(desk.sign_in(started), RedirectToResult)

    def test_a_little_back(self) -> None:
        """Set back by less than a full bucket lasts, it costs no more than that; no refusal prolongs itself."""
        desk = self.desk(limits=replace(NO_LIMITS, starts_per_minute=3))
        for _ in range(3):
            desk.start()
        desk.shift_ms = -50_000
        waited = 0
        while True:
            try:
                desk.start()
                break
            except RateLimited as e:
                desk.clock.advance(e.retry_after)
                waited += e.retry_after
        self.assertEqual(waited, 70)

    def test_places(self) -> None:
        """Logins begun by a clock that was ahead take no place of an address, and are the first to make room."""
        desk = self.desk(limits=replace(NO_LIMITS, live_logins_per_address=2, live_logins=3))
        desk.shift_ms = DAY_MS
        stale = [desk.start(), desk.start()]
        desk.shift_ms = 0
        mine = [desk.start(), desk.start(address="198.51.100.1")]
        desk.start()
        self.assertEqual([desk.collect(each) for each in stale], [Failed(LoginFailure.LOGIN_EXPIRED)] * 2)
        for each in mine:
            self.assertEqual(desk.collect(each).stage, "waiting_for_browser")

    def test_polling(self) -> None:
        """A game that polls in haste across the change is not refused for a day, and nothing is kept of it."""
        desk = self.desk()
        started = desk.start()
        desk.shift_ms = DAY_MS
        for _ in range(5):
            desk.collect(started)
        desk.shift_ms = 0
        desk.collect(started)
        desk.collect(desk.start())
        self.assertEqual(len(desk.collects._arrivals), 2)
