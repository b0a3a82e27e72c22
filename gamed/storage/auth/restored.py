"""auth.db out of a backup made fit to be served: nobody is signed in, and who is kept out stays out (PROTOCOL 3.7)."""

from collections.abc import Mapping, Sequence
from sqlite3 import Connection
from typing import Any

from msgspec import Struct

from gamed.storage.auth import keyring

COLUMNS = {
    "player": ("player_id", "state", "approved", "sealed_note", "created_ms", "last_sign_in_ms"),
    "identity": ("identity_index", "player_id", "provider", "realm_index", "linked_ms", "last_used_ms"),
    "local_account": ("name_index", "player_id", "sealed_name", "password", "linked_ms", "last_used_ms"),
}
"""Of each player who is blocked, what is needed to know them again; a player's own row first."""


class Blocked(Struct, frozen=True):
    """Everybody whom the file that is in use keeps out."""

    check_value: bytes | None
    """Of the key that found and sealed what is in the rows."""
    rows: Mapping[str, Sequence[tuple[Any, ...]]]


NOBODY = Blocked(None, {table: () for table in COLUMNS})


def blocked(connection: Connection) -> Blocked:
    ring = keyring.read(connection)
    rows = {}
    for table, columns in COLUMNS.items():
        names = ", ".join(f"{table}.{column}" for column in columns)
        query = f"SELECT {names} FROM {table} JOIN player p USING (player_id) WHERE p.state = 'blocked'"
        rows[table] = connection.execute(query).fetchall()
    return Blocked(None if ring is None else ring.check_value, rows)


def keep_out(connection: Connection, theirs: Blocked) -> int:
    """Block them here, too; how many were not. Who is not known here comes along, where one key fits both files."""
    players = [dict(zip(COLUMNS["player"], row, strict=True)) for row in theirs.rows["player"]]
    for each in players:  # a newer answer to whether the owner ever let them in
        connection.execute("UPDATE player SET approved = :approved WHERE player_id = :player_id", each)
    query = "UPDATE player SET state = 'blocked' WHERE player_id = :player_id AND state IN ('active', 'pending')"
    kept = sum(connection.execute(query, each).rowcount for each in players)
    ring = keyring.read(connection)
    if ring is None or ring.check_value != theirs.check_value:
        return kept
    for table, columns in COLUMNS.items():
        names, places = ", ".join(columns), ", ".join(f":{name}" for name in columns)
        insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})"
        known = [dict(zip(columns, row, strict=True)) for row in theirs.rows[table]]
        added = sum(connection.execute(insert, each).rowcount for each in known)
        kept += added if table == "player" else 0
    return kept


def sign_out_all(connection: Connection, now_ms: int) -> int:
    """Every session ends, every sign-in under way is forgotten; how many sessions were alive."""
    alive = "SELECT count(*) FROM session WHERE revoked_ms IS NULL AND expires_ms > :now_ms"
    ((count,),) = connection.execute(alive, {"now_ms": now_ms}).fetchall()
    end = "UPDATE session SET revoked_ms = :now_ms, sealed_successor = NULL WHERE revoked_ms IS NULL"
    connection.execute(end, {"now_ms": now_ms})
    for table in ("login", "limit_bucket"):  # a login's attempts go along with it
        connection.execute(f"DELETE FROM {table}")
    return int(count)
