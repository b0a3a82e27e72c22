"""What sessions and newcomers may be forgotten, in small batches: no sweep holds the write lane (SPEC 2.1).

Sessions over the lanes: each call one unit of auth.db, what decides nothing on the read lane.
"""

from collections.abc import Sequence
from sqlite3 import Connection

from twisted.internet.defer import Deferred

from gamed.crypto import Secret
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.rate_limit import UNLIMITED, RateLimit
from gamed.sessions import refresh_store, tables
from gamed.sessions.credentials import AuthenticatedSession, CredentialIssuer, LogoutScope, SessionInfo
from gamed.sessions.rotation import SHARED_STORE_MS, Refreshed, RefreshRejected
from gamed.structs import Component

ACCESS_KEPT_MS = 24 * 3600 * 1000
"""A token that expired less than a day ago is still told so, not called unknown."""
REFRESH_KEPT_MS = 7 * ACCESS_KEPT_MS
"""The same for a refresh credential and its session, ended or expired."""

PENDING_KEPT_MS = 30 * ACCESS_KEPT_MS
"""A newcomer whom the owner has not answered may ask again after this, and strangers do not fill the file."""

_DELETE_OLD = (
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


def delete_old_sessions(connection: Connection, now_ms: int, rows: int) -> int:
    """Forget up to `rows` rows; how many, so that 0 means there is nothing left to forget now."""
    left = rows
    for query in _DELETE_OLD:
        values = {
            "shared_before_ms": now_ms - 2 * SHARED_STORE_MS,
            "access_before_ms": now_ms - ACCESS_KEPT_MS,
            "refresh_before_ms": now_ms - REFRESH_KEPT_MS,
            "pending_before_ms": now_ms - PENDING_KEPT_MS,
            "rows": left,
        }
        left -= connection.execute(query, values).rowcount
    return rows - left


class SqliteSessionStore(Component, frozen=True):
    """gamed.sessions.service.SessionStore; failures are StoreError, SessionError from authenticate().

    `_refreshes` is how often one session may refresh (PROTOCOL 3.9).
    """

    _reads: ReadQueue
    _writes: WriteQueue
    _issuer: CredentialIssuer
    _refreshes: RateLimit = UNLIMITED

    def authenticate(self, token: Secret, now_ms: int) -> Deferred[AuthenticatedSession]:
        indexer = self._issuer.keys.indexer
        return self._reads.submit(lambda connection: tables.authenticate(connection, indexer, token, now_ms))

    def mark_used(self, session_id: str, generation: int, now_ms: int) -> Deferred[None]:
        return self._writes.submit(lambda connection: tables.mark_used(connection, session_id, generation, now_ms))

    def mark_all_used(self, uses: Sequence[tuple[str, int]], now_ms: int) -> Deferred[None]:
        return self._writes.submit(lambda connection: tables.mark_all_used(connection, uses, now_ms))

    def refresh(self, credential: Secret, now_ms: int) -> Deferred[Refreshed | RefreshRejected]:
        def unit(connection: Connection) -> Refreshed | RefreshRejected:
            return refresh_store.refresh(connection, self._issuer, credential, now_ms, self._refreshes)

        return self._writes.submit(unit)

    def log_out(
        self, access: Secret | None, refresh: Secret | None, scope: LogoutScope, now_ms: int
    ) -> Deferred[frozenset[str] | RefreshRejected]:
        def unit(connection: Connection) -> frozenset[str] | RefreshRejected:
            shown = access, refresh
            if scope is LogoutScope.THIS:
                return refresh_store.log_out_this(connection, self._issuer, shown, now_ms)
            return refresh_store.log_out_more(connection, self._issuer, shown, scope, now_ms)

        return self._writes.submit(unit)

    def list(self, player_id: str, now_ms: int) -> Deferred[list[SessionInfo]]:
        return self._reads.submit(lambda connection: tables.list_sessions(connection, player_id, now_ms))

    def end(self, player_id: str, session_id: str, now_ms: int) -> Deferred[bool | None]:
        return self._writes.submit(lambda connection: tables.revoke_own(connection, player_id, session_id, now_ms))

    def forget(self, now_ms: int, rows: int) -> Deferred[int]:
        return self._writes.submit(lambda connection: delete_old_sessions(connection, now_ms, rows))
