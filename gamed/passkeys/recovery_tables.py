"""The SQL of recovery codes: `recovery_code` has at most CODES rows of a player, those that were not used.

What other features need is in ways_tables.py.
"""

from collections.abc import Sequence

from gamed.crypto import Index, Indexer
from gamed.database.connection import Connection
from gamed.passkeys import ways_tables
from gamed.passkeys.recovery_rules import CodeStock, RecoveryCodes, code_index
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import RECOVERY_CODE


def replace(connection: Connection, indexer: Indexer, player_id: str, new: RecoveryCodes, now_ms: int) -> None:
    """Store the indexes of new codes, and delete those that the player had."""
    ways_tables.delete_codes(connection, player_id)
    query = """
        INSERT INTO recovery_code (code_index, player_id, created_ms) VALUES (:code_index, :player_id, :now_ms)
    """
    for code in new.codes:
        index = code_index(indexer, player_id, code)
        connection.execute(query, {"code_index": index, "player_id": player_id, "now_ms": now_ms})


def exists(connection: Connection, index: Index) -> bool:
    query = "SELECT EXISTS (SELECT 1 FROM recovery_code WHERE code_index = :code_index)"
    return bool(connection.execute(query, {"code_index": index}).fetchone()[0])


def stock_of_local(connection: Connection, player_id: str) -> CodeStock | None:
    """Return the codes that a player has left; None without a local account, whose name is typed with a code.

    Their version is when they were made, in epoch milliseconds, and "0" without codes.
    """
    query = "SELECT 1 FROM local_account WHERE player_id = :player_id"
    if connection.execute(query, {"player_id": player_id}).fetchone() is None:
        return None
    query = "SELECT count(*), coalesce(max(created_ms), 0) FROM recovery_code WHERE player_id = :player_id"
    left, made_ms = connection.execute(query, {"player_id": player_id}).fetchone()
    return CodeStock(int(left), str(made_ms))


def end_sessions(connection: Connection, player_id: str, now_ms: int) -> Sequence[str]:
    """End the sessions, and browser sessions, that a code of the player has opened; return them."""
    query = """
        SELECT session_id FROM session
        WHERE player_id = :player_id AND provider = :provider AND revoked_ms IS NULL
        UNION ALL
        SELECT session_id FROM browser_session WHERE player_id = :player_id AND provider = :provider
    """
    rows = connection.execute(query, {"player_id": player_id, "provider": RECOVERY_CODE}).fetchall()
    opened = [session_id for (session_id,) in rows]
    for session_id in opened:
        session_tables.revoke_any(connection, session_id, now_ms)
    return opened
