"""Request heads as RFC 9112 writes them and no other way: what two readers could read differently is refused."""

from collections.abc import Sequence
from re import ASCII, compile

from msgspec import Struct

from gamed.structs import hides
from gamed.web.errors import BadRequest

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = compile(rb"(%b) ([!-~]+) (HTTP/1\.[01])" % _TOKEN, ASCII)
_FIELD = compile(rb"(%b):([\t -~\x80-\xff]*)" % _TOKEN, ASCII)


@hides("target", "fields")
class RawHead(Struct, frozen=True):
    """Method, target and version as sent; fields as (lower-case name, value without outer blanks)."""

    method: bytes
    target: bytes
    version: bytes
    fields: Sequence[tuple[bytes, bytes]]

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.fields if key == name]

    def tokens(self, name: bytes) -> set[bytes]:
        """The members of a comma-separated field over all its lines, lower case (RFC 9110 5.6.1)."""
        return {token.strip(b" \t").lower() for value in self.values(name) for token in value.split(b",")} - {b""}

    @property
    def persistent(self) -> bool:
        """Whether the connection may carry another request (RFC 9112 9.3); HTTP/1.0 never does here."""
        return self.version == b"HTTP/1.1" and b"close" not in self.tokens(b"connection")

    @property
    def expects_continue(self) -> bool:
        return self.version == b"HTTP/1.1" and b"100-continue" in self.tokens(b"expect")


def parse_head(lines: Sequence[bytes]) -> RawHead:
    """The lines before the empty one, without their ends; BadRequest for folds, bare CR or LF, NUL, odd names."""
    match = _REQUEST_LINE.fullmatch(lines[0])
    if match is None:
        raise BadRequest("The request line is not METHOD target HTTP/1.1.")
    method, target, version = match.groups()
    return RawHead(method, target, version, [parse_field(line) for line in lines[1:]])


def parse_field(line: bytes) -> tuple[bytes, bytes]:
    """Lower-case name and value of a line; BadRequest."""
    match = _FIELD.fullmatch(line)
    if match is None:
        raise BadRequest("A header field is not `name: value`.")
    return match[1].lower(), match[2].strip(b" \t")
