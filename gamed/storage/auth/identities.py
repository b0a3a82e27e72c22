"""The `identity` table: which account at a provider signs in as which player (PROTOCOL 3.8)."""

from collections.abc import Collection
from sqlite3 import Connection

from gamed.crypto import Index


def owner(connection: Connection, index: Index) -> str | None:
    """The player whom this identity signs in; None: nobody's yet."""
    query = "SELECT player_id FROM identity WHERE identity_index = :identity_index"
    row = connection.execute(query, {"identity_index": index}).fetchone()
    return None if row is None else str(row[0])


def has_one(connection: Connection, player_id: str, provider: str) -> bool:
    """Whether the player has an account of this provider already."""
    query = "SELECT EXISTS (SELECT 1 FROM identity WHERE player_id = :player_id AND provider = :provider)"
    return bool(connection.execute(query, {"player_id": player_id, "provider": provider}).fetchone()[0])


def insert(connection: Connection, *, index: Index, realm: Index, player_id: str, provider: str, now_ms: int) -> None:
    """From now on it signs in as this player; `provider` is its name in the file."""
    query = """
        INSERT INTO identity (identity_index, player_id, provider, realm_index, linked_ms, last_used_ms)
        VALUES (:identity_index, :player_id, :provider, :realm_index, :now_ms, :now_ms)
    """
    values = {
        "identity_index": index,
        "player_id": player_id,
        "provider": provider,
        "realm_index": realm,
        "now_ms": now_ms,
    }
    connection.execute(query, values)


def used(connection: Connection, index: Index, now_ms: int) -> None:
    """Note that it signed somebody in."""
    query = "UPDATE identity SET last_used_ms = :now_ms WHERE identity_index = :identity_index"
    connection.execute(query, {"identity_index": index, "now_ms": now_ms})


def left_behind(connection: Connection, realms: Collection[Index]) -> int:
    """How many identities no configured provider can ever give again."""
    counts = connection.execute("SELECT realm_index, count(*) FROM identity GROUP BY realm_index").fetchall()
    return sum(count for realm, count in counts if realm not in realms)
