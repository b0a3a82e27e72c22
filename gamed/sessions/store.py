"""The store of sessions runs each call as one transaction of auth.db: a change in the write queue, a read in the other.

The cleanup deletes old rows in small steps, because a long transaction would delay every other write (SPEC 2.1).
"""

from collections.abc import Sequence
from functools import partial
from sqlite3 import Connection

from twisted.internet.defer import Deferred

from gamed.crypto import Secret
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.rate_limit import UNLIMITED, RateLimit
from gamed.sessions import refresh_store, tables
from gamed.sessions.credentials import AuthenticatedSession, CredentialIssuer, LogoutScope, SessionInfo
from gamed.sessions.rotation import SHARED_STORE_MS, Refreshed, RefreshRejected
from gamed.structs import Component


class SqliteSessionStore(Component, frozen=True):
    """The gamed.sessions.service.SessionStore of auth.db.

    Every method raises DatabaseError, authenticate() also SessionError. `_refreshes` limits how often one session may
    refresh (PROTOCOL 3.9).
    """

    _reads: ReadQueue
    _writes: WriteQueue
    _issuer: CredentialIssuer
    _refreshes: RateLimit = UNLIMITED

    def authenticate(self, token: Secret, now_ms: int) -> Deferred[AuthenticatedSession]:
        indexer = self._issuer.keys.indexer
        return self._reads.submit(partial(tables.authenticate, indexer=indexer, token=token, now_ms=now_ms))

    def mark_used(self, session_id: str, generation: int, now_ms: int) -> Deferred[None]:
        return self._writes.submit(
            partial(tables.mark_used, session_id=session_id, generation=generation, now_ms=now_ms)
        )

    def mark_all_used(self, uses: Sequence[tuple[str, int]], now_ms: int) -> Deferred[None]:
        return self._writes.submit(partial(tables.mark_all_used, uses=uses, now_ms=now_ms))

    def refresh(self, credential: Secret, now_ms: int) -> Deferred[Refreshed | RefreshRejected]:
        return self._writes.submit(
            partial(
                refresh_store.refresh, issuer=self._issuer, credential=credential, now_ms=now_ms, rate=self._refreshes
            )
        )

    def log_out(
        self, access: Secret | None, refresh: Secret | None, scope: LogoutScope, now_ms: int
    ) -> Deferred[frozenset[str] | RefreshRejected]:
        def transaction(connection: Connection) -> frozenset[str] | RefreshRejected:
            credentials = access, refresh
            if scope is LogoutScope.THIS:
                return refresh_store.log_out_this(connection, self._issuer, credentials, now_ms)
            return refresh_store.log_out_more(connection, self._issuer, credentials, scope, now_ms)

        return self._writes.submit(transaction)

    def list(self, player_id: str, now_ms: int) -> Deferred[list[SessionInfo]]:
        return self._reads.submit(partial(tables.list_sessions, player_id=player_id, now_ms=now_ms))

    def end(self, player_id: str, session_id: str, now_ms: int) -> Deferred[bool | None]:
        return self._writes.submit(
            partial(tables.revoke_own, player_id=player_id, session_id=session_id, now_ms=now_ms)
        )

    def delete_old(self, now_ms: int, rows: int) -> Deferred[int]:
        return self._writes.submit(partial(delete_old_sessions, now_ms=now_ms, rows=rows))


ACCESS_RETAINED_MS = 24 * 3600 * 1000
"""For a day after its expiry a token is answered `token_expired`, not `token_invalid`."""
REFRESH_RETAINED_MS = 7 * ACCESS_RETAINED_MS
"""The same for a refresh credential and its session, ended or expired."""
PENDING_RETAINED_MS = 30 * ACCESS_RETAINED_MS
"""After this a player whom the owner has not approved may ask again; so strangers cannot fill the file."""

_DELETE_OLD = (
    # The successor of a used generation is not returned again; KnownCredential.decide covers a clock that was set back.
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
    # A session goes last: ON DELETE CASCADE would delete its other rows without counting them.
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
    """Delete up to `rows` old rows; return how many there were, so 0 means that none are left."""
    left = rows
    for query in _DELETE_OLD:
        values = {
            "shared_before_ms": now_ms - 2 * SHARED_STORE_MS,
            "access_before_ms": now_ms - ACCESS_RETAINED_MS,
            "refresh_before_ms": now_ms - REFRESH_RETAINED_MS,
            "pending_before_ms": now_ms - PENDING_RETAINED_MS,
            "rows": left,
        }
        left -= connection.execute(query, values).rowcount
    return rows - left
