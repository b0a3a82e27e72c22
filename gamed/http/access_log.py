"""The access log has one event per request, written in batches when the requests have ended (PROTOCOL 1).

    2026-11-21T09:36:23.004Z http_request request=5f0c... method=GET route=/game/saves/{slot} status=200 ...

A line has the route's template and never a path, query, slot, name or address.

This module describes what the HTTP server needs of an access log; gamed.http.access_log writes one.
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
        """Return the event; its values are bare words by their making, so that none of them needs quotes."""
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


Count = Callable[[str, str, int, float, int, int, str], None]
"""Route, method, status, seconds, bytes sent, bytes received, code of a problem: of each request once it has ended."""


class AccessLog:
    """`write` takes whole lines as one text; what it cannot write is lost, never a reason not to answer."""

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
        """`size` in bytes of body sent; `seconds` from the head's end to the answer's, shown in milliseconds.

        `received`: bytes of body that were read whole; `code`: of a problem that was answered.
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
        """Write what waits; also the last act at shutdown."""
        due, self._due = self._due, None
        if due is not None and due.active():
            due.cancel()
        entries, self._entries = self._entries, []
        if entries:
            try:
                self._write("".join(map(self._shape, entries)))
            except OSError:
                return


class RequestLog(Protocol):
    """A log with one line per request; the template stands for the path, `code` is that of a problem."""

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
