"""Pairs are generated with the session's limits, and packed for sealing."""

from hypothesis import given
from hypothesis.strategies import binary, builds, integers, none
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import DecryptionFailed, Keys, Purpose, Secret, TokenType, generate_token, parse_token
from gamed.rate_limit import UNLIMITED, RateLimit
from gamed.sessions.credentials import (
    MAX_SESSIONS,
    PLAYER_REFRESHES,
    RECENT_MS,
    TICK_MS,
    AuthenticatedSession,
    CredentialPair,
    MalformedPair,
    SessionPolicy,
    from_bytes,
    generate_pair,
    new_session_id,
    refreshes_of_player,
    renew_access,
    response_members,
    tick_of,
    to_bytes,
)
from gamed.timestamps import CLOCKS_MS
from tests.sessions.fixtures import NOW_MS, POLICY, Counting
from tests.support.covers import covers

instants = integers(min_value=0, max_value=2**48)


def a_pair(first: bytes = b"", now_ms: int = NOW_MS, policy: SessionPolicy = POLICY) -> CredentialPair:
    return generate_pair(lambda size: first[:size].ljust(size, b"\x07"), now_ms, policy, now_ms)


class RecentTests(SynchronousTestCase):
    """Whether a sign-in is recent enough for what cannot be undone."""

    def test_bounds(self) -> None:
        """For ten minutes; another machine's clock may be ahead, but one that was further ahead proves nothing."""
        ages = (-CLOCKS_MS - 1, -CLOCKS_MS, RECENT_MS, RECENT_MS + 1)
        sessions = [AuthenticatedSession("ply_a", "ses_a", False, NOW_MS - age) for age in ages]
        self.assertEqual([each.signed_in_recently(NOW_MS) for each in sessions], [False, True, True, False])


