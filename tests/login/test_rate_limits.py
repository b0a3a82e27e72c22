"""These tests check GCRA as a rule, in the database, and for the password form.

See docs/owners/configuration.md: Limits.
"""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Index
from gamed.login.browser import RedirectToResult
from gamed.login.local import FormError
from gamed.rate_limit import RateLimit, RateLimited, client_network, client_networks
from tests.login.fixtures import LoginCase, done
from tests.support.covers import covers

NOW_MS = 1_800_000_000_000
FIVE = RateLimit.per_minute(5)


class Rule(SynchronousTestCase):
    def test_burst_then_interval(self) -> None:
        """Five requests pass at once, then one every twelve seconds; a refusal says when and changes nothing."""
        arrival = None
        for _ in range(5):
            arrival = FIVE.acquire(arrival, NOW_MS)
        for _ in range(3):
            with self.assertRaises(RateLimited) as caught:
                FIVE.acquire(arrival, NOW_MS)
            self.assertEqual((caught.exception.retry_after, str(caught.exception)), (12, "Try again in 12 seconds."))
        with self.assertRaises(RateLimited):
            FIVE.acquire(arrival, NOW_MS + 11_999)
        FIVE.acquire(arrival, NOW_MS + 12_000)

    def test_zero_is_off(self) -> None:
        """A rate of zero refuses nothing."""
        arrival = None
        for _ in range(1000):
            arrival = RateLimit.per_minute(0).acquire(arrival, NOW_MS)
        self.assertEqual(arrival, NOW_MS)

    def test_a_clock_set_back_locks_nobody_out(self) -> None:
        """A full bucket from tomorrow counts as empty; one from half a minute ahead limits for that much longer."""
        full = NOW_MS + FIVE.full_ms
        for ahead_ms in (86_400_000, 3_600_000, FIVE.full_ms + 1):
            self.assertEqual(FIVE.acquire(full + ahead_ms, NOW_MS), NOW_MS + 12_000)
        with self.assertRaises(RateLimited) as caught:
            FIVE.acquire(full + 30_000, NOW_MS)
        self.assertEqual(caught.exception.retry_after, 42)
        FIVE.acquire(full + 30_000, NOW_MS + 42_000)

    @given(st.lists(st.integers(0, 20_000), max_size=60), st.integers(1, 30))
    def test_never_more_than_the_rate(self, gaps: list[int], count: int) -> None:
        """In any minute at most the burst and the minute's own requests pass."""
        rate, arrival, now_ms, passed = RateLimit.per_minute(count), None, NOW_MS, []
        for gap in gaps:
            now_ms += gap
            try:
                arrival = rate.acquire(arrival, now_ms)
            except RateLimited as e:
                self.assertGreater(e.retry_after, 0)
            else:
                passed.append(now_ms)
        for start in passed:
            self.assertLessEqual(sum(start <= at < start + 60_000 for at in passed), 2 * count)

    def test_prefixes(self) -> None:
        """IPv4 counts whole, IPv6 by its /64 and eightfold by its /48, mapped IPv4 as IPv4, a socket as itself."""
        self.assertEqual(client_networks("203.0.113.7"), (("203.0.113.7/32", 1),))
        self.assertEqual(client_networks("2001:db8:1:2::7%eth0"), (("2001:db8:1:2::/64", 1), ("2001:db8:1::/48", 8)))
        self.assertEqual(client_network("::ffff:203.0.113.7"), client_network("203.0.113.7"))
        self.assertEqual(client_networks("unix"), (("unix", 1),))


class Buckets(LoginCase):
    def test_all_or_none(self) -> None:
        """A request that one bucket refuses counts against no other bucket, and nothing is written."""
        server = self.local_server()
        tight, wide = Index(b"t" * 32), Index(b"w" * 32)
        done(server.store.acquire({wide: FIVE, tight: RateLimit(60_000, 1)}, NOW_MS))
        before = server.rows("SELECT * FROM limit_bucket")
        with self.assertRaises(RateLimited):
            done(server.store.acquire({wide: FIVE, tight: RateLimit(60_000, 1)}, NOW_MS))
        self.assertEqual(server.rows("SELECT * FROM limit_bucket"), before)

    def test_sweep(self) -> None:
        """An idle bucket is deleted, one that still limits stays."""
        server = self.local_server()
        one, two = Index(b"1" * 32), Index(b"2" * 32)
        done(server.store.acquire({one: FIVE, two: RateLimit(60_000, 1)}, NOW_MS))
        clocks_ms = server.write(lambda connection: connection.clocks_ms)
        done(server.store.delete_idle_buckets(NOW_MS + clocks_ms + 11_999))
        self.assertEqual(len(server.rows("SELECT 1 FROM limit_bucket")), 2)
        done(server.store.delete_idle_buckets(NOW_MS + clocks_ms + 12_000))
        self.assertEqual(server.rows("SELECT bucket_index FROM limit_bucket"), [(two,)])


@covers("8/9", "threats/10")
class Passwords(LoginCase):
    def test_per_account_and_address(self) -> None:
        """One name may be tried five times a minute; other names and other addresses are unaffected."""
        server = self.local_server(passwords_per_minute=5)
        started = server.start()
        for spelling in ("Anna", "ANNA", "anna", "\uff21nna", " Anna "):
            self.assertIs(server.sign_in(started, name=spelling, password="wrong horse").error, FormError.WRONG)
        refused = server.sign_in(started)
        self.assertEqual((refused.error, refused.retry_after), (FormError.LIMIT, 12))
        self.assertIs(server.sign_in(started, name="Bert").error, FormError.WRONG)
        elsewhere = replace(server.form(started), address="203.0.113.8")
        self.assertIsInstance(done(server.local.sign_in(elsewhere)), RedirectToResult)

    def test_per_address(self) -> None:
        """An address may try twenty passwords a minute in total; a refused try checks no password."""
        server = self.local_server(passwords_per_minute=5)
        started = server.start()
        for number in range(20):
            act = server.create if number < 5 else server.sign_in
            refused = act(started, name="Anna" if number < 5 else f"name{number}")
            self.assertIn(refused.error, (FormError.NAME_TAKEN, FormError.WRONG))
        self.assertIs(server.sign_in(started, name="somebody").error, FormError.LIMIT)

    @covers("threats/39")
    def test_a_refused_try_leaves_nothing(self) -> None:
        """A refused try does not change the stage of the login."""
        server = self.local_server(passwords_per_minute=1)
        started, other = server.start(), server.start()
        server.sign_in(started, name="nobody")
        before = server.rows("SELECT * FROM limit_bucket ORDER BY 1")
        self.assertIs(server.sign_in(other, name="nobody").error, FormError.LIMIT)
        self.assertEqual(server.rows("SELECT * FROM limit_bucket ORDER BY 1"), before)
        self.assertEqual(server.collect(other).stage, "waiting_for_browser")

    @covers("threats/47")
    def test_no_address_is_kept(self) -> None:
        """Buckets have an index that reveals neither name nor address."""
        server = self.local_server(passwords_per_minute=5)
        server.sign_in(server.start())
        self.assertNotIn("203.0.113", repr(server.rows("SELECT * FROM limit_bucket, login")))
