"""The blob that holds a body's bytes: found, checked against the bytes at hand, made, or healed."""

from sqlite3 import Connection

from gamed.saves.orders import NeedsBytes, WriteOrder
from gamed.saves.staging import StageOrder
from gamed.storage.state import kept_blobs, versions


def hold(connection: Connection, order: WriteOrder | StageOrder) -> int | NeedsBytes:
    """A blob of the player with exactly the body's bytes.

    Bytes that are damaged on disk are replaced by those at hand, for every version that shares them: a player who
    still has the bytes heals the save by storing it again. NeedsBytes changes nothing.
    """
    player_id, body = order.entry.player_id, order.body
    known = kept_blobs.find(connection, player_id, body.sha256)
    if known is not None and _good(connection, order, known):
        return known
    if known is None and order.data is not None:
        return kept_blobs.insert(connection, player_id, body.sha256, order.data, order.now_ms)
    fresh = order.appended
    if order.data is not None:
        fresh = kept_blobs.insert(connection, player_id, None, order.data, order.now_ms)
    if fresh is None or not kept_blobs.is_loose(connection, player_id, fresh, body.size):
        return NeedsBytes(known)
    if known is not None:
        kept_blobs.disown(connection, known)
        kept_blobs.refer(connection, fresh, versions.move_blob(connection, known, fresh))
    kept_blobs.adopt(connection, fresh, body.sha256)
    return fresh


def _good(connection: Connection, order: WriteOrder | StageOrder, blob_id: int) -> bool:
    if order.data is None:
        return blob_id == order.checked
    return kept_blobs.load(connection, blob_id) == order.data
