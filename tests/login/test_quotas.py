"""These tests limit how many logins start, wait and are opened, per address and in total.

See docs/owners/configuration.md: Limits.
"""

from typing import Any

from msgspec.structs import replace

from gamed.config.model import AuthLimits
from gamed.crypto import Index
from gamed.database import rate_limits
from gamed.login import store as login_store
from gamed.login.authorize import RedirectToProvider
from gamed.login.browser import RedirectToResult, SignInPrompt
from gamed.login.callback_rules import CallbackRejected
from gamed.login.collect import Complete, Failed
from gamed.login.errors import (
    CallbackMalformed,
    CallbacksLimited,
    InvalidStart,
    LoginProviderUnavailable,
    ProviderUnknown,
    TooManyLogins,
    UnknownLoginLink,
)
from gamed.login.local import SignInForm
from gamed.login.policy import NO_LIMITS
from gamed.login.start import StartedLogin
from gamed.login.transaction import LoginIntent
from gamed.outcomes import LoginFailure
from gamed.providers import base
from gamed.rate_limit import RateLimited
from gamed.sessions.errors import TokenMissing
from tests.login.examples import BROWSER
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import APPROVAL, LoginCase, LoginServer, done
from tests.support.covers import covers

NETWORK = "2001:db8:7"
"""A /48."""


class QuotaCase(LoginCase):
    def limited_server(self, **members: int) -> LoginServer:
        """Return a server of local accounts with only these limits."""
        return self.local_server(limits=replace(NO_LIMITS, **members))

    def everything(self, server: LoginServer) -> list[Any]:
        """Return all rows that a start could write."""
        tables = ("login", "limit_bucket", "authorization_attempt", "login_count")
        return [server.rows(f"SELECT * FROM {table} ORDER BY 1") for table in tables]

    def refused(self, server: LoginServer, retry_after: int, address: str = "203.0.113.7") -> None:
        """Check that a start is refused with a Retry-After and writes nothing."""
        before = self.everything(server)
        with self.assertRaises(RateLimited) as caught:
            server.start(address=address)
        self.assertEqual(caught.exception.retry_after, retry_after)
        self.assertEqual(self.everything(server), before)


@covers("8/9")
class StartsPerMinute(QuotaCase):
    def test_per_address(self) -> None:
        """An address may start thirty logins at once, then one per two seconds; other addresses are unaffected."""
        server = self.limited_server(starts_per_minute=30)
        for _ in range(30):
            server.start()
        self.refused(server, 2)
        server.start(address="203.0.113.8")
        server.clock.advance(2)
        server.start()
        self.refused(server, 2)

    def test_ipv6(self) -> None:
        """A /64 counts as one client; a /48 may start eight times as many in total."""
        server = self.limited_server(starts_per_minute=2)
        for place in ("0::1", "0:5::1", "1::1", "1::2"):
            server.start(address=f"{NETWORK}:{place}")
        self.refused(server, 30, f"{NETWORK}:1:dead:beef::5")
        for number in range(2, 14):
            server.start(address=f"{NETWORK}:{number:x}::1")
        self.refused(server, 4, f"{NETWORK}:99::1")
        server.start(address="2001:db8:8:99::1")

    def test_refused_starts_count(self) -> None:
        """A start with an invalid member counts; over the limit it is 429 instead."""
        server = self.limited_server(starts_per_minute=5)
        refusals = (
            {"name": "x" * 65},
            {"provider": "discord"},
            {"intent": LoginIntent.LINK},
            {"intent": LoginIntent.ADOPT},
        )
        for start in refusals:
            with self.assertRaises((InvalidStart, ProviderUnknown)):
                server.start(**start)
        server.start()
        self.refused(server, 12)
        before = self.everything(server)
        for start in refusals:
            with self.assertRaises(RateLimited):
                server.start(**start)
        self.assertEqual(self.everything(server), before)

    def test_refused_starts_of_providers_count(self) -> None:
        """A start without a session to link, or of a provider that is down, counts."""
        fake = FakeProvider()
        server = self.oauth_server(fake, limits=replace(NO_LIMITS, starts_per_minute=2))
        with self.assertRaises(TokenMissing):
            server.start(intent=LoginIntent.LINK)
        fake.down = base.ProviderUnavailable("down")
        with self.assertRaises(LoginProviderUnavailable):
            server.start()
        fake.down = None
        self.refused(server, 30)

    def test_mapped_addresses(self) -> None:
        """An IPv4 address counts once, in both spellings."""
        server = self.limited_server(starts_per_minute=1)
        server.start(address="203.0.113.7")
        self.refused(server, 60, "::ffff:203.0.113.7")

    def test_off(self) -> None:
        """A limit of 0 writes no bucket."""
        server = self.limited_server()
        for _ in range(100):
            server.start()
            server.open_link(server.start())
        self.assertEqual(server.rows("SELECT 1 FROM limit_bucket"), [])

    @covers("2.2/11")
    def test_no_address_is_kept(self) -> None:
        """Buckets and logins hold indexes that reveal no address."""
        server = self.limited_server(starts_per_minute=30, entries_per_minute=60)
        started = server.start(address=f"{NETWORK}::1")
        server.open_link(started, address="198.51.100.77")
        written = repr(self.everything(server))
        for part in ("2001", "db8", "198.51", "203.0"):
            self.assertNotIn(part, written)


