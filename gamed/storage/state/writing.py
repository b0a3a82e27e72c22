"""Units that change a slot: read, judge, write, count; one transaction on the write lane of state.db (PROTOCOL 4.1)."""

from sqlite3 import Connection

from gamed.saves.errors import Erased, SaveError
from gamed.saves.limits import SaveLimits, room_to_write
from gamed.saves.orders import DeleteOrder, NeedsBytes, Removed, WriteOrder, Written
from gamed.saves.rules import (
    NOTHING_EARLIER,
    WRITES,
    Removal,
    Rule,
    SlotView,
    Verdict,
    judge_delete,
    judge_write,
)
from gamed.saves.version import Kind, Version
from gamed.storage.state import shelves, slots, versions
from gamed.storage.state.changes import bury, has_room, keep_copy, named, put_on_top
from gamed.storage.state.holding import hold


def write(connection: Connection, limits: SaveLimits, order: WriteOrder) -> Written | NeedsBytes | SaveError:
    """Apply the rules W1 to W7 to a PUT. NeedsBytes and SaveError change nothing."""
    player_id, slot = order.entry.player_id, order.slot
    shelf, view = slots.place(connection, player_id, slot)
    if shelf.erased_since(order.entry.epoch):
        return erased()
    verdict = judged(connection, order, view)
    if verdict.rule not in WRITES:
        return _keep_current(connection, limits, order, view, verdict)
    refusal = room_to_write(limits, shelf.usage, view.size, order.body.size)
    if refusal is not None:
        return refusal
    blob_id = hold(connection, order, refs=1)
    if isinstance(blob_id, NeedsBytes):
        return blob_id
    return Written(verdict, replace(connection, limits, order, view, blob_id), created=view.head is None)


def _keep_current(
    connection: Connection, limits: SaveLimits, order: WriteOrder, view: SlotView, verdict: Verdict
) -> Written | NeedsBytes:
    """Answer a PUT that leaves the current version as it is; keep its bytes as a conflict copy where the rule says."""
    player_id, slot = order.entry.player_id, order.slot
    base = named(connection, player_id, slot, order.condition.base)
    if verdict.rule in (Rule.W3_UNCONDITIONAL, Rule.W7_NEVER_SEEN):  # the response does not say that bytes are kept
        return Written(verdict, view.head, base=base)
    if verdict.keeps_copy and not has_room(connection, limits, player_id, order.body.size):
        return Written(verdict, view.head, base=base, dropped=True)
    blob_id = hold(connection, order, refs=1 if verdict.keeps_copy else 0)
    if isinstance(blob_id, NeedsBytes):
        return blob_id
    if not verdict.keeps_copy:
        return Written(verdict, view.head, base=base, yours=verdict.yours)
    yours = keep_refused(connection, limits, order, view, base=base, blob_id=blob_id)
    base = named(connection, player_id, slot, order.condition.base)  # the copy may have pushed it out
    return Written(verdict, view.head, base=base, yours=yours)


def judged(connection: Connection, order: WriteOrder, view: SlotView) -> Verdict:
    """Which rule answers; only a conflict asks what was written before, and may be none then."""
    verdict = judge_write(view, order.condition, order.body, NOTHING_EARLIER)
    if verdict.rule is not Rule.W6_CONFLICT:
        return verdict
    player_id, base = order.entry.player_id, order.condition.base
    earlier = versions.earlier(connection, player_id, order.slot, base, order.body.sha256)
    return judge_write(view, order.condition, order.body, earlier)


def remove(connection: Connection, limits: SaveLimits, order: DeleteOrder) -> Removed | SaveError:
    """A DELETE: the slot becomes empty, its history stays. SaveError changes nothing."""
    player_id, slot = order.entry.player_id, order.slot
    shelf, view = slots.place(connection, player_id, slot)
    if shelf.erased_since(order.entry.epoch):
        return erased()
    removal = judge_delete(view, order.condition)
    if removal is Removal.DELETES and view.head is not None:
        empty(connection, limits, order, view.last + 1, view.head)
    last = last_of(connection, player_id, view)
    return Removed(removal, view.head, named(connection, player_id, slot, order.condition.base), last)


def last_of(connection: Connection, player_id: str, view: SlotView) -> Version | None:
    """What an empty slot held when it was deleted, if it is kept."""
    if view.tombstone is None:
        return None
    return versions.find(connection, player_id, view.tombstone.slot, view.tombstone.parent)


def erased() -> Erased:
    return Erased("Your saves were erased after this request began; nothing was changed. Read the list, then decide.")


def replace(connection: Connection, limits: SaveLimits, order: WriteOrder, view: SlotView, blob_id: int) -> Version:
    """Make the body the current version; a player's first slot also makes their row in `shelf`."""
    top = view.head or view.tombstone
    parent, parent_tag = top.version if top else None, view.head.tag if view.head else None
    now = Version(order.slot, view.last + 1, parent, parent_tag, Kind.WRITE, blob_id, order.body, order.now_ms)
    if view.last == 0:
        shelves.create(connection, order.entry.player_id, order.new_epoch)
    return put_on_top(connection, limits, order.entry.player_id, view, now)


def keep_refused(
    connection: Connection, limits: SaveLimits, order: WriteOrder, view: SlotView, *, base: Version | None, blob_id: int
) -> Version:
    """The body becomes a conflict copy."""
    parent, named, ms = base.version if base else None, order.condition.base, order.now_ms
    copy = Version(order.slot, view.last + 1, parent, named, Kind.CONFLICT, blob_id, order.body, ms, retired_ms=ms)
    keep_copy(connection, limits, order.entry.player_id, copy)
    return copy


def empty(connection: Connection, limits: SaveLimits, order: DeleteOrder, number: int, head: Version) -> None:
    """A tombstone becomes the newest version."""
    tombstone = Version(order.slot, number, head.version, head.tag, Kind.DELETE, None, None, order.now_ms)
    bury(connection, limits, order.entry.player_id, head, tombstone)
