"""One slot twice: in SQLite, and as the rules with a list for a history; both must agree."""

from hashlib import sha256
from itertools import count

from gamed.config.game import SaveLimits
from gamed.database.connection import STATE, Connection
from gamed.saves import tables as save_tables
from gamed.saves import version_tables, write_store
from gamed.saves.commands import (
    BytesMissing,
    DeleteCommand,
    DeleteResult,
    RestoreCommand,
    WriteCommand,
    WriteContext,
    WriteResult,
)
from gamed.saves.errors import SaveError
from gamed.saves.model import SaveContent, SlotState, Version, VersionKind
from gamed.saves.write_rules import (
    WRITES,
    Condition,
    ConditionKind,
    DeleteDecision,
    MatchingVersions,
    WriteDecision,
    WriteRule,
    decide_delete,
    decide_write,
)
from tests.support.stores import open_database

PLAYER, SLOT = "ply_A", "auto"
ROOMY = SaveLimits(conflict_copies=1000)


def body_of(data: bytes, meta: str | None = None) -> SaveContent:
    return SaveContent(sha256(data).digest(), len(data), "application/octet-stream", meta)


class StoredSlot:
    """A slot in SQLite, changed by the transactions of state.db."""

    def __init__(self, limits: SaveLimits = ROOMY, connection: Connection | None = None) -> None:
        """Use an empty database unless a connection is passed."""
        self.connection = connection or open_database(STATE)
        self.limits = limits
        self._now_ms = count(1_800_000_000_000, 777)

    def close(self) -> None:
        self.connection.close()

    def entry(self, player_id: str = PLAYER) -> WriteContext:
        return WriteContext(player_id, save_tables.find_player(self.connection, player_id).cursor.epoch)

    def command(self, condition: Condition, data: bytes, meta: str | None = None, slot: str = SLOT) -> WriteCommand:
        return WriteCommand(self.entry(), slot, condition, body_of(data, meta), next(self._now_ms), "epoch1", data)

    def put(
        self, condition: Condition, data: bytes, meta: str | None = None, slot: str = SLOT
    ) -> WriteResult | BytesMissing | SaveError:
        return write_store.write_save(self.connection, self.limits, self.command(condition, data, meta, slot))

    def delete(self, condition: Condition, slot: str = SLOT) -> DeleteResult | SaveError:
        command = DeleteCommand(self.entry(), slot, condition, next(self._now_ms))
        return write_store.delete_save(self.connection, self.limits, command)

    def restore(self, number: int, condition: Condition, slot: str = SLOT) -> WriteResult | SaveError:
        command = RestoreCommand(self.entry(), slot, number, condition, next(self._now_ms))
        return write_store.restore_version(self.connection, self.limits, command)

    def history(self, slot: str = SLOT) -> list[Version]:
        """Return the versions, newest first."""
        return version_tables.list_versions(self.connection, PLAYER, slot)

    def bytes_of(self, version: Version) -> bytes:
        return blob_bytes(self.connection, version.blob_id)


class ModelSlot:
    """A slot as the rules and a list of versions."""

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self.head: Version | None = None
        self.tombstone: Version | None = None

    def put(
        self, condition: Condition, data: bytes, meta: str | None = None
    ) -> tuple[WriteRule, str | None, str | None]:
        """Return the rule, the current tag, and the tag of the refused bytes."""
        body = body_of(data, meta)
        decision = self.decide(condition, body)
        yours = decision.yours
        if decision.rule in WRITES:
            self.put_on_top(VersionKind.WRITE, body)
        elif decision.stores_copy:
            yours = self.add(VersionKind.CONFLICT, None, condition.base, body)
        return decision.rule, self.head and self.head.tag, yours and yours.tag

    def restore(self, number: int, condition: Condition) -> tuple[WriteRule, str | None]:
        """Restore a version with bytes; return the rule and the current tag."""
        body = self.versions[number - 1].content
        assert body is not None
        decision = self.decide(condition, body)
        if decision.rule in WRITES:
            self.put_on_top(VersionKind.RESTORE, body)
        return decision.rule, self.head and self.head.tag

    def decide(self, condition: Condition, body: SaveContent) -> WriteDecision:
        same = [version for version in self.versions if version.content and version.content.sha256 == body.sha256]
        named = [version for version in reversed(same) if version.parent_tag == condition.base]
        written = next((version for version in named if version.kind is not VersionKind.CONFLICT), None)
        copied = next((version for version in named if version.kind is VersionKind.CONFLICT), None)
        return decide_write(self.state, condition, body, MatchingVersions(written, copied))

    def put_on_top(self, kind: VersionKind, body: SaveContent) -> None:
        top, tag = self.head or self.tombstone, self.head.tag if self.head else None
        self.head = self.add(kind, top.version if top else None, tag, body)
        self.tombstone = None

    def delete(self, condition: Condition) -> DeleteDecision:
        decision = decide_delete(self.state, condition)
        if decision is DeleteDecision.DELETES and self.head is not None:
            self.tombstone = self.add(VersionKind.DELETE, self.head.version, self.head.tag, None)
            self.head = None
        return decision

    @property
    def state(self) -> SlotState:
        return SlotState(len(self.versions), self.head, self.tombstone)

    def add(self, kind: VersionKind, parent: int | None, parent_tag: str | None, body: SaveContent | None) -> Version:
        version = Version(
            slot=SLOT,
            version=len(self.versions) + 1,
            parent=parent,
            parent_tag=parent_tag,
            kind=kind,
            content=body,
            created_ms=0,
        )
        self.versions.append(version)
        return self.versions[-1]


