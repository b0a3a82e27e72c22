"""The store of tickets only reads: a ticket has no row, so issuing one writes nothing."""

from functools import partial

from twisted.internet.defer import Deferred

from gamed.crypto import Keys, Secret
from gamed.database.connection import Connection, is_storable
from gamed.database.queues import ReadQueue
from gamed.players import tables as player_tables
from gamed.sessions import tables as session_tables
from gamed.structs import Component
from gamed.tickets.model import Holder, KeyPeriod, SubjectState
from gamed.tickets.tables import read_periods


class TicketStore(Component, frozen=True, kw_only=True):
    """The players and the key periods of auth.db. Every method raises DatabaseError."""

    reads: ReadQueue
    keys: Keys

    def holder(self, token: Secret, now_ms: int, *, with_name: bool) -> Deferred[Holder]:
        """Return the player of an access token; raise SessionError."""
        return self.reads.submit(partial(read_holder, keys=self.keys, token=token, now_ms=now_ms, with_name=with_name))

    def subject(self, player_id: str) -> Deferred[SubjectState]:
        """Return the state of a player whom a ticket names; one who does not exist may not play."""
        return self.reads.submit(partial(read_subject, player_id=player_id))

    def periods(self) -> Deferred[tuple[KeyPeriod, ...]]:
        return self.reads.submit(read_periods)


def read_holder(connection: Connection, keys: Keys, token: Secret, now_ms: int, *, with_name: bool) -> Holder:
    """Read all that a ticket needs in one snapshot."""
    caller = session_tables.authenticate(connection, keys.indexer, token, now_ms)
    name = player_tables.display_name_of(connection, keys.sealer, caller.player_id) if with_name else None
    return Holder(caller, name, read_periods(connection))


def read_subject(connection: Connection, player_id: str) -> SubjectState:
    """Read the state in the same snapshot as the keys."""
    player = player_tables.find_player(connection, player_id) if is_storable(player_id) else None
    return SubjectState(player is not None and player.state == "active", read_periods(connection))
