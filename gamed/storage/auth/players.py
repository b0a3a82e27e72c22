"""The `player` table: one row per person who ever collected a sign-in or was added by the owner (PROTOCOL 3.5)."""

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any, Literal

from msgspec import Struct

from gamed.crypto import Purpose, Sealer

State = Literal["active", "pending", "blocked", "erasing"]


class Player(Struct, frozen=True):
    """A row; instants in epoch milliseconds."""

    player_id: str
    state: State
    owner: bool
    created_ms: int
    last_sign_in_ms: int | None


_APPROVING = "approved = CASE WHEN :state = 'active' THEN 1 ELSE approved END"
"""A player who was active once was let in, and stays so through a block."""
_COLUMNS = "player_id, state, owner, created_ms, last_sign_in_ms"


def create_player(connection: Connection, player_id: str, now_ms: int, state: State = "active") -> None:
    """A player who has not signed in yet; nobody's owner."""
    query = """
        INSERT INTO player (player_id, state, approved, created_ms) VALUES (:player_id, :state, :approved, :now_ms)
    """
    values = {"player_id": player_id, "state": state, "approved": state != "pending", "now_ms": now_ms}
    connection.execute(query, values)


def find_player(connection: Connection, player_id: str) -> Player | None:
    query = f"SELECT {_COLUMNS} FROM player WHERE player_id = :player_id"
    row = connection.execute(query, {"player_id": player_id}).fetchone()
    return None if row is None else player_of(row)


def count(connection: Connection) -> int:
    """Return how many players there are, in every state."""
    return int(connection.execute("SELECT count(*) FROM player").fetchone()[0])


def signed_in(connection: Connection, player_id: str, now_ms: int) -> None:
    """Note a sign-in: a collected handoff, or a session made by command."""
    connection.execute(
        "UPDATE player SET last_sign_in_ms = :now_ms WHERE player_id = :player_id",
        {"player_id": player_id, "now_ms": now_ms},
    )


def set_state(connection: Connection, player_id: str, state: State) -> bool:
    """Whether there is such a player; what the new state means for sessions is judged at each request."""
    query = f"UPDATE player SET state = :state, {_APPROVING} WHERE player_id = :player_id"
    return connection.execute(query, {"player_id": player_id, "state": state}).rowcount == 1


def change_state(connection: Connection, player_id: str, before: State, after: State) -> bool:
    """Whether the player was in this state until now."""
    query = f"UPDATE player SET state = :state, {_APPROVING} WHERE player_id = :player_id AND state = :before"
    values = {"player_id": player_id, "before": before, "state": after}
    return connection.execute(query, values).rowcount == 1


def unblocked(connection: Connection, player_id: str) -> State | None:
    """Return a blocked player to `active`, or to `pending` if the owner never let them in; None if not blocked."""
    query = """
        UPDATE player SET state = CASE WHEN approved = 1 THEN 'active' ELSE 'pending' END
        WHERE player_id = :player_id AND state = 'blocked' RETURNING state
    """
    row = connection.execute(query, {"player_id": player_id}).fetchone()
    return None if row is None else row[0]


def remove_pending(connection: Connection, player_id: str) -> bool:
    """A newcomer who was never let in leaves nothing behind: no session and no save was ever made."""
    query = "DELETE FROM player WHERE player_id = :player_id AND state = 'pending'"
    return connection.execute(query, {"player_id": player_id}).rowcount == 1


def set_note(connection: Connection, sealer: Sealer, player_id: str, note: str) -> None:
    """The owner's own words about a player, sealed; "" removes them."""
    sealed = sealer.seal(Purpose.NOTE, player_id, note.encode()) if note else None
    query = "UPDATE player SET sealed_note = :sealed_note WHERE player_id = :player_id"
    connection.execute(query, {"player_id": player_id, "sealed_note": sealed})


def note_of(connection: Connection, sealer: Sealer, player_id: str) -> str | None:
    query = "SELECT sealed_note FROM player WHERE player_id = :player_id AND sealed_note IS NOT NULL"
    row = connection.execute(query, {"player_id": player_id}).fetchone()
    return None if row is None else sealer.unseal(Purpose.NOTE, player_id, row[0]).decode()


def player_of(row: Sequence[Any]) -> Player:
    """A row of player_id, state, owner, created_ms, last_sign_in_ms."""
    player_id, state, owner, created_ms, last_sign_in_ms = row
    return Player(player_id, state, bool(owner), created_ms, last_sign_in_ms)
