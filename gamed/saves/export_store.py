"""The ZIP file of a player's saves: every kept version and a manifest (docs/protocol.md: Saves).

The file is written in short steps, each in a read transaction of its own. A version and its bytes are read in the same
step, so cleanup cannot delete them in between. A version that is deleted before its step is left out; a version that
is saved during the export may be included. The manifest has the cursor from the start of the export: all versions of
that moment are included, and `GET /game/saves?since=` lists the later changes. Damaged versions are left out, and the
manifest marks them. The same saves give the same bytes.

Exports are written by the thread that stores uploads, one step at a time between its other work
(docs/protocol.md: Saves).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING
from zipfile import ZipFile, ZipInfo

from msgspec import Struct
from msgspec.json import encode

from gamed.database import blob_rows
from gamed.database.connection import STATE, Connection
from gamed.database.errors import DatabaseCorrupt, of_disk
from gamed.saves import tables, version_tables
from gamed.saves.model import Cursor, ExportedFile, SaveContent, Version
from gamed.saves.responses import version_info
from gamed.saves.write_store import erased_error

if TYPE_CHECKING:  # commands write rows without the queues, which need Twisted
    from twisted.internet.defer import Deferred

    from gamed.database.databases import Databases

STEP_BYTES = 1024 * 1024
STEP_VERSIONS = 64
"""A step copies at least one version, and more until one of these is reached."""
MANIFEST = "manifest.json"


class ExportedVersion(Struct, frozen=True):
    """A version that was handled; `good` unless its bytes differ from those that were acknowledged."""

    version: Version
    good: bool


class ExportWriter:
    """A ZIP file that is being written; in memory are the bytes of one part, and the ZIP's list of entries."""

    def __init__(
        self, player_id: str, cursor: Cursor, out: IO[bytes], folder: Path, first: ExportedFile | None = None
    ) -> None:
        """Write to `out`, an empty file of the caller's that can be read, too; keep temporary files in `folder`.

        `cursor` is the current one of the player's saves; the file `first` comes before them.
        """
        self._player_id = player_id
        self._epoch = cursor.epoch
        self._after = "", 0
        self._damaged = 0
        self._newest_ms = 0
        self._manifest = TemporaryFile(dir=folder)  # noqa: SIM115  close() closes it
        self._out = out
        self._zip = ZipFile(out, "w")
        if first is not None:
            with self._zip.open(_entry(first.name, first.modified_ms, len(first.data)), "w") as entry:
                entry.write(first.data)
        head = {"format": 1, "player": player_id, "cursor": str(cursor)}
        self._manifest.write(encode(head)[:-1] + b',"versions":[')
        self._hash = sha256()
        self.size = 0
        """The number of bytes written so far."""
        self.unreadable = False
        """True after SQLite found a damaged page. Such a page holds some versions' bytes; the others are exported."""

    @property
    def sha256(self) -> bytes:
        """Return the hash of all bytes written so far."""
        return self._hash.digest()

    def step(self, connection: Connection) -> Sequence[ExportedVersion]:
        """Copy some versions; return none when the ZIP is whole. Raise Erased if the saves were erased meanwhile."""
        if tables.find_player(connection, self._player_id).erased_since(self._epoch):
            raise erased_error()
        copied: list[ExportedVersion] = []
        handled = 0
        for version, current in _after(connection, self._player_id, *self._after):
            copied.append(ExportedVersion(version, self._copy(connection, version, current)))
            handled += version.size
            if handled >= STEP_BYTES:
                break
        if not copied:
            self._finish()
        self._hash_new_bytes()
        return copied

    def close(self) -> None:
        """Close everything but the file of the caller; raise OSError if the disk is full."""
        try:
            self._zip.close()
        finally:
            self._manifest.close()

    def _copy(self, connection: Connection, version: Version, current: bool) -> bool:
        body, blob_id, name = version.content, version.blob_id, None
        if body is not None and blob_id is not None and self._intact(connection, blob_id, body):
            name = f"saves/{version.slot}/{version.version}"
            with self._zip.open(_entry(name, version.created_ms, body.size), "w") as entry:
                entry.writelines(blob_rows.read_all(connection, blob_id))
        damaged = body is not None and name is None
        self._damaged += damaged
        self._newest_ms = max(self._newest_ms, version.created_ms)
        row = {**version_info(version), "current": current, "file": name, "damaged": damaged}
        self._manifest.write((b"\n" if self._after == ("", 0) else b",\n") + encode(row))
        self._after = version.slot, version.version
        return not damaged

    def _intact(self, connection: Connection, blob_id: int, body: SaveContent) -> bool:
        """Check whether the stored bytes are those that were acknowledged."""
        digest, size = sha256(), 0
        try:
            for data in blob_rows.read_all(connection, blob_id):
                digest.update(data)
                size += len(data)
        except Exception as e:
            if not isinstance(connection.found_in(STATE, e), DatabaseCorrupt):
                raise
            self.unreadable = True
            return False
        return (digest.digest(), size) == (body.sha256, body.size)

    def _finish(self) -> None:
        self._manifest.write(b'\n],"damaged":%d}\n' % self._damaged)
        entry = _entry(MANIFEST, self._newest_ms, self._manifest.tell())
        self._manifest.seek(0)
        with self._zip.open(entry, "w") as out:
            copyfileobj(self._manifest, out)
        self.close()

    def _hash_new_bytes(self) -> None:
        """Read back what this step wrote: zipfile writes an entry's size and CRC in front of it after its bytes."""
        self._out.seek(self.size)
        while data := self._out.read(blob_rows.PART_BYTES):
            self._hash.update(data)
            self.size += len(data)


