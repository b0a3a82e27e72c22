"""What a decision does to the rows of a slot, everything that is counted along included (PROTOCOL 4.1, 4.3).

The blob that holds a body's bytes: found, checked against the bytes at hand, made, or healed.

Units that change a slot: read, judge, write, count; one transaction on the write lane of state.db (PROTOCOL 4.1).

Units that bring an old version back, and that let go of a conflict copy (PROTOCOL 4, 4.3).
"""

from sqlite3 import Connection

from gamed.saves import tables
from gamed.saves.commands import (
    BytesMissing,
    DeleteCommand,
    DeleteResult,
    DismissCommand,
    RestoreCommand,
    StageCommand,
    WriteCommand,
    WriteResult,
)
from gamed.saves.errors import Erased, SaveError
from gamed.saves.limits import SaveLimits, Usage, room_to_write
from gamed.saves.model import Version, VersionKind, version_of_tag
from gamed.saves.responses import no_bytes_error, not_found_error, protected_error, version_gone_error
from gamed.saves.retention import DAY_MS
from gamed.saves.write_rules import (
    NOTHING_EARLIER,
    WRITES,
    DeleteDecision,
    SlotState,
    WriteDecision,
    WriteRule,
    decide_delete,
    decide_write,
)

AT_ONCE = 8
"""Versions that one change pushes out of a full history at most; the sweep does the rest."""


def version_by_tag(connection: Connection, player_id: str, slot: str, tag: str | None) -> Version | None:
    """The version that a tag names, when it is kept and the tag is right about its bytes."""
    number = None if tag is None else version_of_tag(tag)
    version = None if number is None else tables.find_version(connection, player_id, slot, number)
    return version if version is not None and version.tag == tag else None


def set_current(connection: Connection, limits: SaveLimits, player_id: str, state: SlotState, now: Version) -> Version:
    """Make `now` the current version of a player who has a row in `shelf`; retire its parent.

    The caller counts the references of its blob, as in keep_copy().
    """
    tables.insert_version(connection, player_id, now)
    if now.parent is not None:
        tables.retire_version(connection, player_id, now.slot, now.parent, now.created_ms)
    old = state.current.size if state.current else 0
    grown = Usage(slots=0 if state.current else 1, bytes=now.size - old, history_bytes=old)
    (seq, kept), number = tables.change_player(connection, player_id, grown), now.version
    prune_at_ms = now.created_ms if number > limits.keep_versions else None
    tables.write_slot(
        connection,
        player_id,
        now.slot,
        current_version=number,
        last_version=number,
        seq=seq,
        deleted_ms=None,
        prune_at_ms=prune_at_ms,
    )
    _fit_into_quota(connection, limits, player_id, now, seq, kept=kept)
    return now


def mark_deleted(connection: Connection, limits: SaveLimits, player_id: str, head: Version, tombstone: Version) -> None:
    """The slot becomes empty; its history stays."""
    now_ms = tombstone.created_ms
    tables.insert_version(connection, player_id, tombstone)
    tables.retire_version(connection, player_id, head.slot, head.version, now_ms)
    seq, kept = tables.change_player(connection, player_id, Usage(-1, -head.size, head.size))
    tables.write_slot(
        connection,
        player_id,
        head.slot,
        current_version=None,
        last_version=tombstone.version,
        seq=seq,
        deleted_ms=now_ms,
        prune_at_ms=now_ms + limits.keep_days * DAY_MS,
    )
    _fit_into_quota(connection, limits, player_id, tombstone, seq, kept=kept, spared=head.version)


def store_conflict_copy(connection: Connection, limits: SaveLimits, player_id: str, copy: Version) -> None:
    """Refused bytes are kept beside the current ones; the oldest copies beyond the limit go."""
    tables.insert_version(connection, player_id, copy)
    copies = tables.conflict_copies_of_player(connection, player_id, copy.slot)
    for number in copies[: max(0, len(copies) - limits.conflict_copies)]:
        old = tables.find_version(connection, player_id, copy.slot, number)
        if old is not None:
            delete_version(connection, player_id, old)
    seq, kept = tables.change_player(connection, player_id, Usage(history_bytes=copy.size))
    prune_at_ms = copy.created_ms + limits.keep_days * DAY_MS
    tables.touch_slot(connection, player_id, copy.slot, last_version=copy.version, seq=seq, prune_at_ms=prune_at_ms)
    _fit_into_quota(connection, limits, player_id, copy, seq, kept=kept, spared=copy.version)


