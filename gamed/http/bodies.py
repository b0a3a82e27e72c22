"""Body policies decide from the request head whether a body may come, and body receivers take its bytes.

A policy runs when the head is complete, before `100 Continue` and before any byte of the body is read. It raises the
same typed errors as a handler, or returns the receiver. The receiver gets the bytes as they arrive; it counts, hashes
or spools them, and its errors are answered, too. The handler runs when the body is complete and finds the receiver as
`request.body`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.http.conditional import Header
from gamed.http.errors import BodyTooLarge, UnsupportedMediaType
from gamed.http.parser import RequestHeaders

BODY_BYTES = 8 * 1024
"""Longest body of a route that names no policy (docs/protocol.md: Conventions)."""


class RequestHead(Struct, frozen=True, eq=False):
    """A request before its body."""

    method: str
    path: str
    """Decoded once; never to be logged."""
    query: bytes
    """Raw, without the question mark."""
    kwargs: Mapping[str, str]
    """The arguments that the converters of the route found in the path."""
    headers: RequestHeaders
    length: int | None
    """Bytes of the body as announced, 0 without a body, None when it is chunked."""
    address: str
    """The client's address behind trusted proxies; `unix` for a local socket."""

    def __repr__(self) -> str:
        """Show neither the path nor the address, nor what came with them."""
        return f"<RequestHead {self.method}>"

    @property
    def has_framing(self) -> bool:
        """Return whether the client said how its body ends; a route that needs a body answers 411 if not."""
        return self.length is None or "content-length" in self.headers

    @property
    def header(self) -> Header:
        """Return the function from a lower-case name to all its values joined by ", ", or None."""
        return self.headers.get

    def single(self, name: str) -> str | None:
        """Return the value of a field that was sent exactly once, else None."""
        return self.headers.single(name)


class BodyReceiver(Protocol):
    """The receiver of one body. After `abort` nothing follows: the body is discarded.

    `write` may return a Deferred: nothing more is read from the client before it has fired, whatever its result.
    """

    def write(self, data: bytes) -> Deferred[None] | None: ...

    def abort(self) -> None: ...


class BodyPolicy(Protocol):
    """The decision from a head whether a body is accepted. If the client leaves meanwhile, the receiver is aborted."""

    async def accept(self, head: RequestHead) -> BodyReceiver: ...


DEFAULT_BODY_POLICIES: Mapping[str, BodyPolicy] = MappingProxyType({})
"""The policies of a route group whose routes all take small bodies."""


class MemoryBody:
    """A small body in memory."""

    __slots__ = ("_limit", "_parts", "size")

    def __init__(self, limit: int = BODY_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self.size = 0

    def write(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._limit:
            raise body_too_large(self._limit)
        self._parts.append(data)

    def abort(self) -> None:
        self._parts.clear()

    def content(self) -> bytes:
        """Return the bytes so far; all of them once the handler runs."""
        return b"".join(self._parts)


class DiscardedBody:
    """The receiver of a body that was refused."""

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...


NO_BODY = MemoryBody(0)
"""The receiver of every request without a body; nothing is ever written to it."""
DISCARDED_BODY = DiscardedBody()


class SmallBodyPolicy(Struct, frozen=True):
    """The policy of every route that names none: a body of one media type, up to `limit` bytes, in no coding."""

    media_type: str
    limit: int = BODY_BYTES

    async def accept(self, head: RequestHead) -> MemoryBody:
        # The size first: a body that is too large is refused in whatever type and coding it is sent next. A chunked
        # body has no length yet; MemoryBody refuses it at the byte that is one too many.
        if head.length is not None and head.length > self.limit:
            raise body_too_large(self.limit)
        # The body of a GET or DELETE has no meaning (RFC 9110 9.3.1, 9.3.5): no handler reads it, so any type will do.
        if head.length != 0 and head.method in {"POST", "PUT", "PATCH"}:
            if "content-encoding" in head.headers:
                raise UnsupportedMediaType("Send the body without Content-Encoding.")
            if parse_media_type(head.single("content-type")) != (self.media_type, "utf-8"):
                raise UnsupportedMediaType(f"Send the body as {self.media_type}.")
        return MemoryBody(self.limit)


def parse_media_type(value: str | None) -> tuple[str, str]:
    """Return ("application/json", "utf-8") for `Application/JSON; Charset="UTF-8"`; other parameters do not matter."""
    kind, *parameters = (value or "").split(";")
    charset = "utf-8"
    for parameter in parameters:
        name, _, text = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = text.strip().strip('"').lower()
    return kind.strip().lower(), charset


def body_too_large(limit: int) -> BodyTooLarge:
    """Return the error for a body of more than `limit` bytes."""
    return BodyTooLarge(f"Send at most {limit} bytes.", members={"limit": limit})
