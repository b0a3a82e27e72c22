"""The report for the owner's page: who waits, players, saves, disk, last backup, findings, events and versions."""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from shutil import disk_usage
from typing import Any

from msgspec import Struct
from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.logger import Logger

import twisted
from gamed import __version__
from gamed.assets.errors import AssetsError
from gamed.assets.store import FOLDER, AssetStore
from gamed.assets.verify import stored_objects
from gamed.audit import SecurityEvent
from gamed.config.settings import Settings
from gamed.crypto import Keys
from gamed.database.connection import Connection
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseError
from gamed.database.event_counts import EventCount
from gamed.database.last_backup import LastBackup, read_last_backup
from gamed.database.security_events import KEPT_MS, latest_of, list_events
from gamed.database.store import Store
from gamed.event_log import EventLog
from gamed.ops.findings import Finding
from gamed.ops.machine import Machine, quick_steps
from gamed.owner.model import players_in
from gamed.players.keyring import read_created_ms
from gamed.players.model import NamedPlayer
from gamed.players.tables import count_players, latest_players, named_players, waiting_players, ways_of
from gamed.saves.limits import Usage
from gamed.saves.tables import bytes_of, total_usage
from gamed.sessions.tables import count_active, count_sessions
from gamed.timestamps import Now

PLAYERS = 200
WAITING = 50
EVENTS = 100
RECENT_MS = 7 * 24 * 3_600_000
TROUBLE = (SecurityEvent.DAMAGE_FOUND, SecurityEvent.DISK_HAS_ROOM)
MACHINE_MS = 60_000
"""How long one look at the machine's files is used."""
MACHINE_SECONDS = 3
"""How long a page waits for that look; a disk that does not respond must not hold up the rest of the page."""
_log = EventLog(Logger())
Position = tuple[int, str]
"""The last sign-in, 0 for none, and the id of a player in the list, which continues behind it."""


class ListedPlayer(Struct, frozen=True):
    """A player as the owner sees them."""

    named: NamedPlayer
    sessions: int
    bytes: int | None
    """None if state.db is not available."""


class MachineReport(Struct, frozen=True):
    """The files and the disk of this machine, and the findings about them."""

    checked_ms: int
    findings: Sequence[Finding]
    file_bytes: Mapping[str, int]
    """The sizes of the databases by name."""
    free_bytes: int | None
    total_bytes: int | None = None
    """The size of the disk with the data folder."""
    asset_bytes: int = 0
    """The size of all game files."""
    local: bool = True
    """Whether the databases are on this disk."""


class StoredReport(Struct, frozen=True):
    """The part of the report that auth.db has."""

    players: Sequence[NamedPlayer] = ()
    waiting: Sequence[NamedPlayer] = ()
    """Players whom the owner must approve, the oldest request first, and one more than the page shows."""
    ways: Mapping[str, Sequence[str]] = {}
    """The names of the sign-in methods of all these players by id."""
    sessions: Mapping[str, int] = {}
    count: int = 0
    """The number of players in all states."""
    active: int = 0
    """The number of players who played or signed in within seven days."""
    events: Sequence[EventCount] = ()
    names: Mapping[str, str | None] = {}
    """The names of the players of the events by id; a deleted player is not among them."""
    backup: LastBackup | None = None
    created_ms: int | None = None
    """When auth.db was made."""
    trouble_ms: int | None = None
    """When the server last noticed damage, or that its disk has room again."""


class OwnerReport(Struct, frozen=True):
    """The contents of the page."""

    now_ms: int
    players: Sequence[ListedPlayer]
    more: Position | None
    """The end of this list, if there are more players."""
    stored: StoredReport | None
    """None if auth.db does not respond."""
    machine: MachineReport | None
    """None if a disk does not respond."""
    problems: Sequence[str]
    """The reasons why the service is not ready."""
    versions: Mapping[str, str]
    """The versions of the programs that the service consists of."""
    usage: Usage | None = None
    """The totals of all saves; None if state.db is not available."""


