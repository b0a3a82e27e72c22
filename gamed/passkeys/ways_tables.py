"""The SQL of passkeys and recovery codes as ways to sign in: what other features need, also while nobody has any.

It reads no sealed value. The rest is in tables.py and recovery_tables.py, which are imported at their first use.
"""

from gamed.crypto import Index
from gamed.database.connection import Connection
from gamed.passkeys.limits import MAX_PASSKEYS
from gamed.players import tables as player_tables
from gamed.players.names import LOCAL, OtherWays
from gamed.sessions.credentials import RECOVERY_CODE


def any_ways(connection: Connection) -> OtherWays:
    """Return the ways that any player has."""
    query = "SELECT EXISTS (SELECT 1 FROM passkey), EXISTS (SELECT 1 FROM recovery_code)"
    passkeys, codes = connection.execute(query).fetchone()
    return OtherWays(bool(passkeys), bool(codes))


def count_passkeys(connection: Connection, player_id: str) -> int:
    query = "SELECT count(*) FROM passkey WHERE player_id = :player_id"
    return int(connection.execute(query, {"player_id": player_id}).fetchone()[0])


def has_other_way(connection: Connection, player_id: str) -> bool:
    """Return whether the player has a passkey, or an account of a provider, offered now or not."""
    methods = player_tables.sign_in_methods(connection, player_id)
    return any(method.provider != LOCAL for method in methods) or count_passkeys(connection, player_id) > 0


def has_usable(connection: Connection, player_id: str, rp_id: str) -> bool:
    """Return whether the player has a passkey of this host."""
    query = "SELECT EXISTS (SELECT 1 FROM passkey WHERE player_id = :player_id AND rp_id = :rp_id)"
    return bool(connection.execute(query, {"player_id": player_id, "rp_id": rp_id}).fetchone()[0])


def belongs_to(connection: Connection, passkey_id: str, player_id: str) -> bool:
    """Return whether the player has this passkey."""
    return created_ms(connection, passkey_id, player_id) is not None


def created_ms(connection: Connection, passkey_id: str, player_id: str) -> int | None:
    """Return when this passkey of the player was made; None if the player has no such passkey."""
    query = "SELECT created_ms FROM passkey WHERE passkey_id = :passkey_id AND player_id = :player_id"
    row = connection.execute(query, {"passkey_id": passkey_id, "player_id": player_id}).fetchone()
    return None if row is None else int(row[0])


def move_passkeys(connection: Connection, player_id: str, heir_id: str, now_ms: int) -> int:
    """Give an heir the player's passkeys, the oldest first, as long as there is room; return how many moved.

    They count as made now: the owner's page trusts none that its owner got later (gamed/account/browser_store.py).
    """
    query = """
        UPDATE passkey SET player_id = :heir_id, created_ms = :now_ms WHERE passkey_id IN (
            SELECT passkey_id FROM passkey WHERE player_id = :player_id ORDER BY created_ms, passkey_id LIMIT :room
        )
    """
    values = {"player_id": player_id, "heir_id": heir_id, "now_ms": now_ms}
    return connection.execute(query, {**values, "room": MAX_PASSKEYS - count_passkeys(connection, heir_id)}).rowcount


def use_code(connection: Connection, index: Index, player_id: str) -> bool:
    """Use up a code of this player; return False if it was used before, or is void.

    Of two transactions only one gets True.
    """
    query = "DELETE FROM recovery_code WHERE code_index = :code_index AND player_id = :player_id"
    return connection.execute(query, {"code_index": index, "player_id": player_id}).rowcount == 1


def count_codes(connection: Connection, player_id: str) -> int:
    """Return how many codes a player has left."""
    query = "SELECT count(*) FROM recovery_code WHERE player_id = :player_id"
    return int(connection.execute(query, {"player_id": player_id}).fetchone()[0])


def codes_left(connection: Connection, player_id: str) -> int | None:
    """Return how many codes a player has left; None without a local account, whose name is typed with a code."""
    query = "SELECT 1 FROM local_account WHERE player_id = :player_id"
    if connection.execute(query, {"player_id": player_id}).fetchone() is None:
        return None
    return count_codes(connection, player_id)


def codes_left_after(connection: Connection, session_id: str) -> int | None:
    """Return how many codes the player of a session has left that a code has opened; None for any other session.

    New codes end such a session: their number is not that of the sign-in.
    """
    query = """
        SELECT player_id FROM session
        WHERE session_id = :session_id AND provider = :provider AND revoked_ms IS NULL
    """
    row = connection.execute(query, {"session_id": session_id, "provider": RECOVERY_CODE}).fetchone()
    return None if row is None else count_codes(connection, row[0])


def delete_codes(connection: Connection, player_id: str) -> int:
    """Delete all codes of a player; return how many there were."""
    query = "DELETE FROM recovery_code WHERE player_id = :player_id"
    return connection.execute(query, {"player_id": player_id}).rowcount
