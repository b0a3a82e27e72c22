"""Writes gamed/pages/locale/forms.json: how languages write numbers, days, ages and durations, from CLDR by Babel.

    python -m tests.pages.make_forms

A language that is not in LANGUAGES can have a catalogue nevertheless: its pages have numbers and days as in ISO 8601.
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from gettext import c2py
from pathlib import Path
from re import sub

from babel import Locale, dates, numbers, units
from babel.plural import to_gettext

from gamed.pages.languages import LOCALE

FILE = Path(str(LOCALE)) / "forms.json"
LANGUAGES = """
ar bg ca cs da de el en es et eu fa fi fil fr gl he hi hr hu id it ja ko lt lv ms nb nl pl pt-BR pt-PT ro ru sk sl
sr sv th tr uk vi zh-Hans zh-Hant
"""
OURS: Mapping[str, Mapping[str, object]] = {
    "en": {
        "hours_ago": ["{count} h ago", "{count} h ago"],
        "minutes_ago": ["{count} min ago", "{count} min ago"],
        "minutes": ["{count} min", "{count} min"],
        "hours": ["{count} h", "{count} h"],
    }
}
"""The symbols of units in English (SI brochure, table 8) instead of CLDR's `hr`."""
REGIONS = {"en": "en_GB"}
"""The region whose forms are taken: in `3 March 2026` no comma and no other order."""
EXAMPLES = range(1, 60)
GENERAL = 50
"""A number whose form is `other` in most languages."""


def forms_of(tag: str) -> dict[str, object]:
    """Return the forms of a language; a list of texts has one for each kind of number, in the order of `plural`."""
    locale = Locale.parse(REGIONS.get(tag, tag.replace("-", "_")))
    # Babel leaves the operand `e` of CLDR, a compact decimal exponent, which is 0 for a whole number.
    rule = sub(r"\be\b", "0", to_gettext(locale.plural_form)).rstrip(";").split(";")
    count, expression = int(rule[0].partition("=")[2]), sub(r"^ *plural=", "", rule[1])
    plural = c2py(expression)
    with_year = locale.date_formats["long"].pattern.replace("G ", "")  # Thai names the era
    month = "MMMM" if "MMM" in with_year else "M"
    wide = locale.months["format"]["wide"]

    def texts(write: Callable[[int], str]) -> list[str]:
        """Return a text for each kind of number that occurs below 60; for another, that of the last kind."""
        found = {plural(number): write(number).replace(str(number), "{count}") for number in reversed(EXAMPLES)}
        return [found.get(kind, found[plural(GENERAL)]) for kind in range(count)]

    def ago(**unit: int) -> str:
        (granularity,) = (name.removesuffix("s") for name in unit)
        gone = -timedelta(**unit)
        try:
            return str(dates.format_timedelta(gone, granularity, 1000, True, "short", locale))
        except KeyError:  # Babel does not follow each alias of CLDR to the long form
            return str(dates.format_timedelta(gone, granularity, 1000, True, "long", locale))

    return {
        "name": own_name(locale),
        "direction": "rtl" if locale.character_order == "right-to-left" else "ltr",
        "decimal": numbers.get_decimal_symbol(locale, numbering_system="latn"),
        "group": numbers.get_group_symbol(locale, numbering_system="latn"),
        "plural": expression,
        "minutes_ago": texts(lambda number: ago(minutes=number)),
        "hours_ago": texts(lambda number: ago(hours=number)),
        "minutes": texts(lambda number: with_unit(number, "duration-minute", locale)),
        "hours": texts(lambda number: with_unit(number, "duration-hour", locale)),
        "day": braced(locale.datetime_skeletons["MMMMd" if month == "MMMM" else "MMMd"].pattern),
        "day_of_year": braced(with_year),
        "months": [wide[number] if month == "MMMM" else str(number) for number in range(1, 13)],
        **OURS.get(tag, {}),
    }


def with_unit(number: int, unit: str, locale: Locale) -> str:
    """Return `2 h`. For a form that CLDR has only among its general ones, Babel writes the unit's name: `1 horas`."""
    written = units.format_unit(number, unit, "short", locale=locale)
    if written != f"{number} {locale.unit_display_names[unit]['short']}":
        return written
    general = units.format_unit(GENERAL, unit, "short", locale=locale)
    return general.replace(str(GENERAL), str(number))


def own_name(locale: Locale) -> str:
    name = str(Locale.parse(str(locale) if locale.script or locale.language == "pt" else locale.language).display_name)
    return name[:1].upper() + name[1:]


def braced(pattern: str) -> str:
    """Return a pattern of CLDR with `{day}`, `{month}` and `{year}` for its letters."""
    names = {"d": "{day}", "M": "{month}", "L": "{month}", "y": "{year}"}
    pieces = (value if kind == "chars" else names[value[0]] for kind, value in dates.tokenize_pattern(pattern))
    return "".join(pieces)


def content() -> str:
    lines = (f"{json.dumps(tag)}: {json.dumps(forms_of(tag), ensure_ascii=False)}" for tag in LANGUAGES.split())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(content(), "utf-8")
