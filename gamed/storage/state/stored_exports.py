"""Exports are written by the thread that stores uploads, one step at a time between its other work (PROTOCOL 4)."""

from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection
from tempfile import TemporaryFile
from typing import IO

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.saves.cursor import Cursor
from gamed.storage.errors import of_disk
from gamed.storage.state.exporting import ExportWriter
from gamed.storage.stores import Stores


class StoredExport(Struct, eq=False):
    """An export of one player. Its files have no names, so none is left behind when the process is killed."""

    _stores: Stores
    _folder: Path
    _player_id: str
    _cursor: Cursor
    _out: IO[bytes] | None = None
    _export: ExportWriter | None = None

    @property
    def size(self) -> int:
        return self._export.size if self._export else 0

    @property
    def sha256(self) -> bytes:
        return self._export.sha256 if self._export else b""

    @property
    def content(self) -> IO[bytes]:
        if self._out is None:
            raise TypeError("an export has its bytes after its last step")
        return self._out

    def step(self) -> Deferred[bool]:
        return self._stores.blobs.look(self._step)

    def close(self) -> None:
        for file in (self._export, self._out):
            if file is not None:
                with suppress(OSError):  # a full disk; the file is closed, although its last bytes are not written
                    file.close()

    def _step(self, connection: Connection) -> bool:
        """Write a step, in that thread; return whether there is more to do."""
        try:
            if self._out is None:
                self._out = TemporaryFile(dir=self._folder)  # noqa: SIM115  close() closes it
            if self._export is None:
                self._export = ExportWriter(self._player_id, self._cursor, self._out, self._folder)
            more = bool(self._export.step(connection))
            if self._export.unreadable:
                self._stores.state_damaged()
            return more
        except OSError as e:
            raise of_disk(e) from e
