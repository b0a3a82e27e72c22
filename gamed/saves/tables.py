"""SQL of the tables of saves: `save_version`, `player_saves` and `save`.

`save_version` has a row for each version that is kept, `player_saves` for each player who ever saved, `save` for each
slot that ever held bytes. The bytes are in the tables of `blob_tables`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter, itemgetter
from typing import Any

from gamed.crypto import Random
from gamed.database.connection import STATE, Connection, rows_in
from gamed.database.errors import damaged_row
from gamed.saves import blob_tables
from gamed.saves.limits import Usage, counted_bytes
from gamed.saves.model import (
    DEFAULT_MEDIA_TYPE,
    Cursor,
    SaveContent,
    SavesSummary,
    SlotEntry,
    SlotState,
    Version,
    VersionKind,
    new_epoch,
)
from gamed.saves.write_rules import MatchingVersions

VERSION_COLUMNS = (
    "slot, version, parent, parent_tag, kind, blob_id, sha256, size, ctype, meta, created_ms, retired_ms, device"
)
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, the last one in RFC 3339."""
Row = tuple[Any, ...]
_KINDS = {kind.value: kind for kind in VersionKind}


def version_from_row(row: Row) -> Version:
    """Convert a row of VERSION_COLUMNS; raise DatabaseCorrupt for an impossible time."""
    slot, version, parent, parent_tag, kind, blob_id, sha256, size, ctype, meta, created_ms, retired_ms, device = row
    if not 0 <= created_ms <= LATEST_MS:
        raise damaged_row(STATE)
    content = None if sha256 is None else SaveContent(sha256, size, ctype or DEFAULT_MEDIA_TYPE, meta)
    return Version(
        slot=slot,
        version=version,
        parent=parent,
        parent_tag=parent_tag,
        kind=_KINDS[kind],
        blob_id=blob_id,
        content=content,
        created_ms=created_ms,
        retired_ms=retired_ms,
        device=device,
    )


def find_version(connection: Connection, player_id: str, slot: str, version: int | None) -> Version | None:
    """Return one version, or None if it is not kept."""
    query = f"""
        SELECT {VERSION_COLUMNS} FROM save_version
        WHERE player_id = :player_id AND slot = :slot AND version = :version
    """
    row = connection.execute(query, {"player_id": player_id, "slot": slot, "version": version}).fetchone()
    return None if row is None else version_from_row(row)


def list_versions(connection: Connection, player_id: str, slot: str) -> list[Version]:
    """Return all versions of a slot, newest first."""
    query = f"""
        SELECT {VERSION_COLUMNS} FROM save_version
        WHERE player_id = :player_id AND slot = :slot ORDER BY version DESC
    """
    return [version_from_row(row) for row in connection.execute(query, {"player_id": player_id, "slot": slot})]


def page_of_versions(connection: Connection, player_id: str, slot: str, before: int, limit: int) -> list[Version]:
    """Return the newest versions of a slot with a number below `before`."""
    query = f"""
        SELECT {VERSION_COLUMNS} FROM save_version
        WHERE player_id = :player_id AND slot = :slot AND version < :before ORDER BY version DESC LIMIT :limit
    """
    values = {"player_id": player_id, "slot": slot, "before": before, "limit": limit}
    return [version_from_row(row) for row in connection.execute(query, values)]


def written_numbers(connection: Connection, player_id: str, slot: str, limit: int) -> list[int]:
    """Return the numbers of the newest versions that are or were current, newest first."""
    query = """
        SELECT version FROM save_version
        WHERE player_id = :player_id AND slot = :slot AND kind IN ('write', 'restore')
        ORDER BY version DESC LIMIT :limit
    """
    values = {"player_id": player_id, "slot": slot, "limit": limit}
    return [version for (version,) in connection.execute(query, values)]


def newest_version(connection: Connection, player_id: str, slot: str, kind: VersionKind) -> Version | None:
    query = f"""
        SELECT {VERSION_COLUMNS} FROM save_version
        WHERE player_id = :player_id AND slot = :slot AND kind = :kind ORDER BY version DESC LIMIT 1
    """
    row = connection.execute(query, {"player_id": player_id, "slot": slot, "kind": kind}).fetchone()
    return None if row is None else version_from_row(row)


