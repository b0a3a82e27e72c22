"""A merge gives a player's saves to another player, the heir, step by step; each is one transaction.

A player at the limits has 80,000 versions, which one transaction would move in seconds, while nobody else writes. After
each step the rows and totals of both players agree, and what the player still has shows what is left to do: so anybody
may go on after a crash. The current saves come first, all of them in one step, because a game may have committed them
together. From then on the player's saves count as erased, and no late request writes to them. A slot stays with the
player until its older versions have moved, too: as a *shell*, which has neither a current version nor the time of a
delete.

A merge copies no bytes and replaces no current save: where both players have a save in one slot, the other player's
save becomes a conflict copy. The older history of such a slot is erased with the rest.

See docs/owners/players.md: Erasing; docs/protocol.md: Saves.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from gamed.database.connection import Connection
from gamed.saves import blob_tables, prune_store, tables, version_tables
from gamed.saves.limits import Usage, counted_bytes
from gamed.saves.model import Version, VersionKind

MOVED_SLOTS = 256
"""The slots of one step; at the default limits these are all that a player has."""
MOVED_DELETED = 64
MOVED_COPIES = 16
MOVED_SHELLS = 16
MOVED_VERSIONS = 64
"""With 16 KiB of bytes in each row, a step writes 1 MiB."""


class Merge(Struct, frozen=True):
    """A merge of a player into the heir."""

    player_id: str
    heir_id: str
    epochs: tuple[str, str]
    """For the player, and for the heir's first row."""
    now_ms: int


class MovedVersion(Struct, frozen=True):
    """The columns of a version that are needed to move it."""

    slot: str
    version: int
    kind: str
    blob_id: int | None
    size: int
    ctype: int | None
    meta: int | None
    """Lengths of texts."""

    @property
    def history_bytes(self) -> int:
        """Return the bytes that it counts in a history."""
        return counted_bytes(self.size, self.ctype or 0, self.meta or 0)


def move_rows(connection: Connection, merge: Merge) -> bool:
    """Move some of the player's rows to the heir, who has a row in `player_saves`; return False if none are left."""
    moves = _move_saves, _move_copies, _move_deleted, _move_versions, _move_staged
    return any(move(connection, merge) for move in moves)


def end_writes(connection: Connection, merge: Merge) -> None:
    """Let the player's saves count as erased for each request that knows them, and the heir's numbers begin above."""
    given = tables.find_player(connection, merge.player_id)
    tables.note_expired(connection, merge.heir_id, 0, given.expired_version, count=0)
    query = """
        UPDATE player_saves SET epoch = :epoch, seq = seq + 1, erased_ms = :now_ms
        WHERE player_id = :player_id AND epoch <> :epoch
    """
    connection.execute(query, {"player_id": merge.player_id, "epoch": merge.epochs[0], "now_ms": merge.now_ms})


_LIVE = "s.current_version IS NOT NULL"
_DELETED = "s.current_version IS NULL AND s.deleted_ms IS NOT NULL"
_SHELL = "current_version IS NULL AND deleted_ms IS NULL"
_HEIRS = "EXISTS (SELECT 1 FROM save h WHERE h.player_id = :heir_id AND h.slot = s.slot)"
_MOVED_COLUMNS = "v.slot, v.version, v.kind, v.blob_id, v.size, length(v.ctype), length(v.meta)"


def _give_slots(which: str) -> str:
    """Return the INSERT of the heir's rows for some of the player's slots that the heir does not have."""
    return f"""
        INSERT INTO save (player_id, slot, current_version, last_version, seq, deleted_ms, prune_at_ms)
        SELECT :heir_id, slot, current_version,
            CASE WHEN last_version < :expired THEN :expired ELSE last_version END,
            :before + row_number() OVER (ORDER BY slot), deleted_ms, prune_at_ms
        FROM (
            SELECT slot, current_version, last_version, deleted_ms, prune_at_ms FROM save s
            WHERE s.player_id = :player_id AND {which} AND NOT {_HEIRS} ORDER BY slot LIMIT :slots
        ) AS given
    """


