"""The claims of a ticket and the periods of its keys are decided by pure functions (docs/protocol.md: Tickets)."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import TicketAudience
from gamed.sessions.credentials import AuthenticatedSession
from gamed.tickets.model import Holder, KeyPeriod, TicketRequest
from gamed.tickets.ticket_rules import (
    DAY_MS,
    FIRST,
    SKEW_SECONDS,
    next_period,
    period_in_use,
    published_periods,
    ticket_claims,
    valid_claims,
)

NOW_MS = 1_800_000_000_999
NOW = NOW_MS // 1000
HOUR_MS = 3_600_000


def claims_of(allowed: TicketAudience, *, name: str | None = "Anna", nonce: str | None = None) -> dict[str, object]:
    holder = Holder(AuthenticatedSession("ply_a", "ses_a", owner=True, signed_in_ms=0), name, (FIRST,))
    request = TicketRequest("match.example", nonce)
    return ticket_claims(holder, request, allowed, issuer="https://a/auth", now_ms=NOW_MS, seconds=60, jti=bytes(16))


class ClaimTests(SynchronousTestCase):
    def test_least(self) -> None:
        """Without the owner's permission a ticket has an id, and neither a name nor who the owner is."""
        self.assertEqual(
            claims_of(TicketAudience()),
            {
                "iss": "https://a/auth",
                "aud": "match.example",
                "sub": "ply_a",
                "iat": NOW,
                "exp": NOW + 60,
                "jti": "A" * 22,
            },
        )

    def test_permitted(self) -> None:
        """Each permission adds its claim alone; a player without a name has none; a nonce is passed on."""
        least = claims_of(TicketAudience())
        self.assertEqual(claims_of(TicketAudience(name=True)), least | {"name": "Anna"})
        self.assertEqual(claims_of(TicketAudience(name=True), name=None), least)
        self.assertEqual(claims_of(TicketAudience(owner=True)), least | {"owner": True})
        self.assertEqual(claims_of(TicketAudience(), nonce="n"), least | {"nonce": "n"})

    def valid(self, now_ms: int = NOW_MS, **changed: Any) -> bool:
        claims = claims_of(TicketAudience()) | changed
        return valid_claims(claims, issuer="https://a/auth", audience="match.example", now_ms=now_ms)

    def test_times(self) -> None:
        """A ticket is valid from its issue, less the difference of two clocks, to the moment of `exp`."""
        self.assertTrue(self.valid())
        self.assertTrue(self.valid((NOW + 60) * 1000 - 1))
        self.assertFalse(self.valid((NOW + 60) * 1000))
        self.assertTrue(self.valid((NOW - SKEW_SECONDS) * 1000))
        self.assertFalse(self.valid((NOW - SKEW_SECONDS) * 1000 - 1))

    def test_values(self) -> None:
        """Issuer and audience are compared whole, and instants are whole numbers."""
        for changed in (
            {"iss": "https://a/auth/"},
            {"iss": ["https://a/auth"]},
            {"aud": "match.example.org"},
            {"aud": ["match.example"]},
            {"aud": None},
            {"exp": str(NOW + 60)},
            {"exp": NOW + 60.5},
            {"exp": True},
            {"iat": None},
            {"iat": True},
        ):
            self.assertFalse(self.valid(**changed), changed)


class PeriodTests(SynchronousTestCase):
    def numbers(self, periods: list[KeyPeriod], now_ms: int) -> tuple[int, list[int]]:
        """Return the number of the key in use, and those that are published."""
        return period_in_use(periods, now_ms).number, [each.number for each in published_periods(periods, now_ms)]

    def test_rotation(self) -> None:
        """The next key is published a day before its first use, and the last one for a day after."""
        second = next_period([FIRST], NOW_MS)
        self.assertEqual(second, KeyPeriod(2, NOW_MS + DAY_MS))
        assert second is not None
        periods = [FIRST, second]
        self.assertEqual(self.numbers(periods, NOW_MS), (1, [1, 2]))
        self.assertEqual(self.numbers(periods, NOW_MS + DAY_MS - 1), (1, [1, 2]))
        self.assertEqual(self.numbers(periods, NOW_MS + DAY_MS), (2, [1, 2]))
        self.assertEqual(self.numbers(periods, NOW_MS + 2 * DAY_MS - 1), (2, [1, 2]))
        self.assertEqual(self.numbers(periods, NOW_MS + 2 * DAY_MS), (2, [2]))

    def test_again(self) -> None:
        """A rotation waits until the key of the last one is in use; then three keys are published for a day."""
        periods = [FIRST, KeyPeriod(2, NOW_MS + DAY_MS)]
        self.assertIsNone(next_period(periods, NOW_MS + DAY_MS - 1))
        third = next_period(periods, NOW_MS + DAY_MS)
        assert third is not None
        self.assertEqual(self.numbers([*periods, third], NOW_MS + DAY_MS), (2, [1, 2, 3]))
        self.assertEqual(self.numbers([*periods, third], NOW_MS + 2 * DAY_MS), (3, [2, 3]))

    def test_clock_set_back(self) -> None:
        """With a clock before the first use of all keys the oldest one signs, and all of them stay published."""
        periods = [KeyPeriod(4, NOW_MS), KeyPeriod(5, NOW_MS + DAY_MS)]
        self.assertEqual(self.numbers(periods, NOW_MS - HOUR_MS), (4, [4, 5]))