def matching_versions(
    connection: Connection, player_id: str, slot: str, base: str | None, sha256: bytes
) -> MatchingVersions:
    """Return the newest version and the newest conflict copy with these bytes that were written on top of `base`.

    It reads the versions of the slot.
    """
    query = f"""
        SELECT {VERSION_COLUMNS} FROM save_version
        WHERE player_id = :player_id AND slot = :slot AND sha256 = :sha256 AND parent_tag IS NOT DISTINCT FROM :base
        ORDER BY version DESC
    """
    values = {"player_id": player_id, "slot": slot, "base": base, "sha256": sha256}
    found = [version_from_row(row) for row in connection.execute(query, values)]
    written = next((version for version in found if version.kind is not VersionKind.CONFLICT), None)
    return MatchingVersions(written, next((version for version in found if version.kind is VersionKind.CONFLICT), None))


def conflict_copies_of_slot(connection: Connection, player_id: str, slot: str) -> list[int]:
    """Return the numbers of one slot's conflict copies, oldest first."""
    query = """
        SELECT version FROM save_version
        WHERE player_id = :player_id AND slot = :slot AND kind = 'conflict' ORDER BY version
    """
    return [version for (version,) in connection.execute(query, {"player_id": player_id, "slot": slot})]


def shares_its_second(connection: Connection, player_id: str, current: Version) -> bool:
    """Check whether another version of the slot became current in the same second as this one."""
    query = """
        SELECT EXISTS (
            SELECT 1 FROM save_version
            WHERE player_id = :player_id AND slot = :slot AND version != :version
              AND kind IN ('write', 'restore') AND created_ms / 1000 = :second
        )
    """
    second = current.created_ms // 1000
    values = {"player_id": player_id, "slot": current.slot, "version": current.version, "second": second}
    return bool(connection.execute(query, values).fetchone()[0])


_OLDEST = """
    SELECT coalesce(v.retired_ms, v.created_ms), v.slot, v.version, v.kind FROM (
        SELECT slot, (
            SELECT version FROM save_version o
            WHERE o.player_id = s.player_id AND o.slot = s.slot AND kind IN ('write', 'restore')
              AND version IS DISTINCT FROM s.current_version
            ORDER BY version LIMIT 1
        ) AS version FROM save s WHERE player_id = :player_id
        UNION ALL SELECT slot, min(version) FROM save_version
        WHERE player_id = :player_id AND kind = 'conflict' GROUP BY slot
    ) k JOIN save_version v ON v.player_id = :player_id AND v.slot = k.slot AND v.version = k.version
"""
_NEXT = """
    SELECT coalesce(retired_ms, created_ms), slot, version, kind FROM save_version
    WHERE player_id = :player_id AND slot = :slot AND version > :version
      AND version IS DISTINCT FROM (SELECT current_version FROM save WHERE player_id = :player_id AND slot = :slot)
      AND kind != 'delete' AND (kind = 'conflict') = (:kind = 'conflict')
    ORDER BY version LIMIT 1
"""


def oldest_versions(connection: Connection, player_id: str, limit: int) -> list[Version]:
    """Return the versions to delete when the history is too large, longest retired first (PROTOCOL 4.3, R1, R5).

    Deletes, which have no bytes, and the version before the current one of each slot are left out. In a slot, versions
    retire in the order of their numbers, and so do its conflict copies. So this reads two rows of each slot and not
    all versions of the player, which may be 40,000 with the Save-Meta of each.
    """
    before_current: dict[str, int | None] = {}
    candidates = list(connection.execute(_OLDEST, {"player_id": player_id}))
    heapify(candidates)
    found: list[Version] = []
    while candidates and len(found) < limit:
        _, slot, number, kind = heappop(candidates)
        values = {"player_id": player_id, "slot": slot, "version": number, "kind": kind}
        for row in connection.execute(_NEXT, values).fetchall():
            heappush(candidates, row)
        if slot not in before_current:
            before_current[slot] = _version_before_current(connection, player_id, slot)
        if number != before_current[slot] and (version := find_version(connection, player_id, slot, number)):
            found.append(version)
    return found