def _entry(name: str, modified_ms: int, size: int) -> ZipInfo:
    """Return a file that is not compressed; its time is UTC and in the range of the format, 1980 to 2107."""
    moment = datetime.fromtimestamp(modified_ms // 1000, UTC)
    entry = ZipInfo(name, (min(max(moment.year, 1980), 2107), *moment.timetuple()[1:6]))
    entry.file_size = size
    entry.external_attr = 0o100600 << 16
    return entry


def _after(connection: Connection, player_id: str, slot: str, version: int) -> Iterator[tuple[Version, bool]]:
    """Yield the next versions by slot and number, and for each whether it is the current one."""
    query = f"""
        SELECT {version_tables.VERSION_COLUMNS},
               version IS NOT DISTINCT FROM (
                   SELECT current_version FROM save s WHERE s.player_id = v.player_id AND s.slot = v.slot
               )
        FROM save_version v
        WHERE player_id = :player_id AND (slot, version) > (:slot, :version)
        ORDER BY slot, version LIMIT :limit
    """
    values: Mapping[str, object] = {"player_id": player_id, "slot": slot, "version": version, "limit": STEP_VERSIONS}
    for *row, current in connection.execute(query, values).fetchall():
        yield version_tables.version_from_row(tuple(row)), bool(current)


class ExportArchive(Struct, eq=False):
    """An export of one player, which is written in steps to an unnamed file.

    No file is left behind when the process is killed.
    """

    _databases: "Databases"
    _folder: Path
    _player_id: str
    _cursor: Cursor
    _first: ExportedFile | None = None
    _out: IO[bytes] | None = None
    _export: ExportWriter | None = None
    _complete: IO[bytes] | None = None
    """A second descriptor of the complete archive, for the response: a thread may still read it after close()."""

    @property
    def size(self) -> int:
        """Return the number of bytes written so far."""
        return self._export.size if self._export else 0

    @property
    def sha256(self) -> bytes:
        return self._export.sha256 if self._export else b""

    def take_file(self) -> IO[bytes]:
        """Return the file of the complete archive, once; the caller closes it."""
        complete, self._complete = self._complete, None
        if complete is None:
            raise TypeError("an export has its bytes after its last step, for one response")
        return complete

    def step(self) -> "Deferred[bool]":
        """Write the next part; return False once the archive is complete. Raise DatabaseError or Erased."""
        return self._databases.blobs.read(self._step)

    def close(self) -> None:
        """Close and delete the files; do not call this while a step runs."""
        self._databases.blobs.in_thread(self._close)

    def _close(self) -> None:
        """Close the files, in the thread: this writes the end of an incomplete ZIP, and frees the file's blocks."""
        for file in (self._complete, self._export, self._out):
            if file is not None:
                with suppress(OSError):  # a full disk; the file is closed, although its last bytes are not written
                    file.close()

    def _step(self, connection: Connection) -> bool:
        """Write a step, in that thread; return whether there is more to do."""
        try:
            if self._out is None:
                self._out = TemporaryFile(dir=self._folder)  # noqa: SIM115  close() closes it
            if self._export is None:
                self._export = ExportWriter(self._player_id, self._cursor, self._out, self._folder, self._first)
            more = bool(self._export.step(connection))
            if not more:
                self._complete = open(os.dup(self._out.fileno()), "rb")  # noqa: SIM115  close() closes it
            if self._export.unreadable:
                self._databases.state_damaged()
            return more
        except OSError as e:
            raise of_disk(e) from e
