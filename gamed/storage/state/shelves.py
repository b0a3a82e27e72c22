"""The `player_saves` table has one row for each player who ever saved."""

import json
from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any

from gamed.crypto import Random
from gamed.saves.cursor import Cursor, new_epoch
from gamed.saves.holdings import Holdings
from gamed.saves.limits import Usage

COLUMNS = "epoch", "seq", "slots", "live_bytes", "kept_bytes", "erased_ms", "erasing"
_FIND = f"SELECT {', '.join(COLUMNS)} FROM player_saves WHERE player_id = ?"


def from_row(row: Sequence[Any]) -> Holdings:
    """A row of COLUMNS; one of a join that found no shelf is an empty one."""
    epoch, seq, slots, live, kept, erased_ms, erasing = row
    if epoch is None:
        return Holdings()
    return Holdings(Cursor(epoch, seq), Usage(slots, live, kept), erased_ms, bool(erasing))


def find(connection: Connection, player_id: str) -> Holdings:
    """The player's shelf; an empty one for who never saved."""
    row = connection.execute(_FIND, (player_id,)).fetchone()
    return Holdings() if row is None else from_row(row)


def cursors(connection: Connection, players: Sequence[str]) -> dict[str, Cursor]:
    """Where each of these shelves stands; those who never saved are left out."""
    query = "SELECT player_id, epoch, seq FROM player_saves WHERE player_id IN (SELECT value FROM json_each(:players))"
    rows = connection.execute(query, {"players": json.dumps(players)})
    return {player_id: Cursor(epoch, seq) for player_id, epoch, seq in rows}


def create(connection: Connection, player_id: str, epoch: str) -> None:
    """Before the first change; nothing when the shelf is there."""
    query = "INSERT INTO player_saves (player_id, epoch) VALUES (:player_id, :epoch) ON CONFLICT DO NOTHING"
    connection.execute(query, {"player_id": player_id, "epoch": epoch})


_CHANGE = """
    UPDATE player_saves SET seq = seq + 1, slots = slots + ?, live_bytes = live_bytes + ?, kept_bytes = kept_bytes + ?
    WHERE player_id = ?
    RETURNING seq, kept_bytes
"""


def change(connection: Connection, player_id: str, by: Usage) -> tuple[int, int]:
    """Count one change that adds `by`; returns its number, and how many bytes the history has now."""
    values = by.slots, by.bytes, by.history_bytes, player_id
    ((seq, kept),) = connection.execute(_CHANGE, values).fetchall()
    return int(seq), int(kept)


def forget(connection: Connection, player_id: str, size: int) -> None:
    """So many bytes of history are gone; nothing that a client sees in a list has changed."""
    query = "UPDATE player_saves SET kept_bytes = kept_bytes - :size WHERE player_id = :player_id"
    connection.execute(query, {"player_id": player_id, "size": size})


def forget_pasts(connection: Connection, random: Random) -> int:
    """A new epoch for every shelf: whoever knows it from before takes everything anew (PROTOCOL 4.2). How many."""
    connection.create_function("new_epoch", 0, lambda: new_epoch(random))
    return connection.execute("UPDATE player_saves SET epoch = new_epoch()").rowcount
