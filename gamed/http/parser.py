"""HTTP/1.1 as it arrives: request heads, targets, Host fields and chunked bodies, strictly by RFC 9112.

Whatever two programs could read in two ways is refused, because a proxy in front of the server may have read it in the
other way: bare CR or LF, folded fields, two Host or Content-Length fields, a Transfer-Encoding other than `chunked`.

httptools was tried for this: it stops at an unknown method before it knows the path (no 405), accepts two blanks,
HTTP/2.0, `gzip, chunked` and chunk extensions of 100 KB, skips the body of an Upgrade request and reads it as the next
request, and it cannot pause: one read of 64 KiB brings up to 2,520 requests at once.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from re import ASCII, DOTALL, IGNORECASE, Match, compile
from typing import Final

from msgspec import Struct

from gamed.http.conditional import Header
from gamed.http.errors import BadRequest, HeadTooLarge, MisdirectedRequest, RouteNotFound
from gamed.structs import redacts

HEAD_BYTES: Final = 16 * 1024
HEAD_FIELDS: Final = 64
HOST_BYTES: Final = 255
"""Longest host name (RFC 3986 3.2.2)."""
CHUNK_LINE_BYTES: Final = 1024
"""Longest line of a chunk size with its extensions."""
TRAILER_BYTES: Final = 64 * 1024
HUGE: Final = 10**18
"""Stands for every Content-Length of more than 18 digits."""
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_FIELD = rf"{_TOKEN}:[\t -~\x80-\xff]*+\r\n"
_REQUEST_LINE = compile(rf"({_TOKEN}) ([!-~]++) (HTTP/1\.[01])", ASCII)
_HEAD = compile(rf"{_REQUEST_LINE.pattern}\r\n((?:{_FIELD})*+)\r\n", ASCII)
_TRAILER = compile(_FIELD, ASCII)
_ABSOLUTE = compile(r"https?://([^/?]*+)(.*+)", IGNORECASE | ASCII)
_ESCAPE = compile(rb"%([0-9A-Fa-f]{2})?")
_HOST_NAME = compile(r"([a-z0-9_.-]++)(?::[0-9]{0,5})?", ASCII)
_HOST_LITERAL = compile(r"\[([0-9a-f:.]++)\](?::[0-9]{0,5})?", ASCII)
_CHUNK_SIZE = compile(rb"([0-9A-Fa-f]++)(?:;[\t\x20-\x5b\x5d-\x7e\x80-\xff]*+)?", DOTALL)


class RequestHeaders:
    """The header fields of one request; names are lower case, a value is its bytes as Latin-1 (RFC 9110 5.5)."""

    __slots__ = ("_joined", "_repeated", "get")
    get: Header
    """The function from a lower-case name to all its values joined by ", ", or None (RFC 9110 5.2)."""

    def __init__(self, block: str) -> None:
        """Split a block of valid lines `name:value CR LF`."""
        lines = [line.split(":", 1) for line in block[:-2].split("\r\n")] if block else []
        self._joined = {name.lower(): value.strip(" \t") for name, value in lines}
        self.get = self._joined.get  # no method, because each request calls it several times
        self._repeated: dict[str, list[str]] = {}
        if len(self._joined) < len(lines):
            self._collect_repeated(lines)

    def __repr__(self) -> str:
        """Show no field: some are credentials."""
        return f"<{type(self).__name__}>"

    def __contains__(self, name: str) -> bool:
        return name in self._joined

    def single(self, name: str) -> str | None:
        """Return the value of a field that was sent exactly once, else None; `name` in lower case."""
        return self._joined.get(name) if name not in self._repeated else None

    def values(self, name: str) -> Sequence[str]:
        """Return the value of each line with this lower-case name."""
        value = self._joined.get(name)
        return self._repeated.get(name) or ([] if value is None else [value])

    def lines(self) -> Sequence[tuple[str, str]]:
        """Return all fields as (lower-case name, value), those of one name together."""
        return [(name, value) for name in self._joined for value in self.values(name)]

    def _collect_repeated(self, lines: Sequence[Sequence[str]]) -> None:
        values: dict[str, list[str]] = {}
        for name, value in lines:
            values.setdefault(name.lower(), []).append(value.strip(" \t"))
        self._repeated = {name: found for name, found in values.items() if len(found) > 1}
        self._joined.update({name: ", ".join(found) for name, found in self._repeated.items()})


@redacts("target", "headers")
class RawRequestHead(Struct, frozen=True):
    """A request head as sent, before its target is decoded."""

    method: str
    target: str
    version: str
    """`HTTP/1.1` or `HTTP/1.0`."""
    headers: RequestHeaders
    length: int | None
    """Bytes of the body; None when it is chunked."""
    size: int = 0
    """Bytes from the begin of the buffer to the end of the head."""
    persistent: bool = False
    """Whether the connection may carry another request (RFC 9112 9.3); HTTP/1.0 never does here."""
    expects_continue: bool = False


def read_head(buffer: bytes) -> RawRequestHead | None:
    """Return the request head that the buffer begins with, or None while it is incomplete.

    Raise HeadTooLarge for more than HEAD_BYTES or HEAD_FIELDS, as soon as that many are here, and BadRequest for
    everything that is not a head of RFC 9112. One empty line before the head is skipped (RFC 9112 2.2).
    """
    start = 2 if buffer.startswith(b"\r\n") else 0
    if start and buffer.startswith(b"\r\n", start):
        raise BadRequest("The request line is empty.")
    end = buffer.find(b"\r\n\r\n", start, start + HEAD_BYTES + 2)
    if end < 0:
        _check_incomplete(buffer[start:])
        return None
    text = buffer[start : end + 4].decode("latin-1")
    if text.count("\r\n") > HEAD_FIELDS + 2:
        raise HeadTooLarge
    match = _HEAD.fullmatch(text)
    if match is None:
        if _REQUEST_LINE.fullmatch(text.partition("\r\n")[0]) is None:
            raise BadRequest("The request line is not METHOD target HTTP/1.1.")
        raise BadRequest("A header field is not `name: value`.")
    method, target, version, fields = match.groups()
    headers = RequestHeaders(fields)
    framed = "content-length" in headers or "transfer-encoding" in headers
    length = _body_length(version, headers) if framed else 0
    connection, expect, current = headers.get("connection"), headers.get("expect"), version == "HTTP/1.1"
    persistent = current and (connection is None or "close" not in _members(connection))
    expects_continue = current and expect is not None and "100-continue" in _members(expect)
    return RawRequestHead(method, target, version, headers, length, end + 4, persistent, expects_continue)


def read_request_line(buffer: bytes) -> RawRequestHead | None:
    """Return what the first line says of a head that cannot be read; None when even that line is malformed."""
    start = 2 if buffer.startswith(b"\r\n") else 0
    line, end, _ = buffer[start : start + HEAD_BYTES].partition(b"\r\n")
    match = _REQUEST_LINE.fullmatch(line.decode("latin-1")) if end else None
    return match and RawRequestHead(match[1], match[2], match[3], RequestHeaders(""), 0)


def _check_incomplete(head: bytes) -> None:
    """Refuse an incomplete head that is already too large, or in which a line ends with a bare LF."""
    if len(head) > HEAD_BYTES or head.count(b"\r\n") > HEAD_FIELDS + 1:
        raise HeadTooLarge
    if b"\n" in head[head.rfind(b"\r\n") + 2 if b"\r\n" in head else 0 :]:
        raise BadRequest("Lines of a head end in CR LF.")


def _body_length(version: str, headers: RequestHeaders) -> int | None:
    """Return the bytes of an announced body, None for chunks (RFC 9112 6.3); refuse every ambiguity."""
    if "transfer-encoding" in headers:
        if "content-length" in headers:
            raise BadRequest("Send Content-Length or Transfer-Encoding, not both.")
        if version == "HTTP/1.0":
            raise BadRequest("Transfer-Encoding belongs to HTTP/1.1.")
        if [coding.lower() for coding in headers.values("transfer-encoding")] != ["chunked"]:
            raise BadRequest("The only transfer coding taken is chunked.")
        return None
    length = headers.single("content-length")
    if length is None or not (length.isascii() and length.isdigit()):
        raise BadRequest("Send one Content-Length, in digits.")
    digits = length.lstrip("0") or "0"
    return int(digits) if len(digits) <= 18 else HUGE


def _members(value: str) -> Collection[str]:
    """Return the members of a comma-separated field, lower case (RFC 9110 5.6.1)."""
    return {member.strip(" \t").lower() for member in value.split(",")} - {""}


def split_target(method: str, target: str) -> tuple[str, str, str | None]:
    """Return the path, the query without its question mark, and the authority of an absolute target (RFC 9112 3.2).

    Nothing is decoded. Raise BadRequest if the target is neither a path nor an http URL, nor `*` of OPTIONS.
    """
    authority = None
    if not target.startswith("/"):
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is not None:
            authority, target = absolute[1], absolute[2]
            target = target if target.startswith("/") else "/" + target
        elif target != "*" or method != "OPTIONS":
            raise BadRequest("The target of a request is a path.")
    if "#" in target:
        raise BadRequest("The target of a request is a path.")
    path, _, query = target.partition("?")
    return path, query, authority


def decode_path(path: str) -> str:
    """Percent-decode a path once.

    Raise RouteNotFound for an empty segment inside or an encoded slash, which no route has, and BadRequest for what is
    not percent-encoded UTF-8. Control characters are decoded, too: the converters of the routes decide about them.
    """
    if "//" in path or not path.startswith("/"):
        raise RouteNotFound
    if "%" not in path:
        return path
    segments = [_decode_segment(segment) for segment in path.split("/")]
    if any("/" in segment for segment in segments):
        raise RouteNotFound
    return "/".join(segments)


def _decode_segment(segment: str) -> str:
    try:
        return _ESCAPE.sub(_decode_escape, segment.encode("latin-1")).decode() if "%" in segment else segment
    except UnicodeDecodeError:
        raise BadRequest("The path is not UTF-8.") from None


def _decode_escape(match: Match[bytes]) -> bytes:
    if match[1] is None:
        raise BadRequest("A percent sign in the path is not followed by two hex digits.")
    return bytes.fromhex(match[1].decode())


def check_host(version: str, headers: RequestHeaders, authority: str | None, our_host: str | None) -> None:
    """Raise BadRequest for no, two or a malformed Host, MisdirectedRequest for the name of another server.

    `our_host` is a name that normalize_host() returned; None allows every name. `authority` is that of an absolute
    target and wins over Host, which has to be there all the same (RFC 9112 3.2.2).
    """
    host = headers.single("host")
    if host is None and ("host" in headers or version != "HTTP/1.0"):
        raise BadRequest("Send one Host field.")
    names = [normalize_host(name) for name in (host, authority) if name is not None]
    if names and our_host is not None and names[-1] != our_host and names[-1] not in LOOPBACK_HOSTS:
        raise MisdirectedRequest


@lru_cache(256)
def normalize_host(host: str) -> str:
    """Return `example.org` for `Example.ORG.:8080`, `::1` for `[0::1]`; raise BadRequest if it is not a host."""
    lower = host.lower()
    literal = _HOST_LITERAL.fullmatch(lower)
    if literal is not None:
        try:
            return str(IPv6Address(literal[1]))
        except AddressValueError:
            raise BadRequest("The Host field is not an address.") from None
    match = _HOST_NAME.fullmatch(lower)
    name = match[1].removesuffix(".") if match is not None else ""
    if len(name) > HOST_BYTES or not all(name.split(".")):  # no label is empty
        raise BadRequest("The Host field is not a host and an optional port.")
    return name


DECODED_PIECES = 1024
"""Sizes, contents and ends of chunks that are decoded in one turn of the reactor: below 2 ms. A read of 64 KiB may have
33,000, 24 ms in which no other connection would be served."""


class ChunkedDecoder:
    """The decoder of one chunked body (RFC 9112 7.1); extensions and trailers are checked, bounded and dropped."""

    __slots__ = ("_buffer", "_left", "_searched", "_trailer_bytes", "complete", "malformed", "unfinished")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._left: int | None = None
        """Bytes of the current chunk that are still to come; 0: its CR LF; -1: trailers; None: a chunk's size."""
        self._searched = 0
        """Bytes of the buffer in which the end of the current line is not."""
        self._trailer_bytes = 0
        self.complete = False
        self.malformed = False
        self.unfinished = False
        """Whether bytes that are here were left for another call, because they are many small chunks."""

    @property
    def held(self) -> int:
        """Return how many bytes were received and not decoded yet."""
        return len(self._buffer)

    def hold(self, data: bytes) -> None:
        """Keep bytes for the next call of decode()."""
        self._buffer += data

    def decode(self, data: bytes) -> bytes:
        """Return the decoded bytes; `malformed`, `complete` and `unfinished` are set afterwards."""
        self._buffer += data
        decoded: list[bytes] = []
        for _ in range(DECODED_PIECES):
            if self.complete or self.malformed or not self._buffer or not self._step(decoded):
                self.unfinished = False
                break
        else:
            self.unfinished = not (self.complete or self.malformed) and bool(self._buffer)
        return b"".join(decoded)

    def rest(self) -> bytes:
        """Return the bytes behind a complete body."""
        return bytes(self._buffer)

    def _step(self, decoded: list[bytes]) -> bool:
        """Read one piece; return False when more bytes are needed."""
        if self._left is None or self._left < 0:
            return self._read_line()
        if self._left:
            piece = bytes(memoryview(self._buffer)[: self._left])
            decoded.append(piece)
            del self._buffer[: len(piece)]
            self._left -= len(piece)
        elif len(self._buffer) < 2:
            return False
        elif self._buffer.startswith(b"\r\n"):
            del self._buffer[:2]
            self._left = None
        else:
            self.malformed = True
        return True

    def _read_line(self) -> bool:
        trailers = self._left == -1
        most = TRAILER_BYTES - self._trailer_bytes if trailers else CHUNK_LINE_BYTES
        end = self._buffer.find(b"\r\n", self._searched, most + 2)
        self._searched = max(0, len(self._buffer) - 1) if end < 0 else 0
        if end < 0:
            waiting = len(self._buffer) + (2 - self._buffer.endswith(b"\r") if trailers else 0)
            self.malformed = waiting > most
            return False
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        if trailers:
            self._trailer_bytes += end + 2
            self.complete = not line
            self.malformed = bool(line) and (
                self._trailer_bytes > TRAILER_BYTES or not _TRAILER.fullmatch(line.decode("latin-1") + "\r\n")
            )
        else:
            match = _CHUNK_SIZE.fullmatch(line)
            self.malformed = match is None or end >= CHUNK_LINE_BYTES
            self._left = match and (int(match[1], 16) or -1)
        return True
