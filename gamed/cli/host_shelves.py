"""Shelves that go, beside the service: erased, or handed over (PROTOCOL 3.8, 4)."""

from secrets import token_bytes
from sqlite3 import Connection

from attrs import frozen

from gamed.cli.host import Files
from gamed.saves.cursor import new_epoch
from gamed.storage import parts
from gamed.storage.state import erasing, handing_over


@frozen
class HostShelves:
    """gamed.players.departures.Shelves in small steps; what is broken off is finished by the service."""

    _files: Files

    async def ready(self) -> None:
        self._files.state(lambda connection: None)

    async def erase(self, player_id: str, now_ms: int) -> None:
        epoch = new_epoch(token_bytes)
        self._files.state(lambda connection: erasing.begin(connection, player_id, epoch, now_ms))
        self.finish(player_id)

    async def hand_over(self, player_id: str, heir_id: str, now_ms: int) -> None:
        self.finish(heir_id)
        epochs = new_epoch(token_bytes), new_epoch(token_bytes)
        self._files.state(lambda connection: handing_over.hand_over(connection, player_id, heir_id, epochs, now_ms))
        self.finish(player_id)

    def finish(self, player_id: str) -> None:
        """Of an erase that has begun: rows, then the bytes they had."""
        epoch = new_epoch(token_bytes)
        while self._files.state(lambda connection: erasing.step(connection, player_id, epoch)):
            pass
        while self._files.state(lambda connection: _drop_some(connection, player_id)):
            pass


def _drop_some(connection: Connection, player_id: str) -> bool:
    """Some bytes that no version has any more; True while there may be others."""
    blob_id = erasing.unreferenced(connection, player_id)
    if blob_id is not None:
        parts.remove_some(connection, blob_id)
    return blob_id is not None
