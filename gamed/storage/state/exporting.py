"""A player's saves as one zip: every version that is kept, and a manifest (PROTOCOL 4).

It is made in short looks at the store, each from a snapshot of its own. A version and its bytes are read in the same
one, so that nothing can be pruned between them; what is pruned before its turn is not there, what is saved meanwhile
may be. The manifest names the cursor of the beginning: all that was kept then is there, and what changed since is
listed by `GET /game/saves?since=`. Damaged bytes are left out, and named. The same shelf makes the same bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from sqlite3 import Connection
from tempfile import TemporaryFile
from typing import IO
from zlib import crc32

from msgspec import Struct
from msgspec.json import encode

from gamed.saves.cursor import Cursor
from gamed.saves.save_info import version_info
from gamed.saves.version import Body, Version
from gamed.storage import parts
from gamed.storage.errors import SQLITE_ERRORS, translate
from gamed.storage.state import shelves, versions
from gamed.storage.state.writing import erased
from gamed.storage.zip_writer import ZipWriter
from gamed.store import StoreCorrupt

STEP_BYTES = 1024 * 1024
STEP_VERSIONS = 64
"""One look takes one version at least, and then as many as fit into both."""
MANIFEST = "manifest.json"
_COPY_BYTES = 64 * 1024


class Copied(Struct, frozen=True):
    """One version that had its turn; `good` unless its bytes are not those that were acknowledged."""

    version: Version
    good: bool


class ExportWriter:
    """A zip in the making; memory stays the same however much is kept."""

    def __init__(self, player_id: str, cursor: Cursor, out: IO[bytes], folder: Path) -> None:
        """`out` is an empty file of the caller's, `cursor` where the shelf stands; notes are made in `folder`."""
        self._player_id = player_id
        self._epoch = cursor.epoch
        self._after = "", 0
        self._damaged = 0
        self._newest_ms = 0
        with ExitStack() as files:
            directory = files.enter_context(TemporaryFile(dir=folder))
            self._manifest = _Manifest(files.enter_context(TemporaryFile(dir=folder)))
            self._files = files.pop_all()
        self._zip = ZipWriter(out, directory)
        head = {"format": 1, "player": player_id, "cursor": str(cursor)}
        self._manifest.add(encode(head)[:-1] + b',"versions":[')
        self.sha256 = b""
        """Of the whole file, once it is whole."""
        self.unreadable = False
        """Whether SQLite found a page damaged: it holds somebody's bytes, and is no reason to keep back the others."""

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._zip.size

    def step(self, connection: Connection) -> Sequence[Copied]:
        """Copy some versions; none when the zip is whole. Erased when the saves are going, or are others by now."""
        if shelves.find(connection, self._player_id).erased_since(self._epoch):
            raise erased()
        copied: list[Copied] = []
        handled = 0
        for version, current in _after(connection, self._player_id, *self._after):
            copied.append(Copied(version, self._copy(connection, version, current)))
            handled += version.size
            if handled >= STEP_BYTES:
                break
        if not copied:
            self._finish()
        return copied

    def close(self) -> None:
        """Let go of everything but the zip itself."""
        self._files.close()

    def _copy(self, connection: Connection, version: Version, current: bool) -> bool:
        body, blob_id, name = version.body, version.blob_id, None
        if body is not None and blob_id is not None and (crc := self._checked(connection, blob_id, body)) is not None:
            name = f"saves/{version.slot}/{version.version}"
            self._zip.add(name, version.created_ms, body.size, crc, _pieces(connection, blob_id, body.size))
        damaged = body is not None and name is None
        self._damaged += damaged
        self._newest_ms = max(self._newest_ms, version.created_ms)
        row = {**version_info(version), "current": current, "file": name, "damaged": damaged}
        self._manifest.add((b"\n" if self._after == ("", 0) else b",\n") + encode(row))
        self._after = version.slot, version.version
        return not damaged

    def _checked(self, connection: Connection, blob_id: int, body: Body) -> int | None:
        """The CRC-32 of the bytes, if they are those that were acknowledged."""
        digest, crc, size = sha256(), 0, 0
        try:
            for data in _pieces(connection, blob_id, body.size):
                digest.update(data)
                crc, size = crc32(data, crc), size + len(data)
        except SQLITE_ERRORS as e:
            if not isinstance(translate(e), StoreCorrupt):
                raise
            self.unreadable = True
            return None
        return crc if (digest.digest(), size) == (body.sha256, body.size) else None

    def _finish(self) -> None:
        self._manifest.add(b'\n],"damaged":%d}\n' % self._damaged)
        manifest = self._manifest
        self._zip.add(MANIFEST, self._newest_ms, manifest.size, manifest.crc, manifest.pieces())
        self.sha256 = self._zip.end()
        self.close()


class _Manifest:
    """JSON in a file, row by row."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = self.crc = 0

    def add(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)
        self.crc = crc32(data, self.crc)

    def pieces(self) -> Iterator[bytes]:
        self._file.seek(0)
        while piece := self._file.read(_COPY_BYTES):
            yield piece


def _after(connection: Connection, player_id: str, slot: str, version: int) -> Iterator[tuple[Version, bool]]:
    """The next versions by slot and number, and whether each is the current one."""
    query = f"""
        SELECT {versions.COLUMNS},
               version IS (SELECT head FROM save s WHERE s.player_id = v.player_id AND s.slot = v.slot)
        FROM save_version v
        WHERE player_id = :player_id AND (slot, version) > (:slot, :version)
        ORDER BY slot, version LIMIT :limit
    """
    values: Mapping[str, object] = {"player_id": player_id, "slot": slot, "version": version, "limit": STEP_VERSIONS}
    for *row, current in connection.execute(query, values).fetchall():
        yield versions.from_row(tuple(row)), bool(current)


def _pieces(connection: Connection, blob_id: int, size: int) -> Iterator[bytes]:
    for n in range(parts.count(size)):
        data = parts.read_raw(connection, blob_id, n)
        if data is None:
            return
        yield data
