"""Units that bring an old version back, and that let go of a conflict copy (PROTOCOL 4, 4.3)."""

from sqlite3 import Connection

from gamed.saves.answers import no_bytes, not_found, protected, version_gone
from gamed.saves.errors import SaveError
from gamed.saves.limits import SaveLimits, room_to_write
from gamed.saves.orders import DismissOrder, RestoreOrder, Written
from gamed.saves.rules import WRITES, SlotView, judge_write
from gamed.saves.version import Kind, Version
from gamed.storage.state import kept_blobs, shelves, slots, versions
from gamed.storage.state.changes import forget, named, put_on_top, tell
from gamed.storage.state.writing import erased


def restore(connection: Connection, limits: SaveLimits, order: RestoreOrder) -> Written | SaveError:
    """A write of bytes that are here already, judged by the same rules; nothing is copied, or kept when refused."""
    player_id, slot = order.entry.player_id, order.slot
    shelf, view = slots.place(connection, player_id, slot)
    if shelf.erased_since(order.entry.epoch):
        return erased()
    old = versions.find(connection, player_id, slot, order.version)
    if old is None or old.body is None:
        return _without_bytes(view, slot, order.version, old)
    base = order.condition.base
    earlier = versions.earlier(connection, player_id, slot, base, old.body.sha256)
    verdict = judge_write(view, order.condition, old.body, earlier)
    if verdict.rule not in WRITES:
        return Written(verdict, view.head, base=named(connection, player_id, slot, base), yours=old)
    refusal = room_to_write(limits, shelf.usage, view.size, old.size)
    if refusal is not None:
        return refusal
    top = view.head or view.tombstone
    parent, parent_tag = top.version if top else None, view.head.tag if view.head else None
    now = Version(slot, view.last + 1, parent, parent_tag, Kind.RESTORE, old.blob_id, old.body, order.now_ms)
    if old.blob_id is not None:
        kept_blobs.refer(connection, old.blob_id, +1)
    return Written(verdict, put_on_top(connection, limits, player_id, view, now))


def dismiss(connection: Connection, order: DismissOrder) -> SaveError | None:
    """The conflict copy goes; None when it did. Only copies can."""
    player_id, slot = order.entry.player_id, order.slot
    if shelves.find(connection, player_id).erased_since(order.entry.epoch):
        return erased()
    copy = versions.find(connection, player_id, slot, order.version)
    if copy is None:
        return _without_bytes(slots.view(connection, player_id, slot), slot, order.version, copy)
    if copy.kind is not Kind.CONFLICT:
        return protected(copy)
    forget(connection, player_id, copy)
    tell(connection, player_id, slot)
    return None


def _without_bytes(view: SlotView, slot: str, number: int, version: Version | None) -> SaveError:
    if not view.seen:
        return not_found(slot)
    return version_gone(slot, number) if version is None else no_bytes(version)
