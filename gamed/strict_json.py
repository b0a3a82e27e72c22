"""JSON from outside is accepted only as one UTF-8 object that is not deep and has no duplicate names.

NaN, Infinity and half of a surrogate pair are rejected, too. RFC 8259 leaves all of these open, and an attacker can use
two parsers that read the same text differently (docs/protocol.md: Conventions).
"""

from collections.abc import Callable
from functools import cache
from json import JSONDecodeError, JSONDecoder
from math import isinf
from re import DOTALL, compile
from typing import NoReturn

DEPTH = 8
_STRINGS = compile(r'"(?:[^"\\]|\\.)*+"?', DOTALL)
_BRACKETS = compile(r"[\[\]{}]")


class JsonMalformed(ValueError):
    """A text that is not accepted; the message gives the reason and never quotes the text."""


def parse_object(body: bytes, *, max_depth: int = DEPTH, whole_number: Callable[[str], int] = int) -> dict[str, object]:
    """Return the object of a body; raise JsonMalformed.

    `whole_number` parses the digits of integers, and may raise JsonMalformed, too.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise JsonMalformed("not UTF-8") from None
    if depth(text) > max_depth:
        raise JsonMalformed(f"nested deeper than {max_depth}")
    try:
        value = _decoder(whole_number).decode(text)
    except JsonMalformed:
        raise
    except JSONDecodeError as e:
        raise JsonMalformed(f"not JSON at line {e.lineno}, column {e.colno}") from None
    except ValueError:  # Python converts at most 4300 digits to an integer
        raise JsonMalformed("a number is too long") from None
    if not isinstance(value, dict):
        raise JsonMalformed("not an object")
    return value


def depth(text: str) -> int:
    """Return the deepest nesting of brackets outside strings, counted without parsing."""
    deepest = level = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        level += 1 if bracket in "[{" else -1
        deepest = max(deepest, level)
    return deepest


def _unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise JsonMalformed("a name appears twice")
    for name, value in pairs:
        _reject_lone_surrogates(name)
        _reject_lone_surrogates(value)
    return members


def _reject_lone_surrogates(value: object) -> None:
    """Raise JsonMalformed for half of a surrogate pair, also in lists; objects in them were checked before."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise JsonMalformed("half of a surrogate pair") from None
    elif isinstance(value, list):
        for item in value:
            _reject_lone_surrogates(item)


def _no_constant(_name: str) -> NoReturn:
    raise JsonMalformed("NaN and Infinity are not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise JsonMalformed("a number is out of range")
    return number


@cache
def _decoder(whole_number: Callable[[str], int]) -> JSONDecoder:
    return JSONDecoder(
        object_pairs_hook=_unique_members, parse_constant=_no_constant, parse_float=_finite, parse_int=whole_number
    )
