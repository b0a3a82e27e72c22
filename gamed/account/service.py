"""The services of players show and unlink sign-in methods, and erase or merge players.

An erasure changes auth.db and state.db, and no transaction writes both. So each step is repeatable, and auth.db records
what is unfinished: first auth.db marks the player, whose tokens are invalid from then on; then state.db deletes or
moves the saves; then auth.db deletes the player's rows.

See docs/owners/players.md: Erasing.
"""

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from gamed.audit import NULL_AUDIT_LOG, AuditLog, SecurityEvent
from gamed.database.errors import DatabaseError
from gamed.players.errors import AccountReauthenticationRequired, AdoptionRefused, AdoptRefusal, LastIdentity
from gamed.players.names import SignInMethod, SignInMethods
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.errors import SessionNotFound, SessionRevoked
from gamed.structs import Component, redacts
from gamed.timestamps import Now

if TYPE_CHECKING:  # commands remove players without the queues, which need Twisted
    from gamed.sessions.service import RevocationListener


class Removal(Struct, frozen=True):
    """A player who is marked in auth.db, and the player who gets the saves, or None if they are erased."""

    player_id: str
    heir_id: str | None = None


class UnlinkCommand(Struct, frozen=True):
    """A sign-in method that its player unlinks."""

    caller: AuthenticatedSession
    provider: str
    now_ms: int


@redacts("password_tag")
class AdoptCommand(Struct, frozen=True):
    """An old local account that its player brings into the account of `caller`.

    `checked_ms` is when the check of its password began, whose tag is `password_tag` (gamed.players.tables).
    """

    caller: AuthenticatedSession
    player_id: str
    checked_ms: int
    now_ms: int
    password_tag: bytes = b""


class Unlinked(Struct, frozen=True):
    """The result of unlinking: whether there was such a method, and the sessions that ended with it."""

    removed: bool
    sessions: int = 0
    own_ended: bool = False
    """The requesting session is one of them."""


class PlayerRecords(Protocol):
    """The players of auth.db; each call is one short transaction."""

    def mark(self, player_id: str, now_ms: int) -> Awaitable[bool]:
        """Mark a player and end every session; return False if the player does not exist."""

    def unfinished(self) -> Awaitable[Sequence[Removal]]:
        """Return every player who is marked, those with an heir first.

        A merge into a player comes before the removal of that player.
        """

    def delete_rows(self, removal: Removal) -> Awaitable[bool]:
        """Delete some of the player's rows; return whether some are left."""


class SaveRemoval(Protocol):
    """The saves of state.db; each call is one transaction, and repeatable."""

    def check_writable(self) -> Awaitable[None]:
        """Raise DatabaseError if state.db cannot be written now."""

    def erase(self, player_id: str, now_ms: int) -> Awaitable[None]: ...
    def merge(self, player_id: str, heir_id: str, now_ms: int) -> Awaitable[None]: ...
    def clear_logs(self) -> None:
        """Let the write-ahead logs of both databases lose what was erased, soon after this returns."""


class AccountStore(Protocol):
    """The account of a player in auth.db; each call is one transaction."""

    def sign_in_methods(self, player_id: str) -> Awaitable[Sequence[SignInMethod]]: ...

    def unlink(self, command: UnlinkCommand, methods: SignInMethods) -> Awaitable[Unlinked | LastIdentity]:
        """Unlink one and end the sessions that it opened; with LastIdentity nothing changed."""

    def adopt(self, command: AdoptCommand) -> Awaitable[AdoptRefusal | None]:
        """Move the sign-in methods of the old account and mark its player; with a refusal nothing changed."""

    def rename(self, player_id: str, name: str | None, now_ms: int) -> Awaitable[bool]:
        """Store the display name; return False if the player does not exist. Raise RateLimited."""

    def rename_device(self, player_id: str, session_id: str, name: str, now_ms: int) -> Awaitable[bool]:
        """Store another name of a device; return False if it is not signed in as this player. Raise RateLimited."""


class RemovalService(Component, frozen=True, kw_only=True):
    """The steps that erase a player or finish a merge, over both databases."""

    records: PlayerRecords
    saves: SaveRemoval
    now_ms: Now
    audit: AuditLog = NULL_AUDIT_LOG

    async def erase(self, player_id: str) -> bool:
        """Erase a player and all saves; return False if the player does not exist.

        Once marked, the player is erased in any case, if necessary after a restart.
        """
        await self.saves.check_writable()
        if not await self.records.mark(player_id, self.now_ms()):
            return False
        self.audit.record(SecurityEvent.ERASE_STARTED, player=player_id)
        for removal in _with_earlier(await self.records.unfinished(), Removal(player_id)):
            await self.finish(removal)
        return True

    async def resume(self) -> int:
        """Finish what this or another process began; return how many removals there were."""
        removals = await self.records.unfinished()
        for removal in removals:
            await self.finish(removal)
        return len(removals)

    async def finish_marked(self, removal: Removal) -> None:
        """Finish a removal whose player was marked just now, after the earlier ones on which it depends.

        A DatabaseError is no refusal any more: the removal has begun, and the clean-up ends it.
        """
        with suppress(DatabaseError):  # the clean-up logs what it has to postpone itself
            for each in _with_earlier(await self.records.unfinished(), removal):
                await self.finish(each)

    async def finish(self, removal: Removal) -> None:
        """Erase or move the saves of a marked player, then delete the rows; repeatable."""
        player_id, heir_id = removal.player_id, removal.heir_id
        if heir_id is None:
            await self.saves.erase(player_id, self.now_ms())
        else:
            await self.saves.merge(player_id, heir_id, self.now_ms())
        while await self.records.delete_rows(removal):
            pass
        self.saves.clear_logs()
        if heir_id is None:
            self.audit.record(SecurityEvent.ERASED, player=player_id)
        else:
            self.audit.record(SecurityEvent.PLAYERS_MERGED, player=heir_id, **{"from": player_id})


