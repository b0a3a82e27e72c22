"""Durations as the owner writes them: a number and a unit (SPEC 2.1)."""

from re import ASCII, compile

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_FORM = compile(r"([0-9]{1,12})([smhd])", ASCII)


class DurationMalformed(ValueError):
    """Not a number followed by s, m, h or d."""


def parse_duration(text: str) -> int:
    """`15m` -> 900 seconds; anything else raises DurationMalformed."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise DurationMalformed('expected a duration such as "15m"')
    return int(match[1]) * UNIT_SECONDS[match[2]]


def format_duration(seconds: int) -> str:
    """The shortest exact text: 900 -> `15m`, 90 -> `90s`."""
    unit = next(unit for unit in "dhms" if seconds % UNIT_SECONDS[unit] == 0)
    return f"{seconds // UNIT_SECONDS[unit]}{unit}"
