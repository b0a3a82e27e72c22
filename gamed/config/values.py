"""Rules of single values: what an owner may write, and what is expected when it is something else (SPEC 2.1, 8)."""

from collections.abc import Callable
from enum import StrEnum
from ipaddress import ip_network
from re import ASCII, compile
from typing import TypeVar
from unicodedata import category

from gamed.config.model import Network
from gamed.config.problems import Wrong
from gamed.durations import DurationMalformed, format_duration, parse_duration

E = TypeVar("E", bound=StrEnum)
MAX_COUNT = 1_000_000_000
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that a person cannot see: controls, direction marks, unassigned."""
SIZE_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = compile(r"([0-9]{1,12}) ?([KMGT]iB)", ASCII)
_VISIBLE = compile(r"[!-~]+", ASCII)
_SCOPE = compile(r"[!#-\[\]-~]{1,128}", ASCII)
_FIELD = compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", ASCII)


def choice(kind: type[E]) -> Callable[[object], E]:
    """One of the values of an enumeration, as text."""
    expected = " or ".join(f'"{member.value}"' for member in kind)

    def rule(value: object) -> E:
        for member in kind:
            if isinstance(value, str) and value == member.value:
                return member
        raise Wrong(f"expected {expected}")

    return rule


def duration(least: int, most: int) -> Callable[[object], int]:
    """Seconds, within bounds that are part of it."""
    between = f"from {format_duration(least)} to {format_duration(most)}"

    def rule(value: object) -> int:
        try:
            seconds = parse_duration(value if isinstance(value, str) else "")
        except DurationMalformed as e:
            raise Wrong(str(e)) from None
        if not least <= seconds <= most:
            raise Wrong(f"expected a duration {between}")
        return seconds

    return rule


def count(value: object) -> int:
    """A whole number, 0 for none."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        raise Wrong(f"expected a whole number from 0 to {MAX_COUNT} without quotes")
    return value


def number(least: int, most: int) -> Callable[[object], int]:
    """A whole number within bounds that are part of it."""

    def rule(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise Wrong(f"expected a whole number from {least} to {most} without quotes")
        return value

    return rule


def size(least: int, most: int) -> Callable[[object], int]:
    """Bytes: a whole number, or a text with a unit, within bounds that are part of it."""

    def rule(value: object) -> int:
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        found = int(match[1]) * SIZE_UNITS[match[2]] if match else value
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise Wrong(f'expected a size such as "16 MiB" or 16777216, from {least} to {shown_size(most)}')
        return found

    return rule


def shown_size(count: int) -> str:
    """The shortest exact text: 16777216 -> `16 MiB`."""
    unit = next((unit for unit in reversed(SIZE_UNITS) if count and count % SIZE_UNITS[unit] == 0), None)
    return str(count) if unit is None else f"{count // SIZE_UNITS[unit]} {unit}"


def flag(value: object) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise Wrong("expected true or false without quotes")
    return value


def words(most: int) -> Callable[[object], str]:
    """Text that a person reads: 1 to `most` characters on one line."""

    def rule(value: object) -> str:
        text = _text(value)
        if not 0 < len(text.strip()) <= most:
            raise Wrong(f"expected text of 1 to {most} characters")
        if any(category(c) in HIDDEN for c in text):
            raise Wrong("expected text on one line, without hidden characters")
        return text.strip()

    return rule


def visible(most: int) -> Callable[[object], str]:
    """Text for machines: ASCII without spaces."""

    def rule(value: object) -> str:
        text = _text(value)
        if not _VISIBLE.fullmatch(text) or len(text) > most:
            raise Wrong(f"expected 1 to {most} visible ASCII characters without spaces")
        return text

    return rule


def _text(value: object) -> str:
    """An id of digits only is easily written as a number."""
    if not isinstance(value, str):
        raise Wrong("expected text, in quotes")
    return value


def scope(value: object) -> str:
    """RFC 6749 3.3: one scope-token."""
    if not isinstance(value, str) or not _SCOPE.fullmatch(value):
        raise Wrong('expected one scope without spaces, such as "identify"')
    return value


def field_name(value: object) -> str:
    """A member of a provider's answer."""
    if not isinstance(value, str) or not _FIELD.fullmatch(value):
        raise Wrong('expected the name of a member of the provider\'s answer, such as "id"')
    return value


def network(value: object) -> Network:
    """An address, or a network in CIDR notation."""
    if not isinstance(value, str) or "%" in value:
        raise Wrong('expected an address or network such as "10.0.0.2" or "10.0.0.0/24"')
    try:
        return ip_network(value)
    except ValueError:
        pass
    try:
        meant = ip_network(value, strict=False)
    except ValueError:
        raise Wrong('expected an address or network such as "10.0.0.2" or "10.0.0.0/24"') from None
    raise Wrong(f"this network has host bits set; did you mean {meant}?")
