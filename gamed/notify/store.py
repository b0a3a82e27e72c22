"""The transactions of the notices: what the databases show, and what was sent.

What was sent is a row of `security_event`. So every process of every machine knows it, and so does the next start, and
`gamed events` shows it. A row stays for 90 days: what lasts longer is sent again.
"""

from collections.abc import Sequence
from functools import partial

from gamed.audit import SecurityEvent
from gamed.crypto import DecryptionFailed, Keys
from gamed.database.connection import Connection
from gamed.database.event_counts import EventCount, EventKey
from gamed.database.last_backup import read_last_backup
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.database.security_events import KEPT_MS, latest_of, write_events
from gamed.login.tables import latest_outcomes
from gamed.notify.model import AGAIN_MS, MOST_NAMES, SETTLED_MS, WAITING, Facts, Notice, SentNotice, Waiting
from gamed.notify.notice_rules import new_since_ms
from gamed.players.keyring import read_created_ms
from gamed.players.tables import list_waiting, newest_waiting
from gamed.structs import Component
from gamed.timestamps import CLOCKS_MS

DISK_EVENTS = (SecurityEvent.DISK_NEARLY_FULL, SecurityEvent.DISK_HAS_ROOM)
EVENTS = (SecurityEvent.OWNER_NOTIFIED, SecurityEvent.DAMAGE_FOUND, *DISK_EVENTS)


class NoticeStore(Component, frozen=True, kw_only=True):
    """The queues with the transactions of the notices."""

    reads: ReadQueue
    writes: WriteQueue
    keys: Keys
    names: bool
    """Whether to read the names of waiting players."""

    async def read(self, now_ms: int) -> Facts:
        """Return what the databases show; raise DatabaseError."""
        return await self.reads.submit(partial(read_facts, keys=self.keys if self.names else None, now_ms=now_ms))

    async def was_full(self, machine: str, now_ms: int) -> bool:
        """Return whether this machine's disk was nearly full when a process last reported it; raise DatabaseError."""
        found = await self.reads.submit(partial(_known, events=DISK_EVENTS, now_ms=now_ms))
        return _full_disks(found).get(machine, False)

    async def write_sent(self, notices: Sequence[Notice], at_ms: int) -> None:
        """Write what was sent, with the instant at which its facts were read; raise DatabaseError."""
        keys = [
            EventKey.of(SecurityEvent.OWNER_NOTIFIED, {"about": each.about, "state": each.state}, at_ms)
            for each in notices
        ]
        events = tuple(EventCount(key, at_ms, at_ms, 1) for key in keys)
        await self.writes.submit(partial(write_events, events=events, now_ms=at_ms))


def read_facts(connection: Connection, keys: Keys | None, now_ms: int) -> Facts:
    """Return what `auth` shows; without keys no names are read."""
    # One search for all kinds: it reads the index of all events without a player.
    found = _known(connection, EVENTS, now_ms)
    events = {event: [each for each in found if each.key.event == event.value] for event in EVENTS}
    sent = {
        each.values["about"]: SentNotice(each.values["state"], each.last_ms)
        for each in events[SecurityEvent.OWNER_NOTIFIED]
    }
    damaged = [each for each in events[SecurityEvent.DAMAGE_FOUND] if each.last_ms >= now_ms - AGAIN_MS]
    backup = read_last_backup(connection)
    return Facts(
        waiting=_waiting(connection, keys, sent.get(WAITING), now_ms),
        backup_ms=read_created_ms(connection) if backup is None else backup.made_ms,
        any_backup=backup is not None,
        full_disks=_full_disks([each for each in found if each.key.event in DISK_EVENTS]),
        damaged=frozenset(each.values["database"] for each in damaged),
        outcomes=latest_outcomes(connection),
        sent=sent,
    )


def _known(connection: Connection, events: Sequence[SecurityEvent], now_ms: int) -> list[EventCount]:
    # An event of a clock that was ahead would be the latest until its instant comes, which can take years.
    return latest_of(connection, events, now_ms - KEPT_MS, now_ms + CLOCKS_MS)


def _waiting(connection: Connection, keys: Keys | None, sent: SentNotice | None, now_ms: int) -> Waiting:
    until_ms = now_ms - SETTLED_MS
    count, newest_ms = newest_waiting(connection, until_ms)
    if keys is None or newest_ms is None:
        return Waiting(count, newest_ms)
    try:
        found = list_waiting(connection, keys.sealer, new_since_ms(sent, now_ms), until_ms, MOST_NAMES)
    except DecryptionFailed:  # a changed row must not keep all messages back
        return Waiting(count, newest_ms)
    return Waiting(count, newest_ms, [name for each in found if (name := each.name or each.display_name)])


def _full_disks(events: Sequence[EventCount]) -> dict[str, bool]:
    """Return whether each machine's disk is nearly full, from events with the latest last."""
    return {each.values.get("machine", ""): each.key.event == SecurityEvent.DISK_NEARLY_FULL.value for each in events}