@covers("8/9")
class LivePerAddress(QuotaCase):
    def test_places(self) -> None:
        """Forty logins of an address may wait; the next start is refused for at most a minute."""
        server = self.limited_server(live_logins_per_address=40)
        started = [server.start() for _ in range(40)]
        self.refused(server, 60)
        server.start(address="203.0.113.8")
        server.cancel(started[7])
        server.start()
        self.refused(server, 60)

    def test_clocks_that_differ(self) -> None:
        """Logins of another process count, although its clock, or its request, was up to a minute later."""
        for shift_ms in (1, 5_000, 60_000):
            with self.subTest(shift_ms=shift_ms):
                server = self.limited_server(live_logins_per_address=10)
                for number in range(10):
                    server.shift_ms = shift_ms if number % 2 else 0
                    server.start()
                server.shift_ms = 0
                self.refused(server, 60)

    def test_ended_logins_do_not_count(self) -> None:
        """Declined, expired, collected and delivered logins do not count as waiting."""
        server = self.limited_server(live_logins_per_address=1)
        server.decline(server.start())
        started = server.start()
        self.refused(server, 60)
        server.sign_in(started)
        self.refused(server, 60)
        server.collect(started, code=server.code(started))
        server.start()
        server.clock.advance(570)
        self.refused(server, 30)
        server.clock.advance(30)
        server.start()

    def test_ipv6(self) -> None:
        """A /48 may have eight times as many waiting logins."""
        server = self.limited_server(live_logins_per_address=1)
        for number in range(8):
            server.start(address=f"{NETWORK}:{number}::1")
            self.refused(server, 60, f"{NETWORK}:{number}::2")
        self.refused(server, 60, f"{NETWORK}:8::1")
        server.start(address="2001:db8:8::1")


