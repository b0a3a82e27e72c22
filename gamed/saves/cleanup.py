"""Units of the sweep: each prunes a few histories, small enough that a player's write does not wait for it.

PROTOCOL 4.3.

What goes from state.db with time: pruned histories, erased shelves, unwanted blobs, free pages (PROTOCOL 4.3).
"""

from collections.abc import Callable, Sequence
from functools import partial
from sqlite3 import Connection

from msgspec import Struct

from gamed.crypto import Random
from gamed.database.connection import PAGE_BYTES
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnavailable, DiskFull
from gamed.saves import erase_store, tables
from gamed.saves.erase_store import SqliteEraseStore
from gamed.saves.limits import MIB, SaveLimits
from gamed.saves.model import Version, VersionKind
from gamed.saves.retention import plan_pruning
from gamed.saves.write_store import bump_slot, delete_version, prune_to_quota
from gamed.timestamps import Now

SLOTS = 32
VERSIONS = 64
"""One unit looks at so many slots, and forgets about so many versions, at most."""
MARKED = 100
FREE_PAGES = 16 * MIB // PAGE_BYTES
"""Room that the next writes will use again; what is free beyond them goes back to the disk."""
VACUUMED = 100


class CleanupResult(Struct, frozen=True):
    """What one unit did."""

    slots: int
    changed_players: frozenset[str]
    """Players whose list of saves changed, because a conflict copy was deleted."""


def clean_up(connection: Connection, limits: SaveLimits, now_ms: int) -> CleanupResult:
    """Prune the histories that are due, the longest due first."""
    looked, left, told = 0, VERSIONS, set()
    for player_id, slot in tables.slots_to_prune(connection, now_ms, SLOTS):
        before = tables.find_player(connection, player_id).cursor
        head = tables.slot_state(connection, player_id, slot).current
        history = tables.list_versions(connection, player_id, slot)
        pruning = plan_pruning(limits, head.version if head else None, history, now_ms)
        going = pruning.to_delete[-left:]
        _delete_some(connection, player_id, slot, going)
        more = prune_to_quota(connection, limits, player_id) or len(going) < len(pruning.to_delete)
        tables.set_prune_time(connection, player_id, slot, now_ms if more else pruning.next_check_ms)
        if tables.find_player(connection, player_id).cursor != before:
            told.add(player_id)
        looked, left = looked + 1, left - len(going)
        if left <= 0:
            break
    return CleanupResult(looked, frozenset(told))


def _delete_some(connection: Connection, player_id: str, slot: str, going: Sequence[Version]) -> None:
    """A conflict copy that goes changes the slot's entry in the list."""
    for version in going:
        delete_version(connection, player_id, version)
    if any(version.kind is VersionKind.CONFLICT for version in going):
        bump_slot(connection, player_id, slot)


def mark_deleted_parts(connection: Connection, limits: SaveLimits, now_ms: int) -> bool:
    """After a change of the limits every history is due once, some at a time; True while there are more."""
    kept = limits.keep_versions, limits.keep_hours, limits.keep_days, limits.conflict_copies, limits.history_bytes
    values = {"rule": " ".join(map(str, kept)), "now_ms": now_ms, "limit": MARKED}
    ((rule, player_id, slot),) = connection.execute("SELECT rule, player_id, slot FROM retention").fetchall()
    if rule != values["rule"]:
        connection.execute("UPDATE retention SET rule = :rule, player_id = '', slot = ''", values)
        return True
    return player_id is not None and _mark_some(connection, {**values, "player_id": player_id, "slot": slot})


def _mark_some(connection: Connection, after: dict[str, object]) -> bool:
    query = """
        SELECT player_id, slot FROM save WHERE (player_id, slot) > (:player_id, :slot)
        ORDER BY player_id, slot LIMIT :limit
    """
    found = connection.execute(query, after).fetchall()
    for player_id, slot in found:
        tables.set_prune_time(connection, player_id, slot, int(str(after["now_ms"])))
    last = found[-1] if found else (None, None)
    values = {"player_id": last[0], "slot": last[1]}
    connection.execute("UPDATE retention SET player_id = :player_id, slot = :slot", values)
    return bool(found)


def vacuum(connection: Connection) -> bool:
    """Give some pages that nothing needs back to the disk; True while there are more."""
    [(free,)] = connection.execute("PRAGMA freelist_count").fetchall()
    if free <= FREE_PAGES:
        return False
    for _ in range(VACUUMED):  # sqlite3 takes one step of this statement, so one page, however many it names
        connection.execute("PRAGMA incremental_vacuum(1)").fetchall()
    return True


class CleanupTask(Struct, eq=False):
    """Unit after unit on the write lane, each a few milliseconds; what players ask for rides between them."""

    _stores: Databases
    _limits: SaveLimits
    _now_ms: Now
    _random: Random
    _changed: Callable[[str], None]
    """Told the player whose list is another now."""

    async def sweep(self) -> None:
        """Everything that is due. A store that cannot be written is left for the next time."""
        try:
            await self._erase()
            await self._prune()
            await self._stores.blobs.delete_expired()
            while await self._stores.state.submit(vacuum):
                pass
        except (DatabaseBusy, DiskFull, DatabaseUnavailable, DatabaseCorrupt):
            return

    async def _prune(self) -> None:
        now_ms = self._now_ms()
        while await self._stores.state.submit(partial(mark_deleted_parts, limits=self._limits, now_ms=now_ms)):
            pass
        while True:
            swept = await self._stores.state.submit(partial(clean_up, limits=self._limits, now_ms=now_ms))
            for player_id in swept.changed_players:
                self._changed(player_id)
            if not swept.slots:
                return

    async def _erase(self) -> None:
        """Go on with what a command or a request left unfinished."""
        shelves = SqliteEraseStore(self._stores, self._random)
        while (player_id := await self._stores.state.submit(erase_store.unfinished_erasures)) is not None:
            if await shelves.finish(player_id):
                self._changed(player_id)
