"""The JSON, form or query of a request, read strictly, and JSON responses (docs/protocol.md: Conventions, Signing in).

A query or form is UTF-8 and has each name once; a query has at most 4 KiB.
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
"""Up to here each float stands for one integer."""
_WHERE = compile(r" - at `\$(?P<path>[^`]*)`$")
_STEP = compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")


def read_json(request: Request, shape: type[S], *, optional: bool = False) -> S:
    """Return the body as a msgspec.Struct; raise InvalidRequest with all wrong members.

    Types are strict, unknown members are ignored. 25.0 is the number 25 (RFC 8259 6): some game engines only have
    floats. The body policy has checked the media type. With `optional` a request without a body counts as `{}`.
    """
    body = _memory_body(request)
    absent = not body and "content-type" not in request.head.headers
    try:
        raw = {} if optional and absent else _integers(parse_object(body))
    except JsonMalformed as e:
        raise InvalidRequest([("", str(e))]) from None
    try:
        return convert(raw, shape, strict=True)
    except ValidationError as e:  # of one wrong member, or of none if __post_init__ has raised it
        raise InvalidRequest(_wrong_members(raw, shape) or [_located(e, "")]) from None


def write_json(request: Request, status: int, value: Struct | Mapping[str, object]) -> bytes:
    """Set status and media type, and return the bytes as the handler's result."""
    request.setResponseCode(status)
    request.setHeader("Content-Type", "application/json")
    return json.encode(value)


def _integers(value: Any) -> Any:
    """Convert whole floats to integers, as far as floats are exact (RFC 7493 2.2)."""
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
    """Cache the fields of a struct, because msgspec computes them at each call and leaves garbage."""
    return fields(shape)


def _located(error: ValidationError, pointer: str) -> tuple[str, str]:
    """Split the text of msgspec: ``... - at `$.client.name` `` -> ("/client/name", "...")."""
    text = str(error)
    match = _WHERE.search(text)
    if match is None:
        return pointer, text
    steps = [name or index or "-" for name, index in _STEP.findall(match["path"])]
    return pointer + "".join(f"/{_escaped(step)}" for step in steps), text[: match.start()]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


QUERY_BYTES = 4096


def read_query(request: Request) -> Mapping[str, str]:
    """Return the parameters of the query; raise BadRequest for a repeated name, too many bytes or invalid UTF-8."""
    if len(request.head.query) > QUERY_BYTES:
        raise BadRequest("The query is too long.")
    return parse_pairs(request.head.query)


def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of an application/x-www-form-urlencoded body; raise BadRequest as read_query()."""
    return parse_pairs(_memory_body(request))


def _memory_body(request: Request) -> bytes:
    if not isinstance(request.body, MemoryBody):
        raise TypeError("the body policy of this route keeps no body in memory")
    return request.body.content()


def parse_pairs(raw: bytes) -> Mapping[str, str]:
    """Parse `a=1&b=%C3%A4+` -> {"a": "1", "b": "ä "}; a name without `=` has the empty value."""
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
