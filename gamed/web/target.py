"""Request targets (RFC 9112 3.2): decoded once, never normalised, never built into another address."""

from re import IGNORECASE, Match, compile

from msgspec import Struct

from gamed.structs import hides
from gamed.web.errors import BadRequest, RouteNotFound
from gamed.web.raw_head import RawHead

_ABSOLUTE = compile(rb"https?://([^/?]*)(.*)", IGNORECASE)
_ESCAPE = compile(rb"%([0-9A-Fa-f]{2})?")
_CONTROL = compile(r"[\x00-\x1f\x7f-\x9f]")


@hides("path", "query")
class Target(Struct, frozen=True):
    """Where a request wants to go, not yet decoded."""

    path: bytes
    """Begins with a slash, or is `*`."""
    query: bytes
    """Without the question mark."""
    authority: bytes | None
    """Of the absolute form, which then stands for Host (RFC 9112 3.2.2)."""


def split_target(head: RawHead) -> Target:
    """BadRequest for what is neither a path nor an http URL."""
    authority, rest = None, head.target
    absolute = _ABSOLUTE.fullmatch(rest)
    if absolute is not None:
        authority, rest = absolute[1], absolute[2]
        rest = rest if rest.startswith(b"/") else b"/" + rest
    asterisk = rest == b"*" and head.method == b"OPTIONS"
    if not (asterisk or rest.startswith(b"/")) or b"#" in rest:
        raise BadRequest("The target of a request is a path.")
    path, _, query = rest.partition(b"?")
    return Target(path, query, authority)


def decode_path(path: bytes) -> str:
    """Percent-decode; raise RouteNotFound for an encoded slash or an empty segment inside.

    Control characters are decoded too. has_control() finds them: a route has them in checked arguments only.
    """
    if b"//" in path or not path.startswith(b"/"):
        raise RouteNotFound
    segments = [_decoded(segment) for segment in path.split(b"/")]
    if any("/" in segment for segment in segments):
        raise RouteNotFound
    return "/".join(segments)


def has_control(text: str) -> bool:
    """Return whether a control character (C0, DEL, C1) is in the text."""
    return _CONTROL.search(text) is not None


def _decoded(segment: bytes) -> str:
    try:
        return _ESCAPE.sub(_byte, segment).decode() if b"%" in segment else segment.decode("ascii")
    except UnicodeDecodeError:
        raise BadRequest("The path is not UTF-8.") from None


def _byte(match: Match[bytes]) -> bytes:
    if match[1] is None:
        raise BadRequest("A percent sign in the path is not followed by two hex digits.")
    return bytes.fromhex(match[1].decode())