def _version_before_current(connection: Connection, player_id: str, slot: str) -> int | None:
    """Return the number of the version that the current one replaced, if it is kept; None for an empty slot."""
    query = """
        SELECT max(v.version) FROM save s JOIN save_version v ON v.player_id = s.player_id AND v.slot = s.slot
        WHERE s.player_id = :player_id AND s.slot = :slot
          AND v.version < s.current_version AND v.kind IN ('write', 'restore')
    """
    row = connection.execute(query, {"player_id": player_id, "slot": slot}).fetchone()
    return None if row is None else row[0]


_INSERT_VERSION = (
    f"INSERT INTO save_version (player_id, {VERSION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_RETIRE = "UPDATE save_version SET retired_ms = ? WHERE player_id = ? AND slot = ? AND version = ?"


def insert_version(connection: Connection, player_id: str, version: Version) -> None:
    """Insert a version; the caller counts the reference to its blob."""
    content = version.content
    described: tuple[object, ...] = None, 0, None, None
    if content is not None:
        ctype = None if content.content_type == DEFAULT_MEDIA_TYPE else content.content_type
        described = content.sha256, content.size, ctype, content.meta
    parentage = version.parent, version.parent_tag, str(version.kind), version.blob_id
    values = (
        player_id,
        version.slot,
        version.version,
        *parentage,
        *described,
        version.created_ms,
        version.retired_ms,
        version.device,
    )
    connection.execute(_INSERT_VERSION, values)


def retire_version(connection: Connection, player_id: str, slot: str, version: int, now_ms: int) -> None:
    """Set the time when the version stopped being current."""
    connection.execute(_RETIRE, (now_ms, player_id, slot, version))


def delete_version(connection: Connection, player_id: str, slot: str, version: int) -> None:
    """Delete a version; the caller counts the reference to its blob."""
    query = "DELETE FROM save_version WHERE player_id = :player_id AND slot = :slot AND version = :version"
    connection.execute(query, {"player_id": player_id, "slot": slot, "version": version})


def move_blobs(connection: Connection, player_id: str, to: Mapping[int, int]) -> None:
    """Let every version of each of these blobs refer to another one, and count the references."""
    query = "SELECT slot, version, blob_id FROM save_version WHERE player_id = :player_id"
    move = "UPDATE save_version SET blob_id = :to WHERE player_id = :player_id AND slot = :slot AND version = :version"
    for slot, version, blob_id in connection.execute(query, {"player_id": player_id}).fetchall():
        if (other := to.get(blob_id)) is not None:
            values = {"to": other, "player_id": player_id, "slot": slot, "version": version}
            connection.execute(move, values)
            blob_tables.add_references(connection, other, 1)
            blob_tables.remove_reference(connection, blob_id)


PLAYER_COLUMNS = (
    "epoch",
    "seq",
    "slots",
    "live_bytes",
    "kept_bytes",
    "deleted_slots",
    "erased_ms",
    "erasing",
    "write_arrival_ms",
    "expired_seq",
    "expired_version",
)
_FIND_PLAYER = f"SELECT {', '.join(PLAYER_COLUMNS)} FROM player_saves WHERE player_id = ?"


def player_from_row(row: Sequence[Any]) -> SavesSummary:
    """Convert a row of PLAYER_COLUMNS; a row of NULLs, from a join, is a player who never saved."""
    epoch, seq, slots, live, kept, deleted, erased_ms, erasing, *others = row
    if epoch is None:
        return SavesSummary()
    usage = Usage(slots=slots, bytes=live, history_bytes=kept, deleted_slots=deleted)
    return SavesSummary(Cursor(epoch, seq), usage, erased_ms, bool(erasing), *others)


def bytes_of(connection: Connection, player_ids: Iterable[str]) -> dict[str, int]:
    """Return the bytes of all versions, by player id; players who never saved are left out."""
    query = "SELECT live_bytes + kept_bytes FROM player_saves WHERE player_id = :player_id"
    found = {player_id: connection.execute(query, {"player_id": player_id}).fetchone() for player_id in player_ids}
    return {player_id: row[0] for player_id, row in found.items() if row is not None}


def find_player(connection: Connection, player_id: str) -> SavesSummary:
    """Return the player's totals; they are empty for a player who never saved."""
    row = connection.execute(_FIND_PLAYER, (player_id,)).fetchone()
    return SavesSummary() if row is None else player_from_row(row)


def cursors(connection: Connection, players: Sequence[str]) -> dict[str, Cursor]:
    """Return the cursors of these players; those who never saved are left out."""
    query = "SELECT player_id, epoch, seq FROM player_saves WHERE player_id IN "
    return {player_id: Cursor(epoch, seq) for player_id, epoch, seq in rows_in(connection, query, players)}


def create_player(connection: Connection, player_id: str, epoch: str) -> None:
    """Insert the player's row before their first change, unless it exists."""
    query = "INSERT INTO player_saves (player_id, epoch) VALUES (:player_id, :epoch) ON CONFLICT DO NOTHING"
    connection.execute(query, {"player_id": player_id, "epoch": epoch})


_CHANGE_PLAYER = """
    UPDATE player_saves SET seq = seq + 1, slots = slots + ?, live_bytes = live_bytes + ?, kept_bytes = kept_bytes + ?,
        deleted_slots = deleted_slots + ?, write_arrival_ms = coalesce(?, write_arrival_ms)
    WHERE player_id = ?
"""


def change_player(
    connection: Connection,
    player_id: str,
    by: Usage,
    before: SavesSummary | None = None,
    *,
    arrival_ms: int | None = None,
) -> tuple[int, int]:
    """Count one change that adds `by`; return its number, and how many bytes the history has now.

    `before` are the totals if the caller has read them; RETURNING would cost as much as the change. `arrival_ms` is the
    player's bucket after a change that they requested.
    """
    values = by.slots, by.bytes, by.history_bytes, by.deleted_slots, arrival_ms, player_id
    connection.execute(_CHANGE_PLAYER, values)
    if before is not None:
        return before.cursor.seq + 1, before.usage.history_bytes + by.history_bytes
    after = find_player(connection, player_id)
    return after.cursor.seq, after.usage.history_bytes


def reduce_history_bytes(connection: Connection, player_id: str, size: int) -> None:
    """Subtract deleted bytes from the history; no list of a client changes."""
    query = "UPDATE player_saves SET kept_bytes = kept_bytes - :size WHERE player_id = :player_id"
    connection.execute(query, {"player_id": player_id, "size": size})


def renew_epochs(connection: Connection, random: Random) -> int:
    """Give every player a new epoch, so that all clients read everything again (PROTOCOL 4.2); return the number."""
    players = connection.execute("SELECT player_id FROM player_saves").fetchall()
    query = "UPDATE player_saves SET epoch = :epoch WHERE player_id = :player_id"
    for (player_id,) in players:
        connection.execute(query, {"epoch": new_epoch(random), "player_id": player_id})
    return len(players)


def _prefixed(table: str, columns: Iterable[str]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


_CURRENT = _prefixed("v", VERSION_COLUMNS.split(", "))
_JOINED = "LEFT JOIN save_version v ON v.player_id = s.player_id AND v.slot = s.slot AND v.version = s.current_version"
_STATE = (
    f"SELECT s.last_version, s.current_version, {_CURRENT} FROM save s {_JOINED} WHERE s.player_id = ? AND s.slot = ?"
)
_STATE_AND_BYTES = f"""
    SELECT s.last_version, s.current_version, {_CURRENT}, b.data
    FROM save s {_JOINED} LEFT JOIN blob b ON b.blob_id = v.blob_id
    WHERE s.player_id = ? AND s.slot = ?
"""
_PLAYER_AND_STATE = f"""
    SELECT {_prefixed("h", PLAYER_COLUMNS)}, s.last_version, s.current_version, {_CURRENT}
    FROM (SELECT 1) AS constant_row LEFT JOIN player_saves h ON h.player_id = ?
    LEFT JOIN save s ON s.player_id = ? AND s.slot = ? {_JOINED}
"""


def slot_state(connection: Connection, player_id: str, slot: str) -> SlotState:
    row = connection.execute(_STATE, (player_id, slot)).fetchone()
    return SlotState() if row is None else _state(connection, player_id, slot, row)


def slot_state_and_bytes(connection: Connection, player_id: str, slot: str) -> tuple[SlotState, bytes | None]:
    """Return the slot, and the stored bytes of its current version if they are in its row of `blob`."""
    row = connection.execute(_STATE_AND_BYTES, (player_id, slot)).fetchone()
    return (SlotState(), None) if row is None else (_state(connection, player_id, slot, row[:-1]), row[-1])


def load_slot(connection: Connection, player_id: str, slot: str) -> tuple[SavesSummary, SlotState]:
    """Return the player's totals and one slot from one query; both are empty where the row does not exist."""
    row = connection.execute(_PLAYER_AND_STATE, (player_id, player_id, slot)).fetchone()
    totals, found = row[: len(PLAYER_COLUMNS)], row[len(PLAYER_COLUMNS) :]
    return player_from_row(totals), _state(connection, player_id, slot, found)


def _state(connection: Connection, player_id: str, slot: str, row: tuple[Any, ...]) -> SlotState:
    last_version, current_version = row[:2]
    if last_version is None:
        return SlotState()
    if current_version is None:
        return SlotState(last_version, tombstone=newest_version(connection, player_id, slot, VersionKind.DELETE))
    version = row[2:]
    return SlotState(last_version, current=None if version[0] is None else version_from_row(version))


_INSERT_SLOT = """
    INSERT INTO save (current_version, last_version, seq, deleted_ms, prune_at_ms, player_id, slot)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_CHANGED = "UPDATE save SET current_version = ?, last_version = ?, seq = ?, deleted_ms = ?"
_CHANGE_SLOT = f"{_CHANGED} WHERE player_id = ? AND slot = ?"
_CHANGE_AND_PRUNE = f"""
    {_CHANGED}, prune_at_ms = CASE WHEN prune_at_ms < ? THEN prune_at_ms ELSE ? END WHERE player_id = ? AND slot = ?
"""


def write_slot(
    connection: Connection,
    player_id: str,
    slot: str,
    *,
    current_version: int | None,
    last_version: int,
    seq: int,
    deleted_ms: int | None,
    prune_at_ms: int | None,
    is_new: bool = False,
) -> None:
    """Write the slot as it is after a change; an earlier `prune_at_ms` of the row is kept."""
    values = current_version, last_version, seq, deleted_ms
    if is_new:
        connection.execute(_INSERT_SLOT, (*values, prune_at_ms, player_id, slot))
    elif prune_at_ms is None:
        connection.execute(_CHANGE_SLOT, (*values, player_id, slot))
    else:
        connection.execute(_CHANGE_AND_PRUNE, (*values, prune_at_ms, prune_at_ms, player_id, slot))


def touch_slot(
    connection: Connection, player_id: str, slot: str, *, last_version: int, seq: int, prune_at_ms: int | None
) -> None:
    """Record a change that leaves the current version as it is; an earlier `prune_at_ms` of the row is kept."""
    query = """
        UPDATE save
        SET last_version = :last_version, seq = :seq,
            prune_at_ms = CASE WHEN prune_at_ms <= :prune_at_ms THEN prune_at_ms
                               ELSE coalesce(:prune_at_ms, prune_at_ms) END
        WHERE player_id = :player_id AND slot = :slot
    """
    values = {"player_id": player_id, "slot": slot, "last_version": last_version, "seq": seq}
    connection.execute(query, values | {"prune_at_ms": prune_at_ms})


def slots_to_prune(connection: Connection, now_ms: int, limit: int) -> list[tuple[str, str, int | None]]:
    """Return player, slot and number of the current version of the histories to prune now, longest due first."""
    query = """
        SELECT player_id, slot, current_version FROM save
        WHERE prune_at_ms <= :now_ms ORDER BY prune_at_ms LIMIT :limit
    """
    return connection.execute(query, {"now_ms": now_ms, "limit": limit}).fetchall()


def set_prune_time(connection: Connection, player_id: str, slot: str, prune_at_ms: int | None) -> None:
    """Set when the server checks the history next for versions to delete."""
    query = "UPDATE save SET prune_at_ms = :prune_at_ms WHERE player_id = :player_id AND slot = :slot"
    connection.execute(query, {"player_id": player_id, "slot": slot, "prune_at_ms": prune_at_ms})


CHECKED_SLOTS = 64
"""How many deleted slots are checked at once for a later conflict copy: as many as a commit may expire."""


def deleted_before(
    connection: Connection, player_id: str, before_ms: int, spared: Collection[str], limit: int
) -> list[str]:
    """Return the slots to expire early: deleted before an instant, without a later conflict copy, oldest first.

    This reads all rows of the player in `save`, 0.2 ms for 1,000: an index would cost each delete a page. The conflict
    copies are read of CHECKED_SLOTS at once, because PostgreSQL needs a round trip for each statement.
    """
    deleted = """
        SELECT slot FROM save WHERE player_id = :player_id AND deleted_ms <= :before_ms ORDER BY deleted_ms, slot
    """
    rows = connection.execute(deleted, {"player_id": player_id, "before_ms": before_ms}).fetchall()
    slots = [slot for (slot,) in rows if slot not in spared]
    found: list[str] = []
    for begin in range(0, len(slots), CHECKED_SLOTS):
        checked = slots[begin : begin + CHECKED_SLOTS]
        waiting = _slots_with_copies_since(connection, player_id, checked, before_ms)
        found += [slot for slot in checked if slot not in waiting]
        if len(found) >= limit:
            break
    return found[:limit]


def _slots_with_copies_since(connection: Connection, player_id: str, slots: Sequence[str], after_ms: int) -> set[str]:
    marks = ", ".join("?" * len(slots))
    query = f"""
        SELECT slot FROM save_version
        WHERE player_id = ? AND kind = 'conflict' AND slot IN ({marks}) AND created_ms > ?
    """
    return {slot for (slot,) in connection.execute(query, (player_id, *slots, after_ms)).fetchall()}


def delete_histories(connection: Connection, player_id: str, slots: Collection[str]) -> int:
    """Delete all versions of some slots, and return what they counted; the caller counts the references to blobs."""
    marks = ", ".join("?" * len(slots))
    where = f"WHERE player_id = ? AND slot IN ({marks})"
    query = f"SELECT size, length(ctype), length(meta) FROM save_version {where}"
    rows = connection.execute(query, (player_id, *slots)).fetchall()
    connection.execute(f"DELETE FROM save_version {where}", (player_id, *slots))
    return sum(counted_bytes(size, ctype or 0, meta or 0) for size, ctype, meta in rows)


def expire_slots(connection: Connection, player_id: str, slots: Collection[str]) -> None:
    """Delete the rows of empty slots without versions, and note their highest numbers for all later slots."""
    marks = ", ".join("?" * len(slots))
    query = f"""
        DELETE FROM save WHERE player_id = ? AND slot IN ({marks}) AND current_version IS NULL
        RETURNING seq, last_version
    """
    expired = connection.execute(query, (player_id, *slots)).fetchall()
    if expired:
        numbers = max(seq for seq, _ in expired), max(version for _, version in expired)
        note_expired(connection, player_id, *numbers, count=len(expired))


def note_expired(connection: Connection, player_id: str, seq: int, version: int, *, count: int) -> None:
    """Note the highest numbers of slots that expired, `count` of this player."""
    query = """
        UPDATE player_saves SET deleted_slots = deleted_slots - :count,
            expired_seq = CASE WHEN expired_seq < :seq THEN :seq ELSE expired_seq END,
            expired_version = CASE WHEN expired_version < :version THEN :version ELSE expired_version END
        WHERE player_id = :player_id
    """
    connection.execute(query, {"player_id": player_id, "seq": seq, "version": version, "count": count})


_ENTRY_COLUMNS = f"""
    page.seq, page.slot, page.deleted_ms, page.last_version,
        CASE WHEN page.current_version IS NULL THEN (
            SELECT max(version) FROM save_version d
            WHERE d.player_id = :player_id AND d.slot = page.slot AND d.kind = 'delete'
        ) END AS tombstone, page.current_version, {_CURRENT}
"""
_SLOTS = "slot, seq, deleted_ms, last_version, current_version FROM save WHERE player_id = :player_id AND"
_VERSIONS = """
    LEFT JOIN save_version v ON v.player_id = :player_id AND v.slot = page.slot AND v.version = page.current_version
"""
_CHANGED_SLOTS = f"""
    SELECT {_ENTRY_COLUMNS} FROM (SELECT {_SLOTS} seq > :since ORDER BY seq LIMIT :limit) page {_VERSIONS}
"""
_CURRENT_SAVES = f"""
    SELECT {_ENTRY_COLUMNS}
    FROM (SELECT {_SLOTS} current_version IS NOT NULL ORDER BY seq LIMIT :limit) page {_VERSIONS}
"""
_NAMED_SLOTS = f"""
    SELECT {_ENTRY_COLUMNS} FROM (SELECT {_SLOTS} slot > :since ORDER BY slot LIMIT :limit) page {_VERSIONS}
"""
_ONE_SLOT = f"SELECT {_ENTRY_COLUMNS} FROM (SELECT {_SLOTS} slot = :slot) page {_VERSIONS}"
_ONE_CHANGE = f"SELECT {_ENTRY_COLUMNS} FROM (SELECT {_SLOTS} seq = :seq) page {_VERSIONS}"
_CHANGES = """
    SELECT count(*) FROM (SELECT 1 FROM save WHERE player_id = :player_id AND seq > :since LIMIT :limit) page
"""


def current_saves(connection: Connection, player_id: str, limit: int) -> list[tuple[int, SlotEntry]]:
    """Return slots that have a current version, each with the number of its last change; the earliest first."""
    return _entries(connection, player_id, _CURRENT_SAVES, {"limit": limit})


def changed_slots(connection: Connection, player_id: str, since: int, limit: int) -> list[tuple[int, SlotEntry]]:
    """Return slots that changed after `since`, deleted ones included, each with its change; the earliest first."""
    return _entries(connection, player_id, _CHANGED_SLOTS, {"since": since, "limit": limit})


def slots_of_change(connection: Connection, player_id: str, seq: int) -> list[tuple[int, SlotEntry]]:
    """Return all slots whose last change has this number, deleted ones included."""
    return _entries(connection, player_id, _ONE_CHANGE, {"seq": seq})


def slots_by_name(connection: Connection, player_id: str, after: str, limit: int) -> list[SlotEntry]:
    """Return the next slots by name, deleted ones included."""
    found = _entries(connection, player_id, _NAMED_SLOTS, {"since": after, "limit": limit})
    return sorted((entry for _, entry in found), key=attrgetter("slot"))


def count_changes(connection: Connection, player_id: str, since: int, limit: int) -> int:
    """Return the number of slots that changed after `since`, at most `limit`."""
    ((count,),) = connection.execute(_CHANGES, {"player_id": player_id, "since": since, "limit": limit}).fetchall()
    return int(count)


def has_damaged(connection: Connection, player_id: str) -> bool:
    """Check whether the row of a current version is lost. This reads all rows of the player in `save`."""
    query = """
        SELECT EXISTS (
            SELECT 1 FROM save s
            WHERE s.player_id = :player_id AND s.current_version IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM save_version v
                WHERE v.player_id = s.player_id AND v.slot = s.slot AND v.version = s.current_version
            )
        )
    """
    return bool(connection.execute(query, {"player_id": player_id}).fetchone()[0])


def deleted_slot(connection: Connection, player_id: str, slot: str) -> SlotEntry:
    """Return a deleted slot, as a list of changes has it."""
    ((_, entry),) = _entries(connection, player_id, _ONE_SLOT, {"slot": slot})
    return entry


def _entries(
    connection: Connection, player_id: str, query: str, values: Mapping[str, object]
) -> list[tuple[int, SlotEntry]]:
    rows = connection.execute(query, {"player_id": player_id, **values}).fetchall()
    copies = _conflict_copies(connection, player_id, [row[1] for row in rows])
    found = []
    for seq, slot, deleted_ms, last_version, tombstone, number, *current in rows:
        version = None if current[0] is None else version_from_row(tuple(current))
        damaged = number is not None and version is None
        entry = SlotEntry(slot, version, copies.get(slot, ()), deleted_ms, tombstone or last_version, damaged)
        found.append((seq, entry))
    return sorted(found, key=itemgetter(0))


def _conflict_copies(connection: Connection, player_id: str, slots: Sequence[str]) -> Mapping[str, list[int]]:
    """Return the numbers of the conflict copies of some slots, oldest first."""
    if not slots:
        return {}
    query = """
        SELECT slot, version FROM save_version
        WHERE player_id = :player_id AND kind = 'conflict' AND slot >= :first AND slot <= :last ORDER BY slot, version
    """
    found: dict[str, list[int]] = {}
    values = {"player_id": player_id, "first": min(slots), "last": max(slots)}
    for slot, version in connection.execute(query, values):
        found.setdefault(slot, []).append(version)
    return found