_GIVE_SAVES = _give_slots(_LIVE)
_GIVE_DELETED = _give_slots(_DELETED)
# Subqueries of one value, since PostgreSQL might read all versions of the player for a join.
_HEADS = """
    SELECT h.slot,
        coalesce(h.current_version, (
            SELECT max(d.version) FROM save_version d
            WHERE d.player_id = :player_id AND d.slot = h.slot AND d.kind = 'delete'
        )),
        (SELECT v.blob_id FROM save_version v
         WHERE v.player_id = :player_id AND v.slot = h.slot AND v.version = h.current_version),
        (SELECT v.size FROM save_version v
         WHERE v.player_id = :player_id AND v.slot = h.slot AND v.version = h.current_version)
    FROM save h WHERE h.player_id = :heir_id AND h.seq > :before
"""
_MOVE_VERSION = "UPDATE save_version SET player_id = ? WHERE player_id = ? AND slot = ? AND version = ?"
_LEAVE_SHELLS = """
    UPDATE save SET current_version = NULL, deleted_ms = NULL, prune_at_ms = NULL
    WHERE player_id = :player_id AND slot IN (
        SELECT h.slot FROM save h WHERE h.player_id = :heir_id AND h.seq > :before
    )
"""


def _move_saves(connection: Connection, merge: Merge) -> bool:
    """Move the slots that only the player has, each with its current version."""
    return _move_slots(connection, merge, _GIVE_SAVES, MOVED_SLOTS)


def _move_deleted(connection: Connection, merge: Merge) -> bool:
    """Move the deleted slots that the heir does not have, each with the version that says when it was deleted."""
    return _move_slots(connection, merge, _GIVE_DELETED, MOVED_DELETED)


def _move_slots(connection: Connection, merge: Merge, give: str, slots: int) -> bool:
    heir = tables.find_player(connection, merge.heir_id)
    values = {"player_id": merge.player_id, "heir_id": merge.heir_id, "before": heir.cursor.seq}
    count = connection.execute(give, {**values, "expired": heir.expired_version, "slots": slots}).rowcount
    if not count:
        return False
    end_writes(connection, merge)
    heads = connection.execute(_HEADS, values).fetchall()
    _give_bytes(connection, merge, [(slot, number, blob_id) for slot, number, blob_id, _ in heads])
    for slot, number, *_ in heads:
        connection.execute(_MOVE_VERSION, (merge.heir_id, merge.player_id, slot, number))
    connection.execute(_LEAVE_SHELLS, values)
    if give is _GIVE_DELETED:
        kept = sum(counted_bytes(0, 0, 0) for _, number, *_ in heads if number is not None)
        gained, lost = Usage(history_bytes=kept, deleted_slots=count), Usage(history_bytes=kept)
    else:
        live = sum(size or 0 for *_, size in heads)
        gained, lost = Usage(slots=count, bytes=live), Usage(slots=count, bytes=live, deleted_slots=-count)
    tables.change_player(connection, merge.heir_id, gained)
    query = "UPDATE player_saves SET seq = seq + :more WHERE player_id = :heir_id"  # each slot has a change of its own
    connection.execute(query, {"more": count - 1, "heir_id": merge.heir_id})
    _subtract(connection, merge.player_id, lost)
    _drop_shells(connection, merge, [slot for slot, *_ in heads])
    return True


def _subtract(connection: Connection, player_id: str, usage: Usage) -> None:
    query = """
        UPDATE player_saves SET slots = slots - ?, live_bytes = live_bytes - ?, kept_bytes = kept_bytes - ?,
            deleted_slots = deleted_slots - ?
        WHERE player_id = ?
    """
    connection.execute(query, (usage.slots, usage.bytes, usage.history_bytes, usage.deleted_slots, player_id))


