"""Players who go: erased, or their saves and identities attached to another (PROTOCOL 3.8).

Two files are involved and no transaction writes both, so each step is repeatable and auth.db says what is unfinished:
first auth.db marks (their tokens die), then state.db follows, then auth.db forgets.

What players do with their own account: see what signs them in, unlink it, leave for good (PROTOCOL 3.8).
"""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from msgspec import Struct

from gamed.audit import NULL_AUDIT_LOG, AuditLog, SecurityEvent
from gamed.players.errors import AccountReauthenticationRequired, LastIdentity
from gamed.players.names import SignInMethod, SignInMethods
from gamed.sessions.credentials import AuthenticatedSession
from gamed.structs import Component
from gamed.timestamps import Now


class Removal(Struct, frozen=True):
    """A player marked in auth.db, and who gets what was theirs; nobody when it is erased."""

    player_id: str
    heir_id: str | None = None


class PlayerRecords(Protocol):
    """auth.db; each call is one short transaction."""

    def mark(self, player_id: str, now_ms: int) -> Awaitable[bool]:
        """Erasing from now on, every session ended; False when there is no such player."""

    def unfinished(self) -> Awaitable[Sequence[Removal]]:
        """Every player who is marked, those with an heir first."""

    def forget(self, departure: Removal) -> Awaitable[bool]:
        """Remove some of the rows that are left; whether there are more."""


class SaveRemoval(Protocol):
    """state.db; each call is one transaction, and repeatable."""

    def ready(self) -> Awaitable[None]:
        """StoreError when nothing can be written now."""

    def erase(self, player_id: str, now_ms: int) -> Awaitable[None]: ...
    def merge(self, player_id: str, heir_id: str, now_ms: int) -> Awaitable[None]: ...


class RemovalService(Component, frozen=True):
    _records: PlayerRecords
    _shelves: SaveRemoval
    _now_ms: Now
    _audit: AuditLog = NULL_AUDIT_LOG

    async def erase(self, player_id: str) -> bool:
        """Everything of a player; False when there is none. Once begun it ends, if need be after a restart."""
        await self._shelves.ready()
        if not await self._records.mark(player_id, self._now_ms()):
            return False
        self._audit.record(SecurityEvent.ERASE_STARTED, player=player_id)
        for departure in await self._records.unfinished():
            if player_id in (departure.player_id, departure.heir_id):
                await self._finish(departure)
        return True

    async def resume(self) -> int:
        """Finish what was begun, also by another process; how many departures there were."""
        departures = await self._records.unfinished()
        for departure in departures:
            await self._finish(departure)
        return len(departures)

    async def _finish(self, departure: Removal) -> None:
        player_id, heir_id = departure.player_id, departure.heir_id
        if heir_id is None:
            await self._shelves.erase(player_id, self._now_ms())
        else:
            await self._shelves.merge(player_id, heir_id, self._now_ms())
        while await self._records.forget(departure):
            pass
        if heir_id is None:
            self._audit.record(SecurityEvent.ERASED, player=player_id)
        else:
            self._audit.record(SecurityEvent.PLAYERS_MERGED, player=heir_id, **{"from": player_id})


class Identities(Protocol):
    """auth.db; each call is one transaction."""

    def listed(self, player_id: str) -> Awaitable[Sequence[SignInMethod]]: ...

    def unlink(self, player_id: str, provider: str, ways: SignInMethods) -> Awaitable[bool | LastIdentity]:
        """Whether there was one to remove; LastIdentity changes nothing."""


class Waits(Protocol):
    def revoked(self, player_id: str) -> None:
        """Whoever waits for something of this player's is to look at their token again."""


class AccountService(Component, frozen=True):
    _identities: Identities
    _departures: RemovalService
    _waits: Waits
    _ways: SignInMethods
    _now_ms: Now
    _audit: AuditLog = NULL_AUDIT_LOG

    async def identities(self, caller: AuthenticatedSession) -> Sequence[tuple[SignInMethod, bool]]:
        """What signs in as the caller, oldest first, and whether it can at present."""
        return [(each, self._ways.open_to(each)) for each in await self._identities.listed(caller.player_id)]

    async def unlink(self, caller: AuthenticatedSession, provider: str) -> None:
        """Repeatable; LastIdentity when nothing that can sign in would be left."""
        removed = await self._identities.unlink(caller.player_id, provider, self._ways)
        if isinstance(removed, LastIdentity):
            raise removed
        if removed:
            self._audit.record(SecurityEvent.IDENTITY_UNLINKED, player=caller.player_id, provider=provider)

    async def erase(self, caller: AuthenticatedSession) -> None:
        """Saves, identities, sessions, the player; ReauthenticationRequired if the sign-in is long ago."""
        if not caller.signed_in_recently(self._now_ms()):
            raise AccountReauthenticationRequired
        try:
            await self._departures.erase(caller.player_id)
        finally:  # whatever is left to do, the tokens may be dead by now
            self._waits.revoked(caller.player_id)
