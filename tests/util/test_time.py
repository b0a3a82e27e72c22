"""Instants and durations."""

from hypothesis import given
from hypothesis.strategies import integers, sampled_from, text
from twisted.trial.unittest import SynchronousTestCase

from gamed.timestamps import (
    DurationMalformed,
    format_duration,
    http_date,
    parse_duration,
    parse_http_date,
    parse_rfc3339,
    rfc3339,
    seconds_until,
)
from tests.support.covers import covers

DAY_MS = 86_400_000


class InstantTests(SynchronousTestCase):
    """Epoch milliseconds in, text out."""

    def test_rfc3339(self) -> None:
        """UTC, three decimals, Z; also before the epoch and past 2038."""
        for instant_ms, written in (
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_795_253_783_004, "2026-11-21T09:36:23.004Z"),
            (2_208_988_800_050, "2040-01-01T00:00:00.050Z"),
        ):
            self.assertEqual(rfc3339(instant_ms), written)
            self.assertEqual(parse_rfc3339(written), instant_ms)

    def test_no_rfc3339(self) -> None:
        """Any other form of a date, and dates that no calendar has."""
        for written in ("", "2026-11-21T09:36:23Z", "2026-11-21T09:36:23.004+00:00", "2026-02-30T09:36:23.004Z"):
            self.assertIsNone(parse_rfc3339(written), written)

    @given(integers(min_value=0, max_value=40_000 * DAY_MS))
    def test_http_date_round_trip(self, instant_ms: int) -> None:
        """Whole seconds survive."""
        self.assertEqual(parse_http_date(http_date(instant_ms)), instant_ms // 1000 * 1000)

    def test_http_date_forms(self) -> None:
        """The three forms of RFC 9110 5.6.7 are the same instant."""
        for written in (
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ):
            self.assertEqual(parse_http_date(written), 784_111_777_000)

    @given(text())
    def test_no_date(self, written: str) -> None:
        """Anything else is no date, never an error."""
        self.assertIsInstance(parse_http_date(written), int | None)

    @given(integers(0, 28), sampled_from([0, 3, 12, 20, 70]))
    def test_nearly_a_date(self, place: int, zeros: int) -> None:
        """Nor is one with a number in it that no calendar has."""
        written = "Mon, 01 Jan 2020 00:00:00 +0000"
        for digit in "07":
            self.assertIsInstance(
                parse_http_date(f"{written[:place]}{digit}{'0' * zeros}{written[place:]}"), int | None
            )

    def test_seconds_until(self) -> None:
        """Rounded down and never negative."""
        for at, now, seconds in ((2999, 1000, 1), (3000, 1000, 2), (1000, 3000, 0)):
            self.assertEqual(seconds_until(at, now), seconds)


@covers("2.1/25")
class DurationTests(SynchronousTestCase):
    """A number and a unit (SPEC 2.1)."""

    @given(integers(min_value=0, max_value=10**9), sampled_from("smhd"))
    def test_round_trip(self, number: int, unit: str) -> None:
        """Written back in its shortest form it is the same length."""
        seconds = parse_duration(f"{number}{unit}")
        self.assertEqual(parse_duration(format_duration(seconds)), seconds)

    def test_known(self) -> None:
        """Each unit; zero has one."""
        for written, seconds in (("5s", 5), ("15m", 900), ("720h", 2_592_000), ("30d", 2_592_000), ("0s", 0)):
            self.assertEqual(parse_duration(written), seconds)
        self.assertEqual([format_duration(s) for s in (900, 90, 2_592_000, 0)], ["15m", "90s", "30d", "0d"])

    def test_refused(self) -> None:
        """No sign, space, fraction, other unit, other digit, or missing half."""
        slips = ("", "15", "m", "-1m", "+1m", "1.5h", "15 m", " 15m", "15m\n", "15M", "15ms", "1h30m", "１5m")
        for written in (*slips, "9" * 13 + "s"):
            self.assertRaises(DurationMalformed, parse_duration, written)
