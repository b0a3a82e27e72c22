"""This module reads the header fields of requests, and decides about those of CORS (RFC 9110 5, Fetch standard 3.2)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from gamed.http.conditional import Header


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


def credential_sent(headers: RequestHeaders) -> bool:
    """Return whether any Authorization field carries something to authenticate with, of whichever scheme.

    An empty field and a bare `Bearer` carry nothing, so the 401 must not call a token invalid (RFC 6750 3.1).
    """
    values = headers.values("authorization")
    return any(value.strip(" \t").lower() not in {"", "bearer"} for value in values)


CORS_ALLOWED: Final = (
    "authorization, content-type, if-match, if-none-match, if-range, range, prefer, content-digest, save-meta"
)
CORS_EXPOSED: Final = (
    "etag, save-version, save-meta, retry-after, x-request-id, repr-digest, content-range, preference-applied, "
    "asset-release, gamed-protocol"
)


class CorsPolicy(Struct, frozen=True):
    """The origins whose web pages may use the JSON routes."""

    origins: Collection[str]

    def preflight_headers(self, methods: Collection[str], origin: str | None) -> Mapping[str, str]:
        """Return the header fields of the 204 to an OPTIONS request for a path with these methods."""
        allowed = ", ".join(sorted({*methods, "OPTIONS"}))
        if origin not in self.origins:
            return {"Allow": allowed}
        return {
            "Allow": allowed,
            "Access-Control-Allow-Methods": allowed,
            "Access-Control-Allow-Headers": CORS_ALLOWED,
            "Access-Control-Max-Age": "600",
        }

    def response_headers(self, origin: str | None) -> Mapping[str, str]:
        """Return the header fields with which a page of an allowed origin may read the response."""
        if origin is None or origin not in self.origins:
            return {}
        return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": CORS_EXPOSED}
