"""Shelves that go, beside the service: erased, or handed over (PROTOCOL 3.8, 4)."""

from functools import partial
from secrets import token_bytes
from sqlite3 import Connection

from gamed.cli.host import Files
from gamed.saves.cursor import new_epoch
from gamed.storage import parts
from gamed.storage.state import erasing, handing_over
from gamed.structs import Part


class HostShelves(Part, frozen=True):
    """gamed.players.departures.Shelves in small steps; what is broken off is finished by the service."""

    _files: Files

    async def ready(self) -> None:
        self._files.state(lambda connection: None)

    async def erase(self, player_id: str, now_ms: int) -> None:
        epoch = new_epoch(token_bytes)
        self._files.state(lambda connection: erasing.begin(connection, player_id, epoch, now_ms))
        self.finish(player_id)

    async def hand_over(self, player_id: str, heir_id: str, now_ms: int) -> None:
        epochs = new_epoch(token_bytes), new_epoch(token_bytes)

        def unit(connection: Connection) -> bool:
            return handing_over.hand_over(connection, player_id, heir_id, epochs, now_ms)

        while not self._files.state(unit):
            self.finish(heir_id)
        self.finish(player_id)

    def finish(self, player_id: str) -> None:
        """Of an erase that has begun: rows, then the bytes they had."""
        epoch = new_epoch(token_bytes)
        while self._files.state(lambda connection: erasing.step(connection, player_id, epoch)):
            pass
        while (
            blob_id := self._files.state(lambda connection: erasing.unreferenced(connection, player_id))
        ) is not None:
            while self._files.state(partial(parts.remove_some, blob_id=blob_id)):
                pass
