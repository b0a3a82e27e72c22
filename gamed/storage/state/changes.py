"""What a decision does to the rows of a slot, everything that is counted along included (PROTOCOL 4.1, 4.3)."""

from sqlite3 import Connection

from gamed.saves.history import DAY_MS
from gamed.saves.limits import SaveLimits, Usage
from gamed.saves.rules import SlotView
from gamed.saves.version import Kind, Version, version_in
from gamed.storage.state import kept_blobs, shelves, slots, versions

AT_ONCE = 8
"""Versions that one change pushes out of a full history at most; the sweep does the rest."""


def named(connection: Connection, player_id: str, slot: str, tag: str | None) -> Version | None:
    """The version that a tag names, when it is kept and the tag is right about its bytes."""
    number = None if tag is None else version_in(tag)
    version = None if number is None else versions.find(connection, player_id, slot, number)
    return version if version is not None and version.tag == tag else None


def put_on_top(connection: Connection, limits: SaveLimits, player_id: str, view: SlotView, now: Version) -> Version:
    """Make `now` the current version of a player who has a row in `shelf`; retire its parent.

    The caller counts the references of its blob, as in keep_copy().
    """
    versions.insert(connection, player_id, now)
    if now.parent is not None:
        versions.retire(connection, player_id, now.slot, now.parent, now.created_ms)
    old = view.head.size if view.head else 0
    grown = Usage(slots=0 if view.head else 1, bytes=now.size - old, history_bytes=old)
    (seq, kept), number = shelves.change(connection, player_id, grown), now.version
    prune_at_ms = now.created_ms if number > limits.keep_versions else None
    slots.write(
        connection,
        player_id,
        now.slot,
        current_version=number,
        last_version=number,
        seq=seq,
        deleted_ms=None,
        prune_at_ms=prune_at_ms,
    )
    _fit(connection, limits, player_id, now, seq, kept=kept)
    return now


def bury(connection: Connection, limits: SaveLimits, player_id: str, head: Version, tombstone: Version) -> None:
    """The slot becomes empty; its history stays."""
    now_ms = tombstone.created_ms
    versions.insert(connection, player_id, tombstone)
    versions.retire(connection, player_id, head.slot, head.version, now_ms)
    seq, kept = shelves.change(connection, player_id, Usage(-1, -head.size, head.size))
    slots.write(
        connection,
        player_id,
        head.slot,
        current_version=None,
        last_version=tombstone.version,
        seq=seq,
        deleted_ms=now_ms,
        prune_at_ms=now_ms + limits.keep_days * DAY_MS,
    )
    _fit(connection, limits, player_id, tombstone, seq, kept=kept, spared=head.version)


def keep_copy(connection: Connection, limits: SaveLimits, player_id: str, copy: Version) -> None:
    """Refused bytes are kept beside the current ones; the oldest copies beyond the limit go."""
    versions.insert(connection, player_id, copy)
    copies = versions.conflicts_in(connection, player_id, copy.slot)
    for number in copies[: max(0, len(copies) - limits.conflict_copies)]:
        old = versions.find(connection, player_id, copy.slot, number)
        if old is not None:
            forget(connection, player_id, old)
    seq, kept = shelves.change(connection, player_id, Usage(history_bytes=copy.size))
    prune_at_ms = copy.created_ms + limits.keep_days * DAY_MS
    slots.touch(connection, player_id, copy.slot, last_version=copy.version, seq=seq, prune_at_ms=prune_at_ms)
    _fit(connection, limits, player_id, copy, seq, kept=kept, spared=copy.version)


def forget(connection: Connection, player_id: str, version: Version) -> None:
    """One version of the history goes; its bytes are swept once no other version has them."""
    versions.delete(connection, player_id, version.slot, version.version)
    if version.blob_id is not None:
        kept_blobs.refer(connection, version.blob_id, -1)
        shelves.forget(connection, player_id, version.size)


def has_room(connection: Connection, limits: SaveLimits, player_id: str, size: int) -> bool:
    """Whether so many bytes more fit into the history, when what retired first goes for them."""
    over = shelves.find(connection, player_id).usage.history_bytes + size - limits.history_bytes
    return over <= 0 or over <= sum(version.size for version in versions.oldest(connection, player_id, AT_ONCE))


def trim(
    connection: Connection,
    limits: SaveLimits,
    player_id: str,
    seq: int | None = None,
    spared: tuple[str, int] | None = None,
) -> bool:
    """R5: what retired first goes until the history fits; True while it is still too large, and more can go.

    A conflict copy that goes is a change of its slot, counted as `seq` or else as one of its own. `spared` stays: a
    version that was only just put into the history, which seems to be the oldest after a clock was set back.
    """
    over = shelves.find(connection, player_id).usage.history_bytes - limits.history_bytes
    if over <= 0:
        return False
    oldest = versions.oldest(connection, player_id, AT_ONCE + 1)
    candidates = [version for version in oldest if (version.slot, version.version) != spared][:AT_ONCE]
    for version in candidates:
        forget(connection, player_id, version)
        if version.kind is Kind.CONFLICT:
            tell(connection, player_id, version.slot, seq)
        over -= version.size
        if over <= 0:
            return False
    return bool(candidates)


def tell(connection: Connection, player_id: str, slot: str, seq: int | None = None) -> None:
    """The slot's entry in the list has changed, though no version that is or was current has."""
    view = slots.view(connection, player_id, slot)
    number = shelves.change(connection, player_id, Usage())[0] if seq is None else seq
    slots.touch(connection, player_id, slot, last_version=view.last, seq=number, prune_at_ms=None)


def _fit(
    connection: Connection,
    limits: SaveLimits,
    player_id: str,
    now: Version,
    seq: int,
    *,
    kept: int,
    spared: int | None = None,
) -> None:
    """`kept` are the bytes of the history; `spared`: of the versions of this slot."""
    if kept <= limits.history_bytes:
        return
    if trim(connection, limits, player_id, seq, None if spared is None else (now.slot, spared)):
        slots.look_again(connection, player_id, now.slot, now.created_ms)
