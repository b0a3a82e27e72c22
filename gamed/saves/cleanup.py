"""Cleanup deletes from state.db: pruned histories, erased saves, unused blobs, free pages.

Each transaction does a little, so that a player's write does not wait for it.

See docs/internals/storage.md: What is deleted, and when.
"""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from gamed.config.game import SaveLimits
from gamed.crypto import Random
from gamed.database.connection import STATE, Connection, attributed
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnavailable, DiskFull
from gamed.players.tables import existing_players
from gamed.saves import erase_store, tables, version_tables
from gamed.saves.erase_store import EraseStore
from gamed.saves.model import Version, VersionKind
from gamed.saves.prune_store import bump_slot, delete_oldest, delete_version
from gamed.saves.retention import DAY_MS, plan_pruning
from gamed.timestamps import Now

SLOTS = 32
VERSIONS = 64
"""One transaction prunes at most so many slots, and deletes at most about so many versions: a few milliseconds."""
OLDEST = 512
"""So many versions to delete from a full history are found at once, outside of the write queue: it takes 50 ms."""
OLDEST_AT_ONCE = 16
"""One transaction deletes so many of them."""
SCHEDULED = 100
"""The slots that one transaction schedules after the limits changed."""


class CleanupTask(Struct, eq=False):
    """The cleanup, in transactions of a few milliseconds on the write queue, between those of the players."""

    _databases: Databases
    _limits: SaveLimits
    _now_ms: Now
    _random: Random
    _changed: Callable[[str], None]
    """Called with each player whose list of saves changed."""
    _checked: str = ""
    """The last player whose row was checked for being of a deleted one."""

    async def clean_up(self) -> None:
        """Delete everything that is due; if state.db cannot be written, leave the rest for the next time."""
        try:
            await self._erase()  # first, because its player can write nothing until it ends
            await self._prune()
            await self._databases.blobs.delete_expired()  # after the versions that used them
            while await self._databases.state.release_space():
                pass
            await self._delete_players()
        except (DatabaseBusy, DiskFull, DatabaseUnavailable, DatabaseCorrupt):
            return

    async def _prune(self) -> None:
        now_ms = self._now_ms()
        while await self._databases.state.submit(partial(schedule_histories, limits=self._limits, now_ms=now_ms)):
            pass
        while True:
            result = await self._databases.state.submit(partial(prune_histories, limits=self._limits, now_ms=now_ms))
            for player_id in result.changed_players:
                self._changed(player_id)
            for player_id in result.full_players:
                await self._prune_full(player_id)
            if not result.slots:
                return

    async def _prune_full(self, player_id: str) -> None:
        """Delete the versions that retired first until the player's history fits."""
        find = partial(version_tables.oldest_versions, player_id=player_id, limit=OLDEST)
        while oldest := await self._databases.blobs.read(find):
            for first in range(0, len(oldest), OLDEST_AT_ONCE):
                versions = oldest[first : first + OLDEST_AT_ONCE]
                prune = partial(prune_full, limits=self._limits, player_id=player_id, versions=versions)
                step = await self._databases.state.submit(prune)
                if step.changed:
                    self._changed(player_id)
                if not step.more:
                    return

    async def _erase(self) -> None:
        """Finish the erases that a command or a request left unfinished."""
        store = EraseStore(databases=self._databases, random=self._random, now_ms=self._now_ms)
        while (player_id := await self._databases.state.submit(erase_store.unfinished_erase, keys=())) is not None:
            if await store.finish(player_id):
                self._changed(player_id)

    async def _delete_players(self) -> None:
        """Delete the rows of players who were deleted long ago, among the next ones."""
        before_ms = self._now_ms() - erase_store.DELETED_DAYS * DAY_MS
        find = partial(erase_store.erased_players, after=self._checked, before_ms=before_ms)
        erased, last = await self._databases.reads.submit(attributed(STATE, find))
        if erased:
            existing = await self._databases.reads.submit(partial(existing_players, player_ids=erased))
            deleted = [player_id for player_id in erased if player_id not in existing]
            for begin in range(0, len(deleted), erase_store.DELETED_PLAYERS):
                some = deleted[begin : begin + erase_store.DELETED_PLAYERS]
                delete = partial(erase_store.delete_players, player_ids=some, before_ms=before_ms)
                await self._databases.state.submit(delete, keys=tuple(some))
        self._checked = last or ""


