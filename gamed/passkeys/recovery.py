"""The service of recovery codes, with which players of local accounts get in again.

Servers whose players sign in at providers have none: there a passkey opens the account's page alone, and the provider
has its own ways to get in again. A code opens a session, which counts as no recent sign-in.

See docs/players/your-account.md; docs/internals/threats.md: Signing in.
"""

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from gamed.audit import NULL_AUDIT_LOG, AuditLog, SecurityEvent
from gamed.crypto import Index, Random
from gamed.passkeys.recovery_rules import CodeStock, RecoveryCodes
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.service import RevocationListener
from gamed.structs import Component, redacts
from gamed.timestamps import Now


class FoundCode(Struct, frozen=True):
    """The player of a typed name, "" for an unknown one, and the index of the typed code if it can be used."""

    player_id: str
    index: Index | None

    def __repr__(self) -> str:
        return "FoundCode(...)"


@redacts("new")
class MakeCommand(Struct, frozen=True):
    """New codes for a signed-in player, instead of those of a version; without one only for a player with none left."""

    caller: AuthenticatedSession
    new: RecoveryCodes
    replaces: str | None
    now_ms: int


class RecoveryRecords(Protocol):
    """The recovery codes of auth.db, which gamed.passkeys.recovery_store.RecoveryStore implements."""

    def find(self, name: Index, typed: str) -> Awaitable[FoundCode]: ...
    def stock(self, player_id: str) -> Awaitable[CodeStock | None]: ...
    def make(self, command: MakeCommand) -> Awaitable[int | None]: ...


class RecoveryService(Component, frozen=True, kw_only=True):
    """The operations on recovery codes; unless `on`, which local mode is, there are none."""

    store: RecoveryRecords
    on: bool
    random: Random
    now_ms: Now
    revoked: RevocationListener
    audit: AuditLog = NULL_AUDIT_LOG

    async def find(self, name: Index, typed: str) -> FoundCode:
        """Return the player of a name, and whether the typed code is one of that player; this uses nothing up."""
        return await self.store.find(name, typed)

    async def stock(self, caller: AuthenticatedSession) -> CodeStock | None:
        """Return the codes that the caller has left; None for a player who can have none."""
        return await self.store.stock(caller.player_id) if self.on else None

    async def make(self, caller: AuthenticatedSession, replaces: str | None = None) -> RecoveryCodes | None:
        """Make new codes instead of the caller's old ones of the version `replaces`; end the sessions those opened.

        Return None for a player who can have none. Without `replaces` a player who has some left keeps them, with None,
        and no session ends. Do not cancel this. Raise CodesReplaced, which leaves them, or RateLimited.
        """
        if not self.on:
            return None
        new = RecoveryCodes.generate(self.random)
        ended = await self.store.make(MakeCommand(caller, new, replaces, self.now_ms()))
        if ended is None:
            return None
        self.audit.record(SecurityEvent.RECOVERY_CODES_MADE, player=caller.player_id, sessions=str(ended))
        if ended:
            self.revoked(caller.player_id)
        return new
