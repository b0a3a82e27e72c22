"""Shelves that go, over the lanes: erased, or handed over (PROTOCOL 3.8, 4)."""

from functools import partial

from gamed.crypto import Random
from gamed.saves.cursor import Cursor, new_epoch
from gamed.saves.erasure import EraseOrder
from gamed.saves.rules import Removal
from gamed.storage.state import erasing, handing_over
from gamed.storage.stores import Stores
from gamed.structs import Part


class StoredShelves(Part, frozen=True):
    """gamed.players.departures.Shelves, and gamed.saves.erasure.Shelves."""

    _stores: Stores
    _random: Random

    async def ready(self) -> None:
        await self._stores.state.submit(lambda connection: None)

    async def erase(self, player_id: str, now_ms: int) -> None:
        epoch = new_epoch(self._random)
        await self._stores.state.submit(partial(erasing.begin, player_id=player_id, epoch=epoch, now_ms=now_ms))
        await self.finish(player_id)

    async def hand_over(self, player_id: str, heir_id: str, now_ms: int) -> None:
        epochs = new_epoch(self._random), new_epoch(self._random)
        unit = partial(handing_over.hand_over, player_id=player_id, heir_id=heir_id, epochs=epochs, now_ms=now_ms)
        while not await self._stores.state.submit(unit):
            await self.finish(heir_id)
        await self.finish(player_id)

    async def begin(self, order: EraseOrder) -> tuple[Removal, Cursor]:
        return await self._stores.state.submit(partial(erasing.begin_if, order=order))

    async def finish(self, player_id: str) -> bool:
        """Delete what is left of an erase that has begun: rows in small units, then the bytes they had.

        Return whether this ended the erase.
        """
        state, epoch = self._stores.state, new_epoch(self._random)
        while more := await state.submit(partial(erasing.step, player_id=player_id, epoch=epoch)):
            pass
        while (blob_id := await state.submit(partial(erasing.unreferenced, player_id=player_id))) is not None:
            await self._stores.blobs.discard(blob_id)
        return more is False
