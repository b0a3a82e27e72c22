"""These tests set the wall clock an hour ahead or a day back while people sign in (docs/internals/login-states.md)."""

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
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import LoginCase, LoginServer, done

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FORWARD, BACK = HOUR_MS, -DAY_MS


class Logins(LoginCase):
    def test_back_at_every_stage(self) -> None:
        """A sign-in finishes, at whichever stage the clock is set back; local and through a provider."""
        for steps in range(5):
            with self.subTest(steps=steps):
                server = self.oauth_server(FakeProvider())
                shifts = iter([0] * steps + [BACK] * 5)
                server.shift_ms = next(shifts)
                started = server.start()
                server.shift_ms = next(shifts)
                state = server.redirect_state(started)
                server.shift_ms = next(shifts)
                self.assertIsInstance(server.finish_callback(state), RedirectToResult)
                server.shift_ms = next(shifts)
                complete = server.collect(started, code=server.code(started))
                self.assertIsInstance(complete, Complete)
                server.shift_ms = next(shifts)
                self.assertEqual(server.collect(started).result.player_id, complete.result.player_id)

    def test_forward_ends_what_is_unfinished(self) -> None:
        """An hour ahead every waiting login is expired for game and browser; the next one works."""
        server = self.local_server()
        started, ready = server.start(), server.start()
        server.sign_in(ready)
        server.shift_ms = FORWARD
        for each in (started, ready):
            self.assertEqual(server.collect(each), Failed(LoginFailure.LOGIN_EXPIRED))
            with self.assertRaises(LoginEnded):
                server.open_link(each)
        again = server.start()
        server.sign_in(again)
        self.assertIsInstance(server.collect(again, code=server.code(again)), Complete)

    def test_a_wait_ends_by_its_own_time(self) -> None:
        """A game that waits while the clock is set back is answered after its 25 seconds."""
        server = self.local_server()
        waiting = server.begin_collect(server.start(), wait_seconds=25)
        server.shift_ms = BACK
        server.clock.advance(25.5)
        self.assertIsInstance(self.successResultOf(waiting), Pending)

    def test_sweeps(self) -> None:
        """A cleanup with a clock that is behind ends nothing; with the right clock it ends what is due."""
        server = self.local_server()
        started = server.start()
        server.shift_ms = BACK
        done(server.lifecycle.expire())
        self.assertIsInstance(server.open_link(started), SignInPrompt)
        server.shift_ms = FORWARD
        done(server.lifecycle.expire())
        self.assertEqual(server.rows("SELECT stage FROM login"), [("expired",)])


class Sessions(LoginCase):
    def test_they_stay(self) -> None:
        """Ahead, the access token is expired and can be refreshed; back, all credentials work."""
        for shift_ms in (FORWARD, BACK):
            with self.subTest(shift_ms=shift_ms):
                server = self.local_server()
                started = server.start()
                server.sign_in(started)
                pair = server.collect(started, code=server.code(started)).result.pair
                self.speaks(server, pair.access)
                server.shift_ms = shift_ms
                if shift_ms == FORWARD:
                    with self.assertRaises(TokenExpired):
                        self.speaks(server, pair.access)
                else:
                    self.speaks(server, pair.access)
                access, refresh = self.refreshed(server, pair.refresh)
                self.speaks(server, access)
                self.refreshed(server, refresh)

    def test_there_and_back(self) -> None:
        """A session from a clock a day ahead can be refreshed, and its reuse is detected once the clock is right."""
        server = self.local_server()
        server.shift_ms = DAY_MS
        started = server.start()
        server.sign_in(started)
        first = server.collect(started, code=server.code(started)).result.pair
        server.shift_ms = 0
        _, second = self.refreshed(server, first.refresh)
        access, _ = self.refreshed(server, second)
        self.speaks(server, access)
        with self.assertRaises(RefreshReused):
            self.refreshed(server, first.refresh)

    def speaks(self, server: LoginServer, token: Secret) -> None:
        done(server.sessions.authenticate(token.reveal().decode()))

    def refreshed(self, server: LoginServer, credential: Secret) -> tuple[Secret, Secret]:
        """Return the access token and the refresh credential of a refresh."""
        answer = done(server.sessions.refresh(credential.reveal().decode()))
        return Secret(answer["access_token"].encode()), Secret(answer["refresh_credential"].encode())


class Limits(LoginCase):
    def test_starts_and_entries(self) -> None:
        """Full buckets from tomorrow count as empty; the limit applies again from then on."""
        server = self.local_server(limits=replace(NO_LIMITS, starts_per_minute=3, entries_per_minute=3))
        for shift_ms in (DAY_MS, DAY_MS + FORWARD, 0, BACK, 0):
            server.shift_ms = shift_ms
            started = [server.start() for _ in range(3)]
            for each in started:
                server.open_link(each)
            for act in (server.start, lambda each=started[0]: server.open_link(each)):
                with self.assertRaises(RateLimited) as caught:
                    act()
                self.assertEqual(caught.exception.retry_after, 20)
            server.clock.advance(20)
            server.open_link(server.start())
            server.clock.advance(60)

    def test_passwords(self) -> None:
        """Five wrong passwords just before the clock is set back do not lock the player out."""
        server = self.local_server(passwords_per_minute=5)
        started = server.start()
        for _ in range(5):
            server.sign_in(started, password="wrong horse")
        self.assertIs(server.sign_in(started).error, FormError.LIMIT)
        server.shift_ms = BACK
        self.assertIsInstance(server.sign_in(started), RedirectToResult)

    def test_a_little_back(self) -> None:
        """A clock set back by less than a full bucket costs no more than that; refusals do not prolong it."""
        server = self.local_server(limits=replace(NO_LIMITS, starts_per_minute=3))
        for _ in range(3):
            server.start()
        server.shift_ms = -50_000
        waited = 0
        while True:
            try:
                server.start()
                break
            except RateLimited as e:
                server.clock.advance(e.retry_after)
                waited += e.retry_after
        self.assertEqual(waited, 70)

    def test_places(self) -> None:
        """Logins from a clock that was ahead count against no address, and are evicted first."""
        server = self.local_server(limits=replace(NO_LIMITS, live_logins_per_address=2, live_logins=3))
        server.shift_ms = DAY_MS
        stale = [server.start(), server.start()]
        server.shift_ms = 0
        mine = [server.start(), server.start(address="198.51.100.1")]
        server.start()
        self.assertEqual([server.collect(each) for each in stale], [Failed(LoginFailure.LOGIN_EXPIRED)] * 2)
        for each in mine:
            self.assertEqual(server.collect(each).stage, "waiting_for_browser")

    def test_polling(self) -> None:
        """Short polls across the change are not refused for a day, and leave no state."""
        server = self.local_server()
        started = server.start()
        server.shift_ms = DAY_MS
        for _ in range(5):
            server.collect(started)
        server.shift_ms = 0
        server.collect(started)
        server.collect(server.start())
        self.assertEqual(len(server.collects.arrivals), 2)
