"""What players do with their own account: see what signs them in, unlink it, leave for good (PROTOCOL 3.8)."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from gamed.audit import UNHEARD, Audit, Event
from gamed.instants import Now
from gamed.players.departures import Departures
from gamed.players.errors import LastIdentity, ReauthenticationRequired
from gamed.players.identities import Identity, WaysIn
from gamed.sessions.credentials import Caller
from gamed.structs import Part


class Identities(Protocol):
    """auth.db; each call is one transaction."""

    def listed(self, player_id: str) -> Awaitable[Sequence[Identity]]: ...

    def unlink(self, player_id: str, provider: str, ways: WaysIn) -> Awaitable[bool | LastIdentity]:
        """Whether there was one to remove; LastIdentity changes nothing."""


class Waits(Protocol):
    def revoked(self, player_id: str) -> None:
        """Whoever waits for something of this player's is to look at their token again."""


class OwnAccount(Part, frozen=True):
    _identities: Identities
    _departures: Departures
    _waits: Waits
    _ways: WaysIn
    _now_ms: Now
    _audit: Audit = UNHEARD

    async def identities(self, caller: Caller) -> Sequence[tuple[Identity, bool]]:
        """What signs in as the caller, oldest first, and whether it can at present."""
        return [(each, self._ways.open_to(each)) for each in await self._identities.listed(caller.player_id)]

    async def unlink(self, caller: Caller, provider: str) -> None:
        """Repeatable; LastIdentity when nothing that can sign in would be left."""
        removed = await self._identities.unlink(caller.player_id, provider, self._ways)
        if isinstance(removed, LastIdentity):
            raise removed
        if removed:
            self._audit.note(Event.IDENTITY_UNLINKED, player=caller.player_id, provider=provider)

    async def erase(self, caller: Caller) -> None:
        """Saves, identities, sessions, the player; ReauthenticationRequired if the sign-in is long ago."""
        if not caller.signed_in_recently(self._now_ms()):
            raise ReauthenticationRequired
        try:
            await self._departures.erase(caller.player_id)
        finally:  # whatever is left to do, the tokens may be dead by now
            self._waits.revoked(caller.player_id)
