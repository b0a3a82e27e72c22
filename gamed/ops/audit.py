"""Security events are lines of the log under the namespace `gamed.security` (docs/audit.md).

refresh_reused player=ply_... session=ses_...
"""

from collections.abc import Callable

from twisted.logger import Logger

from gamed.audit import FIELDS, WARNINGS, Event
from gamed.event_log import EventLog, format_event

NAMESPACE = "gamed.security"
_log = EventLog(Logger(NAMESPACE))


class AuditLog:
    """An implementation of gamed.audit.Audit; `write` takes the lines instead of the service's log."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write

    def note(self, event: Event, **values: str) -> None:
        members = {name: values.get(name, "") for name in FIELDS[event]}
        if self._write is not None:
            self._write(format_event(event.value, members))
        elif event in WARNINGS:
            _log.warn(event.value, **members)
        else:
            _log.info(event.value, **members)
