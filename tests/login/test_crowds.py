"""How many logins begin, wait and are visited: per address, and in all (PROTOCOL 3.9)."""

from typing import Any

from msgspec.structs import replace

from gamed.config.model import AuthLimits
from gamed.crypto import Index
from gamed.database import rate_limits
from gamed.login import store as login_store
from gamed.login.authorize import RedirectToProvider
from gamed.login.browser import RedirectToResult, SignInPrompt
from gamed.login.callback_rules import CallbackRejected
from gamed.login.collect import Failed
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
from gamed.login.transaction import LoginIntent
from gamed.outcomes import LoginFailure
from gamed.providers import base
from gamed.rate_limit import RateLimited
from gamed.sessions.errors import TokenMissing
from tests.login.examples import BROWSER
from tests.login.fake_provider import FarProvider
from tests.login.fixtures import Desk, HandoffCase, done
from tests.support.covers import covers

NETWORK = "2001:db8:7"
"""A /48."""


class CrowdCase(HandoffCase):
    def crowd(self, **members: int) -> Desk:
        """A server of local accounts with these limits and no others."""
        return self.desk(limits=replace(NO_LIMITS, **members))

    def everything(self, desk: Desk) -> list[Any]:
        """All that a start could leave behind."""
        tables = ("login", "limit_bucket", "authorization_attempt", "login_count")
        return [desk.rows(f"SELECT * FROM {table} ORDER BY 1") for table in tables]

    def refused(self, desk: Desk, retry_after: int, address: str = "203.0.113.7") -> None:
        """A start that is told when to come back, and leaves nothing."""
        before = self.everything(desk)
        with self.assertRaises(RateLimited) as caught:
            desk.start(address=address)
        self.assertEqual(caught.exception.retry_after, retry_after)
        self.assertEqual(self.everything(desk), before)


@covers("8/9")
class StartsPerMinute(CrowdCase):
    def test_per_address(self) -> None:
        """Thirty at once, then one every two seconds; the neighbour is not held up."""
        desk = self.crowd(starts_per_minute=30)
        for _ in range(30):
            desk.start()
        self.refused(desk, 2)
        desk.start(address="203.0.113.8")
        desk.clock.advance(2)
        desk.start()
        self.refused(desk, 2)

    def test_ipv6(self) -> None:
        """One /64 is one client; a /48 may do eight times as much, and no more however it is spread."""
        desk = self.crowd(starts_per_minute=2)
        for place in ("0::1", "0:5::1", "1::1", "1::2"):
            desk.start(address=f"{NETWORK}:{place}")
        self.refused(desk, 30, f"{NETWORK}:1:dead:beef::5")
        for number in range(2, 14):
            desk.start(address=f"{NETWORK}:{number:x}::1")
        self.refused(desk, 4, f"{NETWORK}:99::1")
        desk.start(address="2001:db8:8:99::1")

    def test_refused_starts_count(self) -> None:
        """Count a start that is refused for what it asks, as it is work too; over the limit say so instead."""
        desk = self.crowd(starts_per_minute=5)
        refusals = (
            {"name": "x" * 65},
            {"provider": "discord"},
            {"intent": LoginIntent.LINK},
            {"intent": LoginIntent.ADOPT},
        )
        for start in refusals:
            with self.assertRaises((InvalidStart, ProviderUnknown)):
                desk.start(**start)
        desk.start()
        self.refused(desk, 12)
        before = self.everything(desk)
        for start in refusals:
            with self.assertRaises(RateLimited):
                desk.start(**start)
        self.assertEqual(self.everything(desk), before)

    def test_refused_starts_of_providers_count(self) -> None:
        """Count a start without a session to link, and one whose provider is down."""
        far = FarProvider()
        desk = self.oauth(far, limits=replace(NO_LIMITS, starts_per_minute=2))
        with self.assertRaises(TokenMissing):
            desk.start(intent=LoginIntent.LINK)
        far.down = base.ProviderUnavailable("down")
        with self.assertRaises(LoginProviderUnavailable):
            desk.start()
        far.down = None
        self.refused(desk, 30)

    def test_mapped_addresses(self) -> None:
        """An IPv4 address counts once, however it is written."""
        desk = self.crowd(starts_per_minute=1)
        desk.start(address="203.0.113.7")
        self.refused(desk, 60, "::ffff:203.0.113.7")

    def test_off(self) -> None:
        """0 counts nothing and writes no bucket."""
        desk = self.crowd()
        for _ in range(100):
            desk.start()
            desk.enter(desk.start())
        self.assertEqual(desk.rows("SELECT 1 FROM limit_bucket"), [])

    @covers("2.2/11")
    def test_no_address_is_kept(self) -> None:
        """Buckets and logins hold indexes that tell no address."""
        desk = self.crowd(starts_per_minute=30, entries_per_minute=60)
        started = desk.start(address=f"{NETWORK}::1")
        desk.enter(started, address="198.51.100.77")
        written = repr(self.everything(desk))
        for part in ("2001", "db8", "198.51", "203.0"):
            self.assertNotIn(part, written)


