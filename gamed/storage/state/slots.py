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
_JOINED = "LEFT JOIN save_version v ON v.player_id = s.player_id AND v.slot = s.slot AND v.version = s.head"
_VIEW = f"SELECT s.last, s.head, {_HEAD} FROM save s {_JOINED} WHERE s.player_id = ? AND s.slot = ?"
_VIEW_AND_BYTES = f"""
    SELECT s.last, s.head, {_HEAD}, b.data FROM save s {_JOINED} LEFT JOIN blob b ON b.blob_id = v.blob_id
    WHERE s.player_id = ? AND s.slot = ?
"""
_PLACE = f"""
    SELECT {_prefixed("h", shelves.COLUMNS)}, s.last, s.head, {_HEAD}
    FROM (SELECT 1) LEFT JOIN shelf h ON h.player_id = ?1 LEFT JOIN save s ON s.player_id = ?1 AND s.slot = ?2 {_JOINED}
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
    """The shelf and one of its slots, in one look; either may not be there."""
    row = connection.execute(_PLACE, (player_id, slot)).fetchone()
    shelf, found = row[: len(shelves.COLUMNS)], row[len(shelves.COLUMNS) :]
    return shelves.from_row(shelf), _view(connection, player_id, slot, found)


def _view(connection: Connection, player_id: str, slot: str, row: tuple[Any, ...]) -> SlotView:
    last, head = row[:2]
    if last is None:
        return SlotView()
    if head is None:
        return SlotView(last, tombstone=versions.newest(connection, player_id, slot, Kind.DELETE))
    version = row[2:]
    return SlotView(last, head=None if version[0] is None else versions.from_row(version))


_WRITE = """
    INSERT INTO save (player_id, slot, head, last, seq, deleted_ms, due_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (player_id, slot) DO UPDATE
    SET head = excluded.head, last = excluded.last, seq = excluded.seq, deleted_ms = excluded.deleted_ms,
        due_ms = coalesce(min(due_ms, excluded.due_ms), due_ms, excluded.due_ms)
"""


def write(
    connection: Connection,
    player_id: str,
    slot: str,
    *,
    head: int | None,
    last: int,
    seq: int,
    deleted_ms: int | None,
    due_ms: int | None,
) -> None:
    """The slot as it is after a change; `due_ms` counts only if nothing is due earlier."""
    connection.execute(_WRITE, (player_id, slot, head, last, seq, deleted_ms, due_ms))


def touch(connection: Connection, player_id: str, slot: str, *, last: int, seq: int, due_ms: int | None) -> None:
    """Something beside the current version changed."""
    query = """
        UPDATE save
        SET last = :last, seq = :seq, due_ms = coalesce(min(due_ms, :due_ms), due_ms, :due_ms)
        WHERE player_id = :player_id AND slot = :slot
    """
    connection.execute(query, {"player_id": player_id, "slot": slot, "last": last, "seq": seq, "due_ms": due_ms})


def due(connection: Connection, now_ms: int, limit: int) -> list[tuple[str, str]]:
    """Player and slot of histories that have to be looked at, longest due first."""
    query = "SELECT player_id, slot FROM save INDEXED BY save_due WHERE due_ms <= :now_ms ORDER BY due_ms LIMIT :limit"
    return connection.execute(query, {"now_ms": now_ms, "limit": limit}).fetchall()


def look_again(connection: Connection, player_id: str, slot: str, due_ms: int | None) -> None:
    """When the history has to be looked at next."""
    query = "UPDATE save SET due_ms = :due_ms WHERE player_id = :player_id AND slot = :slot"
    connection.execute(query, {"player_id": player_id, "slot": slot, "due_ms": due_ms})


def live(connection: Connection, player_id: str) -> list[SlotEntry]:
    """Every slot that holds something, by name."""
    query = f"""
        SELECT {_HEAD} FROM save s
        JOIN save_version v ON v.player_id = s.player_id AND v.slot = s.slot AND v.version = s.head
        WHERE s.player_id = :player_id
        ORDER BY s.slot
    """
    copies = versions.conflicts(connection, player_id)
    heads = [versions.from_row(row) for row in connection.execute(query, {"player_id": player_id})]
    return [SlotEntry(head.slot, head, copies.get(head.slot, ())) for head in heads]


def changed(connection: Connection, player_id: str, since: int) -> list[SlotEntry]:
    """Every slot that changed after `since`, deleted ones too, by name."""
    query = """
        SELECT slot, last, deleted_ms FROM save INDEXED BY save_changes
        WHERE player_id = :player_id AND seq > :since ORDER BY slot
    """
    rows = connection.execute(query, {"player_id": player_id, "since": since}).fetchall()
    return [_entry(connection, player_id, *row) for row in rows]


def deleted(connection: Connection, player_id: str, slot: str) -> SlotEntry:
    """A slot that was deleted, as a list of changes has it."""
    query = "SELECT last, deleted_ms FROM save WHERE player_id = :player_id AND slot = :slot"
    last, deleted_ms = connection.execute(query, {"player_id": player_id, "slot": slot}).fetchone()
    return _entry(connection, player_id, slot, last, deleted_ms)


def _entry(connection: Connection, player_id: str, slot: str, last: int, deleted_ms: int | None) -> SlotEntry:
    now = view(connection, player_id, slot)
    copies = versions.conflicts_in(connection, player_id, slot)
    removed = now.tombstone.version if now.tombstone else last
    return SlotEntry(slot, now.head, copies, deleted_ms, removed)
