"""Log lines are formatted as JSON for programs, or with priorities for systemd's journal (sd-daemon(3)).

    {"time":"2026-11-21T09:36:23.004Z","level":"info","namespace":"gamed.service","message":"service_started url=..."}
    <6>[gamed.service] service_started url=...

The text format is Twisted's own. Twisted's reports of its own start and end are left out: gamed's events
`service_started` and `service_stopped` report the same. Text in a file or in syslog has them, as twistd itself writes
it. Security events are lines of the log under the namespace `gamed.security` (docs/owners/events.md), such as
`refresh_reused player=ply_... session=ses_...`. A sign-in that failed at a provider is one line, with the request id
that the page showed.
"""

import io
from collections.abc import Callable
from json import dumps
from select import PIPE_BUF
from typing import TYPE_CHECKING, Any, TextIO, cast

from twisted.logger import (
    FileLogObserver,
    ILogObserver,
    LogEvent,
    Logger,
    LogLevel,
    eventAsText,
    formatEventAsClassicLogText,
)
from zope.interface import implementer

from gamed.audit import FIELDS, WARNINGS, SecurityEvent
from gamed.config.settings import LogFormat
from gamed.event_log import EventLog, format_event
from gamed.outcomes import LoginFailure
from gamed.timestamps import Now, rfc3339

if TYPE_CHECKING:
    from gamed.ops.metrics import Counters

RAW = "log_lines"
"""An event's key for lines that are in the log's format already."""
SECURITY_NAMESPACE = "gamed.security"
PRIORITIES = {LogLevel.debug: 7, LogLevel.info: 6, LogLevel.warn: 4, LogLevel.error: 3, LogLevel.critical: 2}
_ABSENT = "-"
_CONFIGURATION = frozenset({LoginFailure.PROVIDER_MISCONFIGURED, LoginFailure.SERVER_CLOCK_SKEW})
"""No player can sign in at this provider until the operator has corrected something."""
_FAILURES = ("EMFILE encountered", "Could not accept new connection", "failed to set ", "Warning: ")
"""How Twisted's reports of failures begin that have the level `info`: no more files, twistd's --uid, its pid file."""
_log = EventLog(Logger())
_security_log = EventLog(Logger(SECURITY_NAMESPACE))


@implementer(ILogObserver)
class Observer(FileLogObserver):
    """A log observer that writes to the text stream `out`; each line of a worker ends with the worker's number."""

    def __init__(self, out: TextIO, style: LogFormat, worker: int | None = None) -> None:
        formats = {LogFormat.TEXT: formatEventAsClassicLogText, LogFormat.JSON: as_json, LogFormat.JOURNAL: as_journal}
        if worker is None:
            super().__init__(out, formats[style])
            return
        end, marked = ("}\n", f',"worker":{worker}}}\n') if style is LogFormat.JSON else ("\n", f" worker={worker}\n")
        super().__init__(
            cast(TextIO, WholeLines(out)), lambda event: (formats[style](event) or "").replace(end, marked)
        )

    def __call__(self, event: LogEvent) -> None:
        if not _is_of_framework(event):
            super().__call__(event)


def as_json(event: LogEvent) -> str | None:
    """Format an event as a JSON object on one line; return None if it has no text."""
    if RAW in event:
        return str(event[RAW])
    message = _message(event)
    if not message:
        return None
    members = {"time": _instant(event), "level": _level(event).name, "namespace": _namespace(event), "message": message}
    request_id = event.get("request_id")
    if isinstance(request_id, str) and request_id:
        members["request_id"] = request_id
    return f"{dumps(members, separators=(',', ':'))}\n"


def as_journal(event: LogEvent) -> str | None:
    """Format an event as lines with a priority each; the journal makes an entry of each line, and adds the time.

    Lines below the first begin with a tab, as in Twisted's format: a line of a traceback never looks like an event.
    """
    if RAW in event:
        return str(event[RAW])
    message = _message(event)
    return prioritized(_level(event), f"[{_namespace(event)}] {message}") if message else None


def prioritized(level: object, text: str) -> str:
    """Return the lines of `text`, each with `<N>` before it."""
    prefix = f"<{PRIORITIES.get(level, 6)}>"
    lines = text.encode("utf-8", "backslashreplace").decode("utf-8").splitlines()
    return "".join(f"{prefix}{line}\n" for line in [*lines[:1], *(f"\t{line}" for line in lines[1:])])


class WholeLines:
    """A stream that several processes write to: each write has whole lines, and as few as the kernel never mixes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> None:
        """Write at most PIPE_BUF bytes at a time, as far as the lines are no longer."""
        piece, size = "", 0
        for line in text.splitlines(keepends=True):
            length = len(line.encode("utf-8", "backslashreplace"))
            if piece and size + length > PIPE_BUF:
                self._write(piece)
                piece, size = "", 0
            piece, size = piece + line, size + length
        self._write(piece)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def flush(self) -> None:
        """Do nothing: each write is flushed."""


class LogStream(io.TextIOBase):
    """A stream for text that is printed before the log begins; it writes each line in the log's format."""

    def __init__(self, out: TextIO, style: LogFormat, level: object, now_ms: Now) -> None:
        self._out = out
        self._format = as_json if style is LogFormat.JSON else as_journal
        self._level = level
        self._now_ms = now_ms
        self._line = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            event = {"log_format": "{line}", "line": line, "log_level": self._level, "log_namespace": "gamed"}
            self._out.write(self._format({**event, "log_time": self._now_ms() / 1000}) or "")
        return len(text)

    def flush(self) -> None:
        self._out.flush()


def _is_of_framework(event: LogEvent) -> bool:
    """Return whether Twisted logs something without consequence, such as its reactor or a port that it opened."""
    namespace = str(event.get("log_namespace") or "")
    if namespace != "log_legacy" and not namespace.startswith("twisted."):
        return False
    if _level(event) not in (LogLevel.debug, LogLevel.info) or "warning" in event:
        return False
    return not _message(event).startswith(_FAILURES)


def _message(event: LogEvent) -> str:
    return eventAsText(event, includeTraceback=True, includeTimestamp=False, includeSystem=False).strip("\n")


def _instant(event: LogEvent) -> str:
    seconds = event.get("log_time")
    return rfc3339(int(seconds * 1000)) if isinstance(seconds, int | float) else _ABSENT


def _level(event: LogEvent) -> Any:
    """Return a constant of LogLevel; the constants are not instances of it."""
    level = event.get("log_level")
    return level if level in PRIORITIES else LogLevel.info


def _namespace(event: LogEvent) -> str:
    return str(event.get("log_namespace") or _ABSENT)


class TwistedAuditLog:
    """An implementation of gamed.audit.AuditLog; `write` takes the lines instead of the service's log."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write

    def record(self, event: SecurityEvent, **values: str) -> None:
        members = {name: values.get(name, "") for name in FIELDS[event]}
        if self._write is not None:
            self._write(format_event(event.value, members))
        elif event in WARNINGS:
            _security_log.warn(event.value, **members)
        else:
            _security_log.info(event.value, **members)


class LoggedSignInFailures:
    """A log of sign-ins that failed; values are texts of this project and the provider's name in the configuration."""

    def __init__(self, counters: "Counters | None" = None) -> None:
        self._counters = counters

    def sign_in_failed(self, provider: str, outcome: LoginFailure, cause: str, request_id: str) -> None:
        if self._counters is not None:
            self._counters.record_failed_sign_in(provider, outcome)
        log = _log.error if outcome in _CONFIGURATION else _log.warn
        log("sign_in_failed", provider=provider, outcome=outcome.value, request=request_id, detail=cause)