@covers("8/9")
class LiveInAll(QuotaCase):
    def test_the_oldest_pending_is_evicted(self) -> None:
        """The oldest pending login is evicted as expired and its game wakes at once; opened logins stay."""
        server = self.limited_server(live_logins=3)
        attended, first, second = (server.start(address=f"198.51.100.{number}") for number in range(3))
        server.sign_in(attended, password="wrong horse")
        waiting = server.begin_collect(first, wait_seconds=25)
        self.assertNoResult(waiting)
        newest = server.start()
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.LOGIN_EXPIRED))
        self.assertEqual(server.collect(attended).stage, "at_provider")
        for started in (second, newest):
            self.assertEqual(server.collect(started).stage, "waiting_for_browser")

    def test_clocks_that_differ(self) -> None:
        """The oldest is evicted, although the clock of the process that started the newest was a little ahead."""
        server = self.limited_server(live_logins=2)
        oldest = server.start()
        server.shift_ms = 5_000
        newest = server.start()
        server.shift_ms = 0
        server.start()
        self.assertEqual(server.collect(oldest), Failed(LoginFailure.LOGIN_EXPIRED))
        self.assertEqual(server.collect(newest).stage, "waiting_for_browser")

    def test_opened_logins_are_not_evicted(self) -> None:
        """If every login was opened, a start is refused and writes nothing."""
        server = self.limited_server(live_logins=2, starts_per_minute=30)
        started = [server.start(), server.start()]
        for each in started:
            server.sign_in(each, password="wrong horse")
        before = self.everything(server)
        with self.assertRaises(TooManyLogins):
            server.start()
        self.assertEqual(self.everything(server), before)
        server.decline(started[0])
        server.start()

    def test_expired_logins_do_not_count(self) -> None:
        """Expired logins do not count, before the cleanup too, and no other login is evicted."""
        server = self.limited_server(live_logins=2)
        first = server.start()
        server.sign_in(first, password="wrong horse")
        server.clock.advance(300)
        second = server.start()
        server.clock.advance(300)
        server.start()
        self.assertEqual(server.collect(first), Failed(LoginFailure.LOGIN_EXPIRED))
        self.assertEqual(server.collect(second).stage, "waiting_for_browser")

    def test_a_lowered_limit(self) -> None:
        """After the limit is lowered, new starts evict the surplus."""
        server = self.limited_server()
        for _ in range(20):
            server.start()
        lower = replace(server.terms, limits=replace(NO_LIMITS, live_logins=5))
        server.starts = replace(server.starts, context=replace(server.context, policy=lower))
        server.start()
        self.assertEqual(
            server.rows("SELECT stage, count(*) FROM login GROUP BY 1 ORDER BY 1"), [("expired", 16), ("pending", 5)]
        )

    def test_outcomes_are_bounded(self) -> None:
        """The number of ended logins is limited; the oldest is deleted first."""
        self.patch(login_store, "MAX_ENDED_LOGINS", 3)
        server = self.limited_server()
        started = [server.start() for _ in range(5)]
        for each in started:
            server.clock.advance(1)
            server.cancel(each)
        server.start()
        left = server.rows("SELECT login_id FROM login WHERE stage = 'cancelled' ORDER BY stage_ms")
        self.assertEqual(left, [(each.login.login_id,) for each in started[2:]])

    def test_the_count_is_true(self) -> None:
        """The table of counts equals the counted rows after a day of all events."""
        server = self.limited_server(live_logins=6)
        for number in range(12):
            started = server.start()
            if number % 3 == 0:
                server.sign_in(started)
            if number % 4 == 0:
                server.cancel(started)
        server.clock.advance(700)
        done(server.lifecycle.expire())
        self.assert_counted(server)
        server.clock.advance(4000)
        done(server.lifecycle.expire())
        self.assertEqual(server.rows("SELECT 1 FROM login"), [])
        self.assert_counted(server)

    def assert_counted(self, server: LoginServer) -> None:
        counted = server.rows("SELECT stage, count(*) FROM login GROUP BY stage ORDER BY stage")
        self.assertEqual(server.rows("SELECT * FROM login_count WHERE logins > 0 ORDER BY stage"), counted)


@covers("8/9")
class Entries(QuotaCase):
    def test_visits(self) -> None:
        """An address may open sixty links a minute, its own, other people's and unknown ones."""
        server = self.limited_server(entries_per_minute=60)
        started = server.start()
        for _ in range(30):
            self.assertIsInstance(server.open_link(started), SignInPrompt)
            with self.assertRaises(UnknownLoginLink):
                done(server.authorize.open_link(SignInForm("x" * 22, BROWSER, "203.0.113.7"), None))
        before = self.everything(server)
        with self.assertRaises(RateLimited) as caught:
            server.open_link(started)
        self.assertEqual((caught.exception.retry_after, self.everything(server)), (1, before))
        self.assertIsInstance(server.open_link(started, address="203.0.113.8"), SignInPrompt)
        server.clock.advance(1)
        self.assertIsInstance(server.open_link(started), SignInPrompt)

    def test_redirects(self) -> None:
        """Redirects to a provider have a limit of their own; a refused one writes no attempt."""
        server = self.oauth_server(FakeProvider(), limits=replace(NO_LIMITS, entries_per_minute=2))
        started = server.start()
        for _ in range(2):
            server.open_link(started)
            self.assertIsInstance(server.press_continue(started), RedirectToProvider)
        before = self.everything(server)
        for refused in (server.press_continue, server.open_link):
            with self.assertRaises(RateLimited):
                refused(started)
        self.assertEqual(self.everything(server), before)


