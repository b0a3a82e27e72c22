"""The session service authenticates requests, and refreshes, lists and ends sessions (docs/protocol.md: Sessions).

The first use of a session's newest generation is committed before that request has an effect, so that what follows
from it still holds after a crash. A read has no effect that a crash could undo: while the disk cannot be written the
server answers it, and retains its use in memory. Until that use is committed, this process obeys it:

- a refresh commits it first, or is rejected: an older credential must not get the pair that is in use already;
- a collect of the login that made the session is rejected as collected;
- a request that writes commits it first, or is rejected.

A crash loses these uses. Then the sessions are as before the reads, and the server detects a copied credential at the
next rotation instead of now.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress

from msgspec import field

from gamed.audit import NULL_AUDIT_LOG, AuditLog, SecurityEvent
from gamed.crypto import Secret
from gamed.database.errors import DatabaseCorrupt, DatabaseError, DiskFull
from gamed.sessions.browser_rules import is_browser_session
from gamed.sessions.credentials import (
    AuthenticatedSession,
    LogoutScope,
    RefreshRejected,
    SessionInfo,
    parse_access_token,
    parse_refresh_credential,
    response_members,
)
from gamed.sessions.errors import SessionError, SessionNotFound, TokenMissing
from gamed.sessions.recent import RecentToken, RecentTokens, digest_of
from gamed.sessions.store import SessionStore
from gamed.structs import Component
from gamed.timestamps import Now

MAX_FIRST_USES = 10_000
"""Sessions; a read whose use would be one more is rejected like a write."""
CLEANUP_ROWS = 500
"""How many rows one transaction of a cleanup examines, deletes or updates: a few milliseconds of the write queue."""
RevocationListener = Callable[[str], object]
"""A function that is called with the id of a player of whom a session ended: it wakes the player's long polls."""


class FirstUses(Container[str]):
    """The first uses that could not be committed yet: a generation by session id."""

    def __init__(self) -> None:
        self._generations: dict[str, int] = {}

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._generations

    def __len__(self) -> int:
        return len(self._generations)

    def has(self, session_id: str, generation: int) -> bool:
        """Return whether this use is retained already."""
        return self._generations.get(session_id) == generation

    def add(self, session_id: str, generation: int) -> bool:
        """Retain a use; return False if there are MAX_FIRST_USES already."""
        if session_id not in self._generations and len(self) >= MAX_FIRST_USES:
            return False
        self._generations[session_id] = generation
        return True

    def oldest(self, limit: int) -> Sequence[tuple[str, int]]:
        """Return up to `limit` uses as (session id, generation)."""
        return [*self._generations.items()][:limit]

    def discard(self, uses: Iterable[tuple[str, int]]) -> None:
        """Discard uses that are committed, or whose session has ended."""
        for session_id, generation in uses:
            if self.has(session_id, generation):
                del self._generations[session_id]


class EndedDevices:
    """The erasure of devices that ended sessions still have: an older version, or one beside this process, kept them.

    Each call examines the next sessions, and begins anew after the last one: without an index for so rare a row, one
    that examined them all would read the whole table every minute.
    """

    def __init__(self) -> None:
        self._after = ""

    async def erase(self, store: SessionStore, rows: int) -> int:
        """Examine up to `rows` sessions; return how many devices were erased."""
        ended, last = await store.read_ended_devices(self._after, rows)
        erased = await store.erase_ended_devices(ended[0], ended[-1]) if ended else 0
        self._after = last
        return erased