class OwnerReporter:
    """The reader of the report. Each database is read in one short transaction of the read queue."""

    def __init__(  # noqa: PLR0917
        self,
        databases: Databases,
        keys: Keys,
        now_ms: Now,
        read_machine: Callable[[], Deferred[MachineReport]],
        clock: Any,
        versions: Mapping[str, str],
    ) -> None:
        """Use `read_machine` for what may block, at most once a minute: it runs in a thread."""
        self._clock = clock
        self._databases = databases
        self._keys = keys
        self._now_ms = now_ms
        self._read_machine = read_machine
        self._machine: MachineReport | None = None
        self._looking = False
        self._versions = versions

    async def read(
        self, before: Position | None, problems: Sequence[str], *, players: int = PLAYERS, events: int = EVENTS
    ) -> OwnerReport:
        """Return the report with `players` behind this position; parts that cannot be read are None."""
        now = self._now_ms()
        machine = await self._current_machine(now)
        try:
            read = partial(self._read_auth, before=before, now_ms=now, rows=players, latest=events)
            stored = await self._databases.reads.submit(read)
        except DatabaseError:
            return OwnerReport(now, (), None, None, machine, problems, self._versions)
        shown = stored.players[:players]
        more = _position(shown[-1]) if shown and len(stored.players) > players else None
        ids = [named.player.player_id for named in shown]
        try:
            usage, sizes = await self._databases.reads.submit(partial(_read_state, player_ids=ids))
        except DatabaseError:
            usage, sizes = None, {}
        listed = [
            ListedPlayer(
                named,
                stored.sessions.get(player_id, 0),
                None if usage is None else sizes.get(player_id, 0),
            )
            for player_id, named in zip(ids, shown, strict=True)
        ]
        return OwnerReport(now, listed, more, stored, machine, problems, self._versions, usage)

    async def problems(self) -> Sequence[str]:
        """Return a sentence for each database that does not respond."""
        return await self._databases.unresponsive()

    async def backup_too_old(self, seconds: int | None) -> bool:
        """Return whether the last backup is older than this; None: other tools make them. Raise DatabaseError."""

        def read(connection: Connection) -> int | None:
            last = read_last_backup(connection)
            return read_created_ms(connection) if last is None else last.made_ms

        made_ms = await self._databases.reads.submit(read)
        return seconds is not None and made_ms is not None and self._now_ms() - made_ms > seconds * 1000

    def _read_auth(
        self, connection: Connection, before: Position | None, now_ms: int, rows: int, latest: int
    ) -> StoredReport:
        sealer = self._keys.sealer
        players = latest_players(connection, sealer, rows + 1, before) if rows else []
        waiting = waiting_players(connection, sealer, WAITING + 1)
        ids = [each.player.player_id for each in players]
        events = list_events(connection, now_ms - RECENT_MS, rows=latest)
        of_events = list(dict.fromkeys(each for event in events for each in players_in(event)))
        trouble = latest_of(connection, TROUBLE, now_ms - KEPT_MS)
        return StoredReport(
            players,
            waiting,
            ways_of(connection, list({*ids, *(each.player.player_id for each in waiting)})),
            count_sessions(connection, ids, now_ms),
            count_players(connection),
            count_active(connection, now_ms - RECENT_MS),
            events,
            {each.player.player_id: each.shown for each in named_players(connection, sealer, of_events)},
            read_last_backup(connection),
            read_created_ms(connection),
            max((each.last_ms for each in trouble), default=None),
        )

    async def _current_machine(self, now_ms: int) -> MachineReport | None:
        """Return the last look at the machine, a new one if it is old; other requests meanwhile get the old one."""
        machine = self._machine
        if machine is not None and 0 <= now_ms - machine.checked_ms < MACHINE_MS:
            return machine
        if self._looking:
            return machine
        self._looking = True
        waiting: Deferred[None] = Deferred()
        looked = self._read_machine()
        looked.addCallbacks(self._keep_machine, lambda reason: _log.failure("machine_check_failed", reason))
        looked.addBoth(lambda _: self._end_look(waiting))
        with suppress(defer.TimeoutError):
            await waiting.addTimeout(MACHINE_SECONDS, self._clock)
        return self._machine

    def _keep_machine(self, machine: MachineReport) -> None:
        self._machine = machine

    def _end_look(self, waiting: Deferred[None]) -> None:
        self._looking = False
        if not waiting.called:
            waiting.callback(None)


def _read_state(connection: Connection, player_ids: Sequence[str]) -> tuple[Usage, Mapping[str, int]]:
    return total_usage(connection), bytes_of(connection, player_ids)


def _position(named: NamedPlayer) -> Position:
    return named.player.last_sign_in_ms or 0, named.player.player_id


def read_machine(settings: Settings, store: Store, now_ms: int) -> MachineReport:
    """Check files, disk and limits of this machine; this may block, so it runs in a thread."""
    machine = Machine(
        data=settings.data,
        store=store,
        config_path=settings.config_path,
        config=settings.config,
        min_free_bytes=settings.game.saves.min_free_bytes,
    )
    findings = [finding for step in quick_steps(machine) for finding in step()]
    total: int | None = None
    free: int | None = None
    with suppress(OSError):
        total, _, free = disk_usage(settings.data)
    game_files = 0
    with suppress(OSError, AssetsError):
        game_files = sum(stored_objects(AssetStore(settings.data / FOLDER)).values())
    try:
        sizes = store.sizes()
    except DatabaseError:
        sizes = {}
    return MachineReport(now_ms, findings, sizes, free, total, game_files, bool(store.files))


def versions(store: Store) -> Mapping[str, str]:
    """Return the versions of the programs that the service consists of."""
    return {
        "gamed": __version__,
        "Python": platform.python_version(),
        "Twisted": twisted.__version__,
        store.engine: store.version,
    }