def delete_version(connection: Connection, player_id: str, version: Version) -> None:
    """One version of the history goes; its bytes are swept once no other version has them."""
    tables.remove_version(connection, player_id, version.slot, version.version)
    if version.blob_id is not None:
        tables.add_references(connection, version.blob_id, -1)
        tables.delete_player(connection, player_id, version.size)


def has_room(connection: Connection, limits: SaveLimits, player_id: str, size: int) -> bool:
    """Whether so many bytes more fit into the history, when what retired first goes for them."""
    over = tables.find_player(connection, player_id).usage.history_bytes + size - limits.history_bytes
    return over <= 0 or over <= sum(version.size for version in tables.oldest_versions(connection, player_id, AT_ONCE))


def prune_to_quota(
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
    over = tables.find_player(connection, player_id).usage.history_bytes - limits.history_bytes
    if over <= 0:
        return False
    oldest = tables.oldest_versions(connection, player_id, AT_ONCE + 1)
    candidates = [version for version in oldest if (version.slot, version.version) != spared][:AT_ONCE]
    for version in candidates:
        delete_version(connection, player_id, version)
        if version.kind is VersionKind.CONFLICT:
            bump_slot(connection, player_id, version.slot, seq)
        over -= version.size
        if over <= 0:
            return False
    return bool(candidates)


def bump_slot(connection: Connection, player_id: str, slot: str, seq: int | None = None) -> None:
    """The slot's entry in the list has changed, though no version that is or was current has."""
    state = tables.slot_state(connection, player_id, slot)
    number = tables.change_player(connection, player_id, Usage())[0] if seq is None else seq
    tables.touch_slot(connection, player_id, slot, last_version=state.last_version, seq=number, prune_at_ms=None)


def _fit_into_quota(
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
    if prune_to_quota(connection, limits, player_id, seq, None if spared is None else (now.slot, spared)):
        tables.set_prune_time(connection, player_id, now.slot, now.created_ms)


def ensure_blob(connection: Connection, command: WriteCommand | StageCommand, refs: int = 0) -> int | BytesMissing:
    """A blob of the player with exactly the body's bytes, and so many references more.

    Bytes that are damaged on disk are replaced by those at hand, for every version that shares them: a player who
    still has the bytes heals the save by storing it again. BytesMissing changes nothing.
    """
    # bytes of a version are new mostly: to insert them tells; what makes none must write nothing where they are there
    if refs or tables.find_blob(connection, command.context.player_id, command.content.sha256) is None:
        blob_id = _new(connection, command, command.content.sha256, refs)
        if blob_id is not None:
            return blob_id
    found = _found(connection, command)
    if refs and not isinstance(found, BytesMissing):
        tables.add_references(connection, found, refs)
    return found


def _new(
    connection: Connection, command: WriteCommand | StageCommand, sha256: bytes | None, refs: int = 0
) -> int | None:
    """The bytes at hand in a blob of their own, unless the player has one of this hash: even then a number is spent."""
    if command.data is None:
        return None
    return tables.insert_blob(
        connection, command.context.player_id, sha256, command.data, refs=refs, now_ms=command.now_ms
    )


def _found(connection: Connection, command: WriteCommand | StageCommand) -> int | BytesMissing:
    player_id, body = command.context.player_id, command.content
    known = tables.find_blob(connection, player_id, body.sha256)
    if known is not None and command.data is None and known == command.checked_blob:
        return known
    if known is not None and command.data is not None and tables.load_blob(connection, known) == command.data:
        return known
    fresh = command.appended_blob if command.data is None else _new(connection, command, None)
    if fresh is None or not tables.is_unclaimed(connection, player_id, fresh, body.size):
        return BytesMissing(known)
    if known is not None:
        tables.unpublish(connection, known)
        tables.add_references(connection, fresh, tables.move_blob(connection, known, fresh))
    tables.publish(connection, fresh, body.sha256)
    return fresh


def write_save(
    connection: Connection, limits: SaveLimits, command: WriteCommand
) -> WriteResult | BytesMissing | SaveError:
    """Apply the rules W1 to W7 to a PUT. BytesMissing and SaveError change nothing."""
    player_id, slot = command.context.player_id, command.slot
    summary, state = tables.load_slot(connection, player_id, slot)
    if summary.erased_since(command.context.epoch):
        return is_erasing()
    decision = decide(connection, command, state)
    if decision.rule not in WRITES:
        return _keep_current(connection, limits, command, state, decision)
    refusal = room_to_write(limits, summary.usage, state.size, command.content.size)
    if refusal is not None:
        return refusal
    blob_id = ensure_blob(connection, command, refs=1)
    if isinstance(blob_id, BytesMissing):
        return blob_id
    return WriteResult(
        decision, replace_current(connection, limits, command, state, blob_id), created=state.current is None
    )


def _keep_current(
    connection: Connection, limits: SaveLimits, command: WriteCommand, state: SlotState, decision: WriteDecision
) -> WriteResult | BytesMissing:
    """Answer a PUT that leaves the current version as it is; keep its bytes as a conflict copy where the rule says."""
    player_id, slot = command.context.player_id, command.slot
    base = version_by_tag(connection, player_id, slot, command.condition.base)
    if decision.rule in (
        WriteRule.W3_UNCONDITIONAL,
        WriteRule.W7_NEVER_SEEN,
    ):  # the response does not say that bytes are kept
        return WriteResult(decision, state.current, base=base)
    if decision.stores_copy and not has_room(connection, limits, player_id, command.content.size):
        return WriteResult(decision, state.current, base=base, dropped=True)
    blob_id = ensure_blob(connection, command, refs=1 if decision.stores_copy else 0)
    if isinstance(blob_id, BytesMissing):
        return blob_id
    if not decision.stores_copy:
        return WriteResult(decision, state.current, base=base, yours=decision.yours)
    yours = store_refused(connection, limits, command, state, base=base, blob_id=blob_id)
    base = version_by_tag(connection, player_id, slot, command.condition.base)  # the copy may have pushed it out
    return WriteResult(decision, state.current, base=base, yours=yours)


def decide(connection: Connection, command: WriteCommand, state: SlotState) -> WriteDecision:
    """Which rule answers; only a conflict asks what was written before, and may be none then."""
    decision = decide_write(state, command.condition, command.content, NOTHING_EARLIER)
    if decision.rule is not WriteRule.W6_CONFLICT:
        return decision
    player_id, base = command.context.player_id, command.condition.base
    earlier = tables.matching_versions(connection, player_id, command.slot, base, command.content.sha256)
    return decide_write(state, command.condition, command.content, earlier)


def delete_save(connection: Connection, limits: SaveLimits, command: DeleteCommand) -> DeleteResult | SaveError:
    """A DELETE: the slot becomes empty, its history stays. SaveError changes nothing."""
    player_id, slot = command.context.player_id, command.slot
    summary, state = tables.load_slot(connection, player_id, slot)
    if summary.erased_since(command.context.epoch):
        return is_erasing()
    decision = decide_delete(state, command.condition)
    if decision is DeleteDecision.DELETES and state.current is not None:
        empty(connection, limits, command, state.last_version + 1, state.current)
    last = last_version_of(connection, player_id, state)
    return DeleteResult(
        decision, state.current, version_by_tag(connection, player_id, slot, command.condition.base), last
    )


def last_version_of(connection: Connection, player_id: str, state: SlotState) -> Version | None:
    """What an empty slot held when it was deleted, if it is kept."""
    if state.tombstone is None:
        return None
    return tables.find_version(connection, player_id, state.tombstone.slot, state.tombstone.parent)


def is_erasing() -> Erased:
    return Erased("Your saves were erased after this request began; nothing was changed. Read the list, then decide.")


def replace_current(
    connection: Connection, limits: SaveLimits, command: WriteCommand, state: SlotState, blob_id: int
) -> Version:
    """Make the body the current version; a player's first slot also makes their row in `shelf`."""
    top = state.current or state.tombstone
    parent, parent_tag = top.version if top else None, state.current.tag if state.current else None
    now = Version(
        command.slot,
        state.last_version + 1,
        parent,
        parent_tag,
        VersionKind.WRITE,
        blob_id,
        command.content,
        command.now_ms,
    )
    if state.last_version == 0:
        tables.create_player(connection, command.context.player_id, command.new_epoch)
    return set_current(connection, limits, command.context.player_id, state, now)


def store_refused(
    connection: Connection,
    limits: SaveLimits,
    command: WriteCommand,
    state: SlotState,
    *,
    base: Version | None,
    blob_id: int,
) -> Version:
    """The body becomes a conflict copy."""
    parent, named, ms = base.version if base else None, command.condition.base, command.now_ms
    copy = Version(
        command.slot,
        state.last_version + 1,
        parent,
        named,
        VersionKind.CONFLICT,
        blob_id,
        command.content,
        ms,
        retired_ms=ms,
    )
    store_conflict_copy(connection, limits, command.context.player_id, copy)
    return copy


def empty(connection: Connection, limits: SaveLimits, command: DeleteCommand, number: int, head: Version) -> None:
    """A tombstone becomes the newest version."""
    tombstone = Version(command.slot, number, head.version, head.tag, VersionKind.DELETE, None, None, command.now_ms)
    mark_deleted(connection, limits, command.context.player_id, head, tombstone)


def restore_version(connection: Connection, limits: SaveLimits, command: RestoreCommand) -> WriteResult | SaveError:
    """A write of bytes that are here already, judged by the same rules; nothing is copied, or kept when refused."""
    player_id, slot = command.context.player_id, command.slot
    summary, state = tables.load_slot(connection, player_id, slot)
    if summary.erased_since(command.context.epoch):
        return is_erasing()
    old = tables.find_version(connection, player_id, slot, command.version)
    if old is None or old.content is None:
        return _without_bytes(state, slot, command.version, old)
    base = command.condition.base
    earlier = tables.matching_versions(connection, player_id, slot, base, old.content.sha256)
    decision = decide_write(state, command.condition, old.content, earlier)
    if decision.rule not in WRITES:
        return WriteResult(decision, state.current, base=version_by_tag(connection, player_id, slot, base), yours=old)
    refusal = room_to_write(limits, summary.usage, state.size, old.size)
    if refusal is not None:
        return refusal
    top = state.current or state.tombstone
    parent, parent_tag = top.version if top else None, state.current.tag if state.current else None
    now = Version(
        slot, state.last_version + 1, parent, parent_tag, VersionKind.RESTORE, old.blob_id, old.content, command.now_ms
    )
    if old.blob_id is not None:
        tables.add_references(connection, old.blob_id, +1)
    return WriteResult(decision, set_current(connection, limits, player_id, state, now))


def dismiss_conflict(connection: Connection, command: DismissCommand) -> SaveError | None:
    """The conflict copy goes; None when it did. Only copies can."""
    player_id, slot = command.context.player_id, command.slot
    if tables.find_player(connection, player_id).erased_since(command.context.epoch):
        return is_erasing()
    copy = tables.find_version(connection, player_id, slot, command.version)
    if copy is None:
        return _without_bytes(tables.slot_state(connection, player_id, slot), slot, command.version, copy)
    if copy.kind is not VersionKind.CONFLICT:
        return protected_error(copy)
    delete_version(connection, player_id, copy)
    bump_slot(connection, player_id, slot)
    return None


def _without_bytes(state: SlotState, slot: str, number: int, version: Version | None) -> SaveError:
    if not state.exists:
        return not_found_error(slot)
    return version_gone_error(slot, number) if version is None else no_bytes_error(version)
