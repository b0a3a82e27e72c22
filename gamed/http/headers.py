"""This module holds the header fields of requests and responses (RFC 9110 5)."""

from collections.abc import Mapping, Sequence

from gamed.http.conditional import Header


class RequestHeaders:
    """The header fields of one request; names are lower case, a value is its bytes as Latin-1 (RFC 9110 5.5)."""

    __slots__ = ("_joined", "_repeated")

    def __init__(self, block: str) -> None:
        """Split a block of valid lines `name:value CR LF`."""
        lines = [line.split(":", 1) for line in block[:-2].split("\r\n")] if block else []
        self._joined = {name.lower(): value.strip(" \t") for name, value in lines}
        self._repeated: dict[str, list[str]] = {}
        if len(self._joined) < len(lines):
            self._collect_repeated(lines)

    def __repr__(self) -> str:
        """Show no field: some are credentials."""
        return f"<{type(self).__name__}>"

    def __contains__(self, name: str) -> bool:
        return name in self._joined

    @property
    def get(self) -> Header:
        """The function from a lower-case name to all its values joined by ", ", or None (RFC 9110 5.2)."""
        return self._joined.get

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


def credential_sent(headers: RequestHeaders) -> bool:
    """Return whether any Authorization field carries something to authenticate with, of whichever scheme.

    An empty field and a bare `Bearer` carry nothing, so the 401 must not call a token invalid (RFC 6750 3.1).
    """
    values = headers.values("authorization")
    return any(value.strip(" \t").lower() not in {"", "bearer"} for value in values)


class ResponseHeaders:
    """The header fields of one response: one value for each name, and further lines beside them."""

    __slots__ = ("_added", "_prepared", "_values")

    def __init__(self) -> None:
        self._prepared: PreparedHeaders | None = None
        self._values: dict[str, str] = {}
        self._added: list[tuple[str, str]] = []

    def __repr__(self) -> str:
        """Show no field: some are cookies."""
        return f"<{type(self).__name__}>"

    def set(self, name: str, value: str) -> None:
        """Set a field, instead of what was set before; the name is written as it is given."""
        self._values[name] = value

    def begin(self, prepared: "PreparedHeaders") -> None:
        """Set the first fields of a response, from a block that was encoded once."""
        if self._values or self._prepared is not None:
            self.update(prepared.values)
        else:
            self._prepared = prepared

    def update(self, values: Mapping[str, str]) -> None:
        """Set several fields."""
        self._values.update(values)

    def add(self, name: str, value: str) -> None:
        """Add one more line, whatever is set."""
        self._added.append((name, value))

    def remove(self, name: str) -> None:
        """Remove what was set, if it was."""
        if self._prepared is not None and name in self._prepared.values:
            self._merge_prepared(self._prepared)
        self._values.pop(name, None)

    def get(self, name: str) -> str | None:
        """Return what was set."""
        value = self._values.get(name)
        return value if value is not None or self._prepared is None else self._prepared.values.get(name)

    def encode(self) -> bytes:
        """Return the lines as they are sent, without the empty one; a line end inside a value becomes a blank."""
        prepared = self._prepared
        if prepared is not None and not prepared.values.keys().isdisjoint(self._values):
            self._merge_prepared(prepared)
        lines = [f"{name}: {value}\r\n" for name, value in self._values.items()]
        if self._added:
            lines += [f"{name}: {value}\r\n" for name, value in self._added]
        text = "".join(lines)
        if text.count("\r") == len(lines) == text.count("\n"):
            block = text.encode()
        else:
            block = b"".join(b"%b\r\n" % b" ".join(line.encode().splitlines()) for line in lines)
        return block if self._prepared is None else self._prepared.block + block

    def _merge_prepared(self, prepared: "PreparedHeaders") -> None:
        self._prepared, self._values = None, {**prepared.values, **self._values}


class PreparedHeaders:
    """The fields that many responses begin with, encoded once."""

    __slots__ = ("block", "values")

    def __init__(self, values: Mapping[str, str]) -> None:
        headers = ResponseHeaders()
        headers.update(values)
        self.values, self.block = values, headers.encode()

    def __repr__(self) -> str:
        """Show no field: an etag reveals what a player has."""
        return f"<{type(self).__name__}>"
