"""Transactions that change all slots of a commit or none, and stage bytes for commits (docs/protocol.md: Commits)."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from gamed.config.game import SaveLimits
from gamed.database.connection import Connection
from gamed.saves import blob_tables, prune_store, tables, version_tables, write_store
from gamed.saves.commands import (
    BlobsMissing,
    BytesMissing,
    Change,
    CommitCommand,
    CommitConflict,
    Committed,
    DeleteCommand,
    DeleteResult,
    StageCommand,
    Staged,
    WriteCommand,
    WriteResult,
    succeeds,
)
from gamed.saves.errors import SaveError, SaveTooLarge
from gamed.saves.limits import check_size, room_to_change, room_to_stage, slots_to_expire
from gamed.saves.model import SaveContent, SlotEntry, SlotState, Version
from gamed.saves.write_rules import WRITES, DeleteDecision, WriteDecision, WriteRule, decide_delete
from gamed.saves.write_store import SlotWriter, ensure_blob, erased_error, version_by_tag


def commit_changes(
    connection: Connection, limits: SaveLimits, command: CommitCommand
) -> Committed | CommitConflict | BlobsMissing | SaveError:
    """Apply all changes by the rules of PUT and DELETE, or none. BlobsMissing and SaveError change nothing."""
    player_id = command.context.player_id
    summary = tables.find_player(connection, player_id)
    if summary.erased_since(command.context.epoch):
        return erased_error()
    command = write_store.counted(limits, summary, command, command.now_ms)
    blobs = blob_tables.find_blobs(connection, player_id, command.digests)
    unsure = [
        sha256 for sha256 in sorted(command.digests) if command.checked_blobs.get(sha256, -1) != blobs.get(sha256)
    ]
    if unsure:  # missing, or not the blobs that were hashed before this transaction
        return BlobsMissing(unsure)
    decided = [_decide(connection, command, change, blobs) for change in command.changes]
    if (excess := _too_large(limits, decided)) is not None:
        return excess
    # Conflicts before the quota, as in a PUT: a repeated commit succeeds although its own bytes may fill the quota.
    if not all(succeeds(each.decision) for each in decided):
        outcomes = _conflict(connection, limits, player_id, decided)
        return CommitConflict(outcomes, changed=tables.find_player(connection, player_id).cursor != summary.cursor)
    error = room_to_change(limits, summary.usage, [each.sizes for each in decided])
    if error is not None:
        return error
    new = [each for each in decided if isinstance(each, _Write) and not each.state.exists]
    named = {each.change.slot for each in decided}
    gone = [each for each in decided if isinstance(each, _Delete) and each.decision is DeleteDecision.DELETES]
    # The slots that this commit deletes count as deleted: it must not leave more than `deleted_slots` either.
    usage = structs.replace(summary.usage, deleted_slots=summary.usage.deleted_slots + len(gone))
    expiring = prune_store.find_slots_to_expire(
        connection, limits, usage, command, count=slots_to_expire(limits, usage, len(new)), named=named
    )
    if isinstance(expiring, SaveError):
        return expiring
    for each in decided:
        if isinstance(each, _Write) and each.decision.rule in WRITES:
            # Before any entry changes the history: an old version, which may be deleted for that, may have the bytes.
            blob_tables.add_references(connection, each.blob_id, 1)
    prune_store.expire_slots(connection, player_id, expiring)
    writer = SlotWriter(connection, limits, True)
    now = [_apply(connection, writer, player_id, each) for each in decided]
    if tables.find_player(connection, player_id).cursor != summary.cursor:
        old = {(each.change.slot, each.state.current.version) for each in decided if each.state.current is not None}
        prune_store.prune_after_commit(connection, limits, player_id, old, entries=len(decided))
    cursor = tables.find_player(connection, player_id).cursor
    return Committed(cursor, now, changed=cursor != summary.cursor)


class _Write(Struct, frozen=True):
    """The decision about an entry that writes bytes."""

    change: Change
    command: WriteCommand
    blob_id: int
    state: SlotState
    decision: WriteDecision

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """Return the size of the slot before and after."""
        size = self.state.size
        return size, self.command.content.size if self.decision.rule in WRITES else size


class _Delete(Struct, frozen=True):
    """The decision about an entry that deletes a slot."""

    change: Change
    command: DeleteCommand
    state: SlotState
    decision: DeleteDecision

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """Return the size of the slot before and after."""
        return self.state.size, None


_Decided = _Write | _Delete


def _decide(connection: Connection, command: CommitCommand, change: Change, blobs: Mapping[bytes, int]) -> _Decided:
    context, slot, now_ms = command.context, change.slot, command.now_ms
    state = tables.slot_state(connection, context.player_id, slot)
    if change.content is None:
        delete = DeleteCommand(context, slot, change.condition, now_ms)
        return _Delete(change, delete, state, decide_delete(state, change.condition))
    blob_id = blobs[change.content.sha256]
    staged, size = change.content, blob_tables.staged_size(connection, blob_id)
    content = SaveContent(staged.sha256, size, staged.content_type, staged.meta)
    write = WriteCommand(context, slot, change.condition, content, now_ms, command.new_epoch)
    return _Write(change, write, blob_id, state, write_store.decide(connection, write, state))


def _too_large(limits: SaveLimits, decided: Sequence[_Decided]) -> SaveTooLarge | None:
    """Check the sizes again: the bytes may be older than a lower limit."""
    try:
        for each in decided:
            if isinstance(each, _Write):
                check_size(limits, each.command.content.size)
    except SaveTooLarge as e:
        return e
    return None


def _apply(connection: Connection, writer: SlotWriter, player_id: str, each: _Decided) -> Version | SlotEntry:
    """Apply one decision, whose reference to a blob is counted; return the slot's new state."""
    if isinstance(each, _Delete):
        if each.decision is DeleteDecision.DELETES and each.state.current is not None:
            writer.delete_current(each.command, each.state.last_version + 1, each.state.current)
        return tables.deleted_slot(connection, player_id, each.change.slot)
    if each.decision.rule in WRITES:
        return writer.set_current(each.command, each.state, each.command.content, each.blob_id)
    assert each.state.current is not None  # W1
    return each.state.current


