"""The disk, as each process watches it, and the log of what changed: both also without a webhook."""

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from gamed.audit import AuditLog, SecurityEvent
from gamed.event_log import EventLog
from gamed.notify.model import BACKUP, PROVIDER, WAITING, Notice, NoticeState, Undelivered

_log = EventLog(Logger())


class DiskWatch:
    """The free space of the disk with the data folder: below the bound the server refuses saves."""

    def __init__(  # noqa: PLR0917
        self,
        free_bytes: Callable[[], int],
        min_free_bytes: int,
        machine: str,
        was_full: Callable[[], Awaitable[bool]],
        audit: AuditLog,
        reactor: Any,
    ) -> None:
        """`free_bytes` may block, so it runs in a thread; `was_full` returns what a process reported before."""
        self._free_bytes = free_bytes
        self._bound = min_free_bytes
        self._machine = machine
        self._was_full = was_full
        self._audit = audit
        self._reactor = reactor
        self.full: bool | None = None
        """Whether it is nearly full; None before the first look."""

    async def look(self) -> None:
        """Read the free space, and record a change; raise DatabaseError."""
        try:
            free = await deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self._free_bytes)
        except OSError:
            return
        # A quarter more than the bound, so that a disk that is filled and emptied around it is reported once.
        full = free < (self._bound * 5 // 4 if self.full else self._bound)
        before = self.full
        if before is None:
            before = not full and await self._was_full()
        self.full = full
        if full is not before:
            event = SecurityEvent.DISK_NEARLY_FULL if full else SecurityEvent.DISK_HAS_ROOM
            values = {"machine": self._machine, "free_bytes": str(free), "min_free_bytes": str(self._bound)}
            self._audit.record(event, **values)


def log_change(notice: Notice, waiting: int) -> None:
    """Log what a notice is about; the disk and damage have security events of their own."""
    bad = notice.state == NoticeState.BAD
    if notice.kind == WAITING:
        _log.info("players_waiting", count=waiting)
    elif notice.kind == BACKUP and bad:
        _log.warn("backup_overdue", detail=notice.text)
    elif notice.kind == BACKUP:
        _log.info("backup_made")
    elif notice.kind == PROVIDER and bad:
        _log.error("provider_failing", provider=notice.which)
    elif notice.kind == PROVIDER:
        _log.info("provider_works", provider=notice.which)


def log_undelivered(failure: Undelivered, retry_seconds: int) -> None:
    """Log that a message could not be sent; the text has nothing of the URL."""
    _log.warn("owner_not_notified", detail=failure.detail, retry_seconds=retry_seconds)
