"""The work of staying signed in: authenticate, refresh, sign out, list and end sessions (PROTOCOL 3.7)."""

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec import field

from gamed.audit import UNHEARD, Audit, Event
from gamed.crypto import Secret
from gamed.instants import Now
from gamed.sessions.credentials import Caller, members
from gamed.sessions.errors import SessionError, SessionNotFound, TokenMissing
from gamed.sessions.first_uses import FirstUses
from gamed.sessions.presented import access_token, refresh_credential
from gamed.sessions.rotation import Refreshed, Refusal
from gamed.sessions.session import Scope, SessionRow
from gamed.store import StoreCorrupt, StoreError, StoreFull
from gamed.structs import Part

SWEEP_ROWS = 500
"""How many rows one unit of a sweep forgets at most: a few milliseconds of the write lane."""


class SessionStore(Protocol):
    """Each call is one transaction; StoreError when it did not take place."""

    def authenticate(self, token: Secret, now_ms: int) -> Awaitable[Caller]: ...
    def mark_used(self, session_id: str, generation: int, now_ms: int) -> Awaitable[None]: ...
    def mark_all_used(self, uses: Sequence[tuple[str, int]], now_ms: int) -> Awaitable[None]:
        """Leave out those of sessions that have ended."""

    def refresh(self, credential: Secret, now_ms: int) -> Awaitable[Refreshed | Refusal]: ...
    def log_out(
        self, access: Secret | None, refresh: Secret | None, scope: Scope, now_ms: int
    ) -> Awaitable[frozenset[str] | Refusal]: ...
    def list(self, player_id: str, now_ms: int) -> Awaitable[Sequence[SessionRow]]: ...
    def end(self, player_id: str, session_id: str, now_ms: int) -> Awaitable[bool | None]: ...
    def forget(self, now_ms: int, rows: int) -> Awaitable[int]: ...


class Waits(Protocol):
    """Requests that wait for something of a player's."""

    def revoked(self, player_id: str) -> None:
        """A session of this player ended: whoever waits is to look at their token again."""


class Sessions(Part, frozen=True):
    _store: SessionStore
    _waits: Waits
    _now_ms: Now
    _audit: Audit = UNHEARD
    _uses: FirstUses = field(default_factory=FirstUses)

    async def authenticate(self, token: str | None, *, reading: bool = False) -> Caller:
        """Whom a Bearer token speaks for, its first use settled; raises SessionError or StoreError."""
        caller = await self._store.authenticate(access_token(token), self._now_ms())
        await self.settle(caller, reading=reading)
        return caller

    async def settle(self, caller: Caller, *, reading: bool = False) -> None:
        """Commit the first use of a generation before the request's effect; mostly there is none.

        `reading`: the request only reads. Where the disk cannot be written, its use is kept in memory (FirstUses).
        """
        if caller.unused is None or (reading and self._uses.has(caller.session_id, caller.unused)):
            return
        try:
            await self._store.mark_used(caller.session_id, caller.unused, self._now_ms())
        except (StoreFull, StoreCorrupt):
            if not (reading and self._uses.add(caller.session_id, caller.unused)):
                raise
        else:
            self._uses.written([(caller.session_id, caller.unused)])

    async def write_first_uses(self) -> None:
        """Commit what is kept in memory, a batch at a time; StoreError while that cannot be done."""
        while uses := self._uses.some(SWEEP_ROWS):
            await self._store.mark_all_used(uses, self._now_ms())
            self._uses.written(uses)

    async def close(self) -> None:
        """Commit what is kept in memory, if that can be done now."""
        with suppress(StoreError):
            await self.write_first_uses()

    async def refresh(self, credential: str) -> dict[str, object]:
        """The members of a refresh's answer, by PROTOCOL 3.7's table; the same ones for a repeated question."""
        if self._uses:
            await self.write_first_uses()
        outcome = await self._store.refresh(refresh_credential(credential), self._now_ms())
        if isinstance(outcome, Refusal):
            raise self._refused(outcome)
        return members(outcome.pair, outcome.session_id, self._now_ms())

    async def log_out(self, access: str | None, credential: str | None, scope: Scope) -> None:
        """End the asking session, the player's other ones, or all of them; repeatable.

        `this` accepts any well-formed credential; `others` and `all` need a live one, else its SessionError.
        """
        if access is None and credential is None:
            raise TokenMissing
        token = None if access is None else access_token(access)
        secret = None if credential is None else refresh_credential(credential)
        outcome = await self._store.log_out(token, secret, scope, self._now_ms())
        if isinstance(outcome, Refusal):
            raise self._refused(outcome)
        for player_id in outcome:
            self._audit.note(Event.SIGNED_OUT, player=player_id, scope=scope.value)
            self._waits.revoked(player_id)

    async def list(self, caller: Caller) -> Sequence[SessionRow]:
        """The caller's sessions that are neither ended nor expired, last used first."""
        return await self._store.list(caller.player_id, self._now_ms())

    async def end(self, caller: Caller, session_id: str) -> None:
        """End one of the caller's sessions; repeatable. Unknown and foreign ones are SessionNotFound alike."""
        ended = await self._store.end(caller.player_id, session_id, self._now_ms())
        if ended is None:
            raise SessionNotFound
        if not ended:
            return
        self._audit.note(Event.SESSION_REVOKED, player=caller.player_id, session=session_id)
        self._waits.revoked(caller.player_id)

    async def sweep(self) -> int:
        """Forget what is long over, a small batch at a time; how many rows went."""
        swept = 0
        while rows := await self._store.forget(self._now_ms(), SWEEP_ROWS):
            swept += rows
        return swept

    def _refused(self, refusal: Refusal) -> SessionError:
        if refusal.ended is not None:
            self._audit.note(Event.REFRESH_REUSED, player=refusal.ended, session=refusal.session_id or "")
            self._waits.revoked(refusal.ended)
        return refusal.error()
