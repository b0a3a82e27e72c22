"""The access log has one event per request, written in batches when the requests have ended (PROTOCOL 1).

    2026-11-21T09:36:23.004Z http_request request=5f0c... method=GET route=/game/saves/{slot} status=200 ...

A line has the route's template and never a path, query, slot, name or address.
"""

from collections.abc import Callable, Mapping
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
"""Any other text in a method's place is the client's own and is not repeated."""
NAMESPACE = "gamed.requests"


Count = Callable[[str, str, int, float, int, int, str], None]
"""A function that counts a request: route, method, status, seconds, bytes sent, bytes received, code of a problem."""


class RequestLog(Protocol):
    """The access log as the HTTP server uses it; the template stands for the path."""

    def log(
        self,
        *,
        request_id: str,
        method: str,
        template: str,
        status: int,
        size: int,
        seconds: float,
        received: int,
        code: str,
    ) -> None: ...


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
        self._write = write
        self._count = count
        self._clock = clock
        self._now_ms = now_ms
        self._shape = SHAPES[style]
        self._entries: list[AccessLogEntry] = []
        self._due: IDelayedCall | None = None

    def log(
        self,
        *,
        request_id: str,
        method: str,
        template: str,
        status: int,
        size: int,
        seconds: float,
        received: int = 0,
        code: str = "",
    ) -> None:
        """Log a request that has ended; `size` are the bytes of content that were sent.

        `seconds` is the time from the end of the head to the end of the response, `received` the bytes of a body that
        was read completely, `code` that of a problem.
        """
        verb = method if method in METHODS else "-"
        if self._count is not None:
            self._count(template, verb, status, seconds, size, received, code)
        self._entries.append(AccessLogEntry(self._now_ms(), request_id, verb, template, status, size, seconds, code))
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
            try:
                self._write("".join(map(self._shape, entries)))
            except OSError:
                return


class AccessLogEntry(Struct, frozen=True):
    """One request that has ended; it becomes text when the log is written."""

    ended_ms: int
    request_id: str
    method: str
    route: str
    status: int
    size: int
    seconds: float
    code: str

    def as_text(self) -> str:
        return f"{rfc3339(self.ended_ms)} {self.line()}\n"

    def as_journal(self) -> str:
        return f"<6>[{NAMESPACE}] {self.line()}\n"

    def as_json(self) -> str:
        members = {
            "time": rfc3339(self.ended_ms),
            "level": "info",
            "namespace": NAMESPACE,
            "message": self.line(),
            "request_id": self.request_id,
            "method": self.method,
            "route": self.route,
            "status": self.status,
            "bytes": self.size,
            "milliseconds": float(f"{self.seconds * 1000:.1f}"),
        }
        return f"{dumps(members | ({'code': self.code} if self.code else {}), separators=(',', ':'))}\n"

    def line(self) -> str:
        """Return the event; by their origin none of its values needs quotes."""
        return (
            f"http_request request={self.request_id} method={self.method} route={self.route} status={self.status}"
            f" bytes={self.size} milliseconds={self.seconds * 1000:.1f} code={self.code or '-'}"
        )


SHAPES: Mapping[LogFormat, Callable[[AccessLogEntry], str]] = MappingProxyType(
    {
        LogFormat.TEXT: AccessLogEntry.as_text,
        LogFormat.JSON: AccessLogEntry.as_json,
        LogFormat.JOURNAL: AccessLogEntry.as_journal,
    }
)