@covers("2.3/10")
class PairTests(SynchronousTestCase):
    """The credentials of one sign-in or rotation."""

    def test_kinds(self) -> None:
        """A pair has an access token and a refresh credential of the public form, from different random bytes."""
        pair = generate_pair(Counting(), NOW_MS, POLICY, NOW_MS)
        access, refresh = pair.access.reveal().decode(), pair.refresh.reveal().decode()
        self.assertTrue(parse_token(TokenType.ACCESS_TOKEN, access).matches(pair.access))
        self.assertTrue(parse_token(TokenType.REFRESH_CREDENTIAL, refresh).matches(pair.refresh))
        self.assertNotEqual(access[4:47], refresh[4:47])

    def test_issued_together(self) -> None:
        """Credentials of one moment begin alike, also a renewed access token; the other 240 bits of each are random."""
        asked: list[int] = []
        random = Counting()

        def counting(size: int) -> bytes:
            asked.append(size)
            return random(size)

        first, second = (generate_pair(counting, now_ms, POLICY, NOW_MS) for now_ms in (NOW_MS, NOW_MS + TICK_MS))
        renewed = renew_access(first, counting, NOW_MS + 900_000, POLICY, NOW_MS)
        self.assertEqual(asked, [30] * 5)
        ticks = [tick_of(each) for each in (first.access, first.refresh, renewed.access, second.access, second.refresh)]
        tick = NOW_MS // TICK_MS % 65536
        self.assertEqual(ticks, [tick, tick, tick, tick + 1, tick + 1])

    @given(binary(min_size=32, max_size=32))
    def test_tick(self, entropy: bytes) -> None:
        """The tick of any well-formed credential is its first two bytes."""
        self.assertEqual(tick_of(generate_token(TokenType.ACCESS_TOKEN, entropy)), int.from_bytes(entropy[:2], "big"))

    @covers("2.1/22", "2.1/23", "3/4", "3/5")
    def test_lifetimes(self) -> None:
        """Without a maximum age both live as long as the configuration says (SPEC 2.1)."""
        pair = generate_pair(Counting(), NOW_MS, POLICY, NOW_MS - 10**12)
        self.assertEqual(pair.access_expires_ms, NOW_MS + 900_000)
        self.assertEqual(pair.refresh_expires_ms, NOW_MS + 30 * 86_400_000)

    @given(instants, instants, builds(SessionPolicy, instants, instants, integers(1, 2**40) | none()))
    def test_cap(self, now_ms: int, age_ms: int, policy: SessionPolicy) -> None:
        """Neither outlives the maximum age of its session, counted from the sign-in."""
        created_ms = now_ms - age_ms
        pair = generate_pair(Counting(), now_ms, policy, created_ms)
        renewed = renew_access(pair, Counting(), now_ms, policy, created_ms)
        self.assertEqual(renewed.access_expires_ms, pair.access_expires_ms)
        limits = [] if policy.max_lifetime_seconds is None else [created_ms + policy.max_lifetime_seconds * 1000]
        self.assertEqual(pair.access_expires_ms, min([now_ms + policy.access_seconds * 1000, *limits]))
        self.assertEqual(pair.refresh_expires_ms, min([now_ms + policy.refresh_seconds * 1000, *limits]))

    @given(binary(min_size=1, max_size=32), instants)
    def test_round_trip(self, entropy: bytes, now_ms: int) -> None:
        """A pair survives packing and unpacking."""
        pair = a_pair(entropy, now_ms)
        again = from_bytes(to_bytes(pair))
        self.assertTrue(again.access.matches(pair.access))
        self.assertTrue(again.refresh.matches(pair.refresh))
        self.assertEqual(
            (again.access_expires_ms, again.refresh_expires_ms), (pair.access_expires_ms, pair.refresh_expires_ms)
        )

    @given(binary(max_size=200))
    def test_other_bytes(self, raw: bytes) -> None:
        """Other bytes raise an error, whose text shows none of them."""
        error = self.assertRaises(MalformedPair, from_bytes, raw)
        self.assertIsNone(error.__cause__)
        self.assertTrue(error.__suppress_context__ or error.__context__ is None)

    @given(integers(min_value=0, max_value=122), integers(min_value=1, max_value=255))
    def test_one_changed_byte(self, place: int, change: int) -> None:
        """Another layout number or a damaged credential raises an error; the seal protects the expiries."""
        raw = bytearray(to_bytes(a_pair()))
        raw[place] ^= change
        if 1 <= place < 17:
            from_bytes(bytes(raw))
        else:
            self.assertRaises(MalformedPair, from_bytes, bytes(raw))

    def test_sealed_to_its_session(self) -> None:
        """A sealed successor in another session's row cannot be unsealed."""
        sealer = Keys.of(Secret(bytes(32)), Counting()).sealer
        sealed = sealer.seal(Purpose.SUCCESSOR, "ses_one", to_bytes(a_pair()))
        self.assertTrue(from_bytes(sealer.unseal(Purpose.SUCCESSOR, "ses_one", sealed)).access.matches(a_pair().access))
        self.assertRaises(DecryptionFailed, sealer.unseal, Purpose.SUCCESSOR, "ses_two", sealed)

    def test_repr(self) -> None:
        """A pair in a log line or a traceback shows no credential."""
        pair = a_pair()
        for secret in (pair.access, pair.refresh):
            self.assertNotIn(secret.reveal().decode()[4:], repr(pair))
            self.assertNotIn(secret.reveal().decode()[4:], repr(pair.access))

    def test_members(self) -> None:
        """The result has exactly the members of the protocol, with seconds rounded down and never negative.

        See docs/protocol.md: Sessions.
        """
        pair = a_pair()
        self.assertEqual(
            response_members(pair, "ses_x", NOW_MS + 1),
            {
                "token_type": "Bearer",
                "access_token": pair.access.reveal().decode(),
                "expires_in": 899,
                "refresh_credential": pair.refresh.reveal().decode(),
                "refresh_expires_in": 2_591_999,
                "session_id": "ses_x",
            },
        )
        self.assertEqual(response_members(pair, "ses_x", NOW_MS + 10**13)["expires_in"], 0)

    def test_session_id(self) -> None:
        """`ses_` and 22 characters, a new one each time."""
        random = Counting()
        first, second = new_session_id(random), new_session_id(random)
        self.assertRegex(first, r"^ses_[A-Za-z0-9_-]{22}$")
        self.assertNotEqual(first, second)


class RateTests(SynchronousTestCase):
    def test_devices(self) -> None:
        """All devices that a player may have can refresh together and go on, however short a token lives."""
        for access_seconds in (60, 300, 900, 24 * 3600):
            rate = refreshes_of_player(60, access_seconds)
            self.assertGreaterEqual(rate.burst, MAX_SESSIONS)
            self.assertLess(rate.interval_ms * MAX_SESSIONS, (access_seconds - 30) * 1000)

    def test_figures(self) -> None:
        """By default it is 300 at once, then ten a minute; a larger limit of a session also raises this one."""
        self.assertEqual(refreshes_of_player(60, 900), RateLimit(6000, PLAYER_REFRESHES))
        self.assertEqual(refreshes_of_player(600, 900), RateLimit(6000, 3000))
        self.assertEqual(refreshes_of_player(1, 900), RateLimit(6000, PLAYER_REFRESHES))
        self.assertEqual(refreshes_of_player(0, 900), UNLIMITED)
