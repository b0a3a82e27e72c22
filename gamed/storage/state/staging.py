"""Units that keep bytes for a commit, and find them (PROTOCOL 4.4)."""

from collections.abc import Collection
from sqlite3 import Connection

from gamed.saves.errors import SaveError
from gamed.saves.limits import SaveLimits, room_to_stage
from gamed.saves.orders import NeedsBytes
from gamed.saves.staging import Staged, StageOrder
from gamed.storage.state import kept_blobs, shelves
from gamed.storage.state.holding import hold
from gamed.storage.state.writing import erased


def stage(connection: Connection, limits: SaveLimits, order: StageOrder) -> Staged | NeedsBytes | SaveError:
    """The bytes wait from now on, whether they were there before or not. NeedsBytes and SaveError change nothing."""
    player_id, body = order.entry.player_id, order.body
    if shelves.find(connection, player_id).erased_since(order.entry.epoch):
        return erased()
    if kept_blobs.find(connection, player_id, body.sha256) is None:
        waiting = kept_blobs.staged_bytes(connection, player_id, order.expired_ms)
        refusal = room_to_stage(limits, waiting, body.size)
        if refusal is not None:
            return refusal
    blob_id = hold(connection, order)
    if isinstance(blob_id, NeedsBytes):
        return blob_id
    kept_blobs.stage(connection, blob_id, order.now_ms)
    return Staged(blob_id)


def size_of(connection: Connection, player_id: str, sha256: bytes) -> int | None:
    """Of the player's bytes with this hash; None when there are none."""
    blob_id = kept_blobs.find(connection, player_id, sha256)
    return None if blob_id is None else kept_blobs.size_of(connection, blob_id)


def find(connection: Connection, player_id: str, digests: Collection[bytes]) -> dict[bytes, int]:
    """The player's blobs of these bytes, as many as there are."""
    found = {sha256: kept_blobs.find(connection, player_id, sha256) for sha256 in digests}
    return {sha256: blob_id for sha256, blob_id in found.items() if blob_id is not None}
