"""SQL of the table `save_version`, which has a row for each version that is kept. `blob_tables` has the bytes."""

from collections.abc import Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from gamed.database.connection import STATE, Connection
from gamed.database.errors import damaged_row
from gamed.saves import blob_tables
from gamed.saves.limits import counted_bytes
from gamed.saves.model import DEFAULT_MEDIA_TYPE, SaveContent, Version, VersionKind
from gamed.saves.write_rules import MatchingVersions

VERSION_COLUMNS = (
    "slot, version, parent, parent_tag, kind, blob_id, sha256, size, ctype, meta, created_ms, retired_ms, device"
)
JOINED_COLUMNS = ", ".join(f"v.{column}" for column in VERSION_COLUMNS.split(", "))
"""The same where the table is called `v`."""
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


_OF_SLOT = f"SELECT {VERSION_COLUMNS} FROM save_version WHERE player_id = :player_id AND slot = :slot"
_NUMBERS = "SELECT version FROM save_version WHERE player_id = :player_id AND slot = :slot"


def find_version(connection: Connection, player_id: str, slot: str, version: int | None) -> Version | None:
    """Return one version, or None if it is not kept."""
    query = f"{_OF_SLOT} AND version = :version"
    row = connection.execute(query, {"player_id": player_id, "slot": slot, "version": version}).fetchone()
    return None if row is None else version_from_row(row)


def list_versions(connection: Connection, player_id: str, slot: str) -> list[Version]:
    """Return all versions of a slot, newest first."""
    rows = connection.execute(f"{_OF_SLOT} ORDER BY version DESC", {"player_id": player_id, "slot": slot})
    return [version_from_row(row) for row in rows]


def page_of_versions(connection: Connection, player_id: str, slot: str, before: int, limit: int) -> list[Version]:
    """Return the newest versions of a slot with a number below `before`."""
    query = f"{_OF_SLOT} AND version < :before ORDER BY version DESC LIMIT :limit"
    values = {"player_id": player_id, "slot": slot, "before": before, "limit": limit}
    return [version_from_row(row) for row in connection.execute(query, values)]


def written_numbers(connection: Connection, player_id: str, slot: str, limit: int) -> list[int]:
    """Return the numbers of the newest versions that are or were current, newest first."""
    query = f"{_NUMBERS} AND kind IN ('write', 'restore') ORDER BY version DESC LIMIT :limit"
    values = {"player_id": player_id, "slot": slot, "limit": limit}
    return [version for (version,) in connection.execute(query, values)]


def newest_written(connection: Connection, player_id: str, slots: Sequence[str]) -> Mapping[str, Version]:
    """Return, by slot, the newest version that is or was current; slots that have none are left out."""
    if not slots:
        return {}
    marks = ", ".join("?" * len(slots))
    # From `save`, which has one row of a slot: from the versions, each of a slot would look for the newest one.
    query = f"""
        SELECT {JOINED_COLUMNS} FROM save s
        JOIN save_version v ON v.player_id = s.player_id AND v.slot = s.slot AND v.version = (
            SELECT max(version) FROM save_version o
            WHERE o.player_id = s.player_id AND o.slot = s.slot AND o.kind IN ('write', 'restore')
        ) WHERE s.player_id = ? AND s.slot IN ({marks})
    """
    rows = connection.execute(query, (player_id, *slots)).fetchall()
    return {found.slot: found for found in map(version_from_row, rows)}


def newest_version(connection: Connection, player_id: str, slot: str, kind: VersionKind) -> Version | None:
    query = f"{_OF_SLOT} AND kind = :kind ORDER BY version DESC LIMIT 1"
    row = connection.execute(query, {"player_id": player_id, "slot": slot, "kind": kind}).fetchone()
    return None if row is None else version_from_row(row)


