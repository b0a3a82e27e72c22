"""Gates and sinks: who may send a body, judged from the head, and where its bytes go.

A gate runs when the head is complete, before `100 Continue` and before any byte of the body is taken. It raises the
same typed errors as a handler, or returns the sink. The sink gets the bytes as they arrive; it counts, hashes or
spools them, and its errors are answered too. The handler runs when the body is whole and finds its sink again as
`request.sink`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.http_rules.conditions import Header
from gamed.web.errors import BodyTooLarge, UnsupportedMediaType
from gamed.web.fields import Fields

BODY_BYTES = 8 * 1024
"""What a route takes when its room says nothing (PROTOCOL 1)."""


class Head(Struct, frozen=True, eq=False):
    """A request before its body."""

    method: str
    path: str
    """Decoded once; never to be logged."""
    query: bytes
    """Raw, without the question mark."""
    kwargs: Mapping[str, str]
    """What the route's converters found in the path."""
    headers: Fields
    length: int | None
    """Bytes the client says will come; 0 when it says nothing; None when chunked."""
    address: str
    """The client's address behind trusted proxies; `unix` for a local socket."""

    def __repr__(self) -> str:
        """Not the path, the address, nor what came with them."""
        return f"<Head {self.method}>"

    @property
    def has_body(self) -> bool:
        """Whether any byte may follow."""
        return self.length != 0

    @property
    def framed(self) -> bool:
        """Whether the client said how its body ends; if not, and a body is needed, 411."""
        return self.length is None or self.headers.hasHeader("content-length")

    @property
    def header(self) -> Header:
        """Lower-case name -> all its lines as one text."""
        return self.headers.header

    def one(self, name: str) -> str | None:
        """The value of a field that was sent exactly once, else None."""
        return self.headers.only(name)


class Sink(Protocol):
    """Takes a body. After `abort` nothing follows: it never became whole, and what was kept must go.

    `write` may return a Deferred: the client is asked for no more before it has fired, whatever it fires with.
    """

    def write(self, data: bytes) -> Deferred[None] | None: ...

    def abort(self) -> None: ...


class Gate(Protocol):
    """Judges a head. Nothing of the body is read meanwhile, and the client may leave: then the sink is aborted."""

    async def admit(self, head: Head) -> Sink: ...


NO_GATES: Mapping[str, Gate] = MappingProxyType({})
"""Of a room whose routes all take small bodies."""


class MemorySink:
    """A small body in memory."""

    def __init__(self, limit: int = BODY_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self.size = 0

    def write(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._limit:
            raise too_large(self._limit)
        self._parts.append(data)

    def abort(self) -> None:
        self._parts.clear()

    def body(self) -> bytes:
        """The bytes so far; all of them once the handler runs."""
        return b"".join(self._parts)


NO_BODY = MemorySink(0)
"""Of every request without one."""


class SmallBodyGate(Struct, frozen=True):
    """The gate of every route that names none: a body of one media type, up to `limit` bytes, in no coding."""

    media_type: str
    limit: int = BODY_BYTES

    async def admit(self, head: Head) -> MemorySink:
        if head.length is not None and head.length > self.limit:
            raise too_large(self.limit)
        if head.has_body and head.method in {"POST", "PUT", "PATCH"}:
            self._judge_type(head)
        return MemorySink(self.limit)

    def _judge_type(self, head: Head) -> None:
        if head.headers.hasHeader("content-encoding"):
            raise UnsupportedMediaType("Send the body without Content-Encoding.")
        if media_type(head.one("content-type")) != (self.media_type, "utf-8"):
            raise UnsupportedMediaType(f"Send the body as {self.media_type}.")


def media_type(value: str | None) -> tuple[str, str]:
    """`Application/JSON; Charset="UTF-8"` -> ("application/json", "utf-8"); other parameters do not matter here."""
    kind, *parameters = (value or "").split(";")
    charset = "utf-8"
    for parameter in parameters:
        name, _, text = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = text.strip().strip('"').lower()
    return kind.strip().lower(), charset


def too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"Send at most {limit} bytes.", members={"limit": limit})