@covers("8/9")
class LivePerAddress(CrowdCase):
    def test_places(self) -> None:
        """Forty wait at once; the next is told to come again, within the minute at the latest."""
        desk = self.crowd(live_logins_per_address=40)
        started = [desk.start() for _ in range(40)]
        self.refused(desk, 60)
        desk.start(address="203.0.113.8")
        desk.cancel(started[7])
        desk.start()
        self.refused(desk, 60)

    def test_all_ends_make_room(self) -> None:
        """Declined, expired, collected or delivered: none of them waits any more."""
        desk = self.crowd(live_logins_per_address=1)
        desk.decline(desk.start())
        started = desk.start()
        self.refused(desk, 60)
        desk.sign_in(started)
        self.refused(desk, 60)
        desk.collect(started, code=desk.code(started))
        desk.start()
        desk.clock.advance(570)
        self.refused(desk, 30)
        desk.clock.advance(30)
        desk.start()

    def test_ipv6(self) -> None:
        """Eight times as many in a /48."""
        desk = self.crowd(live_logins_per_address=1)
        for number in range(8):
            desk.start(address=f"{NETWORK}:{number}::1")
            self.refused(desk, 60, f"{NETWORK}:{number}::2")
        self.refused(desk, 60, f"{NETWORK}:8::1")
        desk.start(address="2001:db8:8::1")


@covers("8/9")
class LiveInAll(CrowdCase):
    def test_the_oldest_unattended_makes_room(self) -> None:
        """It ends as expired, and its waiting game hears of it at once; those whose browser came stay."""
        desk = self.crowd(live_logins=3)
        attended, first, second = (desk.start(address=f"198.51.100.{number}") for number in range(3))
        desk.sign_in(attended, password="wrong horse")
        waiting = desk.asked(first, wait_seconds=25)
        self.assertNoResult(waiting)
        newcomer = desk.start()
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.LOGIN_EXPIRED))
        self.assertEqual(desk.collect(attended).stage, "at_provider")
        for started in (second, newcomer):
            self.assertEqual(desk.collect(started).stage, "waiting_for_browser")

    def test_nobody_makes_room(self) -> None:
        """Where every browser has come, the newcomer is asked to wait, and nothing is written."""
        desk = self.crowd(live_logins=2, starts_per_minute=30)
        started = [desk.start(), desk.start()]
        for each in started:
            desk.sign_in(each, password="wrong horse")
        before = self.everything(desk)
        with self.assertRaises(TooManyLogins):
            desk.start()
        self.assertEqual(self.everything(desk), before)
        desk.decline(started[0])
        desk.start()

    def test_the_clock_makes_room_first(self) -> None:
        """Logins whose time is over count no more, swept or not; nobody else has to go."""
        desk = self.crowd(live_logins=2)
        first = desk.start()
        desk.sign_in(first, password="wrong horse")
        desk.clock.advance(300)
        second = desk.start()
        desk.clock.advance(300)
        desk.start()
        self.assertEqual(desk.collect(first), Failed(LoginFailure.LOGIN_EXPIRED))
        self.assertEqual(desk.collect(second).stage, "waiting_for_browser")

    def test_a_lowered_limit(self) -> None:
        """What is too much goes as others come."""
        desk = self.crowd()
        for _ in range(20):
            desk.start()
        lower = replace(desk.terms, limits=replace(NO_LIMITS, live_logins=5))
        desk.starts = replace(desk.starts, _context=replace(desk.context, policy=lower))
        desk.start()
        self.assertEqual(
            desk.rows("SELECT stage, count(*) FROM login GROUP BY 1 ORDER BY 1"), [("expired", 16), ("pending", 5)]
        )

    def test_outcomes_are_bounded(self) -> None:
        """Ended logins are remembered up to a number; the oldest is forgotten first."""
        self.patch(login_store, "MAX_ENDED_LOGINS", 3)
        desk = self.crowd()
        started = [desk.start() for _ in range(5)]
        for each in started:
            desk.clock.advance(1)
            desk.cancel(each)
        desk.start()
        left = desk.rows("SELECT login_id FROM login WHERE stage = 'cancelled' ORDER BY stage_ms")
        self.assertEqual(left, [(each.login.login_id,) for each in started[2:]])

    def test_the_count_is_true(self) -> None:
        """The table of counts says what counting says, after a day of everything."""
        desk = self.crowd(live_logins=6)
        for number in range(12):
            started = desk.start()
            if number % 3 == 0:
                desk.sign_in(started)
            if number % 4 == 0:
                desk.cancel(started)
        desk.clock.advance(700)
        done(desk.lifecycle.expire())
        self.assert_counted(desk)
        desk.clock.advance(4000)
        done(desk.lifecycle.expire())
        self.assertEqual(desk.rows("SELECT 1 FROM login"), [])
        self.assert_counted(desk)

    def assert_counted(self, desk: Desk) -> None:
        counted = desk.rows("SELECT stage, count(*) FROM login GROUP BY stage ORDER BY stage")
        self.assertEqual(desk.rows("SELECT * FROM login_count WHERE logins > 0 ORDER BY stage"), counted)