def names(condition: Condition, head: Version) -> bool:
    """Check whether the condition names this version."""
    return condition.kind is ConditionKind.THIS and condition.base == head.tag


def blob_bytes(connection: Connection, blob_id: int | None) -> bytes:
    """Return the bytes of a blob, which are in its own row or in parts, never in both."""
    [(data,)] = connection.execute("SELECT data FROM blob WHERE blob_id = ?", (blob_id,)).fetchall()
    parts = connection.execute("SELECT data FROM blob_part WHERE blob_id = ? ORDER BY n", (blob_id,)).fetchall()
    assert data is None or not parts
    return b"".join(part for (part,) in parts) if data is None else bytes(data)


def damage_blobs(connection: Connection, where: str = "TRUE") -> int:
    """Change the first byte of small blobs and of each part of others; return how many were changed."""
    changed = 0
    for table in ("blob", "blob_part"):
        query = f"SELECT data, blob_id FROM {table} WHERE data IS NOT NULL AND {where}"
        for data, blob_id in connection.execute(query).fetchall():
            change = f"UPDATE {table} SET data = ? WHERE blob_id = ? AND data = ?"
            changed += connection.execute(change, (bytes([data[0] ^ 1]) + data[1:], blob_id, data)).rowcount
    return changed


def count_errors(connection: Connection) -> list[str]:
    """Count everything again and return the counters that do not agree."""
    found = [f"{what}: {row}" for what, query in QUERIES.items() for row in connection.execute(query)]
    blobs = connection.execute("SELECT blob_id, sha256, size FROM blob WHERE sha256 IS NOT NULL").fetchall()
    for blob_id, digest, size in blobs:
        data = blob_bytes(connection, blob_id)
        if (sha256(data).digest(), len(data)) != (digest, size):
            found.append(f"blob {blob_id} does not hold its bytes")
    return found


QUERIES = {
    "totals": """
        SELECT * FROM (
            SELECT player_id, slots, live_bytes, kept_bytes, deleted_slots,
                   (SELECT count(*) FROM save s
                    WHERE s.player_id = h.player_id AND s.current_version IS NOT NULL) AS slots_2,
                   (SELECT coalesce(sum(v.size), 0) FROM save_version v JOIN save s USING (player_id, slot)
                    WHERE v.player_id = h.player_id AND v.version = s.current_version) AS live_2,
                   (SELECT coalesce(sum(v.size + 512 + coalesce(length(v.ctype), 0) + CASE
                        WHEN v.meta IS NULL THEN 0
                        WHEN length(v.meta) > 256 AND length(v.meta) < 2000 THEN 2000
                        ELSE length(v.meta) END), 0)
                    FROM save_version v JOIN save s USING (player_id, slot)
                    WHERE v.player_id = h.player_id AND v.version IS DISTINCT FROM s.current_version) AS kept_2,
                   (SELECT count(*) FROM save s
                    WHERE s.player_id = h.player_id AND s.current_version IS NULL) AS deleted_2
            FROM player_saves h
        ) AS counted
        WHERE slots != slots_2 OR live_bytes != live_2 OR kept_bytes != kept_2 OR deleted_slots != deleted_2
    """,
    "references": """
        SELECT * FROM (
            SELECT blob_id, refs, (SELECT count(*) FROM save_version v WHERE v.blob_id = b.blob_id) AS refs_2
            FROM blob b
        ) AS counted WHERE refs != refs_2
    """,
    "bytes of a version": """
        SELECT v.slot, v.version FROM save_version v LEFT JOIN blob b USING (blob_id)
        WHERE v.kind != 'delete'
          AND (b.sha256 IS DISTINCT FROM v.sha256 OR b.size IS DISTINCT FROM v.size OR b.player_id != v.player_id)
    """,
    "delete with bytes": """
        SELECT slot, version FROM save_version WHERE kind = 'delete' AND (blob_id IS NOT NULL OR size != 0)
    """,
    "current version": """
        SELECT s.slot, s.current_version, v.kind, v.retired_ms FROM save s
        LEFT JOIN save_version v ON v.player_id = s.player_id AND v.slot = s.slot AND v.version = s.current_version
        WHERE s.current_version IS NOT NULL
          AND (v.kind NOT IN ('write', 'restore') OR v.kind IS NULL OR v.retired_ms IS NOT NULL)
    """,
    "retired": """
        SELECT v.slot, v.version FROM save_version v JOIN save s USING (player_id, slot)
        WHERE v.kind IN ('write', 'restore') AND v.version IS DISTINCT FROM s.current_version AND v.retired_ms IS NULL
    """,
    "deleted": "SELECT slot FROM save WHERE (current_version IS NULL) != (deleted_ms IS NOT NULL)",
    "last version": """
        SELECT slot, last_version FROM save s
        WHERE last_version < (
            SELECT max(version) FROM save_version v WHERE v.player_id = s.player_id AND v.slot = s.slot
        )
    """,
    "seq": "SELECT s.slot FROM save s JOIN player_saves h USING (player_id) WHERE s.seq > h.seq OR s.seq < 1",
    "lost slot": "SELECT slot FROM save_version v WHERE NOT EXISTS (SELECT 1 FROM save s WHERE s.slot = v.slot)",
}
