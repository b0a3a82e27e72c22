"""One line of the log per security event (docs/audit.md).

security refresh_reused player=ply_... session=ses_...
"""

from collections.abc import Callable
from re import compile

from twisted.logger import Logger

from gamed.audit import FIELDS, Event

_log = Logger()
_ODD = compile(r"[^A-Za-z0-9._:+@/-]")


class AuditLog:
    """gamed.audit.Audit. A value is one word: what could break a line or pass for another field is replaced."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write

    def note(self, event: Event, **values: str) -> None:
        words = " ".join(f"{name}={_ODD.sub('_', values.get(name, '') or '-')}" for name in FIELDS[event])
        line = f"security {event.value} {words}"
        if self._write is None:
            _log.info("{line}", line=line, request_id=values.get("request", ""))
        else:
            self._write(line)
