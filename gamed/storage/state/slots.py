"""The `save` table: one row per slot that ever held anything."""

from collections.abc import Iterable
from sqlite3 import Connection
from typing import Any

from gamed.saves.entry import SlotEntry
from gamed.saves.holdings import Holdings
from gamed.saves.rules import SlotView
from gamed.saves.version import Kind
from gamed.storage.state import shelves, versions


def _prefixed(table: str, columns: Iterable[str]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


_HEAD = _prefixed("v", versions.COLUMNS.split(", "))
_JOINED = "LEFT JOIN save_version v ON v.player_id = s.player_id AND v.slot = s.slot AND v.version = s.current_version"
_VIEW = f"SELECT s.last_version, s.current_version, {_HEAD} FROM save s {_JOINED} WHERE s.player_id = ? AND s.slot = ?"
_VIEW_AND_BYTES = f"""
    SELECT s.last_version, s.current_version, {_HEAD}, b.data
    FROM save s {_JOINED} LEFT JOIN blob b ON b.blob_id = v.blob_id
    WHERE s.player_id = ? AND s.slot = ?
"""
_PLACE = f"""
    SELECT {_prefixed("h", shelves.COLUMNS)}, s.last_version, s.current_version, {_HEAD}
    FROM (SELECT 1) LEFT JOIN player_saves h ON h.player_id = ?1
    LEFT JOIN save s ON s.player_id = ?1 AND s.slot = ?2 {_JOINED}
"""


def view(connection: Connection, player_id: str, slot: str) -> SlotView:
    """What decides about a slot."""
    row = connection.execute(_VIEW, (player_id, slot)).fetchone()
    return SlotView() if row is None else _view(connection, player_id, slot, row)


def view_and_bytes(connection: Connection, player_id: str, slot: str) -> tuple[SlotView, bytes | None]:
    """The same, and the bytes of the current version as they are stored, if they are few."""
    row = connection.execute(_VIEW_AND_BYTES, (player_id, slot)).fetchone()
    return (SlotView(), None) if row is None else (_view(connection, player_id, slot, row[:-1]), row[-1])


def place(connection: Connection, player_id: str, slot: str) -> tuple[Holdings, SlotView]:
    """Return the player's totals and one slot from one query; both are empty where the row does not exist."""
    row = connection.execute(_PLACE, (player_id, slot)).fetchone()
    totals, found = row[: len(shelves.COLUMNS)], row[len(shelves.COLUMNS) :]
    return shelves.from_row(totals), _view(connection, player_id, slot, found)


def _view(connection: Connection, player_id: str, slot: str, row: tuple[Any, ...]) -> SlotView:
    last_version, current_version = row[:2]
    if last_version is None:
        return SlotView()
    if current_version is None:
        return SlotView(last_version, tombstone=versions.newest(connection, player_id, slot, Kind.DELETE))
    version = row[2:]
    return SlotView(last_version, head=None if version[0] is None else versions.from_row(version))


_WRITE = """
    INSERT INTO save (player_id, slot, current_version, last_version, seq, deleted_ms, prune_at_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (player_id, slot) DO UPDATE
    SET current_version = excluded.current_version, last_version = excluded.last_version, seq = excluded.seq,
        deleted_ms = excluded.deleted_ms,
        prune_at_ms = coalesce(min(prune_at_ms, excluded.prune_at_ms), prune_at_ms, excluded.prune_at_ms)
"""


def write(
    connection: Connection,
    player_id: str,
    slot: str,
    *,
    current_version: int | None,
    last_version: int,
    seq: int,
    deleted_ms: int | None,
    prune_at_ms: int | None,
) -> None:
    """Write the slot as it is after a change; an earlier `prune_at_ms` of the row is kept."""
    connection.execute(_WRITE, (player_id, slot, current_version, last_version, seq, deleted_ms, prune_at_ms))


def touch(
    connection: Connection, player_id: str, slot: str, *, last_version: int, seq: int, prune_at_ms: int | None
) -> None:
    """Record a change that leaves the current version as it is; an earlier `prune_at_ms` of the row is kept."""
    query = """
        UPDATE save
        SET last_version = :last_version, seq = :seq,
            prune_at_ms = coalesce(min(prune_at_ms, :prune_at_ms), prune_at_ms, :prune_at_ms)
        WHERE player_id = :player_id AND slot = :slot
    """
    values = {"player_id": player_id, "slot": slot, "last_version": last_version, "seq": seq}
    connection.execute(query, values | {"prune_at_ms": prune_at_ms})


def due(connection: Connection, now_ms: int, limit: int) -> list[tuple[str, str]]:
    """Player and slot of histories that have to be looked at, longest due first."""
    query = """
        SELECT player_id, slot FROM save INDEXED BY save_prune_at
        WHERE prune_at_ms <= :now_ms ORDER BY prune_at_ms LIMIT :limit
    """
    return connection.execute(query, {"now_ms": now_ms, "limit": limit}).fetchall()


def look_again(connection: Connection, player_id: str, slot: str, prune_at_ms: int | None) -> None:
    """Set when the server checks the history next for versions to delete."""
    query = "UPDATE save SET prune_at_ms = :prune_at_ms WHERE player_id = :player_id AND slot = :slot"
    connection.execute(query, {"player_id": player_id, "slot": slot, "prune_at_ms": prune_at_ms})


def live(connection: Connection, player_id: str) -> list[SlotEntry]:
    """Every slot that holds something, by name."""
    query = f"""
        SELECT {_HEAD} FROM save s
        JOIN save_version v ON v.player_id = s.player_id AND v.slot = s.slot AND v.version = s.current_version
        WHERE s.player_id = :player_id
        ORDER BY s.slot
    """
    copies = versions.conflicts(connection, player_id)
    heads = [versions.from_row(row) for row in connection.execute(query, {"player_id": player_id})]
    return [SlotEntry(head.slot, head, copies.get(head.slot, ())) for head in heads]


def changed(connection: Connection, player_id: str, since: int) -> list[SlotEntry]:
    """Every slot that changed after `since`, deleted ones too, by name."""
    query = """
        SELECT slot, last_version, deleted_ms FROM save INDEXED BY save_changes
        WHERE player_id = :player_id AND seq > :since ORDER BY slot
    """
    rows = connection.execute(query, {"player_id": player_id, "since": since}).fetchall()
    return [_entry(connection, player_id, *row) for row in rows]


def deleted(connection: Connection, player_id: str, slot: str) -> SlotEntry:
    """A slot that was deleted, as a list of changes has it."""
    query = "SELECT last_version, deleted_ms FROM save WHERE player_id = :player_id AND slot = :slot"
    last_version, deleted_ms = connection.execute(query, {"player_id": player_id, "slot": slot}).fetchone()
    return _entry(connection, player_id, slot, last_version, deleted_ms)


def _entry(connection: Connection, player_id: str, slot: str, last_version: int, deleted_ms: int | None) -> SlotEntry:
    now = view(connection, player_id, slot)
    copies = versions.conflicts_in(connection, player_id, slot)
    removed = now.tombstone.version if now.tombstone else last_version
    return SlotEntry(slot, now.head, copies, deleted_ms, removed)
