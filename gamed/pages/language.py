"""The language of a page: its texts, and how it writes numbers, ages, days and sizes.

A text is looked up by its English form. Values are filled in afterwards, into placeholders such as `{name}`, so that
neither a translation nor a value can be anything but text.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from unicodedata import bidirectional

from msgspec import Struct

from gamed.pages.catalogue import Catalogue, split_placeholders
from gamed.readable import size

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
GROUPED: Final = 10_000
"""The least number whose thousands are separated: several languages write 1234 without a separator."""
_ISOLATE, _POP = "\u2068", "\u2069"
_TURNING = frozenset({"R", "AL", "AN", "RLE", "RLO", "RLI", "LRE", "LRO", "LRI", "PDF", "PDI", "FSI"})
"""The bidirectional classes of characters that can change the direction of the text around them (UAX 9)."""


class Forms(Struct, frozen=True):
    """How a language writes numbers, ages, days and durations; English without arguments.

    A list of texts has one for each kind of number. `plural` is the rule of these kinds, in gettext's form.
    """

    name: str = "English"
    direction: str = "ltr"
    decimal: str = "."
    group: str = ","
    plural: str = "n != 1"
    minutes_ago: Sequence[str] = ("{count} min ago", "{count} min ago")
    hours_ago: Sequence[str] = ("{count} h ago", "{count} h ago")
    minutes: Sequence[str] = ("{count} min", "{count} min")
    hours: Sequence[str] = ("{count} h", "{count} h")
    day: str = "{day} {month}"
    day_of_year: str = "{day} {month} {year}"
    months: Sequence[str] = (
        "January", "February", "March", "April", "May", "June",
        "July", "August", "September", "October", "November", "December",
    )  # fmt: skip


class Language(Struct, frozen=True):
    """A language; `tag` is its name in HTML (BCP 47). A text is taken from the first catalogue that has it."""

    tag: str = "en"
    forms: Forms = Forms()
    kind: Callable[[int], int] = lambda count: count != 1
    """The rule of `forms.plural`."""
    catalogues: Sequence[Catalogue] = ()

    @property
    def direction(self) -> str:
        """Return the direction of the script: `ltr` or `rtl`."""
        return self.forms.direction

    def gettext(self, source: str) -> str:
        for catalogue in self.catalogues:
            if source in catalogue.texts:
                return catalogue.texts[source][0]
        return source

    def ngettext(self, one: str, many: str, count: int) -> str:
        for catalogue in self.catalogues:
            forms = catalogue.texts.get(one)
            if forms is not None:
                return forms[min(catalogue.plural(count), len(forms) - 1)]
        return one if count == 1 else many

    def number(self, count: int) -> str:
        return f"{count:,}".replace(",", self.forms.group) if count >= GROUPED else str(count)

    def age(self, instant_ms: int, now_ms: int) -> str:
        """Return how long ago an instant was, or its day if that is more than a day."""
        age_ms = now_ms - instant_ms
        if age_ms >= DAY_MS:
            return self.day(instant_ms, now_ms)
        if age_ms >= HOUR_MS:
            return self._counted(self.forms.hours_ago, age_ms // HOUR_MS)
        if age_ms >= MINUTE_MS:
            return self._counted(self.forms.minutes_ago, age_ms // MINUTE_MS)
        return self.gettext("just now")

    def day(self, instant_ms: int, now_ms: int) -> str:
        """Return the day of an instant in UTC, with the year if it is another one than that of `now_ms`."""
        day, today = (datetime.fromtimestamp(each // 1000, UTC) for each in (instant_ms, now_ms))
        pattern = self.forms.day if day.year == today.year else self.forms.day_of_year
        values = {"day": day.day, "month": self.forms.months[day.month - 1], "year": day.year}
        return "".join(piece + str(values.get(name or "", "")) for piece, name in split_placeholders(pattern))

    def duration(self, seconds: int) -> str:
        """Return hours and minutes, such as `2 h 35 min`; "" for less than a minute."""
        hours, minutes = seconds // 3600, seconds % 3600 // 60
        parts = ((self.forms.hours, hours), (self.forms.minutes, minutes))
        return " ".join(self._counted(forms, count) for forms, count in parts if count)

    def size(self, count: int) -> str:
        """Return a number of bytes with an international unit (IEC 80000-13)."""
        return size(count).replace(".", self.forms.decimal)

    def _counted(self, forms: Sequence[str], count: int) -> str:
        return forms[min(self.kind(count), len(forms) - 1)].replace("{count}", self.number(count))


ENGLISH: Final = Language()


def fill_plain(filled: str, language: Language, values: Mapping[str, object]) -> str:
    """Return the text with its placeholders filled, for attributes and titles.

    A value of another direction is isolated by characters, as an attribute has no element for it.
    """
    return "".join(
        piece + ("" if name is None else _isolated(values[name], language))
        for piece, name in split_placeholders(filled)
    )


def _isolated(value: object, language: Language) -> str:
    if isinstance(value, int):
        return language.number(value)
    shown = str(value)
    if language.direction == "ltr" and _TURNING.isdisjoint(map(bidirectional, shown)):
        return shown
    return f"{_ISOLATE}{shown}{_POP}"
