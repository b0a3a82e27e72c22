"""Everything that a player keeps, as one file to take away (PROTOCOL 4)."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import IO, Protocol

from msgspec import Struct
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
from gamed.saves.errors import VersionConflict
from gamed.saves.limits import DiskReservations
from gamed.saves.model import Cursor
from gamed.saves.service import SaveService

MAX_EXPORTS = 2
"""In the whole service, for different players: each takes as much of the disk as the player keeps, until it is read."""


class TooManyExports(DatabaseBusy):
    """Every place is taken, the player has one already, or the service goes down."""

    retry_after = 30


class Archive(Protocol):
    """A zip that is written step by step to a file without a name; StoreError, and Erased once the saves are going."""

    @property
    def size(self) -> int:
        """Bytes so far."""

    @property
    def sha256(self) -> bytes:
        """Of all of them, once it is whole."""

    @property
    def file(self) -> IO[bytes]:
        """The file, once it is whole; close() closes it."""

    def step(self) -> Awaitable[bool]:
        """Whether there is more to do."""

    def close(self) -> None:
        """Not while a step is under way."""


class ExportContent(Struct, frozen=True):
    """The whole zip, and what of it answers a request."""

    tag: EntityTag
    sha256: bytes
    size: int
    file: IO[bytes]
    modified: bool
    range: ByteRange | None


class ExportJob:
    """One place, from the moment it is given until close(), which may come at any time and more than once."""

    def __init__(
        self,
        archive: Archive,
        cursor: Cursor,
        expected_bytes: int,
        announced: DiskReservations,
        left: Callable[[], object],
    ) -> None:
        """`announced` has the expected bytes already; `left` is called once, when the place is free again."""
        self._archive = archive
        self._cursor = cursor
        self._expected = expected_bytes
        self._announced = announced
        self._left = left
        self._claim = expected_bytes
        self._working = False
        self._closed = False

    async def build(self, conditions: Conditions, wanted: str | None) -> ExportContent | None:
        """All of it, on disk and hashed, then judged; `wanted` is the Range header. SaveError, StoreError.

        None if the place was closed meanwhile: then nothing is waited for but the step under way.
        """
        self._working = True
        try:
            while not self._closed and await self._archive.step():
                self._claims(max(0, self._expected - self._archive.size))
        finally:
            self._working = False
            if self._closed:
                self._leave()
        if self._closed:
            return None
        self._claims(0)
        return self._judged(conditions, wanted)

    def close(self) -> None:
        """Whoever asked has left, or has all of it."""
        if not self._closed:
            self._closed = True
            if not self._working:
                self._leave()

    def _judged(self, conditions: Conditions, wanted: str | None) -> ExportContent:
        """There is no date that would tell one export from another: only tags count (RFC 9110 13.1.3, 13.1.4)."""
        archive = self._archive
        tag = EntityTag(f"{self._cursor}-{archive.sha256[:8].hex()}")
        now = Representation(tag, 0, date_is_strong=False)
        undated = replace(conditions, if_modified_since_ms=None, if_unmodified_since_ms=None)
        outcome = evaluate_conditions(undated, now, reading=True)
        if outcome is Precondition.FAILED:
            raise VersionConflict("Your saves are others than when you exported them last. Export them anew.")
        modified = outcome is not Precondition.NOT_MODIFIED
        part = parse_range(wanted, archive.size) if modified and range_holds(conditions, now) else None
        return ExportContent(tag, archive.sha256, archive.size, archive.file, modified, part)

    def _claims(self, size: int) -> None:
        """So much more is still to come to the disk."""
        self._announced.bytes += size - self._claim
        self._claim = size

    def _leave(self) -> None:
        self._claims(0)
        self._archive.close()
        self._left()


class ExportService:
    """All exports that are being made or read."""

    def __init__(
        self, saves: SaveService, begin: Callable[[str, Cursor], Archive], announced: DiskReservations
    ) -> None:
        """`begin` starts the archive of a player's saves at this cursor."""
        self._saves = saves
        self._begin = begin
        self._announced = announced
        self._open: dict[str, ExportJob] = {}
        """By player."""
        self._closed = False

    async def open(self, token: Secret) -> ExportJob:
        """A place for the player, to be closed whatever happens; SessionError, ExportsBusy, StoreFull."""
        caller, summary = await self._saves.read_summary(token, reading=True)
        if self._closed or len(self._open) >= MAX_EXPORTS:
            raise TooManyExports("As many exports as this server makes at once are under way. Try again in a moment.")
        player_id = caller.player_id
        if player_id in self._open:
            raise TooManyExports("Your last export is still under way. Try again once it has ended.")
        expected = summary.usage.bytes + summary.usage.history_bytes
        self._announced.reserve(expected)
        archive, left = self._begin(player_id, summary.cursor), partial(self._open.pop, player_id, None)
        export = ExportJob(archive, summary.cursor, expected, self._announced, left)
        self._open[player_id] = export
        return export

    @property
    def running(self) -> int:
        """Places that are taken."""
        return len(self._open)

    def close(self) -> None:
        """Nothing new is begun, and what is being made ends after its step."""
        self._closed = True
        for export in tuple(self._open.values()):
            export.close()