@covers("8/9")
class Entries(CrowdCase):
    def test_visits(self) -> None:
        """Sixty links a minute are opened from one address, whoever's they are and whether or not they exist."""
        desk = self.crowd(entries_per_minute=60)
        started = desk.start()
        for _ in range(30):
            self.assertIsInstance(desk.enter(started), SignInPrompt)
            with self.assertRaises(UnknownLoginLink):
                done(desk.authorize.open_link(SignInForm("x" * 22, BROWSER, "203.0.113.7"), None))
        before = self.everything(desk)
        with self.assertRaises(RateLimited) as caught:
            desk.enter(started)
        self.assertEqual((caught.exception.retry_after, self.everything(desk)), (1, before))
        self.assertIsInstance(desk.enter(started, address="203.0.113.8"), SignInPrompt)
        desk.clock.advance(1)
        self.assertIsInstance(desk.enter(started), SignInPrompt)

    def test_departures(self) -> None:
        """Leaving for a provider counts as often again, apart from visits; a refused one makes no attempt."""
        desk = self.oauth(FarProvider(), limits=replace(NO_LIMITS, entries_per_minute=2))
        started = desk.start()
        for _ in range(2):
            desk.enter(started)
            self.assertIsInstance(desk.go(started), RedirectToProvider)
        before = self.everything(desk)
        for refused in (desk.go, desk.enter):
            with self.assertRaises(RateLimited):
                refused(started)
        self.assertEqual(self.everything(desk), before)


