"""What sessions and newcomers may be forgotten, in small batches: no sweep holds the write lane (SPEC 2.1)."""

from sqlite3 import Connection

from gamed.sessions.rotation import SHARED_STORE_MS

ACCESS_KEPT_MS = 24 * 3600 * 1000
"""A token that expired less than a day ago is still told so, not called unknown."""
REFRESH_KEPT_MS = 7 * ACCESS_KEPT_MS
"""The same for a refresh credential and its session, ended or expired."""

PENDING_KEPT_MS = 30 * ACCESS_KEPT_MS
"""A newcomer whom the owner has not answered may ask again after this, and strangers do not fill the file."""

FORGET = (
    # A successor that is in use is asked for no more; see Presented.answer for a clock that was set back.
    """
    UPDATE session SET sealed_successor = NULL WHERE session_id IN (
        SELECT session_id FROM session
        WHERE used = 1 AND sealed_successor IS NOT NULL AND rotated_ms < :shared_before_ms LIMIT :rows)
    """,
    """
    DELETE FROM access_token WHERE token_index IN (
        SELECT token_index FROM access_token WHERE expires_ms < :access_before_ms LIMIT :rows)
    """,
    """
    DELETE FROM refresh_credential WHERE credential_index IN (
        SELECT credential_index FROM refresh_credential WHERE expires_ms < :refresh_before_ms LIMIT :rows)
    """,
    # Last: by now a session this old has no rows that could go along with it unnoticed.
    """
    DELETE FROM session WHERE session_id IN (
        SELECT s.session_id FROM session s WHERE s.expires_ms < :refresh_before_ms
        AND NOT EXISTS (SELECT 1 FROM access_token t WHERE t.session_id = s.session_id)
        AND NOT EXISTS (SELECT 1 FROM refresh_credential r WHERE r.session_id = s.session_id) LIMIT :rows)
    """,
    """
    DELETE FROM player WHERE player_id IN (
        SELECT player_id FROM player INDEXED BY player_pending
        WHERE state = 'pending' AND created_ms < :pending_before_ms LIMIT :rows)
    """,
)


def forget(connection: Connection, now_ms: int, rows: int) -> int:
    """Forget up to `rows` rows; how many, so that 0 means there is nothing left to forget now."""
    left = rows
    for query in FORGET:
        values = {
            "shared_before_ms": now_ms - 2 * SHARED_STORE_MS,
            "access_before_ms": now_ms - ACCESS_KEPT_MS,
            "refresh_before_ms": now_ms - REFRESH_KEPT_MS,
            "pending_before_ms": now_ms - PENDING_KEPT_MS,
            "rows": left,
        }
        left -= connection.execute(query, values).rowcount
    return rows - left