def _conflict(
    connection: Connection, limits: SaveLimits, player_id: str, decided: Sequence[_Decided]
) -> Sequence[tuple[Change, WriteResult | DeleteResult]]:
    """Keep refused bytes as conflict copies; let all staged bytes of the commit wait for the next commit again."""
    writes = [each for each in decided if isinstance(each, _Write)]
    others = [each.blob_id for each in writes if not blob_tables.is_staged(connection, each.blob_id)]
    for each in writes:  # before a copy displaces an old version that may have the bytes
        blob_tables.stage_blob(connection, each.blob_id, each.command.now_ms)
    room = prune_store.HistoryRoom(connection, limits, player_id)
    writer = SlotWriter(connection, limits, True)
    for each in writes:
        if each.decision.stores_copy and room.has_room(each.command.content):
            _keep_refused(connection, writer, each)
        blob_tables.stage_blob(connection, each.blob_id, each.command.now_ms)
    numbers = [(each.change.slot, each.state.last_version + 1) for each in writes if each.decision.stores_copy]
    if copies := {
        number for number in numbers if version_tables.find_version(connection, player_id, *number) is not None
    }:
        prune_store.prune_after_commit(connection, limits, player_id, copies, entries=len(copies))
    for blob_id in others:  # else a player could let the bytes of any number of replaced versions wait
        blob_tables.stage_blob(connection, blob_id, 0)
    refused = [each for each in decided if not succeeds(each.decision)]
    return [(each.change, _outcome(connection, player_id, each)) for each in refused]


def _keep_refused(connection: Connection, writer: SlotWriter, each: _Write) -> None:
    base = version_by_tag(connection, each.command.context.player_id, each.change.slot, each.change.condition.base)
    blob_tables.add_references(connection, each.blob_id, 1)
    writer.store_conflict_copy(each.command, each.state, base, each.blob_id)


def _outcome(connection: Connection, player_id: str, each: _Decided) -> WriteResult | DeleteResult:
    """Return the entry's result after all copies are made: a later copy may have displaced an earlier one."""
    slot, state = each.change.slot, each.state
    base = version_by_tag(connection, player_id, slot, each.change.condition.base)
    if isinstance(each, _Delete):
        return DeleteResult(
            each.decision, state.current, base, write_store.version_before_delete(connection, player_id, state)
        )
    yours = each.decision.yours
    number = state.last_version + 1 if each.decision.stores_copy else yours.version if yours else None
    kept = version_tables.find_version(connection, player_id, slot, number)
    dropped = each.decision.rule is WriteRule.W6_CONFLICT and kept is None
    return WriteResult(each.decision, state.current, base=base, yours=kept, dropped=dropped)


def stage_bytes(connection: Connection, limits: SaveLimits, command: StageCommand) -> Staged | BytesMissing | SaveError:
    """Let bytes wait for a commit, whether they existed before or not. BytesMissing and SaveError change nothing."""
    player_id, content = command.context.player_id, command.content
    if tables.find_player(connection, player_id).erased_since(command.context.epoch):
        return erased_error()
    known = blob_tables.find_blobs(connection, player_id, [content.sha256]).get(content.sha256)
    if known is None or not blob_tables.is_staged(connection, known):
        # bytes of a version, too: once that is deleted they count as staged, and were never refused
        staged = blob_tables.staged_bytes(connection, player_id, command.expired_ms)
        error = room_to_stage(limits, staged, content.size)
        if error is not None:
            return error
    blob_id = ensure_blob(connection, command, known)
    if isinstance(blob_id, BytesMissing):
        return blob_id
    blob_tables.stage_blob(connection, blob_id, command.now_ms)
    return Staged(blob_id)


def staged_size_of(connection: Connection, player_id: str, sha256: bytes) -> int | None:
    """Return the size of the player's bytes with this hash, or None if there are none."""
    blob_id = blob_tables.find_blobs(connection, player_id, [sha256]).get(sha256)
    return None if blob_id is None else blob_tables.staged_size(connection, blob_id)
