"""JSON in and out of handlers (PROTOCOL 1).

Raw queries and forms, read strictly: UTF-8, 4 KiB, each name once (PROTOCOL 3.2, 3.3).
"""

from collections.abc import Mapping
from functools import cache
from re import compile
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from msgspec import Struct, ValidationError, convert, json
from msgspec.structs import FieldInfo, fields

from gamed.http.bodies import MemoryBody
from gamed.http.errors import BadRequest, InvalidRequest
from gamed.http.request import Request
from gamed.strict_json import JsonMalformed, parse_object

S = TypeVar("S", bound=Struct)
EXACT = 2**53
"""Below it each float stands for one integer."""
_WHERE = compile(r" - at `\$(?P<path>[^`]*)`$")
_STEP = compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")


def read_json(request: Request, shape: type[S], *, optional: bool = False) -> S:
    """The body as a msgspec.Struct: types strict, unknown members ignored, each wrong member named.

    25.0 is the number 25 (RFC 8259 6): some engines know floats only, and write back what they have read.
    The media type was judged by the gate. With `optional` a request that has and announces no body is the same as
    one with `{}`. Raises InvalidRequest.
    """
    sink = request.body
    if not isinstance(sink, MemoryBody):
        raise TypeError("this route's gate keeps no body in memory")
    body = sink.content()
    absent = not body and "content-type" not in request.head.headers
    try:
        raw = {} if optional and absent else _integers(parse_object(body))
    except JsonMalformed as e:
        raise InvalidRequest([("", str(e))]) from None
    try:
        return convert(raw, shape, strict=True)
    except ValidationError as e:  # it names one wrong member, or none when __post_init__ refused the whole
        raise InvalidRequest(_wrong_members(raw, shape) or [_located(e, "")]) from None


def write_json(request: Request, status: int, value: Struct | Mapping[str, object]) -> bytes:
    """Set status and content type; the bytes are the handler's result."""
    request.setResponseCode(status)
    request.setHeader("Content-Type", "application/json")
    return json.encode(value)


def _integers(value: Any) -> Any:
    """With whole floats as integers, as far as floats are exact (RFC 7493 2.2)."""
    match value:
        case float() if value.is_integer() and abs(value) < EXACT:
            return int(value)
        case dict():
            return {name: _integers(member) for name, member in value.items()}
        case list():
            return [_integers(item) for item in value]
    return value


def _wrong_members(raw: Mapping[str, object], shape: type[Struct]) -> list[tuple[str, str]]:
    wrong = []
    for field in _fields(shape):
        pointer = f"/{_escaped(field.encode_name)}"
        if field.encode_name not in raw:
            if field.required:
                wrong.append((pointer, "is missing"))
            continue
        try:
            convert(raw[field.encode_name], field.type, strict=True)
        except ValidationError as e:
            wrong.append(_located(e, pointer))
    return wrong


@cache
def _fields(shape: type[Struct]) -> tuple[FieldInfo, ...]:
    """msgspec works them out anew each time, and leaves garbage."""
    return fields(shape)


def _located(error: ValidationError, pointer: str) -> tuple[str, str]:
    """msgspec's ``... - at `$.client.name` `` -> ("/client/name", "...")."""
    words = str(error)
    match = _WHERE.search(words)
    if match is None:
        return pointer, words
    steps = [name or index or "-" for name, index in _STEP.findall(match["path"])]
    return pointer + "".join(f"/{_escaped(step)}" for step in steps), words[: match.start()]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


QUERY_BYTES = 4096


def read_query(request: Request) -> Mapping[str, str]:
    """The query's parameters by name; BadRequest when one comes twice, or the whole is too long or not UTF-8."""
    if len(request.head.query) > QUERY_BYTES:
        raise BadRequest("The query is too long.")
    return parse_pairs(request.head.query)


def read_form(request: Request) -> Mapping[str, str]:
    """The fields of an application/x-www-form-urlencoded body, which the gate of a pages room has let in."""
    sink = request.body
    if not isinstance(sink, MemoryBody):
        raise TypeError("this route's gate keeps no body in memory")
    return parse_pairs(sink.content())


def parse_pairs(raw: bytes) -> Mapping[str, str]:
    """`a=1&b=%C3%A4+` -> {"a": "1", "b": "ä "}; a name without `=` has the empty value."""
    pairs: dict[str, str] = {}
    for part in filter(None, raw.split(b"&")):
        name, _, value = part.partition(b"=")
        key = _text(name)
        if key in pairs:
            raise BadRequest("A parameter comes twice.")
        pairs[key] = _text(value)
    return pairs


def _text(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise BadRequest("A parameter is not UTF-8.") from None
