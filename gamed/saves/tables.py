"""SQL of the tables `player_saves`, a row for each player who ever saved, and `save`, one for each slot.

A slot keeps its row after a delete, until it expires. The versions are in `version_tables`, their bytes in
`blob_tables`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from gamed.crypto import Random
from gamed.database.connection import Connection, rows_in
from gamed.saves import version_tables
from gamed.saves.limits import Usage
from gamed.saves.model import (
    RUN_BASE,
    RUN_LENGTH,
    RUNS_LENGTH,
    Cursor,
    SavesSummary,
    SlotEntry,
    SlotState,
    VersionKind,
    new_epoch,
    run_at,
)
from gamed.saves.version_tables import JOINED_COLUMNS, newest_version, version_from_row

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
    "runs",
)
_FIND_PLAYER = f"SELECT {', '.join(PLAYER_COLUMNS)} FROM player_saves WHERE player_id = ?"


def player_from_row(row: Sequence[Any]) -> SavesSummary:
    """Convert a row of PLAYER_COLUMNS; a row of NULLs, from a join, is a player who never saved."""
    epoch, seq, slots, live, kept, deleted, erased_ms, erasing, *others = row
    if epoch is None:
        return SavesSummary()
    usage = Usage(slots=slots, bytes=live, history_bytes=kept, deleted_slots=deleted)
    cursor = Cursor(epoch, seq, run=run_at(others[-1], seq))
    return SavesSummary(cursor, usage, erased_ms, bool(erasing), *others)


def bytes_of(connection: Connection, player_ids: Iterable[str]) -> dict[str, int]:
    """Return the bytes of all versions, by player id; players who never saved are left out."""
    query = "SELECT live_bytes + kept_bytes FROM player_saves WHERE player_id = :player_id"
    found = {player_id: connection.execute(query, {"player_id": player_id}).fetchone() for player_id in player_ids}
    return {player_id: row[0] for player_id, row in found.items() if row is not None}


def total_usage(connection: Connection) -> Usage:
    """Return the totals of all players."""
    query = """
        SELECT CAST(coalesce(sum(slots), 0) AS BIGINT), CAST(coalesce(sum(live_bytes), 0) AS BIGINT),
            CAST(coalesce(sum(kept_bytes), 0) AS BIGINT)
        FROM player_saves
    """  # PostgreSQL's sum of BIGINT is a NUMERIC
    slots, live, kept = connection.execute(query).fetchone()
    return Usage(slots=slots, bytes=live, history_bytes=kept)


def largest_players(connection: Connection, rows: int) -> list[tuple[str, int]]:
    """Return the ids of the players with most bytes of saves and history, and their bytes; it reads every player."""
    query = """
        SELECT player_id, live_bytes + kept_bytes FROM player_saves
        WHERE live_bytes + kept_bytes > 0 ORDER BY 2 DESC, 1 LIMIT :rows
    """
    return [(player_id, int(size)) for player_id, size in connection.execute(query, {"rows": rows})]


def find_player(connection: Connection, player_id: str) -> SavesSummary:
    """Return the player's totals; they are empty for a player who never saved."""
    row = connection.execute(_FIND_PLAYER, (player_id,)).fetchone()
    return SavesSummary() if row is None else player_from_row(row)


def cursors(connection: Connection, players: Sequence[str]) -> dict[str, Cursor]:
    """Return the cursors of these players; those who never saved are left out."""
    query = "SELECT player_id, epoch, seq, runs FROM player_saves WHERE player_id IN "
    rows = rows_in(connection, query, players)
    return {player_id: Cursor(epoch, seq, run=run_at(runs, seq)) for player_id, epoch, seq, runs in rows}


def begin_run(connection: Connection, run: str) -> None:
    """Let all further changes, of every process, belong to this run.

    One for all processes, because those that serve together change the same saves by turns: with a run for each, a busy
    player's last 16 would be of one minute.
    """
    connection.execute("UPDATE server_run SET run = :run WHERE one = 1 AND run <> :run", {"run": run})


def create_player(connection: Connection, player_id: str, epoch: str) -> None:
    """Insert the player's row before their first change, unless it exists."""
    query = "INSERT INTO player_saves (player_id, epoch) VALUES (:player_id, :epoch) ON CONFLICT DO NOTHING"
    connection.execute(query, {"player_id": player_id, "epoch": epoch})


