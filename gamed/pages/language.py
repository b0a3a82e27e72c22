"""The language of a page: its texts, and how it writes ages, days and sizes.

A text is looked up by its English form. Values are filled in afterwards, into placeholders such as `{name}`, so that
neither a translation nor a value can be anything but text.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from re import ASCII, compile
from typing import Final
from unicodedata import bidirectional

from msgspec import Struct

from gamed.readable import size

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
_PLACEHOLDER = compile(r"\{([a-z_]{1,32})\}", ASCII)
_ISOLATE, _POP = "\u2068", "\u2069"
_TURNING = frozenset({"R", "AL", "AN", "RLE", "RLO", "RLI", "LRE", "LRO", "LRI", "PDF", "PDI", "FSI"})
"""The bidirectional classes of characters that can change the direction of the text around them (UAX 9)."""


class Language(Struct, frozen=True):
    """English; `tag` is its name in HTML (BCP 47), `direction` that of its script."""

    tag: str = "en"
    direction: str = "ltr"

    def gettext(self, source: str) -> str:
        return source

    def ngettext(self, one: str, many: str, count: int) -> str:
        return one if count == 1 else many

    def age(self, instant_ms: int, now_ms: int) -> str:
        """Return how long ago an instant was, or its day if that is more than a day."""
        age_ms = now_ms - instant_ms
        if age_ms >= DAY_MS:
            return self.day(instant_ms, now_ms)
        if age_ms >= HOUR_MS:
            return f"{age_ms // HOUR_MS} h ago"
        return f"{age_ms // MINUTE_MS} min ago" if age_ms >= MINUTE_MS else "just now"

    def day(self, instant_ms: int, now_ms: int) -> str:
        """Return the day of an instant in UTC, with the year if it is another one than that of `now_ms`."""
        day, today = (datetime.fromtimestamp(each // 1000, UTC) for each in (instant_ms, now_ms))
        return f"{day.day} {day:%B}" if day.year == today.year else f"{day.day} {day:%B %Y}"

    def size(self, count: int) -> str:
        return size(count)


ENGLISH: Final = Language()


def split_placeholders(filled: str) -> Iterator[tuple[str, str | None]]:
    """Yield each piece of text with the name of the placeholder after it; None after the last."""
    start = 0
    for match in _PLACEHOLDER.finditer(filled):
        yield filled[start : match.start()], match[1]
        start = match.end()
    yield filled[start:], None


def fill_plain(filled: str, language: Language, values: Mapping[str, object]) -> str:
    """Return the text with its placeholders filled, for attributes and titles.

    A value of another direction is isolated by characters, as an attribute has no element for it.
    """
    return "".join(
        piece + ("" if name is None else _isolated(str(values[name]), language))
        for piece, name in split_placeholders(filled)
    )


def _isolated(value: str, language: Language) -> str:
    if language.direction == "ltr" and _TURNING.isdisjoint(map(bidirectional, value)):
        return value
    return f"{_ISOLATE}{value}{_POP}"
