"""Shelves that go, over the lanes: erased, or handed over (PROTOCOL 3.8)."""

from sqlite3 import Connection

from attrs import frozen

from gamed.crypto import Random
from gamed.saves.cursor import new_epoch
from gamed.storage.state import erasing, handing_over, shelves
from gamed.storage.stores import Stores


@frozen
class StoredShelves:
    """gamed.players.departures.Shelves."""

    _stores: Stores
    _random: Random

    async def ready(self) -> None:
        await self._stores.state.submit(lambda connection: None)

    async def erase(self, player_id: str, now_ms: int) -> None:
        """Rows in small units, then the bytes they had."""
        epoch = new_epoch(self._random)
        await self._stores.state.submit(lambda connection: begin(connection, player_id, epoch, now_ms))
        await self._finish(player_id)

    async def hand_over(self, player_id: str, heir_id: str, now_ms: int) -> None:
        await self._finish(heir_id)  # an erase of the heir's own that was broken off must not take what comes now
        epochs = new_epoch(self._random), new_epoch(self._random)
        await self._stores.state.submit(
            lambda connection: handing_over.hand_over(connection, player_id, heir_id, epochs, now_ms)
        )
        await self._finish(player_id)

    async def _finish(self, player_id: str) -> None:
        state, epoch = self._stores.state, new_epoch(self._random)
        while await state.submit(lambda connection: step(connection, player_id, epoch)):
            pass
        while (blob_id := await state.submit(lambda c: erasing.unreferenced(c, player_id))) is not None:
            await self._stores.blobs.discard(blob_id)


def begin(connection: Connection, player_id: str, epoch: str, now_ms: int) -> None:
    """Also for who never saved anything: a first upload that is on its way must find that it comes too late."""
    shelves.create(connection, player_id, epoch)
    erasing.begin(connection, player_id, epoch, now_ms)


def step(connection: Connection, player_id: str, epoch: str) -> bool:
    """One step if the shelf is being erased; whether there are more."""
    return shelves.find(connection, player_id).erasing and erasing.step(connection, player_id, epoch)