# The expressions see the row as it was: `seq` is the change before this one.
_CHANGE_PLAYER = f"""
    UPDATE player_saves SET seq = seq + 1, slots = slots + ?, live_bytes = live_bytes + ?, kept_bytes = kept_bytes + ?,
        deleted_slots = deleted_slots + ?, write_arrival_ms = coalesce(?, write_arrival_ms),
        runs = CASE WHEN (SELECT run FROM server_run WHERE one = 1) IN ('', substr(runs, 1, {RUN_LENGTH})) THEN runs
            ELSE substr(
                (SELECT run FROM server_run WHERE one = 1) || CAST(seq + {RUN_BASE} AS TEXT) || runs, 1, {RUNS_LENGTH}
            ) END
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
    """Give every player a new epoch, so that all clients read everything again; return the number.

    See docs/protocol.md: Saves.
    """
    players = connection.execute("SELECT player_id FROM player_saves").fetchall()
    query = "UPDATE player_saves SET epoch = :epoch WHERE player_id = :player_id"
    for (player_id,) in players:
        connection.execute(query, {"epoch": new_epoch(random), "player_id": player_id})
    return len(players)


def _prefixed(table: str, columns: Iterable[str]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


_JOINED = "LEFT JOIN save_version v ON v.player_id = s.player_id AND v.slot = s.slot AND v.version = s.current_version"
_STATE = f"""
    SELECT s.last_version, s.current_version, {JOINED_COLUMNS}
    FROM save s {_JOINED} WHERE s.player_id = ? AND s.slot = ?
"""
_STATE_AND_BYTES = f"""
    SELECT s.last_version, s.current_version, {JOINED_COLUMNS}, b.data
    FROM save s {_JOINED} LEFT JOIN blob b ON b.blob_id = v.blob_id
    WHERE s.player_id = ? AND s.slot = ?
"""
# The constant row makes one row also of a player who never saved; PostgreSQL below 16 wants a name for it.
_PLAYER_AND_STATE = f"""
    SELECT {_prefixed("h", PLAYER_COLUMNS)}, s.last_version, s.current_version, {JOINED_COLUMNS}
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
# CASE here and below: the smaller of two values is min() in SQLite, and least() in PostgreSQL.
_CHANGE_AND_PRUNE = f"""
    {_CHANGED}, prune_at_ms = CASE WHEN prune_at_ms < ? THEN prune_at_ms ELSE ? END WHERE player_id = ? AND slot = ?
"""


def write_slot(
    connection: Connection,
    player_id: str,
    slot: str,
    number: int,
    *,
    seq: int,
    deleted_ms: int | None = None,
    prune_at_ms: int | None,
    is_new: bool = False,
) -> None:
    """Write the slot as a change leaves it: `number` is the newest version, and current unless it is a delete.

    An earlier `prune_at_ms` of the row is kept.
    """
    values = number if deleted_ms is None else None, number, seq, deleted_ms
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
        waiting = version_tables.slots_with_copies_since(connection, player_id, checked, before_ms)
        found += [slot for slot in checked if slot not in waiting]
        if len(found) >= limit:
            break
    return found[:limit]


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
        ) END AS tombstone, page.current_version, {JOINED_COLUMNS}
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
_COPIED_SLOTS = f"""
    SELECT {_ENTRY_COLUMNS} FROM (
        SELECT {_SLOTS} slot IN (
            SELECT DISTINCT slot FROM save_version
            WHERE player_id = :player_id AND kind = 'conflict' AND slot > :since ORDER BY slot LIMIT :limit
        )
    ) page {_VERSIONS}
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


def copied_slots(connection: Connection, player_id: str, after: str, limit: int) -> list[SlotEntry]:
    """Return the next slots by name that have conflict copies."""
    found = _entries(connection, player_id, _COPIED_SLOTS, {"since": after, "limit": limit})
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
    copies = version_tables.conflict_copies(connection, player_id, [row[1] for row in rows])
    found = []
    for seq, slot, deleted_ms, last_version, tombstone, number, *current in rows:
        version = None if current[0] is None else version_from_row(tuple(current))
        damaged = number is not None and version is None
        entry = SlotEntry(slot, version, copies.get(slot, ()), deleted_ms, tombstone or last_version, damaged)
        found.append((seq, entry))
    # The order of the inner query chooses the page; the join need not keep it.
    return sorted(found, key=itemgetter(0))
