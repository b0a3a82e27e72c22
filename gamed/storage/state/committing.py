"""The unit that changes several slots, or none: one transaction on the write lane of state.db (PROTOCOL 4.4)."""

from collections.abc import Mapping, Sequence
from sqlite3 import Connection

from msgspec import Struct

from gamed.saves.commit import Change, CommitOrder, Committed, Disagreed, NeedsBlobs, stands
from gamed.saves.entry import SlotEntry
from gamed.saves.errors import SaveError, SaveTooLarge
from gamed.saves.limits import SaveLimits, check_size, room_to_change
from gamed.saves.orders import DeleteOrder, Removed, WriteOrder, Written
from gamed.saves.rules import WRITES, Removal, Rule, SlotView, Verdict, judge_delete
from gamed.saves.version import Version
from gamed.storage.state import kept_blobs, shelves, slots, staging, versions, writing
from gamed.storage.state.changes import has_room, named


class _Write(Struct, frozen=True):
    """An entry that wants bytes to be current."""

    change: Change
    order: WriteOrder
    blob_id: int
    view: SlotView
    judgement: Verdict

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """Of the slot before and after."""
        size = self.view.size
        return size, self.order.body.size if self.judgement.rule in WRITES else size


class _Delete(Struct, frozen=True):
    """An entry that wants a slot to be empty."""

    change: Change
    order: DeleteOrder
    view: SlotView
    judgement: Removal

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """Of the slot before and after."""
        return self.view.size, None


_Judged = _Write | _Delete


def commit(
    connection: Connection, limits: SaveLimits, order: CommitOrder
) -> Committed | Disagreed | NeedsBlobs | SaveError:
    """All entries by the rules of PUT and DELETE, then all or none of them. NeedsBlobs and SaveError change nothing."""
    player_id = order.entry.player_id
    shelf = shelves.find(connection, player_id)
    if shelf.erased_since(order.entry.epoch):
        return writing.erased()
    blobs = staging.find(connection, player_id, order.digests)
    unsure = [sha256 for sha256 in sorted(order.digests) if order.checked.get(sha256, -1) != blobs.get(sha256)]
    if unsure:
        return NeedsBlobs(unsure)
    judged = [_judge(connection, order, change, blobs) for change in order.changes]
    if (excess := _too_large(limits, judged)) is not None:
        return excess
    if not all(stands(each.judgement) for each in judged):
        outcomes = _refuse(connection, limits, player_id, judged)
        return Disagreed(outcomes, changed=shelves.find(connection, player_id).cursor != shelf.cursor)
    refusal = room_to_change(limits, shelf.usage, [each.sizes for each in judged])
    if refusal is not None:
        return refusal
    now = [_carry_out(connection, limits, player_id, each) for each in judged]
    cursor = shelves.find(connection, player_id).cursor
    return Committed(cursor, now, changed=cursor != shelf.cursor)


def _judge(connection: Connection, order: CommitOrder, change: Change, blobs: Mapping[bytes, int]) -> _Judged:
    entry, slot, now_ms = order.entry, change.slot, order.now_ms
    view = slots.view(connection, entry.player_id, slot)
    if change.content is None:
        delete = DeleteOrder(entry, slot, change.condition, now_ms)
        return _Delete(change, delete, view, judge_delete(view, change.condition))
    blob_id = blobs[change.content.sha256]
    body = change.content.body(kept_blobs.size_of(connection, blob_id))
    write = WriteOrder(entry, slot, change.condition, body, now_ms, order.new_epoch)
    return _Write(change, write, blob_id, view, writing.judged(connection, write, view))


def _too_large(limits: SaveLimits, judged: Sequence[_Judged]) -> SaveTooLarge | None:
    """Bytes may be there from before the owner lowered the limit."""
    try:
        for each in judged:
            if isinstance(each, _Write):
                check_size(limits, each.order.body.size)
    except SaveTooLarge as e:
        return e
    return None


def _carry_out(connection: Connection, limits: SaveLimits, player_id: str, each: _Judged) -> Version | SlotEntry:
    """What the slot is now."""
    if isinstance(each, _Delete):
        if each.judgement is Removal.DELETES and each.view.head is not None:
            writing.empty(connection, limits, each.order, each.view.last + 1, each.view.head)
        return slots.deleted(connection, player_id, each.change.slot)
    if each.judgement.rule in WRITES:
        kept_blobs.refer(connection, each.blob_id, +1)
        return writing.replace(connection, limits, each.order, each.view, each.blob_id)
    assert each.view.head is not None  # W1
    return each.view.head


def _refuse(
    connection: Connection, limits: SaveLimits, player_id: str, judged: Sequence[_Judged]
) -> Sequence[tuple[Change, Written | Removed]]:
    """Bytes that were refused become conflict copies; all that were named wait for the next commit anew."""
    for each in judged:
        if isinstance(each, _Write):
            _keep(connection, limits, player_id, each)
            kept_blobs.stage(connection, each.blob_id, each.order.now_ms)
    refused = [each for each in judged if not stands(each.judgement)]
    return [(each.change, _outcome(connection, player_id, each)) for each in refused]


def _keep(connection: Connection, limits: SaveLimits, player_id: str, each: _Write) -> None:
    if each.judgement.keeps_copy and has_room(connection, limits, player_id, each.order.body.size):
        base = named(connection, player_id, each.change.slot, each.change.condition.base)
        kept_blobs.refer(connection, each.blob_id, +1)
        writing.keep_refused(connection, limits, each.order, each.view, base=base, blob_id=each.blob_id)


def _outcome(connection: Connection, player_id: str, each: _Judged) -> Written | Removed:
    """As it is once all copies are made: where room was short, a later one may have pushed out an earlier one."""
    slot, view = each.change.slot, each.view
    base = named(connection, player_id, slot, each.change.condition.base)
    if isinstance(each, _Delete):
        return Removed(each.judgement, view.head, base, writing.last_of(connection, player_id, view))
    yours = each.judgement.yours
    number = view.last + 1 if each.judgement.keeps_copy else yours.version if yours else None
    kept = versions.find(connection, player_id, slot, number)
    dropped = each.judgement.rule is Rule.W6_CONFLICT and kept is None
    return Written(each.judgement, view.head, base=base, yours=kept, dropped=dropped)
