"""Header fields as the rules of RFC 9110 read and write them."""

from collections.abc import Mapping
from typing import Any

from twisted.web.http_headers import Headers

from gamed.http_rules.conditions import Header


class Fields(Headers):
    """A request's header; asked for by text, a value is its bytes, one character each (RFC 9110 5.5).

    Twisted's own decodes UTF-8 and raises on what is none.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        """Not one field: credentials are in there."""
        return f"<{type(self).__name__}>"

    def getRawHeaders(self, name: Any, default: Any = None) -> Any:
        if isinstance(name, bytes):
            return super().getRawHeaders(name, default)
        values = super().getRawHeaders(name.encode())
        return default if values is None else [value.decode("latin-1") for value in values]

    def only(self, name: str) -> str | None:
        """The value of a field that was sent exactly once, else None; `name` in lower case."""
        values = self.getRawHeaders(name, ())
        return values[0] if len(values) == 1 else None

    @property
    def header(self) -> Header:
        """Lower-case name -> all its lines joined by ", "; None when there is none (RFC 9110 5.2)."""
        return self._joined

    def _joined(self, name: str) -> str | None:
        values = self.getRawHeaders(name)
        return None if values is None else ", ".join(values)


class AnswerFields:
    """An answer's header: one value for each name, and what stands beside it; names are written as they are given."""

    __slots__ = ("_beside", "_prepared", "_values")

    def __init__(self) -> None:
        self._prepared: Prepared | None = None
        self._values: dict[str, str] = {}
        self._beside: list[tuple[str, str]] = []

    def __repr__(self) -> str:
        """Not one field: cookies are in there."""
        return f"<{type(self).__name__}>"

    def set(self, name: str, value: str) -> None:
        """In place of what was set before."""
        self._values[name] = value

    def begin(self, prepared: "Prepared") -> None:
        """As many times set(), for the first values of an answer."""
        if self._values or self._prepared is not None:
            self.update(prepared.values)
        else:
            self._prepared = prepared

    def update(self, values: Mapping[str, str]) -> None:
        """As many times set()."""
        self._values.update(values)

    def add(self, name: str, value: str) -> None:
        """One more line, whatever is set."""
        self._beside.append((name, value))

    def remove(self, name: str) -> None:
        """What was set, if it was."""
        if self._prepared is not None and name in self._prepared.values:
            self._take_apart(self._prepared)
        self._values.pop(name, None)

    def get(self, name: str) -> str | None:
        """What was set."""
        value = self._values.get(name)
        return value if value is not None or self._prepared is None else self._prepared.values.get(name)

    def block(self) -> bytes:
        """As it goes out, without the empty line. A line end inside a value becomes a blank."""
        prepared = self._prepared
        if prepared is not None and not prepared.values.keys().isdisjoint(self._values):
            self._take_apart(prepared)
        lines = [f"{name}: {value}\r\n" for name, value in self._values.items()]
        if self._beside:
            lines += [f"{name}: {value}\r\n" for name, value in self._beside]
        text = "".join(lines)
        if text.count("\r") == len(lines) == text.count("\n"):
            block = text.encode()
        else:
            block = b"".join(b"%b\r\n" % b" ".join(line.encode().splitlines()) for line in lines)
        return block if self._prepared is None else self._prepared.block + block

    def _take_apart(self, prepared: "Prepared") -> None:
        """Its values are not what they were."""
        self._prepared, self._values = None, {**prepared.values, **self._values}


class Prepared:
    """What many answers begin with, one value for each name; how it goes out is made once."""

    __slots__ = ("block", "values")

    def __init__(self, values: Mapping[str, str]) -> None:
        fields = AnswerFields()
        fields.update(values)
        self.values, self.block = values, fields.block()

    def __repr__(self) -> str:
        """Not one field: an etag tells what somebody has."""
        return f"<{type(self).__name__}>"
