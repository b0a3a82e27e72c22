"""A player's saves erased: counted as gone at once, then row by row (PROTOCOL 4).

While rows are going nothing can be written: a request that began before, or meanwhile, is told `erased`. At the end
the epoch is drawn once more, so that whoever looked meanwhile starts anew. The shelf's own row stays, also of a player
who is erased altogether: an id that nothing else has any more, the new epoch and the time. By it an upload on its way
knows that it comes too late, and an old cursor that its past is gone.
"""

from sqlite3 import Connection

from gamed.saves.cursor import Cursor
from gamed.saves.erasure import EraseOrder, judge_erase
from gamed.saves.rules import Removal
from gamed.storage.state import kept_blobs, shelves, versions

VERSIONS = 64
SLOTS = 256
"""Forgotten by one unit."""


def begin(connection: Connection, player_id: str, epoch: str, now_ms: int) -> None:
    """From now on the shelf counts as empty; made where there is none, for a first save may be under way."""
    query = """
        INSERT INTO player_saves (player_id, epoch, erased_ms, erasing) VALUES (:player_id, :epoch, :now_ms, 1)
        ON CONFLICT (player_id) DO UPDATE
        SET epoch = :epoch, seq = seq + 1, slots = 0, live_bytes = 0, kept_bytes = 0, erased_ms = :now_ms, erasing = 1
    """
    connection.execute(query, {"player_id": player_id, "epoch": epoch, "now_ms": now_ms})


def begin_if(connection: Connection, order: EraseOrder) -> tuple[Removal, Cursor]:
    """The same, if the shelf is as its player saw it; -> what was judged, and where the shelf stood."""
    holdings, values = shelves.find(connection, order.player_id), {"player_id": order.player_id}
    ((kept,),) = connection.execute("SELECT EXISTS (SELECT 1 FROM save WHERE player_id = :player_id)", values)
    removal = judge_erase(holdings, order.condition, empty=not kept)
    if removal is Removal.DELETES:
        begin(connection, order.player_id, order.new_epoch, order.now_ms)
    return removal, holdings.cursor


def unfinished(connection: Connection) -> str | None:
    """A player whose erasing was broken off, or goes on."""
    query = "SELECT player_id FROM player_saves INDEXED BY player_saves_erasing WHERE erasing = 1"
    row = connection.execute(query).fetchone()
    return None if row is None else str(row[0])


def step(connection: Connection, player_id: str, epoch: str) -> bool | None:
    """Delete some rows of a player whose saves are being erased.

    Return True while there are more, False after the last step, which draws the new epoch and allows writes again, and
    None without doing anything when nothing is being erased, or another caller has ended it.
    """
    if not shelves.find(connection, player_id).erasing:
        return None
    values = {"player_id": player_id, "versions": VERSIONS, "slots": SLOTS, "epoch": epoch}
    query = f"SELECT {versions.COLUMNS} FROM save_version WHERE player_id = :player_id LIMIT :versions"
    rows = connection.execute(query, values).fetchall()
    for version in map(versions.from_row, rows):
        versions.delete(connection, player_id, version.slot, version.version)
        if version.blob_id is not None:
            kept_blobs.refer(connection, version.blob_id, -1)
    if rows:
        return True
    some = "(SELECT slot FROM save WHERE player_id = :player_id LIMIT :slots)"
    gone = connection.execute(f"DELETE FROM save WHERE player_id = :player_id AND slot IN {some}", values).rowcount
    if gone == SLOTS:
        return True
    query = "UPDATE player_saves SET epoch = :epoch, seq = seq + 1, erasing = 0 WHERE player_id = :player_id"
    connection.execute(query, values)
    return False


def unreferenced(connection: Connection, player_id: str) -> int | None:
    """A blob of an erased shelf: no version has its bytes, and it was not staged after the erase."""
    query = """
        SELECT b.blob_id FROM blob b JOIN player_saves h USING (player_id)
        WHERE player_id = :player_id AND sha256 NOT NULL AND refs = 0 AND created_ms <= erased_ms LIMIT 1
    """
    row = connection.execute(query, {"player_id": player_id}).fetchone()
    return None if row is None else int(row[0])