@covers("8/9")
class Newcomers(QuotaCase):
    def newcomers(self, per_day: int) -> AuthLimits:
        return replace(NO_LIMITS, newcomers_per_day=per_day)

    def test_waiting(self) -> None:
        """An address may add 240 players who wait for approval, then one in six minutes; others may go on."""
        server = self.local_server(registration=APPROVAL, limits=self.newcomers(AuthLimits().newcomers_per_day))

        def ask(number: int, address: str = "203.0.113.7") -> tuple[StartedLogin, str]:
            started = server.start(address=address)
            server.create(started, f"p{number}")
            return started, server.code(started)

        for number in range(240):
            started, code = ask(number)
            self.assertIs(server.collect(started, code).outcome, LoginFailure.PLAYER_PENDING)
        refused, code = ask(240)
        for _ in range(20):
            before = self.everything(server), server.databases.auth.transactions
            with self.assertRaises(RateLimited) as caught:
                server.collect(refused, code)
            self.assertEqual((caught.exception.retry_after, self.everything(server)), (360, before[0]))
        self.assertEqual(server.databases.auth.transactions, before[1])  # another try reads alone
        self.assertEqual(len(server.rows("SELECT 1 FROM player WHERE state = 'pending'")), 240)
        other, its_code = ask(241, "203.0.113.8")
        self.assertIs(server.collect(other, its_code).outcome, LoginFailure.PLAYER_PENDING)
        server.clock.advance(360)
        self.assertIs(server.collect(refused, code).outcome, LoginFailure.PLAYER_PENDING)

    def test_wide(self) -> None:
        """A /48 of IPv6 may add eight times as many, whatever its addresses."""
        server = self.local_server(registration=APPROVAL, limits=self.newcomers(10))
        for number in range(81):
            started = server.start(address=f"2001:db8:1:{number}::1")
            server.create(started, f"p{number}")
            if number < 80:
                self.assertIs(server.collect(started, server.code(started)).outcome, LoginFailure.PLAYER_PENDING)
        with self.assertRaises(RateLimited):
            server.collect(started, server.code(started))

    def test_known(self) -> None:
        """A player who waits may sign in as often as before; an open server has no such limit, and 0 is none."""
        server = self.oauth_server(FakeProvider(), registration=APPROVAL, limits=self.newcomers(10))
        for _ in range(12):
            started = server.signed_in()
            self.assertIs(server.collect(started, server.code(started)).outcome, LoginFailure.PLAYER_PENDING)
        server = self.oauth_server(FakeProvider(), limits=self.newcomers(10))
        for number in range(12):
            started = server.signed_in(f"p{number}")
            self.assertIsInstance(server.collect(started, server.code(started)), Complete)
        server = self.oauth_server(FakeProvider(), registration=APPROVAL, limits=self.newcomers(0))
        for number in range(12):
            started = server.signed_in(f"p{number}")
            self.assertIs(server.collect(started, server.code(started)).outcome, LoginFailure.PLAYER_PENDING)
        self.assertEqual(server.rows("SELECT 1 FROM limit_bucket"), [])


