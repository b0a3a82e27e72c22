"""Instants are whole milliseconds since the epoch inside, RFC 3339 and IMF-fixdate outside.

Durations in the configuration are a number and a unit, such as `15m` (SPEC 2.1).

See docs/protocol.md: Conventions.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from re import ASCII, compile
from typing import Final

Now = Callable[[], int]
"""A function that returns the wall clock's time in epoch milliseconds."""
CLOCKS_MS: Final = 60_000
"""How far the clocks of two machines may be apart: each may differ by 30 seconds from that of PostgreSQL.

An instant that another machine wrote may lie this much in the future or in the past. For what ends a proof, such as a
changed password, both directions count as the end: a player signs in once more, where a thief would keep a session.
For what begins one, such as a session or a code, an instant in the future is valid: its life is longer by this at most.
"""
REMEMBERED_SECONDS = 1024
"""The size of each cache of formatted seconds: most responses of one second contain the same instants."""
_RFC3339: Final = compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", ASCII)


def rfc3339(instant_ms: int) -> str:
    """Return an instant in UTC with milliseconds, such as `2026-11-21T09:36:23.004Z`."""
    return f"{_second(instant_ms // 1000)}.{instant_ms % 1000:03d}Z"


@lru_cache(REMEMBERED_SECONDS)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def parse_rfc3339(text: str) -> int | None:
    """Return the epoch milliseconds of a text that `rfc3339` wrote, or None if it is not one or not a valid date."""
    if not _RFC3339.fullmatch(text):
        return None
    try:
        instant = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(instant.timestamp()) * 1000 + int(text[20:23])


def http_date(instant_ms: int) -> str:
    """Return an instant as an IMF-fixdate (RFC 9110 5.6.7), rounded down to whole seconds."""
    return _imf_fixdate(instant_ms // 1000)


@lru_cache(REMEMBERED_SECONDS)
def _imf_fixdate(seconds: int) -> str:
    from email.utils import format_datetime  # late: commands need no dates of HTTP

    return format_datetime(datetime.fromtimestamp(seconds, UTC), usegmt=True)


def parse_http_date(text: str) -> int | None:
    """Return the epoch milliseconds of an HTTP date in any of its three forms, or None if the text is not one."""
    from email.utils import parsedate_to_datetime  # late: commands need no dates of HTTP

    try:
        instant = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # OverflowError for a year or an hour with too many digits
        return None
    return int(instant.replace(tzinfo=instant.tzinfo or UTC).timestamp()) * 1000


def seconds_until(instant_ms: int, now_ms: int) -> int:
    """Return the whole seconds until an instant, at least 0, rounded down so that a client acts early, not late."""
    return max(0, (instant_ms - now_ms) // 1000)


UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_FORM = compile(r"([0-9]{1,12})([smhd])", ASCII)


class DurationMalformed(ValueError):
    """A text that is not a number followed by s, m, h or d."""


def parse_duration(text: str) -> int:
    """Return the seconds of a duration: 900 for `15m`; raise DurationMalformed."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise DurationMalformed('expected a duration such as "15m"')
    return int(match[1]) * UNIT_SECONDS[match[2]]


def format_duration(seconds: int) -> str:
    """Return the shortest exact text of a duration: `15m` for 900, `90s` for 90."""
    unit = next(unit for unit in "dhms" if seconds % UNIT_SECONDS[unit] == 0)
    return f"{seconds // UNIT_SECONDS[unit]}{unit}"
