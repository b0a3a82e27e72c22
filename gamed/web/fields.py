"""Header fields as the rules of RFC 9110 read them."""

from functools import cache
from typing import Any

from twisted.web.http_headers import Headers

from gamed.http_rules.conditions import Header


class Unshown(Headers):
    """A header whose repr has no field of it: credentials are in there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Fields(Unshown):
    """A request's header; asked for by text, a value is its bytes, one character each (RFC 9110 5.5).

    Twisted's own decodes UTF-8 and raises on what is none.
    """

    def getRawHeaders(self, name: Any, default: Any = None) -> Any:
        if isinstance(name, bytes):
            return super().getRawHeaders(name, default)
        values = super().getRawHeaders(name.encode())
        return default if values is None else [value.decode("latin-1") for value in values]


@cache
def canonical(name: str) -> bytes:
    """As Twisted writes the name of a field; of names in this program only, so there are few."""
    headers = Headers({name: [""]})
    [(written, _)] = headers.getAllRawHeaders()
    return written


class AnswerFields(Unshown):
    """An answer's header, most of whose fields are set once and read once."""

    __slots__ = ()

    def set(self, name: str, value: str) -> None:
        """In place of what was set before."""
        if "\n" in value or "\r" in value:
            self.setRawHeaders(name, [value])
        else:
            self._rawHeaders[canonical(name)] = [value.encode()]

    def one(self, name: str) -> str:
        """The first value, empty without one."""
        values = self._rawHeaders.get(canonical(name))
        return values[0].decode() if values else ""

    def block(self) -> bytes:
        """As it goes out, without the empty line."""
        return b"".join(
            [b"%b: %b\r\n" % (name, value) for name, values in self._rawHeaders.items() for value in values]
        )


def header_of(headers: Headers) -> Header:
    """Lower-case name -> all its lines joined by ", ", byte for character; None when there is none (RFC 9110 5.2)."""

    def header(name: str) -> str | None:
        lines = headers.getRawHeaders(name.encode())
        return None if lines is None else b", ".join(lines).decode("latin-1")

    return header
