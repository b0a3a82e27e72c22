"""The export of all versions of a player's saves as one ZIP file (docs/protocol.md: Saves)."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from gamed.crypto import Secret
from gamed.database.errors import DatabaseBusy
from gamed.http.conditional import (
    ByteRange,
    Conditions,
    EntityTag,
    Precondition,
    Representation,
    evaluate_conditions,
    parse_range,
    range_holds,
)
from gamed.players.errors import AccountReauthenticationRequired
from gamed.saves.commands import SavePartReader
from gamed.saves.errors import VersionConflict
from gamed.saves.export_store import ExportArchive
from gamed.saves.limits import DiskReservations
from gamed.saves.model import Cursor, ExportedFile
from gamed.saves.reads import FileParts, FileThreads
from gamed.saves.service import SaveService

MAX_EXPORTS = 2
"""Exports at a time, each of another player: an export needs as much disk as the player's saves until it is sent."""


class TooManyExports(DatabaseBusy):
    """The error that too many exports are under way, that the player has one, or that the service shuts down."""

    retry_after = 30


class ExportContent(Struct, frozen=True):
    """The complete zip file, and the part of it that a request asks for."""

    tag: EntityTag
    sha256: bytes
    size: int
    open: Callable[[], SavePartReader]
    """Returns a reader of the file, at most once; its caller closes it, also if the export has ended."""
    modified: bool
    range: ByteRange | None


class ExportJob(Struct, eq=False):
    """One export, which counts towards MAX_EXPORTS until close(); that may be called at any time, and repeatedly."""

    _archive: ExportArchive
    _cursor: Cursor
    _expected: int
    """The bytes that open() has reserved; they stay reserved until they are written."""
    _reservations: DiskReservations
    _run: FileThreads
    _on_end: Callable[[], object]
    """Called once, when the export is over."""
    _reserved: int
    _working: bool = False
    _closed: bool = False

    async def build(self, conditions: Conditions, range_field: str | None) -> ExportContent | None:
        """Write the archive to disk and evaluate the conditions; raise SaveError or DatabaseError.

        Return None if the export was closed meanwhile, as soon as the running step ends.
        """
        self._working = True
        try:
            while not self._closed and await self._archive.step():
                self._reserve(max(0, self._expected - self._archive.size))
        finally:
            self._working = False
            if self._closed:
                self._end()
        if self._closed:
            return None
        self._reserve(0)
        return self._evaluate(conditions, range_field)

    def close(self) -> None:
        """End the export: its client has the whole file or has disconnected, or the service shuts down."""
        if not self._closed:
            self._closed = True
            if not self._working:  # else a thread still writes to the file, and build() ends the export
                self._end()

    def _evaluate(self, conditions: Conditions, range_field: str | None) -> ExportContent:
        """Evaluate the conditions by tag alone: no date distinguishes two exports (RFC 9110 13.1.3, 13.1.4)."""
        archive = self._archive
        tag = EntityTag(f"{self._cursor}-{archive.sha256[:8].hex()}")
        now = Representation(tag, 0, date_is_strong=False)
        undated = replace(conditions, if_modified_since_ms=None, if_unmodified_since_ms=None)
        outcome = evaluate_conditions(undated, now, reading=True)
        if outcome is Precondition.FAILED:
            raise VersionConflict("Your saves are others than when you exported them last. Export them anew.")
        modified = outcome is not Precondition.NOT_MODIFIED
        part = parse_range(range_field, archive.size) if modified and range_holds(conditions, now) else None
        return ExportContent(tag, archive.sha256, archive.size, self._open, modified, part)

    def _open(self) -> SavePartReader:
        return FileParts(self._archive.take_file(), self._run)

    def _reserve(self, size: int) -> None:
        """Change the reservation to the bytes that are still to be written."""
        self._reservations.bytes += size - self._reserved
        self._reserved = size

    def _end(self) -> None:
        self._reserve(0)
        self._archive.close()
        self._on_end()


class ExportService(Struct, eq=False):
    """The exports of all players that are being written or sent."""

    _saves: SaveService
    _begin: Callable[[str, Cursor, ExportedFile | None], ExportArchive]
    """Returns the archive of a player's saves at a cursor, which begins with a file."""
    _reservations: DiskReservations
    _run: FileThreads
    _open: dict[str, ExportJob] = field(default_factory=dict)
    """The exports by player."""
    _closed: bool = False

    async def open(self, token: Secret, first: ExportedFile | None = None) -> ExportJob:
        """Begin an export, which the caller closes in any case; raise SessionError, TooManyExports or DiskFull.

        Raise AccountReauthenticationRequired in a session that a recovery code opened.
        """
        caller, summary = await self._saves.read_summary(token, reading=True)
        if caller.recovered:
            raise AccountReauthenticationRequired(caller.player_id, recovered=True)
        if self._closed or len(self._open) >= MAX_EXPORTS:
            raise TooManyExports("As many exports as this server makes at once are under way. Try again in a moment.")
        player_id = caller.player_id
        if player_id in self._open:
            raise TooManyExports("Your last export is still under way. Try again once it has ended.")
        # All of it at once: an export that finds the disk full half-way has taken the space of the players' writes.
        expected = summary.usage.bytes + summary.usage.history_bytes + (len(first.data) if first else 0)
        self._reservations.reserve(expected)
        archive, on_end = self._begin(player_id, summary.cursor, first), partial(self._open.pop, player_id, None)
        export = ExportJob(archive, summary.cursor, expected, self._reservations, self._run, on_end, expected)
        self._open[player_id] = export
        return export

    @property
    def running(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """Begin no more exports; those under way end after their current step."""
        self._closed = True
        for export in tuple(self._open.values()):
            export.close()
