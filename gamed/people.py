"""The wiring of players' own accounts, of their departure, and of what the owner's log says about them."""

from secrets import token_bytes

from gamed.audit import Audit
from gamed.config.model import Config, Mode
from gamed.crypto import Keys
from gamed.identity.realm import realm_indexes
from gamed.instants import Now
from gamed.players.departures import Departures
from gamed.players.identities import WaysIn
from gamed.players.own_account import OwnAccount, Waits
from gamed.players.told import Teller
from gamed.sessions.keeper import Sessions
from gamed.storage.auth.stored_players import StoredPlayers
from gamed.storage.state.stored_shelves import StoredShelves
from gamed.storage.stores import Stores
from gamed.store import StoreError
from gamed.web.detached import Detached
from gamed.web.players import PlayerRoutes


class People:
    """The room of PROTOCOL 3.8, and what the service does for players beside requests."""

    def __init__(self, config: Config, keys: Keys, stores: Stores, audit: Audit, waits: Waits, now_ms: Now) -> None:  # noqa: PLR0917
        players = StoredPlayers(stores.reads, stores.auth)
        realms = realm_indexes(keys.indexer, config.providers.values())
        ways = WaysIn(config.mode is Mode.LOCAL, realms)
        self._teller = Teller(players, audit)
        self._departures = Departures(players, StoredShelves(stores, token_bytes), now_ms, audit)
        self._account = OwnAccount(players, self._departures, waits, ways, now_ms, audit)

    def room(self, sessions: Sessions, detached: Detached) -> PlayerRoutes:
        return PlayerRoutes(sessions, self._account, detached)

    async def sweep(self) -> None:
        """Log what commands did, which needs auth.db alone, then finish what was begun; StoreError puts that off."""
        await self._teller.tell()
        await self._departures.resume()

    async def close(self) -> None:
        """The last words before the stores close; what they cannot take now is told at the next start."""
        try:
            await self._teller.tell()
        except StoreError:
            return
