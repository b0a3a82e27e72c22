"""Which player is the server's owner: at most one, told to the game as `player.owner` (SPEC 4.8)."""

from sqlite3 import Connection


def find(connection: Connection) -> str | None:
    """The owner's player id."""
    row = connection.execute("SELECT player_id FROM player WHERE owner = 1").fetchone()
    return None if row is None else str(row[0])


def give(connection: Connection, player_id: str) -> None:
    """Make a player the owner; nobody else may be."""
    connection.execute("UPDATE player SET owner = 1 WHERE player_id = :player_id", {"player_id": player_id})


def drop(connection: Connection, player_id: str) -> bool:
    """Whether this player was the owner until now."""
    query = "UPDATE player SET owner = 0 WHERE player_id = :player_id AND owner = 1"
    return connection.execute(query, {"player_id": player_id}).rowcount == 1
