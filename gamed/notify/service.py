"""One of all processes compares once a minute what is true with what was sent before, and sends the difference.

The request waits for nothing that players wait for: it has no thread, no transaction is open meanwhile, and there is
one at a time.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gamed.audit import AuditLog, SecurityEvent
from gamed.database.errors import DatabaseError
from gamed.notify.format_rules import encode
from gamed.notify.model import AUTH, MOST_NOTICES, Facts, Notice, SentNotice
from gamed.notify.notice_rules import NoticeSettings, ProviderRun, due_notices, latest
from gamed.notify.store import NoticeStore
from gamed.notify.watch import DiskWatch, log_change, log_undelivered
from gamed.structs import Component
from gamed.timestamps import Now

if TYPE_CHECKING:
    from gamed.notify.client import WebhookClient

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 60, 3600
LONGEST_WAIT_SECONDS = 24 * 3600
"""The longest wait that a webhook can ask for by Retry-After."""


class Surroundings(Component, frozen=True, kw_only=True):
    """The facts that the notifier gets from the process around it."""

    notifies: Callable[[], Awaitable[bool]]
    """Whether this process is the one of all that works for them all."""
    damaged: Callable[[], frozenset[str]]
    """The databases that this process found damaged."""
    audit: AuditLog
    """The log that also keeps events for the other processes."""
    log: AuditLog
    """The log alone."""
    now_ms: Now
    seconds: Callable[[], float]


class OwnerNotifier:
    """The sender of messages to the owner. Without a webhook it only logs what changes."""

    def __init__(
        self,
        surroundings: Surroundings,
        store: NoticeStore,
        disk: DiskWatch,
        settings: NoticeSettings,
        webhook: "WebhookClient | None",
    ) -> None:
        self._around = surroundings
        self._store = store
        self._disk = disk
        self._settings = settings
        self._webhook = webhook
        self._runs: dict[str, ProviderRun] = {}
        self._damaged: frozenset[str] = frozenset()
        self._logged: dict[str, SentNotice] = {}
        self._sent: dict[str, SentNotice] = {}
        """The notices that this process has sent: they count, too, while `auth` cannot be written."""
        self._failures = 0
        self._wait_until = 0.0

    async def run(self) -> None:
        """Log what has changed, and send what the owner does not know; raise DatabaseError."""
        around = self._around
        damaged = around.damaged()
        for name in sorted(damaged - self._damaged):
            around.audit.record(SecurityEvent.DAMAGE_FOUND, database=name)
        self._damaged = damaged
        try:
            notifies = await around.notifies()
        except DatabaseError:
            if AUTH not in damaged:
                raise
            notifies = True  # PostgreSQL can choose no process any more, so each tells of the damage, once
        if not notifies:
            return
        now_ms = around.now_ms()
        facts = await self._read(now_ms)
        self._log_changes(facts, now_ms)
        if self._webhook is not None and around.seconds() >= self._wait_until:
            sent = latest([facts.sent, self._sent], now_ms)
            notices = due_notices(facts, sent, self._runs, self._settings, now_ms)[:MOST_NOTICES]
            if notices:
                await self._send(self._webhook, notices, now_ms)

    async def _read(self, now_ms: int) -> Facts:
        """Return what the databases show, with what this process noticed; that alone if `auth` is damaged."""
        try:
            facts = await self._store.read(now_ms)
        except DatabaseError:
            if AUTH not in self._around.damaged():  # without what was sent, all would be sent again
                raise
            facts = Facts()
        for name in self._settings.providers:
            ends = [(outcome, at_ms) for provider, outcome, at_ms in facts.outcomes if provider == name]
            self._runs[name] = self._runs.get(name, ProviderRun()).after(ends)
        own = {} if self._disk.full is None else {self._settings.machine: self._disk.full}
        return replace(facts, damaged=facts.damaged | self._around.damaged(), full_disks={**facts.full_disks, **own})

    def _log_changes(self, facts: Facts, now_ms: int) -> None:
        for notice in due_notices(facts, self._logged, self._runs, self._settings, now_ms):
            self._logged[notice.about] = SentNotice(notice.state, now_ms)
            log_change(notice, facts.waiting.count)

    async def _send(self, webhook: "WebhookClient", notices: list[Notice], now_ms: int) -> None:
        failure = await webhook.send(encode(webhook.form, self._settings.server_name, notices))
        if failure is not None:
            wait = retry_seconds(self._failures, failure.retry_seconds)
            self._failures += 1
            self._wait_until = self._around.seconds() + wait
            log_undelivered(failure, wait)
            return
        self._failures = 0
        for notice in notices:
            self._sent[notice.about] = SentNotice(notice.state, now_ms)
            self._around.log.record(SecurityEvent.OWNER_NOTIFIED, about=notice.about, state=notice.state)
        with suppress(DatabaseError):  # then _sent has it, until this process ends
            await self._store.write_sent(notices, now_ms)


def retry_seconds(failures: int, wanted: int | None) -> int:
    """Return how long to wait after so many failures before; twice as long each time, or as the webhook asks."""
    doubled: int = min(FIRST_RETRY_SECONDS * 2 ** min(failures, 10), LAST_RETRY_SECONDS)
    return max(doubled, min(wanted or 0, LONGEST_WAIT_SECONDS))
