"""Raw queries and forms, read strictly: UTF-8, 4 KiB, each name once (PROTOCOL 3.2, 3.3)."""

from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from gamed.http.bodies import MemoryBody
from gamed.http.errors import BadRequest
from gamed.http.request import Request

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
