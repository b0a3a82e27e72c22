"""Instants and sizes are shown to people in words, such as `3 days ago` and `1.5 MiB`."""

from typing import Final

MINUTE_MS: Final = 60_000
_AGES: Final = (
    ("year", 365 * 24 * 60 * MINUTE_MS),
    ("month", 30 * 24 * 60 * MINUTE_MS),
    ("day", 24 * 60 * MINUTE_MS),
    ("hour", 60 * MINUTE_MS),
    ("minute", MINUTE_MS),
)
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
STEP: Final = 1024


def ago(instant_ms: int, now_ms: int) -> str:
    """Return the age of an instant in its largest unit; `just now` for less than a minute and for the future."""
    age_ms = now_ms - instant_ms
    for unit, length_ms in _AGES:
        if (count := age_ms // length_ms) >= 1:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def size(count: int) -> str:
    """Return a number of bytes in the largest unit that leaves at least 1, such as `512 B`, `1.5 MiB` or `20 GiB`."""
    number, unit = float(count), 0
    while number >= STEP and unit < len(_UNITS) - 1:
        number, unit = number / STEP, unit + 1
    text = f"{number:.1f}".removesuffix(".0")
    return f"{text} {_UNITS[unit]}"