def _give_bytes(connection: Connection, merge: Merge, versions: Sequence[tuple[str, int, int | None]]) -> None:
    """Let the heir own the bytes of these versions; where the heir has equal ones in a large blob, refer to that."""
    ids = {blob_id for *_, blob_id in versions if blob_id is not None}
    if not ids:
        return
    marks = ", ".join("?" * len(ids))
    query = f"""
        SELECT b.blob_id, (
            SELECT min(h.blob_id) FROM blob h WHERE h.player_id = ? AND h.sha256 = b.sha256 AND h.data IS NULL
        ) FROM blob b WHERE b.blob_id IN ({marks}) AND b.player_id = ? AND b.data IS NULL
    """
    found = connection.execute(query, (merge.heir_id, *ids, merge.player_id)).fetchall()
    equal = {blob_id: other for blob_id, other in found if other is not None}
    query = f"UPDATE blob SET player_id = ? WHERE blob_id IN ({marks}) AND player_id = ?"
    others = [None if each in equal else each for each in ids]
    connection.execute(query, (merge.heir_id, *others, merge.player_id))
    query = "UPDATE save_version SET blob_id = ? WHERE player_id = ? AND slot = ? AND version = ?"
    for slot, number, blob_id in versions:
        if blob_id is not None and blob_id in equal:
            connection.execute(query, (equal[blob_id], merge.player_id, slot, number))
            blob_tables.add_references(connection, equal[blob_id], 1)
            blob_tables.remove_reference(connection, blob_id)


def _drop_shells(connection: Connection, merge: Merge, slots: Collection[str]) -> None:
    """Delete those of these shells that have no versions any more."""
    marks = ", ".join("?" * len(slots))
    # max(), since PostgreSQL would read the versions of all players for NOT EXISTS.
    query = f"""
        DELETE FROM save WHERE player_id = ? AND slot IN ({marks}) AND {_SHELL} AND (
            SELECT max(version) FROM save_version v WHERE v.player_id = save.player_id AND v.slot = save.slot
        ) IS NULL
    """
    dropped = connection.execute(query, (merge.player_id, *slots)).rowcount
    _subtract(connection, merge.player_id, Usage(deleted_slots=dropped))


def _move_copies(connection: Connection, merge: Merge) -> bool:
    """Make the player's saves in slots of both conflict copies of the heir's; what they were copied from is erased."""
    query = f"SELECT s.slot FROM save s WHERE s.player_id = :player_id AND {_LIVE} ORDER BY s.slot LIMIT :slots"
    slots = connection.execute(query, {"player_id": merge.player_id, "slots": MOVED_COPIES}).fetchall()
    if slots:
        end_writes(connection, merge)
    for (slot,) in slots:
        _move_copy(connection, merge, slot)
    return bool(slots)


def _move_copy(connection: Connection, merge: Merge, slot: str) -> None:
    """Make the current save a conflict copy of the heir's, unless that one is equal; the slot is deleted then."""
    current = tables.slot_state(connection, merge.player_id, slot).current
    query = "UPDATE save SET current_version = NULL, deleted_ms = :now_ms WHERE player_id = :player_id AND slot = :slot"
    connection.execute(query, {"now_ms": merge.now_ms, "player_id": merge.player_id, "slot": slot})
    kept = 0
    if current is not None:
        kept = current.history_bytes
        if _copy(connection, merge, current):
            version_tables.delete_version(connection, merge.player_id, slot, current.version)
            kept = 0
        else:
            version_tables.retire_version(connection, merge.player_id, slot, current.version, merge.now_ms)
    lost = Usage(slots=1, bytes=current.size if current else 0, history_bytes=-kept, deleted_slots=-1)
    _subtract(connection, merge.player_id, lost)


def _copy(connection: Connection, merge: Merge, current: Version) -> bool:
    """Give the heir a conflict copy, which has the reference to the bytes from now on; return False if none is needed.

    A save whose bytes are lost makes none.
    """
    if current.content is None or current.blob_id is None:
        return False
    state = tables.slot_state(connection, merge.heir_id, current.slot)
    heirs = state.current.content if state.current else None
    if heirs is not None and heirs.sha256 == current.content.sha256:
        return False
    number = state.last_version + 1
    copy = Version(
        slot=current.slot,
        version=number,
        kind=VersionKind.CONFLICT,
        blob_id=current.blob_id,
        content=current.content,
        created_ms=merge.now_ms,
        retired_ms=merge.now_ms,
        device=current.device,
    )
    version_tables.insert_version(connection, merge.heir_id, copy)
    connection.execute("UPDATE blob SET player_id = ? WHERE blob_id = ?", (merge.heir_id, current.blob_id))
    seq, _ = tables.change_player(connection, merge.heir_id, Usage(history_bytes=copy.history_bytes))
    tables.touch_slot(connection, merge.heir_id, current.slot, last_version=number, seq=seq, prune_at_ms=merge.now_ms)
    return True


