"""The `save_version` table: every version that is kept."""

from collections.abc import Mapping
from sqlite3 import Connection
from typing import Any

from gamed.saves.rules import Earlier
from gamed.saves.version import Body, Kind, Version
from gamed.storage.errors import damaged_row
from gamed.storage.files import STATE

COLUMNS = "slot, version, parent, parent_tag, kind, blob_id, sha256, size, ctype, meta, created_ms, retired_ms"
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, the last that RFC 3339 can write."""
Row = tuple[Any, ...]
_KINDS = {kind.value: kind for kind in Kind}


def from_row(row: Row) -> Version:
    """A row of COLUMNS; StoreCorrupt for an instant that no clock has shown."""
    slot, version, parent, parent_tag, kind, blob_id, sha256, size, ctype, meta, created_ms, retired_ms = row
    if not 0 <= created_ms <= LATEST_MS:
        raise damaged_row(STATE)
    body = None if sha256 is None or ctype is None else Body(sha256, size, ctype, meta)
    return Version(slot, version, parent, parent_tag, _KINDS[kind], blob_id, body, created_ms, retired_ms)


def find(connection: Connection, player_id: str, slot: str, version: int | None) -> Version | None:
    """One version; None when it is not kept."""
    query = f"""
        SELECT {COLUMNS} FROM save_version
        WHERE player_id = :player_id AND slot = :slot AND version = :version
    """
    row = connection.execute(query, {"player_id": player_id, "slot": slot, "version": version}).fetchone()
    return None if row is None else from_row(row)


def history(connection: Connection, player_id: str, slot: str) -> list[Version]:
    """All of a slot, newest first."""
    query = f"""
        SELECT {COLUMNS} FROM save_version
        WHERE player_id = :player_id AND slot = :slot ORDER BY version DESC
    """
    return [from_row(row) for row in connection.execute(query, {"player_id": player_id, "slot": slot})]


def newest(connection: Connection, player_id: str, slot: str, kind: Kind) -> Version | None:
    """The newest version of one kind."""
    query = f"""
        SELECT {COLUMNS} FROM save_version
        WHERE player_id = :player_id AND slot = :slot AND kind = :kind ORDER BY version DESC LIMIT 1
    """
    row = connection.execute(query, {"player_id": player_id, "slot": slot, "kind": kind}).fetchone()
    return None if row is None else from_row(row)


def earlier(connection: Connection, player_id: str, slot: str, base: str | None, sha256: bytes) -> Earlier:
    """What holds these bytes and was written on top of `base`, the newest of each sort.

    Found by the one blob that has them: of bytes that are new, however long the history is, that is no row.
    """
    query = f"""
        SELECT {COLUMNS} FROM save_version INDEXED BY save_version_blob
        WHERE blob_id = (SELECT blob_id FROM blob WHERE player_id = :player_id AND sha256 = :sha256)
          AND player_id = :player_id AND slot = :slot AND parent_tag IS :base
        ORDER BY version DESC
    """
    values = {"player_id": player_id, "slot": slot, "base": base, "sha256": sha256}
    found = [from_row(row) for row in connection.execute(query, values)]
    written = next((version for version in found if version.kind is not Kind.CONFLICT), None)
    return Earlier(written, next((version for version in found if version.kind is Kind.CONFLICT), None))


def conflicts(connection: Connection, player_id: str) -> Mapping[str, list[int]]:
    """Numbers of a player's conflict copies by slot, oldest first."""
    query = """
        SELECT slot, version FROM save_version INDEXED BY save_version_conflict
        WHERE player_id = :player_id AND kind = 'conflict' ORDER BY slot, version
    """
    found: dict[str, list[int]] = {}
    for slot, version in connection.execute(query, {"player_id": player_id}):
        found.setdefault(slot, []).append(version)
    return found


def conflicts_in(connection: Connection, player_id: str, slot: str) -> list[int]:
    """Numbers of one slot's conflict copies, oldest first."""
    query = """
        SELECT version FROM save_version INDEXED BY save_version_conflict
        WHERE player_id = :player_id AND slot = :slot AND kind = 'conflict' ORDER BY version
    """
    return [version for (version,) in connection.execute(query, {"player_id": player_id, "slot": slot})]


def shares_its_second(connection: Connection, player_id: str, head: Version) -> bool:
    """Whether another version of the slot became current in the same second as this one."""
    query = """
        SELECT EXISTS (
            SELECT 1 FROM save_version
            WHERE player_id = :player_id AND slot = :slot AND version != :version
              AND kind IN ('write', 'restore') AND created_ms / 1000 = :second
        )
    """
    second = head.created_ms // 1000
    values = {"player_id": player_id, "slot": head.slot, "version": head.version, "second": second}
    return bool(connection.execute(query, values).fetchone()[0])


def oldest(connection: Connection, player_id: str, limit: int) -> list[Version]:
    """What is no longer current, longest ago first: what goes when the history is too large (PROTOCOL 4.3, R1, R5).

    Left out are deletes, which hold no bytes, and the version before the current one of each slot.
    """
    query = f"""
        SELECT {COLUMNS} FROM save_version v INDEXED BY save_version_retired
        WHERE player_id = :player_id AND retired_ms NOT NULL AND kind != 'delete'
          AND NOT EXISTS (
            SELECT 1 FROM save s
            WHERE s.player_id = v.player_id AND s.slot = v.slot AND s.current_version NOT NULL AND v.version = (
                SELECT max(p.version) FROM save_version p
                WHERE p.player_id = v.player_id AND p.slot = v.slot AND p.version < s.current_version
                  AND p.kind IN ('write', 'restore')
            )
          )
        ORDER BY retired_ms LIMIT :limit
    """
    return [from_row(row) for row in connection.execute(query, {"player_id": player_id, "limit": limit})]


_INSERT = f"INSERT INTO save_version (player_id, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_RETIRE = "UPDATE save_version SET retired_ms = ? WHERE player_id = ? AND slot = ? AND version = ?"


def insert(connection: Connection, player_id: str, version: Version) -> None:
    """A new version; its blob's references are the caller's business."""
    body = version.body
    contents = (None, 0, None, None) if body is None else (body.sha256, body.size, body.ctype, body.meta)
    parentage = version.parent, version.parent_tag, str(version.kind), version.blob_id
    values = player_id, version.slot, version.version, *parentage, *contents, version.created_ms, version.retired_ms
    connection.execute(_INSERT, values)


def retire(connection: Connection, player_id: str, slot: str, version: int, now_ms: int) -> None:
    """It is not current any more."""
    connection.execute(_RETIRE, (now_ms, player_id, slot, version))


def delete(connection: Connection, player_id: str, slot: str, version: int) -> None:
    """Forget it; its blob's references are the caller's business."""
    query = "DELETE FROM save_version WHERE player_id = :player_id AND slot = :slot AND version = :version"
    connection.execute(query, {"player_id": player_id, "slot": slot, "version": version})


def move_blob(connection: Connection, blob_id: int, to: int) -> int:
    """Every version of one blob has its bytes in another from now on; how many there were."""
    query = "UPDATE save_version SET blob_id = :to WHERE blob_id = :blob_id"
    return connection.execute(query, {"blob_id": blob_id, "to": to}).rowcount
