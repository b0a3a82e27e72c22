"""Players over the lanes: their ways to sign in, their departure, and what commands did to them; each call one unit."""

from twisted.internet.defer import Deferred

from gamed.players.departures import Departure
from gamed.players.errors import LastIdentity
from gamed.players.identities import Identity, WaysIn
from gamed.storage.auth import departures, host_actions, unlinking
from gamed.storage.auth.host_actions import HostAction
from gamed.storage.lanes import ReadLane, WriteLane
from gamed.structs import Part


class StoredPlayers(Part, frozen=True):
    """Identities of gamed.players.own_account, Records of gamed.players.departures."""

    _reads: ReadLane
    _writes: WriteLane

    def listed(self, player_id: str) -> Deferred[list[Identity]]:
        return self._reads.submit(lambda connection: unlinking.listed(connection, player_id))

    def unlink(self, player_id: str, provider: str, ways: WaysIn) -> Deferred[bool | LastIdentity]:
        return self._writes.submit(lambda connection: unlinking.unlink(connection, player_id, provider, ways))

    def mark(self, player_id: str, now_ms: int) -> Deferred[bool]:
        return self._writes.submit(lambda connection: departures.mark(connection, player_id, now_ms))

    def unfinished(self) -> Deferred[list[Departure]]:
        return self._reads.submit(departures.unfinished)

    def forget(self, departure: Departure) -> Deferred[bool]:
        return self._writes.submit(lambda connection: departures.forget(connection, departure))

    def host_actions(self) -> Deferred[list[HostAction]]:
        return self._reads.submit(host_actions.waiting)

    def host_actions_told(self, number: int) -> Deferred[None]:
        return self._writes.submit(lambda connection: host_actions.told(connection, number))
