"""The reads about passkeys and recovery codes that the pages of every server make.

While there are none, these import nothing: what else there is about them takes 0.3 MiB, which most servers would have
in vain (gamed/structs.py: Late).
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from gamed.crypto import Keys
from gamed.database.connection import Connection
from gamed.database.errors import DatabaseError
from gamed.database.queues import ReadQueue
from gamed.passkeys import ways_tables
from gamed.passkeys.ceremony import PasskeySite
from gamed.players.names import OtherWays
from gamed.structs import Component

if TYPE_CHECKING:
    from gamed.passkeys.model import Passkey


class WaysStore(Component, frozen=True, kw_only=True):
    """The passkeys and recovery codes of players; every method but kept() raises DatabaseError.

    Without a site browsers allow no passkeys; unless `has_codes`, which local mode is, there are no codes.
    """

    reads: ReadQueue
    keys: Keys
    site: PasskeySite | None
    has_codes: bool

    def any_ways(self) -> Deferred[OtherWays]:
        """Return the ways that any player has."""
        return self.reads.submit(ways_tables.any_ways)

    def passkeys(self, player_id: str) -> "Deferred[Sequence[Passkey]]":
        """Return a player's passkeys, the oldest first."""
        return self.reads.submit(partial(list_passkeys, keys=self.keys, player_id=player_id))

    async def has_usable(self, player_id: str) -> bool:
        """Return whether the player has a passkey that can be used at this address."""
        if self.site is None:
            return False
        read = partial(ways_tables.has_usable, player_id=player_id, rp_id=self.site.rp_id)
        return await self.reads.submit(read)

    async def codes_left(self, player_id: str) -> int | None:
        """Return how many codes a player has left; None for a player who can have none."""
        if not self.has_codes:
            return None
        return await self.reads.submit(partial(ways_tables.codes_left, player_id=player_id))

    async def kept(self, player_id: str) -> OtherWays:
        """Return the ways to sign in that a new password leaves, which the page then names.

        The password is changed by then, which no error may hide: all that are possible if the database cannot be read.
        """
        try:
            return OtherWays(await self.has_usable(player_id), bool(await self.codes_left(player_id)))
        except DatabaseError:
            return OtherWays(self.site is not None, self.has_codes)


def list_passkeys(connection: Connection, keys: Keys, player_id: str) -> "Sequence[Passkey]":
    """Return a player's passkeys; import what reads them only if there are some."""
    if not ways_tables.count_passkeys(connection, player_id):
        return ()
    from gamed.passkeys import tables

    return tables.list_of(connection, keys, player_id)
