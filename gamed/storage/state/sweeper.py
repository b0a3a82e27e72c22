"""What goes from state.db with time: pruned histories, erased shelves, unwanted blobs, free pages (PROTOCOL 4.3)."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from gamed.crypto import Random
from gamed.instants import Now
from gamed.saves.limits import SaveLimits
from gamed.storage.state import erasing, retention
from gamed.storage.state.stored_shelves import StoredShelves
from gamed.storage.stores import Stores
from gamed.store import StoreBusy, StoreCorrupt, StoreFull, StoreUnavailable


class Sweeper(Struct, eq=False):
    """Unit after unit on the write lane, each a few milliseconds; what players ask for rides between them."""

    _stores: Stores
    _limits: SaveLimits
    _now_ms: Now
    _random: Random
    _changed: Callable[[str], None]
    """Told the player whose list is another now."""

    async def sweep(self) -> None:
        """Everything that is due. A store that cannot be written is left for the next time."""
        try:
            await self._erase()
            await self._prune()
            await self._stores.blobs.sweep()
            while await self._stores.state.submit(retention.vacuum):
                pass
        except (StoreBusy, StoreFull, StoreUnavailable, StoreCorrupt):
            return

    async def _prune(self) -> None:
        now_ms = self._now_ms()
        while await self._stores.state.submit(partial(retention.mark, limits=self._limits, now_ms=now_ms)):
            pass
        while True:
            swept = await self._stores.state.submit(partial(retention.sweep, limits=self._limits, now_ms=now_ms))
            for player_id in swept.told:
                self._changed(player_id)
            if not swept.slots:
                return

    async def _erase(self) -> None:
        """Go on with what a command or a request left unfinished."""
        shelves = StoredShelves(self._stores, self._random)
        while (player_id := await self._stores.state.submit(erasing.unfinished)) is not None:
            if await shelves.finish(player_id):
                self._changed(player_id)
