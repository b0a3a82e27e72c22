"""Players marked for deletion, and the `player_merge` table: the player who gets the saves of each (PROTOCOL 3.8).

A mark is the first step of several; see gamed.players.departures.
"""

from sqlite3 import Connection

from msgspec import Struct

from gamed.crypto import Keys, Purpose
from gamed.players.departures import Departure
from gamed.players.errors import PlayerUnknown
from gamed.storage.auth import owners, players, sessions

FORGET_ROWS = 500
"""How many rows one unit removes at most: a few milliseconds of the write lane."""
_TOKENS = (
    """
    DELETE FROM refresh_credential WHERE credential_index IN (
        SELECT r.credential_index FROM session s JOIN refresh_credential r ON r.session_id = s.session_id
        WHERE s.player_id = :player_id LIMIT :rows)
    """,
    """
    DELETE FROM access_token WHERE token_index IN (
        SELECT t.token_index FROM session s JOIN access_token t ON t.session_id = s.session_id
        WHERE s.player_id = :player_id LIMIT :rows)
    """,
    "DELETE FROM session WHERE session_id IN (SELECT session_id FROM session WHERE player_id = :player_id LIMIT :rows)",
)


class Attached(Struct, frozen=True):
    """What an heir got of another player's ways to sign in."""

    moved: tuple[str, ...]
    left: tuple[str, ...]
    """Providers of which the heir has an account already; these accounts sign nobody in any more."""


def mark(connection: Connection, player_id: str, now_ms: int) -> bool:
    """From now on no token and no sign-in of this player is good; repeatable. False when there is no such player."""
    if not players.set_state(connection, player_id, "erasing"):
        return False
    owners.drop(connection, player_id)
    sessions.revoke_all(connection, player_id, now_ms)
    return True


def unfinished(connection: Connection) -> list[Departure]:
    """Everyone who is marked, those with an heir first."""
    heirs = "SELECT player_id, heir_id FROM player_merge ORDER BY started_ms, player_id"
    erasing = """
        SELECT player_id FROM player INDEXED BY player_erasing
        WHERE state = 'erasing' AND player_id NOT IN (SELECT player_id FROM player_merge) ORDER BY player_id
    """
    return [Departure(*row) for query in (heirs, erasing) for row in connection.execute(query)]


def forget(connection: Connection, departure: Departure) -> bool:
    """Up to FORGET_ROWS rows; whether there are more. The mark itself goes last."""
    left, values = FORGET_ROWS, {"player_id": departure.player_id}
    for query in _TOKENS:
        left -= connection.execute(query, values | {"rows": left}).rowcount
    if left <= 0:
        return True
    connection.execute("DELETE FROM player WHERE player_id = :player_id AND state = 'erasing'", values)
    connection.execute("DELETE FROM player_merge WHERE player_id = :player_id", values)
    return False


def attach(connection: Connection, keys: Keys, player_id: str, heir_id: str, now_ms: int) -> Attached:
    """The heir gets the ways to sign in, and later the saves; the player, if auth.db knows it at all, is marked.

    A player of a lost auth.db is known by its saves only. PlayerUnknown when there is no heir.
    """
    heir = players.find_player(connection, heir_id)
    if heir is None or heir.state == "erasing":
        raise PlayerUnknown(f"There is no player {heir_id} to attach anything to.")
    attached = _move_identities(connection, keys, player_id, heir_id)
    old = players.find_player(connection, player_id)
    mark(connection, player_id, now_ms)
    if old is not None and old.owner:
        owners.give(connection, heir_id)
    query = "INSERT INTO player_merge (player_id, heir_id, started_ms) VALUES (:player_id, :heir_id, :now_ms)"
    connection.execute(query, {"player_id": player_id, "heir_id": heir_id, "now_ms": now_ms})
    return attached


def _move_identities(connection: Connection, keys: Keys, player_id: str, heir_id: str) -> Attached:
    values = {"player_id": player_id, "heir_id": heir_id}
    query = """
        UPDATE identity SET player_id = :heir_id
        WHERE player_id = :player_id AND provider NOT IN (SELECT provider FROM identity WHERE player_id = :heir_id)
        RETURNING provider
    """
    moved = [provider for (provider,) in connection.execute(query, values).fetchall()]
    rest = connection.execute("SELECT provider FROM identity WHERE player_id = :player_id", values).fetchall()
    left = [provider for (provider,) in rest]
    sealed = "SELECT sealed_name FROM local_account WHERE player_id = :player_id"
    account = connection.execute(sealed, values).fetchone()
    if account is not None:
        taken = connection.execute("SELECT 1 FROM local_account WHERE player_id = :heir_id", values).fetchone()
        (left if taken else moved).append("local")
        if not taken:
            _move_account(connection, keys, account[0], values)
    return Attached(tuple(moved), tuple(left))


def _move_account(connection: Connection, keys: Keys, sealed: bytes, values: dict[str, str]) -> None:
    """A sealed name is bound to its player's row, so it is sealed anew."""
    name = keys.sealer.unseal(Purpose.ACCOUNT_NAME, values["player_id"], sealed)
    query = """
        UPDATE local_account SET player_id = :heir_id, sealed_name = :sealed_name WHERE player_id = :player_id
    """
    connection.execute(query, values | {"sealed_name": keys.sealer.seal(Purpose.ACCOUNT_NAME, values["heir_id"], name)})
