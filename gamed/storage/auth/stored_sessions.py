"""Sessions over the lanes: each call one unit of auth.db, what decides nothing on the read lane."""

from collections.abc import Sequence
from sqlite3 import Connection

from twisted.internet.defer import Deferred

from gamed.crypto import Secret
from gamed.limits import UNLIMITED, Rate
from gamed.sessions.credentials import Caller, Issuer
from gamed.sessions.rotation import Refreshed, Refusal
from gamed.sessions.session import Scope, SessionRow
from gamed.storage.auth import forgetting, logouts, rotations, sessions
from gamed.storage.lanes import ReadLane, WriteLane
from gamed.structs import Part


class StoredSessions(Part, frozen=True):
    """gamed.sessions.keeper.SessionStore; failures are StoreError, SessionError from authenticate().

    `_refreshes` is how often one session may refresh (PROTOCOL 3.9).
    """

    _reads: ReadLane
    _writes: WriteLane
    _issuer: Issuer
    _refreshes: Rate = UNLIMITED

    def authenticate(self, token: Secret, now_ms: int) -> Deferred[Caller]:
        indexer = self._issuer.keys.indexer
        return self._reads.submit(lambda connection: sessions.authenticate(connection, indexer, token, now_ms))

    def mark_used(self, session_id: str, generation: int, now_ms: int) -> Deferred[None]:
        return self._writes.submit(lambda connection: sessions.mark_used(connection, session_id, generation, now_ms))

    def mark_all_used(self, uses: Sequence[tuple[str, int]], now_ms: int) -> Deferred[None]:
        return self._writes.submit(lambda connection: sessions.mark_all_used(connection, uses, now_ms))

    def refresh(self, credential: Secret, now_ms: int) -> Deferred[Refreshed | Refusal]:
        def unit(connection: Connection) -> Refreshed | Refusal:
            return rotations.refresh(connection, self._issuer, credential, now_ms, self._refreshes)

        return self._writes.submit(unit)

    def log_out(
        self, access: Secret | None, refresh: Secret | None, scope: Scope, now_ms: int
    ) -> Deferred[frozenset[str] | Refusal]:
        def unit(connection: Connection) -> frozenset[str] | Refusal:
            shown = access, refresh
            if scope is Scope.THIS:
                return logouts.log_out_this(connection, self._issuer, shown, now_ms)
            return logouts.log_out_more(connection, self._issuer, shown, scope, now_ms)

        return self._writes.submit(unit)

    def list(self, player_id: str, now_ms: int) -> Deferred[list[SessionRow]]:
        return self._reads.submit(lambda connection: sessions.list_sessions(connection, player_id, now_ms))

    def end(self, player_id: str, session_id: str, now_ms: int) -> Deferred[bool | None]:
        return self._writes.submit(lambda connection: sessions.revoke_own(connection, player_id, session_id, now_ms))

    def forget(self, now_ms: int, rows: int) -> Deferred[int]:
        return self._writes.submit(lambda connection: forgetting.forget(connection, now_ms, rows))
