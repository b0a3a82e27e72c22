"""Deletes that make room: of versions in a full history, and of deleted slots before their time.

See docs/developers/saves.md: History.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from gamed.config.game import SaveLimits
from gamed.database.connection import Connection
from gamed.saves import blob_tables, tables, version_tables
from gamed.saves.commands import CommitCommand, WriteCommand
from gamed.saves.errors import SaveError
from gamed.saves.limits import EXPIRY_HOURS, Usage, too_many_deleted
from gamed.saves.model import SaveContent, Version, VersionKind
from gamed.saves.retention import HOUR_MS

PRUNE_VERSIONS = 8
"""How many versions one change deletes at most from a history that is full; cleanup deletes the others."""
PRUNED_SLOTS = 64
"""With more slots a write leaves a full history to cleanup until it has `save_bytes` too many.

The oldest versions of 1,256 slots are found in 20 to 50 ms, so that not each write may search for them.
"""
SPARE = 4096
"""A full history is pruned below its limit by the limit divided by this: 128 KiB of 512 MiB.

Small writes would search for the oldest versions each time, now once in eight.
"""


def find_slots_to_expire(
    connection: Connection,
    limits: SaveLimits,
    usage: Usage,
    command: WriteCommand | CommitCommand,
    *,
    count: int,
    named: Collection[str],
) -> list[str] | SaveError:
    """Return `count` deleted slots that may expire early, none of the `named` ones; this changes nothing."""
    if not count:
        return []
    before_ms = command.now_ms - EXPIRY_HOURS * HOUR_MS
    found = tables.deleted_before(connection, command.context.player_id, before_ms, named, count)
    return found if len(found) == count else too_many_deleted(limits, usage)


def expire_slots(connection: Connection, player_id: str, slots: Collection[str]) -> None:
    """Delete deleted slots with their whole history before their time.

    A commit may expire 64 slots with 100 versions each: one by one they would take a second on PostgreSQL, in which
    other players wait.
    """
    if slots:
        blob_tables.remove_references_of(connection, player_id, slots)
        tables.reduce_history_bytes(
            connection, player_id, version_tables.delete_histories(connection, player_id, slots)
        )
        tables.expire_slots(connection, player_id, slots)


class HistoryRoom(Struct):
    """The check of one request whether refused bytes fit; it searches for the oldest versions once.

    A commit may have 64 refused entries, and its player many slots.
    """

    _connection: Connection
    _limits: SaveLimits
    _player_id: str
    _prunable: int | None = None
    """The bytes that the oldest versions count; None before the search."""

    def has_room(self, content: SaveContent) -> bool:
        """Check whether a version with this content fits into the history once the oldest versions are deleted."""
        kept = tables.find_player(self._connection, self._player_id).usage.history_bytes
        over = kept + content.history_bytes - self._limits.history_bytes
        if over > 0 and self._prunable is None:
            oldest = version_tables.oldest_versions(self._connection, self._player_id, PRUNE_VERSIONS)
            self._prunable = sum(version.history_bytes for version in oldest)
        return over <= (self._prunable or 0)


def prune_to_quota(
    connection: Connection,
    limits: SaveLimits,
    player_id: str,
    spared: Collection[tuple[str, int]] = (),
    *,
    later: bool = False,
    count: int = PRUNE_VERSIONS,
) -> bool:
    """Delete the versions that retired first, at most `count`, until the history fits.

    Return True while it is still too large and more can be deleted. Deleting a conflict copy changes its slot.
    `spared` stay: versions that were just put into the history, which seem to be the oldest if the clock was set back.
    With `later` this leaves a history of many slots as it is.

    See rule R5 of docs/internals/rules.md.
    """
    usage = tables.find_player(connection, player_id).usage
    over = usage.history_bytes - limits.history_bytes
    if over <= 0:
        return False
    if _has_many_slots(usage) and (later or over <= limits.save_bytes):
        return True
    oldest = version_tables.oldest_versions(connection, player_id, count + len(spared))
    candidates = [version for version in oldest if (version.slot, version.version) not in spared][:count]
    return delete_oldest(connection, limits, player_id, candidates) and bool(candidates)


def prune_after_commit(
    connection: Connection, limits: SaveLimits, player_id: str, spared: Collection[tuple[str, int]], *, entries: int
) -> None:
    """Prune a history of many slots once after all entries of a commit: a search for each would take seconds."""
    if _has_many_slots(tables.find_player(connection, player_id).usage):
        prune_to_quota(connection, limits, player_id, spared, count=PRUNE_VERSIONS + entries - 1)


def _has_many_slots(usage: Usage) -> bool:
    return usage.slots + usage.deleted_slots > PRUNED_SLOTS


def delete_oldest(connection: Connection, limits: SaveLimits, player_id: str, versions: Sequence[Version]) -> bool:
    """Delete these versions until the history fits; return True while it is still too large."""
    over = tables.find_player(connection, player_id).usage.history_bytes - limits.history_bytes
    if over <= 0:
        return False
    over += limits.history_bytes // SPARE
    for version in versions:
        delete_version(connection, player_id, version)
        if version.kind is VersionKind.CONFLICT:
            bump_slot(connection, player_id, version.slot)
        over -= version.history_bytes
        if over <= 0:
            return False
    return True


def delete_version(connection: Connection, player_id: str, version: Version) -> None:
    """Delete one version of the history; cleanup deletes its bytes when no other version has them."""
    version_tables.delete_version(connection, player_id, version.slot, version.version)
    tables.reduce_history_bytes(connection, player_id, version.history_bytes)
    if version.blob_id is not None:
        blob_tables.remove_reference(connection, version.blob_id)


def bump_slot(connection: Connection, player_id: str, slot: str, *, arrival_ms: int | None = None) -> None:
    """Record a change of the slot's entry in the list that changes no current version.

    It has a number of its own: a page of the list may end after each number.
    """
    state = tables.slot_state(connection, player_id, slot)
    seq, _ = tables.change_player(connection, player_id, Usage(), arrival_ms=arrival_ms)
    tables.touch_slot(connection, player_id, slot, last_version=state.last_version, seq=seq, prune_at_ms=None)
