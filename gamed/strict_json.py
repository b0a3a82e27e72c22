"""JSON from outside as it is believed: one object, UTF-8, not deep, no name twice, no NaN, no lone surrogate.

RFC 8259 leaves all of these open, and two readers that disagree about a text are a way in (PROTOCOL 1).
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
    """Not such a text; the words say why and never quote it."""


def parse_object(body: bytes, *, max_depth: int = DEPTH, whole_number: Callable[[str], int] = int) -> dict[str, object]:
    """The object, or JsonMalformed; `whole_number` reads the digits of integers and may raise JsonMalformed, too."""
    text = _text(body)
    if depth(text) > max_depth:
        raise JsonMalformed(f"nested deeper than {max_depth}")
    try:
        value = _decoder(whole_number).decode(text)
    except JsonMalformed:
        raise
    except JSONDecodeError as e:
        raise JsonMalformed(f"not JSON at line {e.lineno}, column {e.colno}") from None
    except ValueError:  # an integer beyond what Python converts
        raise JsonMalformed("a number is too long") from None
    if not isinstance(value, dict):
        raise JsonMalformed("not an object")
    return value


def depth(text: str) -> int:
    """The deepest nesting of brackets outside strings, counted without parsing."""
    deepest = level = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        level += 1 if bracket in "[{" else -1
        deepest = max(deepest, level)
    return deepest


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise JsonMalformed("not UTF-8") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise JsonMalformed("a name appears twice")
    for name, value in pairs:
        _whole(name)
        _whole(value)
    return members


def _whole(value: object) -> None:
    """Refuse half of a surrogate pair, also inside lists; objects inside were seen before."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise JsonMalformed("half of a surrogate pair") from None
    elif isinstance(value, list):
        for item in value:
            _whole(item)


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
        object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite, parse_int=whole_number
    )