# A slot of the heir with lower numbers is not the one that was given, but was made anew.
_SHELLS = """
    SELECT s.slot, EXISTS (
        SELECT 1 FROM save h WHERE h.player_id = :heir_id AND h.slot = s.slot AND h.last_version >= s.last_version
    ) FROM save s
    WHERE s.player_id = :player_id AND s.current_version IS NULL AND s.deleted_ms IS NULL ORDER BY s.slot LIMIT :slots
"""
# Of one slot at a time: joined with the shells, SQLite would read all versions of the player for each step. PostgreSQL
# would read all of the heir's for EXISTS.
_OF_SHELL = f"""
    SELECT (
        SELECT count(*) FROM save_version w
        WHERE w.player_id = :heir_id AND w.slot = v.slot AND w.version = v.version
    ), {_MOVED_COLUMNS} FROM save_version v
    WHERE v.player_id = :player_id AND v.slot = :slot ORDER BY v.version DESC LIMIT :versions
"""


def _move_versions(connection: Connection, merge: Merge) -> bool:
    """Move older versions, the newest of a slot first, to the slots that the heir got; delete those that have none.

    The heir may have erased the saves meanwhile, or a slot may have expired, and others may have its name.
    """
    moved, lost, shells = list[MovedVersion](), list[MovedVersion](), list[str]()
    values = {"player_id": merge.player_id, "heir_id": merge.heir_id, "slots": MOVED_SHELLS}
    for slot, has_slot in connection.execute(_SHELLS, values).fetchall():
        left = MOVED_VERSIONS - len(moved) - len(lost)
        if left <= 0:
            break
        wanted = {"player_id": merge.player_id, "heir_id": merge.heir_id, "slot": slot, "versions": left}
        for taken, *columns in connection.execute(_OF_SHELL, wanted).fetchall():
            (moved if has_slot and not taken else lost).append(MovedVersion(*columns))
        shells.append(slot)
    if not shells:
        return False
    _give_bytes(connection, merge, [(version.slot, version.version, version.blob_id) for version in moved])
    for version in moved:
        connection.execute(_MOVE_VERSION, (merge.heir_id, merge.player_id, version.slot, version.version))
    for version in lost:
        version_tables.delete_version(connection, merge.player_id, version.slot, version.version)
        if version.blob_id is not None:
            blob_tables.remove_reference(connection, version.blob_id)
    gained = sum(version.history_bytes for version in moved)
    tables.reduce_history_bytes(connection, merge.heir_id, -gained)
    tables.reduce_history_bytes(connection, merge.player_id, gained + sum(version.history_bytes for version in lost))
    for slot in sorted({version.slot for version in moved}):
        # What was kept may go now, as the heir has older ones, too; and an entry with more copies has changed.
        tables.set_prune_time(connection, merge.heir_id, slot, merge.now_ms)
    for slot in sorted({version.slot for version in moved if version.kind == VersionKind.CONFLICT}):
        prune_store.bump_slot(connection, merge.heir_id, slot)
    _drop_shells(connection, merge, shells)
    return True


def _move_staged(connection: Connection, merge: Merge) -> bool:
    """Move what waits for a commit."""
    query = """
        UPDATE blob SET player_id = :heir_id WHERE blob_id IN (
            SELECT blob_id FROM blob
            WHERE player_id = :player_id AND refs = 0 AND sha256 IS NOT NULL LIMIT :versions
        )
    """
    values = {"player_id": merge.player_id, "heir_id": merge.heir_id, "versions": MOVED_VERSIONS}
    return connection.execute(query, values).rowcount > 0
