"""First uses of credentials that could not be written yet, kept in memory until they can be (PROTOCOL 3.7).

The first use of a session's newest generation is committed before the effect of that request: what follows from it
must hold after a crash. A read has no effect that a crash could undo, so it is answered while the disk cannot be
written, and its use is kept here. Until it is committed, all that depends on it in this process goes by it:

- a refresh commits it first, or is refused: an older credential must not get the pair that is in use already;
- a collect of the sign-in that made the session is refused as collected;
- a request that writes commits it first, or is refused.

A crash forgets these uses. Then the sessions are as before the reads, and a copied credential is found out at the next
rotation instead of now.

The work of staying signed in: authenticate, refresh, sign out, list and end sessions (PROTOCOL 3.7).
"""

from collections.abc import Awaitable, Container, Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec import field

from gamed.audit import NULL_AUDIT_LOG, AuditLog, SecurityEvent
from gamed.crypto import Secret
from gamed.database.errors import DatabaseCorrupt, DatabaseError, DiskFull
from gamed.sessions.credentials import (
    AuthenticatedSession,
    LogoutScope,
    SessionInfo,
    access_token,
    refresh_credential,
    response_members,
)
from gamed.sessions.errors import SessionError, SessionNotFound, TokenMissing
from gamed.sessions.rotation import Refreshed, RefreshRejected
from gamed.structs import Component
from gamed.timestamps import Now

MOST = 10_000
"""Sessions; a read that would be one more is refused like a write."""


class FirstUses(Container[str]):
    """Sessions by id, each with the generation that was used."""

    def __init__(self) -> None:
        self._generations: dict[str, int] = {}

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._generations

    def __len__(self) -> int:
        return len(self._generations)

    def has(self, session_id: str, generation: int) -> bool:
        """Whether this use is kept already."""
        return self._generations.get(session_id) == generation

    def add(self, session_id: str, generation: int) -> bool:
        """Keep a use; return False when there is no room for it."""
        if session_id not in self._generations and len(self) >= MOST:
            return False
        self._generations[session_id] = generation
        return True

    def some(self, limit: int) -> Sequence[tuple[str, int]]:
        """Return the oldest uses as (session, generation)."""
        return [*self._generations.items()][:limit]

    def written(self, uses: Iterable[tuple[str, int]]) -> None:
        """Forget uses that are committed, or of sessions that have ended."""
        for session_id, generation in uses:
            if self.has(session_id, generation):
                del self._generations[session_id]


CLEANUP_ROWS = 500
"""How many rows one unit of a sweep forgets at most: a few milliseconds of the write lane."""


class SessionStore(Protocol):
    """Each call is one transaction; StoreError when it did not take place."""

    def authenticate(self, token: Secret, now_ms: int) -> Awaitable[AuthenticatedSession]: ...
    def mark_used(self, session_id: str, generation: int, now_ms: int) -> Awaitable[None]: ...
    def mark_all_used(self, uses: Sequence[tuple[str, int]], now_ms: int) -> Awaitable[None]:
        """Leave out those of sessions that have ended."""

    def refresh(self, credential: Secret, now_ms: int) -> Awaitable[Refreshed | RefreshRejected]: ...
    def log_out(
        self, access: Secret | None, refresh: Secret | None, scope: LogoutScope, now_ms: int
    ) -> Awaitable[frozenset[str] | RefreshRejected]: ...
    def list(self, player_id: str, now_ms: int) -> Awaitable[Sequence[SessionInfo]]: ...
    def end(self, player_id: str, session_id: str, now_ms: int) -> Awaitable[bool | None]: ...
    def forget(self, now_ms: int, rows: int) -> Awaitable[int]: ...


class RevocationListener(Protocol):
    """Requests that wait for something of a player's."""

    def revoked(self, player_id: str) -> None:
        """A session of this player ended: whoever waits is to look at their token again."""