class SessionService(Component, frozen=True, kw_only=True):
    """The operations on sessions that requests need, whatever the protocol of the request."""

    store: SessionStore
    revoked: RevocationListener
    now_ms: Now
    audit: AuditLog = NULL_AUDIT_LOG
    uses: FirstUses = field(default_factory=FirstUses)
    recent: RecentTokens = field(default_factory=RecentTokens)
    ended_devices: EndedDevices = field(default_factory=EndedDevices)

    async def authenticate(self, token: str | None, *, reading: bool = False) -> AuthenticatedSession:
        """Return the session of a Bearer token, its first use recorded; raise SessionError or DatabaseError."""
        caller = await self.store.authenticate(parse_access_token(token), self.now_ms())
        await self.record_first_use(caller, reading=reading)
        return caller

    async def record_first_use(self, caller: AuthenticatedSession, *, reading: bool = False) -> None:
        """Commit the first use of a generation before the request has an effect; most requests are not the first.

        `reading`: the request only reads, so if the disk cannot be written, its use is retained in memory.
        """
        generation = caller.first_use_of
        if generation is None or (reading and self.uses.has(caller.session_id, generation)):
            return
        try:
            await self.store.mark_used(caller, generation, self.now_ms())
        except (DiskFull, DatabaseCorrupt):
            if not (reading and self.uses.add(caller.session_id, generation)):
                raise
        else:
            self.uses.discard([(caller.session_id, generation)])

    def find_recent(self, token: Secret) -> RecentToken | None:
        """Return what this process knows of a token that it saw valid in the last minutes."""
        return self.recent.find(token, self.now_ms())

    def remember(self, token: Secret, caller: AuthenticatedSession, epoch: str, arrival_ms: int) -> None:
        """Keep a token that is valid and whose first use is recorded; the rest is of the player's saves.

        That of a browser is not kept: authenticate_key() does not know it.
        """
        if is_browser_session(caller.session_id):
            return
        digest, key = digest_of(token), self.store.key_of(token)
        self.recent.add(RecentToken(digest, key, caller.session_id, caller.player_id, epoch, self.now_ms(), arrival_ms))

    async def write_first_uses(self) -> None:
        """Commit the uses that are retained in memory, in batches; raise DatabaseError if that is not possible."""
        while uses := self.uses.oldest(CLEANUP_ROWS):
            await self.store.mark_all_used(uses, self.now_ms())
            self.uses.discard(uses)

    async def close(self) -> None:
        """Commit the uses that are retained in memory, if that is possible now."""
        with suppress(DatabaseError):
            await self.write_first_uses()

    async def refresh(self, credential: str) -> dict[str, object]:
        """Return the members of the response to a refresh, by the table of refreshes in docs/internals/rules.md.

        A repeated request gets the same members.
        """
        # The decision reads `used` from the database: a use that is only in memory would let a predecessor repeat.
        if self.uses:
            await self.write_first_uses()
        outcome = await self.store.refresh(parse_refresh_credential(credential), self.now_ms())
        if isinstance(outcome, RefreshRejected):
            raise self._rejection_error(outcome)
        return response_members(outcome.pair, outcome.session_id, self.now_ms())

    async def log_out(self, access: str | None, credential: str | None, scope: LogoutScope) -> None:
        """End the requesting session, the player's other sessions, or all of them; repeatable.

        `this` accepts any well-formed credential; `others` and `all` need a valid one, otherwise its SessionError is
        raised.
        """
        if access is None and credential is None:
            raise TokenMissing
        token = None if access is None else parse_access_token(access)
        secret = None if credential is None else parse_refresh_credential(credential)
        outcome = await self.store.log_out(token, secret, scope, self.now_ms())
        if isinstance(outcome, RefreshRejected):
            raise self._rejection_error(outcome)
        for player_id in outcome:
            self.audit.record(SecurityEvent.SIGNED_OUT, player=player_id, scope=scope.value)
            self.revoked(player_id)

    async def list(self, caller: AuthenticatedSession) -> Sequence[SessionInfo]:
        """Return the caller's sessions that have neither ended nor expired, the last used first."""
        return await self.store.list(caller.player_id, self.now_ms())

    async def end(self, caller: AuthenticatedSession, session_id: str) -> None:
        """End one of the caller's sessions; repeatable.

        Raise SessionNotFound for an unknown session, and for one of another player.
        """
        ended = await self.store.end(caller.player_id, session_id, self.now_ms())
        if ended is None:
            raise SessionNotFound
        if not ended:
            return
        self.audit.record(SecurityEvent.SESSION_REVOKED, player=caller.player_id, session=session_id)
        self.revoked(caller.player_id)

    async def end_others(self, caller: AuthenticatedSession) -> None:
        """End all of the caller's sessions but the caller's own; repeatable."""
        if not await self.store.end_others(caller.player_id, caller.session_id, self.now_ms()):
            return
        self.audit.record(SecurityEvent.SIGNED_OUT, player=caller.player_id, scope=LogoutScope.OTHERS.value)
        self.revoked(caller.player_id)

    async def clean_up(self) -> int:
        """Delete old rows in small transactions; return how many rows were deleted or updated."""
        deleted = 0
        while rows := await self.store.delete_old(self.now_ms(), CLEANUP_ROWS):
            deleted += rows
        return deleted + await self.ended_devices.erase(self.store, CLEANUP_ROWS)

    def _rejection_error(self, rejected: RefreshRejected) -> SessionError:
        """Return the error of a rejected credential; log it if a reuse ended the session."""
        if rejected.ended is not None:
            self.audit.record(SecurityEvent.REFRESH_REUSED, player=rejected.ended, session=rejected.session_id or "")
            self.revoked(rejected.ended)
        return rejected.error()