@covers("threats/22")
class Callbacks(CrowdCase):
    def setUp(self) -> None:
        self.far = FarProvider()

    def desk_of(self, callbacks_per_minute: int) -> Desk:
        return self.oauth(self.far, limits=replace(NO_LIMITS, callbacks_per_minute=callbacks_per_minute))

    def test_per_address(self) -> None:
        """Take sixty callbacks a minute from one address, known or not, then one a second; not the neighbour's."""
        desk = self.desk_of(60)
        state = desk.depart(started := desk.start())
        for _ in range(60):
            with self.assertRaises(CallbackRejected):
                desk.returned("A" * 43)
        with self.assertRaises(CallbacksLimited) as caught:
            desk.returned(state)
        self.assertEqual(caught.exception.retry_after, 1)
        with self.assertRaises(CallbackRejected):
            desk.returned("A" * 43, address="203.0.113.8")
        desk.clock.advance(1)
        self.assertEqual(desk.returned(state), RedirectToResult(started.login.login_id))

    def test_malformed_ones_count(self) -> None:
        """Count a callback before it is parsed."""
        desk = self.desk_of(2)
        for _ in range(2):
            with self.assertRaises(CallbackMalformed):
                desk.returned("s", code="")
        with self.assertRaises(CallbacksLimited):
            desk.returned("s", code="")

    def test_refused_without_effect(self) -> None:
        """A refused callback writes nothing and burns nothing: reloading it later finishes the sign-in."""
        desk = self.desk_of(1)
        state = desk.depart(started := desk.start())
        with self.assertRaises(CallbackRejected):
            desk.returned("A" * 43)
        before = self.everything(desk)
        for other in ({}, {"code": "c", "iss": "https://evil.example"}, {"provider": "google"}, {"error": "e"}):
            with self.assertRaises(CallbacksLimited) as caught:
                desk.returned(state, **other)
            self.assertEqual(caught.exception.retry_after, 60)
        self.assertEqual((self.everything(desk), self.far.calls, desk.log.lines), (before, [], []))
        desk.clock.advance(60)
        self.assertEqual(desk.returned(state), RedirectToResult(started.login.login_id))

    def test_ipv6(self) -> None:
        """Count a /64 as one client, and let a /48 have eight times as many."""
        desk = self.desk_of(2)
        for place in ("0::1", "0::2"):
            with self.assertRaises(CallbackRejected):
                desk.returned("A" * 43, address=f"{NETWORK}:{place}")
        with self.assertRaises(CallbacksLimited):
            desk.returned("A" * 43, address=f"{NETWORK}:0:5::3")
        for number in range(14):
            with self.assertRaises(CallbackRejected):
                desk.returned("A" * 43, address=f"{NETWORK}:{1 + number // 2}::{number}")
        with self.assertRaises(CallbacksLimited):
            desk.returned("A" * 43, address=f"{NETWORK}:ff::1")

    def test_apart_from_visits(self) -> None:
        """Callbacks use up neither visits nor departures."""
        desk = self.oauth(self.far, limits=replace(NO_LIMITS, callbacks_per_minute=1, entries_per_minute=1))
        started = desk.start()
        desk.enter(started)
        self.assertEqual(desk.returned(desk.depart(started)), RedirectToResult(started.login.login_id))

    def test_off(self) -> None:
        """With 0 there is no limit, and nothing is written for it."""
        desk = self.desk_of(0)
        for _ in range(200):
            with self.assertRaises(CallbackRejected):
                desk.returned("A" * 43)
        self.assertEqual(desk.rows("SELECT * FROM limit_bucket"), [])

    def test_default(self) -> None:
        """Sixty."""
        self.assertEqual(AuthLimits().callbacks_per_minute, 60)


class Sweeping(CrowdCase):
    def test_in_passing(self) -> None:
        """Buckets that limit nobody do not pile up between two sweeps, however many addresses there are."""
        desk = self.crowd(starts_per_minute=30, live_logins=5)
        for number in range(300):
            desk.clock.advance(1)
            desk.start(address=f"10.0.{number >> 8}.{number & 255}")
        self.assertLess(len(desk.rows("SELECT 1 FROM limit_bucket")), 8)

    def test_in_steps(self) -> None:
        """A sweep of very many is many units, none of them long; it ends, and takes those of another clock along."""
        desk = self.crowd()
        count = 2 * rate_limits.CLEANUP_ROWS + 500
        arrivals = [desk.now_ms() + offset for offset in (-1000, 86_400_000)]
        rows = [{"i": Index(n.to_bytes(32, "big")), "at": arrivals[n % 2]} for n in range(count)]
        desk.write(lambda c: c.executemany("INSERT INTO limit_bucket VALUES (:i, :at)", rows).rowcount)
        removed = desk.write(lambda c: rate_limits.delete_idle(c, desk.now_ms()))
        self.assertEqual(removed, 2 * rate_limits.CLEANUP_ROWS)
        done(desk.store.delete_idle_buckets(desk.now_ms()))
        self.assertEqual(desk.rows("SELECT 1 FROM limit_bucket"), [])


class Words(CrowdCase):
    def test_long_words_are_left_out_in_a_crowd(self) -> None:
        """An eighth of the places may be taken by devices that say very much; short words are always kept."""
        desk = self.crowd(live_logins=16)
        kept = [desk.login(desk.start(name="n" * 64, device_name="d" * 64, platform="p" * 64)).client for _ in range(4)]
        self.assertEqual([each.name is not None for each in kept], [True, True, False, False])
        self.assertEqual(desk.login(desk.start(name="MyGame", device_name="ANNA-PC")).client.device_name, "ANNA-PC")