class SessionService(Component, frozen=True):
    _store: SessionStore
    _waits: RevocationListener
    _now_ms: Now
    _audit: AuditLog = NULL_AUDIT_LOG
    _uses: FirstUses = field(default_factory=FirstUses)

    async def authenticate(self, token: str | None, *, reading: bool = False) -> AuthenticatedSession:
        """Whom a Bearer token speaks for, its first use settled; raises SessionError or StoreError."""
        caller = await self._store.authenticate(access_token(token), self._now_ms())
        await self.settle(caller, reading=reading)
        return caller

    async def settle(self, caller: AuthenticatedSession, *, reading: bool = False) -> None:
        """Commit the first use of a generation before the request's effect; mostly there is none.

        `reading`: the request only reads. Where the disk cannot be written, its use is kept in memory (FirstUses).
        """
        if caller.unused is None or (reading and self._uses.has(caller.session_id, caller.unused)):
            return
        try:
            await self._store.mark_used(caller.session_id, caller.unused, self._now_ms())
        except (DiskFull, DatabaseCorrupt):
            if not (reading and self._uses.add(caller.session_id, caller.unused)):
                raise
        else:
            self._uses.written([(caller.session_id, caller.unused)])

    async def write_first_uses(self) -> None:
        """Commit what is kept in memory, a batch at a time; StoreError while that cannot be done."""
        while uses := self._uses.some(CLEANUP_ROWS):
            await self._store.mark_all_used(uses, self._now_ms())
            self._uses.written(uses)

    async def close(self) -> None:
        """Commit what is kept in memory, if that can be done now."""
        with suppress(DatabaseError):
            await self.write_first_uses()

    async def refresh(self, credential: str) -> dict[str, object]:
        """The members of a refresh's answer, by PROTOCOL 3.7's table; the same ones for a repeated question."""
        if self._uses:
            await self.write_first_uses()
        outcome = await self._store.refresh(refresh_credential(credential), self._now_ms())
        if isinstance(outcome, RefreshRejected):
            raise self._refused(outcome)
        return response_members(outcome.pair, outcome.session_id, self._now_ms())

    async def log_out(self, access: str | None, credential: str | None, scope: LogoutScope) -> None:
        """End the asking session, the player's other ones, or all of them; repeatable.

        `this` accepts any well-formed credential; `others` and `all` need a live one, else its SessionError.
        """
        if access is None and credential is None:
            raise TokenMissing
        token = None if access is None else access_token(access)
        secret = None if credential is None else refresh_credential(credential)
        outcome = await self._store.log_out(token, secret, scope, self._now_ms())
        if isinstance(outcome, RefreshRejected):
            raise self._refused(outcome)
        for player_id in outcome:
            self._audit.record(SecurityEvent.SIGNED_OUT, player=player_id, scope=scope.value)
            self._waits.revoked(player_id)

    async def list(self, caller: AuthenticatedSession) -> Sequence[SessionInfo]:
        """The caller's sessions that are neither ended nor expired, last used first."""
        return await self._store.list(caller.player_id, self._now_ms())

    async def end(self, caller: AuthenticatedSession, session_id: str) -> None:
        """End one of the caller's sessions; repeatable. Unknown and foreign ones are SessionNotFound alike."""
        ended = await self._store.end(caller.player_id, session_id, self._now_ms())
        if ended is None:
            raise SessionNotFound
        if not ended:
            return
        self._audit.record(SecurityEvent.SESSION_REVOKED, player=caller.player_id, session=session_id)
        self._waits.revoked(caller.player_id)

    async def sweep(self) -> int:
        """Forget what is long over, a small batch at a time; how many rows went."""
        swept = 0
        while rows := await self._store.forget(self._now_ms(), CLEANUP_ROWS):
            swept += rows
        return swept

    def _refused(self, refusal: RefreshRejected) -> SessionError:
        if refusal.ended is not None:
            self._audit.record(SecurityEvent.REFRESH_REUSED, player=refusal.ended, session=refusal.session_id or "")
            self._waits.revoked(refusal.ended)
        return refusal.error()