def matching_versions(
    connection: Connection, player_id: str, slot: str, base: str | None, sha256: bytes
) -> MatchingVersions:
    """Return the newest version and the newest conflict copy with these bytes that were written on top of `base`.

    It reads the versions of the slot.
    """
    query = f"{_OF_SLOT} AND sha256 = :sha256 AND parent_tag IS NOT DISTINCT FROM :base ORDER BY version DESC"
    values = {"player_id": player_id, "slot": slot, "base": base, "sha256": sha256}
    found = [version_from_row(row) for row in connection.execute(query, values)]
    written = next((version for version in found if version.kind is not VersionKind.CONFLICT), None)
    return MatchingVersions(written, next((version for version in found if version.kind is VersionKind.CONFLICT), None))


def conflict_copies_of_slot(connection: Connection, player_id: str, slot: str) -> list[int]:
    """Return the numbers of one slot's conflict copies, oldest first."""
    query = f"{_NUMBERS} AND kind = 'conflict' ORDER BY version"
    return [version for (version,) in connection.execute(query, {"player_id": player_id, "slot": slot})]


def copies_of_slot(connection: Connection, player_id: str, slot: str) -> list[Version]:
    """Return one slot's conflict copies, oldest first."""
    query = f"{_OF_SLOT} AND kind = 'conflict' ORDER BY version"
    return [version_from_row(row) for row in connection.execute(query, {"player_id": player_id, "slot": slot})]


def conflict_copies(connection: Connection, player_id: str, slots: Sequence[str]) -> Mapping[str, list[int]]:
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


def slots_with_copies_since(connection: Connection, player_id: str, slots: Sequence[str], after_ms: int) -> set[str]:
    marks = ", ".join("?" * len(slots))
    query = f"""
        SELECT slot FROM save_version
        WHERE player_id = ? AND kind = 'conflict' AND slot IN ({marks}) AND created_ms > ?
    """
    return {slot for (slot,) in connection.execute(query, (player_id, *slots, after_ms)).fetchall()}


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
    """Return the versions to delete when the history is too large, longest retired first.

    Deletes, which have no bytes, and the version before the current one of each slot are left out. In a slot, versions
    retire in the order of their numbers, and so do its conflict copies. So this reads two rows of each slot and not
    all versions of the player, which may be 40,000 with the Save-Meta of each.

    See rules R1 and R5 of docs/internals/rules.md.
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
    identity = player_id, version.slot, version.version, version.parent, version.parent_tag
    times = version.created_ms, version.retired_ms
    values = *identity, str(version.kind), version.blob_id, *described, *times, version.device
    connection.execute(_INSERT_VERSION, values)


def retire_version(connection: Connection, player_id: str, slot: str, version: int, now_ms: int) -> None:
    """Set the time when the version stopped being current."""
    connection.execute(_RETIRE, (now_ms, player_id, slot, version))


def delete_version(connection: Connection, player_id: str, slot: str, version: int) -> None:
    """Delete a version; the caller counts the reference to its blob."""
    query = "DELETE FROM save_version WHERE player_id = :player_id AND slot = :slot AND version = :version"
    connection.execute(query, {"player_id": player_id, "slot": slot, "version": version})


def delete_histories(connection: Connection, player_id: str, slots: Collection[str]) -> int:
    """Delete all versions of some slots, and return what they counted; the caller counts the references to blobs."""
    marks = ", ".join("?" * len(slots))
    where = f"WHERE player_id = ? AND slot IN ({marks})"
    query = f"SELECT size, length(ctype), length(meta) FROM save_version {where}"
    rows = connection.execute(query, (player_id, *slots)).fetchall()
    connection.execute(f"DELETE FROM save_version {where}", (player_id, *slots))
    return sum(counted_bytes(size, ctype or 0, meta or 0) for size, ctype, meta in rows)


def move_blob(connection: Connection, player_id: str, blob_id: int, to: int) -> None:
    """Let every version of a blob refer to another one, and count the references.

    No index has the versions of a blob, so this reads all of the player, which the database does alone.
    """
    query = "UPDATE save_version SET blob_id = :to WHERE player_id = :player_id AND blob_id = :blob_id"
    moved = connection.execute(query, {"to": to, "player_id": player_id, "blob_id": blob_id}).rowcount
    if moved:
        blob_tables.add_references(connection, to, moved)
        blob_tables.add_references(connection, blob_id, -moved)
