"""The access log has one event per request, written in batches when the requests have ended.

    2026-11-21T09:36:23.004Z http_request request=5f0c... method=GET route=/game/saves/{slot} status=200 ...

A line has the route's template and never a path, query, slot, name or address.

See docs/owners/monitoring.md: The log.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import starmap
from json import dumps
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from gamed.config.settings import LogFormat
from gamed.timestamps import Now, rfc3339

FLUSH_SECONDS = 1.0
FLUSH_LINES = 500
METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"})
NAMESPACE = "gamed.requests"
Count = Callable[[str, str, int, float, int, int, str], None]
"""A function that counts a request: route, method, status, seconds, bytes sent, bytes received, code of a problem."""


REFUSALS = frozenset({401, 403, 413, 429, 503, 507})
"""Not signed in, not allowed, no room, too often, not well. A game meets 304, 404 and 412 every day."""


class Tally(Struct):
    """The requests since the last count of the day, and those of them that were refused."""

    requests: int = 0
    refusals: int = 0


class EndedRequest(Struct, frozen=True, kw_only=True):
    """A request that has ended; `template` stands for its path."""

    request_id: str
    method: str
    template: str
    status: int
    size: int
    """Bytes of content that were sent."""
    seconds: float
    """From the end of the head to the end of the response."""
    received: int = 0
    """Bytes of a body that was read completely."""
    code: str = ""
    """The code of the problem that was sent; empty after a success."""

    @property
    def verb(self) -> str:
        """Return the method; `-` for an invented one, which is the client's own text."""
        return self.method if self.method in METHODS else "-"

    def line(self) -> str:
        """Return the event; by their origin none of its values needs quotes."""
        return (
            f"http_request request={self.request_id} method={self.verb} route={self.template} status={self.status}"
            f" bytes={self.size} milliseconds={self.seconds * 1000:.1f} code={self.code or '-'}"
        )


class RequestLog(Protocol):
    """The access log as the HTTP server uses it."""

    def log(self, request: EndedRequest) -> None: ...


class AccessLog:
    """The log of all requests. `write` gets whole lines as one text; lines that it cannot write are lost."""

    def __init__(
        self,
        write: Callable[[str], object],
        clock: IReactorTime,
        now_ms: Now,
        style: LogFormat = LogFormat.TEXT,
        *,
        count: Count | None = None,
    ) -> None:
        self.tally = Tally()
        self._write = write
        self._count = count
        self._clock = clock
        self._now_ms = now_ms
        self._shape = SHAPES[style]
        self._entries: list[tuple[int, EndedRequest]] = []
        """With the time of their end; they become text when the log is written."""
        self._due: IDelayedCall | None = None

    def log(self, request: EndedRequest) -> None:
        self.tally.requests += 1
        self.tally.refusals += request.status in REFUSALS
        if self._count is not None:
            verb, sent, received = request.verb, request.size, request.received
            self._count(request.template, verb, request.status, request.seconds, sent, received, request.code)
        self._entries.append((self._now_ms(), request))
        if len(self._entries) >= FLUSH_LINES:
            self.flush()
        elif self._due is None:
            self._due = self._clock.callLater(FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Write the waiting entries; the service calls this at the end of its shutdown."""
        due, self._due = self._due, None
        if due is not None and due.active():
            due.cancel()
        entries, self._entries = self._entries, []
        if entries:
            with suppress(OSError):  # a full disk costs lines, not responses
                self._write("".join(starmap(self._shape, entries)))


def _as_text(ended_ms: int, request: EndedRequest) -> str:
    return f"{rfc3339(ended_ms)} {request.line()}\n"


def _as_journal(ended_ms: int, request: EndedRequest) -> str:
    return f"<6>[{NAMESPACE}] {request.line()}\n"


def _as_json(ended_ms: int, request: EndedRequest) -> str:
    members = {
        "time": rfc3339(ended_ms),
        "level": "info",
        "namespace": NAMESPACE,
        "message": request.line(),
        "request_id": request.request_id,
        "method": request.verb,
        "route": request.template,
        "status": request.status,
        "bytes": request.size,
        "milliseconds": float(f"{request.seconds * 1000:.1f}"),
    }
    return f"{dumps(members | ({'code': request.code} if request.code else {}), separators=(',', ':'))}\n"


SHAPES: Mapping[LogFormat, Callable[[int, EndedRequest], str]] = MappingProxyType(
    {LogFormat.TEXT: _as_text, LogFormat.JSON: _as_json, LogFormat.JOURNAL: _as_journal}
)