class CleanupResult(Struct, frozen=True):
    """The work that one transaction did."""

    slots: int
    changed_players: frozenset[str]
    """Players whose list of saves changed, because a conflict copy was deleted."""
    full_players: frozenset[str]
    """Players whose history is too large."""


class PruneStep(Struct, frozen=True):
    """The result of one transaction on a full history."""

    more: bool
    """The history is still too large, and the versions were still there."""
    changed: bool
    """The list of saves changed."""


def prune_full(connection: Connection, limits: SaveLimits, player_id: str, versions: Sequence[Version]) -> PruneStep:
    """Delete these versions, as far as they are still there, until the history fits."""
    before = tables.find_player(connection, player_id).cursor
    # They were found before this transaction, and a player may have deleted or changed some since.
    left = [
        version
        for version in versions
        if version_tables.find_version(connection, player_id, version.slot, version.version) == version
    ]
    more = delete_oldest(connection, limits, player_id, left)
    return PruneStep(more and bool(left), tables.find_player(connection, player_id).cursor != before)


def prune_histories(connection: Connection, limits: SaveLimits, now_ms: int) -> CleanupResult:
    """Prune the histories that are due, the longest due first."""
    pruned, left, changed, full = 0, VERSIONS, set(), set()
    for player_id, slot, number in tables.slots_to_prune(connection, now_ms, SLOTS):
        before = tables.find_player(connection, player_id).cursor
        current = tables.slot_state(connection, player_id, slot).current
        if number is not None and current is None:  # damaged, not deleted: `check data --fix` needs what is left
            tables.set_prune_time(connection, player_id, slot, None)
            pruned += 1
            continue
        history = version_tables.list_versions(connection, player_id, slot)
        plan = plan_pruning(limits, current.version if current else None, history, now_ms)
        deleted = plan.to_delete[-left:]  # the oldest; the newest come first in the plan
        for version in deleted:
            delete_version(connection, player_id, version)
        expires = current is None and len(deleted) == len(history)
        if not expires and any(version.kind is VersionKind.CONFLICT for version in deleted):
            bump_slot(connection, player_id, slot)  # its entry in the list has fewer conflict copies
        more = len(deleted) < len(plan.to_delete)
        if expires:
            tables.expire_slots(connection, player_id, [slot])
        else:
            tables.set_prune_time(connection, player_id, slot, now_ms if more else plan.next_check_ms)
        summary = tables.find_player(connection, player_id)
        if summary.cursor != before:
            changed.add(player_id)
        if summary.usage.history_bytes > limits.history_bytes:
            full.add(player_id)
        pruned, left = pruned + 1, left - len(deleted)
        if left <= 0:
            break
    return CleanupResult(pruned, frozenset(changed), frozenset(full))


def schedule_histories(connection: Connection, limits: SaveLimits, now_ms: int) -> bool:
    """Schedule all histories for pruning after the limits changed, some at a time; return True while there are more."""
    kept = limits.keep_versions, limits.keep_hours, limits.keep_days, limits.conflict_copies, limits.history_bytes
    current_rule = f"2: {' '.join(map(str, kept))}"  # 2: deleted slots are thinned and expire, which 1 did not do
    ((rule, player_id, slot),) = connection.execute("SELECT rule, player_id, slot FROM retention").fetchall()
    if rule != current_rule:
        values = {"rule": current_rule}
        connection.execute("UPDATE retention SET rule = :rule, player_id = '', slot = ''", values)
        return True
    if player_id is None:  # all are scheduled
        return False
    query = """
        SELECT player_id, slot FROM save
        WHERE (player_id, slot) > (:player_id, :slot) AND (current_version IS NOT NULL OR deleted_ms IS NOT NULL)
        ORDER BY player_id, slot LIMIT :limit
    """
    after = {"player_id": player_id, "slot": slot, "limit": SCHEDULED}
    found = connection.execute(query, after).fetchall()
    for found_player, found_slot in found:
        tables.set_prune_time(connection, found_player, found_slot, now_ms)
    last_player, last_slot = found[-1] if found else (None, None)
    last = {"player_id": last_player, "slot": last_slot}
    connection.execute("UPDATE retention SET player_id = :player_id, slot = :slot", last)
    return bool(found)