@covers("threats/22")
class Callbacks(QuotaCase):
    def setUp(self) -> None:
        self.fake = FakeProvider()

    def server_of(self, callbacks_per_minute: int) -> LoginServer:
        return self.oauth_server(self.fake, limits=replace(NO_LIMITS, callbacks_per_minute=callbacks_per_minute))

    def test_per_address(self) -> None:
        """An address may send sixty callbacks a minute, then one a second; other addresses are unaffected."""
        server = self.server_of(60)
        state = server.redirect_state(started := server.start())
        for _ in range(60):
            with self.assertRaises(CallbackRejected):
                server.finish_callback("A" * 43)
        with self.assertRaises(CallbacksLimited) as caught:
            server.finish_callback(state)
        self.assertEqual(caught.exception.retry_after, 1)
        with self.assertRaises(CallbackRejected):
            server.finish_callback("A" * 43, address="203.0.113.8")
        server.clock.advance(1)
        self.assertEqual(server.finish_callback(state), RedirectToResult(started.login.login_id))

    def test_malformed_ones_count(self) -> None:
        """A callback counts before it is parsed."""
        server = self.server_of(2)
        for _ in range(2):
            with self.assertRaises(CallbackMalformed):
                server.finish_callback("s", code="")
        with self.assertRaises(CallbacksLimited):
            server.finish_callback("s", code="")

    def test_refused_without_effect(self) -> None:
        """A refused callback writes nothing and invalidates nothing: reloading it later finishes the sign-in."""
        server = self.server_of(1)
        state = server.redirect_state(started := server.start())
        with self.assertRaises(CallbackRejected):
            server.finish_callback("A" * 43)
        before = self.everything(server)
        for other in ({}, {"code": "c", "iss": "https://evil.example"}, {"provider": "google"}, {"error": "e"}):
            with self.assertRaises(CallbacksLimited) as caught:
                server.finish_callback(state, **other)
            self.assertEqual(caught.exception.retry_after, 60)
        self.assertEqual((self.everything(server), self.fake.calls, server.log.lines), (before, [], []))
        server.clock.advance(60)
        self.assertEqual(server.finish_callback(state), RedirectToResult(started.login.login_id))

    def test_ipv6(self) -> None:
        """A /64 counts as one client, and a /48 may send eight times as many callbacks."""
        server = self.server_of(2)
        for place in ("0::1", "0::2"):
            with self.assertRaises(CallbackRejected):
                server.finish_callback("A" * 43, address=f"{NETWORK}:{place}")
        with self.assertRaises(CallbacksLimited):
            server.finish_callback("A" * 43, address=f"{NETWORK}:0:5::3")
        for number in range(14):
            with self.assertRaises(CallbackRejected):
                server.finish_callback("A" * 43, address=f"{NETWORK}:{1 + number // 2}::{number}")
        with self.assertRaises(CallbacksLimited):
            server.finish_callback("A" * 43, address=f"{NETWORK}:ff::1")

    def test_apart_from_visits(self) -> None:
        """Callbacks use up neither opened links nor redirects."""
        server = self.oauth_server(self.fake, limits=replace(NO_LIMITS, callbacks_per_minute=1, entries_per_minute=1))
        started = server.start()
        server.open_link(started)
        self.assertEqual(
            server.finish_callback(server.redirect_state(started)), RedirectToResult(started.login.login_id)
        )

    def test_off(self) -> None:
        """With 0 there is no limit, and no row is written for it."""
        server = self.server_of(0)
        for _ in range(200):
            with self.assertRaises(CallbackRejected):
                server.finish_callback("A" * 43)
        self.assertEqual(server.rows("SELECT * FROM limit_bucket"), [])

    def test_default(self) -> None:
        """The default is sixty callbacks a minute."""
        self.assertEqual(AuthLimits().callbacks_per_minute, 60)


class CleaningUp(QuotaCase):
    def test_in_passing(self) -> None:
        """Idle buckets do not accumulate between two cleanups, however many addresses there are."""
        server = self.limited_server(starts_per_minute=30, live_logins=5)
        for number in range(300):
            server.clock.advance(1)
            server.start(address=f"10.0.{number >> 8}.{number & 255}")
        kept_seconds = server.write(lambda connection: connection.clocks_ms) // 1000
        self.assertLess(len(server.rows("SELECT 1 FROM limit_bucket")), 8 + kept_seconds)

    def test_in_steps(self) -> None:
        """A large cleanup runs in many short transactions; it ends, and deletes the buckets of another clock."""
        server = self.limited_server()
        count = 2 * rate_limits.CLEANUP_ROWS + 500
        arrivals = [server.now_ms() + offset for offset in (-61_000, 86_400_001)]
        rows = [{"i": Index(n.to_bytes(32, "big")), "at": arrivals[n % 2]} for n in range(count)]
        server.write(lambda c: [c.execute("INSERT INTO limit_bucket VALUES (:i, :at)", row).rowcount for row in rows])
        removed = server.write(lambda c: rate_limits.delete_idle(c, server.now_ms()))
        self.assertEqual(removed, 2 * rate_limits.CLEANUP_ROWS)
        done(server.store.delete_idle_buckets(server.now_ms()))
        self.assertEqual(server.rows("SELECT 1 FROM limit_bucket"), [])


class ClientDescriptions(QuotaCase):
    def test_long_descriptions_are_dropped(self) -> None:
        """Above an eighth of the limit, long client descriptions are dropped; short ones are always stored."""
        server = self.limited_server(live_logins=16)
        kept = [
            server.login(server.start(name="n" * 64, device_name="d" * 64, platform="p" * 64)).client for _ in range(4)
        ]
        self.assertEqual([each.name is not None for each in kept], [True, True, False, False])
        self.assertEqual(server.login(server.start(name="MyGame", device_name="ANNA-PC")).client.device_name, "ANNA-PC")
