"""The blob that holds a body's bytes: found, checked against the bytes at hand, made, or healed."""

from sqlite3 import Connection

from gamed.saves.orders import NeedsBytes, WriteOrder
from gamed.saves.staging import StageOrder
from gamed.storage.state import kept_blobs, versions


def hold(connection: Connection, order: WriteOrder | StageOrder, refs: int = 0) -> int | NeedsBytes:
    """A blob of the player with exactly the body's bytes, and so many references more.

    Bytes that are damaged on disk are replaced by those at hand, for every version that shares them: a player who
    still has the bytes heals the save by storing it again. NeedsBytes changes nothing.
    """
    # bytes of a version are new mostly: to insert them tells; what makes none must write nothing where they are there
    if refs or kept_blobs.find(connection, order.entry.player_id, order.body.sha256) is None:
        blob_id = _new(connection, order, order.body.sha256, refs)
        if blob_id is not None:
            return blob_id
    found = _found(connection, order)
    if refs and not isinstance(found, NeedsBytes):
        kept_blobs.refer(connection, found, refs)
    return found


def _new(connection: Connection, order: WriteOrder | StageOrder, sha256: bytes | None, refs: int = 0) -> int | None:
    """The bytes at hand in a blob of their own, unless the player has one of this hash: even then a number is spent."""
    if order.data is None:
        return None
    return kept_blobs.insert(connection, order.entry.player_id, sha256, order.data, refs=refs, now_ms=order.now_ms)


def _found(connection: Connection, order: WriteOrder | StageOrder) -> int | NeedsBytes:
    player_id, body = order.entry.player_id, order.body
    known = kept_blobs.find(connection, player_id, body.sha256)
    if known is not None and order.data is None and known == order.checked:
        return known
    if known is not None and order.data is not None and kept_blobs.load(connection, known) == order.data:
        return known
    fresh = order.appended if order.data is None else _new(connection, order, None)
    if fresh is None or not kept_blobs.is_loose(connection, player_id, fresh, body.size):
        return NeedsBytes(known)
    if known is not None:
        kept_blobs.disown(connection, known)
        kept_blobs.refer(connection, fresh, versions.move_blob(connection, known, fresh))
    kept_blobs.adopt(connection, fresh, body.sha256)
    return fresh