class AccountService(Component, frozen=True, kw_only=True):
    """The operations of a player on the own account."""

    store: AccountStore
    removals: RemovalService
    revoked: "RevocationListener"
    methods: SignInMethods
    now_ms: Now
    audit: AuditLog = NULL_AUDIT_LOG

    async def identities(self, caller: AuthenticatedSession) -> Sequence[tuple[SignInMethod, bool]]:
        """Return the caller's sign-in methods, the oldest first, each with whether it can be used at present."""
        return [(each, self.methods.is_enabled(each)) for each in await self.store.sign_in_methods(caller.player_id)]

    async def unlink(self, caller: AuthenticatedSession, provider: str) -> Unlinked:
        """Unlink a provider, and end the sessions that it opened; repeatable.

        Raise LastIdentity if the player could not sign in any more; AccountReauthenticationRequired in a session that a
        recovery code opened.
        """
        if caller.recovered:
            raise AccountReauthenticationRequired(caller.player_id, recovered=True)
        result = await self.store.unlink(UnlinkCommand(caller, provider, self.now_ms()), self.methods)
        if isinstance(result, LastIdentity):
            raise result
        if result.removed:
            values = {"player": caller.player_id, "provider": provider, "sessions": str(result.sessions)}
            self.audit.record(SecurityEvent.IDENTITY_UNLINKED, **values)
        if result.sessions:
            self.revoked(caller.player_id)
        return result

    async def adopt(self, caller: AuthenticatedSession, player_id: str, checked_ms: int, password_tag: bytes) -> None:
        """Bring the account of a player whose password was checked into the caller's, with all saves.

        The player is deleted. Once marked, this ends in any case, if necessary after a restart. Raise AdoptionRefused,
        or AccountReauthenticationRequired if the caller's sign-in is too long ago.
        """
        if not caller.signed_in_recently(self.now_ms()):
            raise AccountReauthenticationRequired(caller.player_id, recovered=caller.recovered)
        await self.removals.saves.check_writable()
        refusal = await self.store.adopt(AdoptCommand(caller, player_id, checked_ms, self.now_ms(), password_tag))
        if refusal is not None:
            raise AdoptionRefused(refusal)
        try:
            await self.removals.finish_marked(Removal(player_id, caller.player_id))
        finally:  # after an error, too, the sessions of the one have ended, and the other may have new saves
            self.revoked(player_id)
            self.revoked(caller.player_id)

    async def rename(self, caller: AuthenticatedSession, name: str | None) -> None:
        """Change the name that games show; None deletes it. Raise SessionRevoked or RateLimited."""
        if not await self.store.rename(caller.player_id, name, self.now_ms()):
            raise SessionRevoked
        self.audit.record(SecurityEvent.PLAYER_RENAMED, player=caller.player_id)

    async def rename_device(self, caller: AuthenticatedSession, session_id: str, name: str) -> None:
        """Give the device of one of the caller's games another name; raise SessionNotFound or RateLimited."""
        if not await self.store.rename_device(caller.player_id, session_id, name, self.now_ms()):
            raise SessionNotFound
        self.audit.record(SecurityEvent.DEVICE_RENAMED, player=caller.player_id, session=session_id)

    async def erase(self, caller: AuthenticatedSession) -> None:
        """Erase the caller with all saves, identities and sessions.

        Raise AccountReauthenticationRequired if the sign-in is too long ago.
        """
        if not caller.signed_in_recently(self.now_ms()):
            raise AccountReauthenticationRequired(recovered=caller.recovered)
        try:
            await self.removals.erase(caller.player_id)
        finally:  # after an error, too, the player may be marked and the tokens invalid
            self.revoked(caller.player_id)


def _with_earlier(unfinished: Sequence[Removal], removal: Removal) -> Sequence[Removal]:
    """Return the unfinished removals that concern this one's players, in their order.

    Saves that are still on their way to a player must arrive before that player's are moved or erased: later they would
    belong to an id that nobody has.
    """
    concerned, found = {removal.player_id, removal.heir_id} - {None}, list[Removal]()
    for each in reversed(unfinished):  # the latest first: what leads to an earlier removal's player is found, too
        if not concerned.isdisjoint((each.player_id, each.heir_id)):
            concerned.add(each.player_id)
            found.append(each)
    return found[::-1]
