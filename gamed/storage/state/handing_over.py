"""One player's saves given to another, in one transaction; nothing is copied and nothing current is replaced.

Where both have a save in one slot, the heir's stays current and the other one becomes a conflict copy beside it. What
cannot be told apart from then on, that slot's older history, is erased with the rest of the shelf that was given.
"""

from sqlite3 import Connection

from gamed.saves.limits import Usage
from gamed.saves.version import Kind, Version
from gamed.storage.state import erasing, kept_blobs, shelves, slots, versions


def hand_over(connection: Connection, player_id: str, heir_id: str, epochs: tuple[str, str], now_ms: int) -> bool:
    """`epochs`: of the shelf that is given away, and of the heir's if it has none yet.

    False while rows of the heir's own are being erased: they would take along what comes. Repeatable: the shelf given
    away is being erased afterwards, and gives nothing a second time.
    """
    if shelves.find(connection, player_id).erasing:
        return True
    if shelves.find(connection, heir_id).erasing:
        return False
    shelves.create(connection, heir_id, epochs[1])
    _give_blobs(connection, player_id, heir_id)
    taken = {slot for (slot,) in _slots(connection, heir_id)}
    for (slot,) in _slots(connection, player_id):
        if slot in taken:
            _give_copy(connection, player_id, heir_id, slot, now_ms)
        else:
            _give_slot(connection, player_id, heir_id, slot)
    erasing.begin(connection, player_id, epochs[0], now_ms)
    return True


def slots_of(connection: Connection, player_id: str) -> int:
    """How many slots a player ever wrote to that are kept."""
    return len(_slots(connection, player_id))


def _slots(connection: Connection, player_id: str) -> list[tuple[str]]:
    query = "SELECT slot FROM save WHERE player_id = :player_id ORDER BY slot"
    return connection.execute(query, {"player_id": player_id}).fetchall()


def _give_blobs(connection: Connection, player_id: str, heir_id: str) -> None:
    """The bytes change hands where they are; what the heir has too is referred to there."""
    query = "SELECT blob_id, sha256 FROM blob WHERE player_id = :player_id AND sha256 NOT NULL"
    for blob_id, sha256 in connection.execute(query, {"player_id": player_id}).fetchall():
        known = kept_blobs.find(connection, heir_id, sha256)
        if known is None:
            values = {"blob_id": blob_id, "heir_id": heir_id}
            connection.execute("UPDATE blob SET player_id = :heir_id WHERE blob_id = :blob_id", values)
        elif moved := versions.move_blob(connection, blob_id, known):
            kept_blobs.refer(connection, known, moved)
            kept_blobs.refer(connection, blob_id, -moved)


def _give_slot(connection: Connection, player_id: str, heir_id: str, slot: str) -> None:
    head = slots.view(connection, player_id, slot).head
    live = head.size if head else 0
    kept = sum(version.size for version in versions.history(connection, player_id, slot)) - live
    seq, _ = shelves.change(connection, heir_id, Usage(1 if head else 0, live, kept))
    values = {"player_id": player_id, "heir_id": heir_id, "slot": slot, "seq": seq}
    where = "WHERE player_id = :player_id AND slot = :slot"
    connection.execute(f"UPDATE save SET player_id = :heir_id, seq = :seq {where}", values)
    connection.execute(f"UPDATE save_version SET player_id = :heir_id {where}", values)


def _give_copy(connection: Connection, player_id: str, heir_id: str, slot: str, now_ms: int) -> None:
    theirs, view = slots.view(connection, player_id, slot).head, slots.view(connection, heir_id, slot)
    if theirs is None or theirs.body is None or theirs.blob_id is None:
        return
    if view.head is not None and view.head.body is not None and view.head.body.sha256 == theirs.body.sha256:
        return
    number = view.last + 1
    copy = Version(slot, number, None, None, Kind.CONFLICT, theirs.blob_id, theirs.body, now_ms, now_ms)
    versions.insert(connection, heir_id, copy)
    kept_blobs.refer(connection, theirs.blob_id, +1)
    seq, _ = shelves.change(connection, heir_id, Usage(history_bytes=copy.size))
    slots.touch(connection, heir_id, slot, last_version=number, seq=seq, prune_at_ms=now_ms)
