"""Larger bytes brought to the store beside its deciding lane (PROTOCOL 4).

The work of keeping saves: look, write, delete, whatever the store and the rules say (PROTOCOL 4).
"""

from collections.abc import Awaitable, Callable
from typing import IO, BinaryIO, Protocol, TypeVar

from msgspec.structs import replace

from gamed.crypto import Random, Secret
from gamed.database.errors import BlobCorrupt, BlobNotFound, DatabaseBusy, DatabaseCorrupt, DatabaseError
from gamed.http.conditional import Conditions, Precondition, parse_range, range_holds
from gamed.long_poll import WakeReason
from gamed.saves.change_waits import ChangeWaiters
from gamed.saves.commands import (
    BytesMissing,
    DeleteCommand,
    DeleteResult,
    DismissCommand,
    ReadRequest,
    ReadResult,
    ReceivedSave,
    RestoreCommand,
    SavePartReader,
    SlotSnapshot,
    StageCommand,
    Staged,
    VersionHistory,
    WriteCommand,
    WriteContext,
    WriteResult,
)
from gamed.saves.errors import CorruptBlob, SaveError
from gamed.saves.limits import SaveLimits, WriteRateLimiter
from gamed.saves.model import EMPTY_CURSOR, Cursor, Listing, SavesSummary, Version, new_epoch
from gamed.saves.responses import (
    corrupt_blob_error,
    no_bytes,
    not_found,
    nothing_to_read,
    reading_error,
    removal_error,
    restore_error,
    summary_response,
    version_gone,
    version_list,
    write_error,
)
from gamed.saves.validation import check_digest
from gamed.saves.write_rules import WRITES, Condition, DeleteDecision
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.service import SessionService
from gamed.structs import Component
from gamed.timestamps import Now

ATTEMPTS = 4
"""How often a change that found its bytes gone, or a look whose bytes went meanwhile, begins again."""


class ByteStore(Protocol):
    """Blobs; StoreError."""

    def append(self, player_id: str, spool: BinaryIO) -> Awaitable[int]: ...
    def check(self, blob_id: int) -> Awaitable[None]: ...
    def discard(self, blob_id: int) -> Awaitable[None]: ...


Order = TypeVar("Order", WriteCommand, StageCommand)
Taken = TypeVar("Taken", WriteResult, Staged)


class BlobUploader(Component, frozen=True):
    """Decides; where the store lacks larger bytes, appends them and decides again."""

    _store: ByteStore

    async def carry_out(
        self,
        order: Order,
        decide: Callable[[Order], Awaitable[Taken | BytesMissing | SaveError]],
        spool: BinaryIO | None,
    ) -> Taken:
        """What `decide` came to at last; its SaveError is raised. `spool` is None when the order has the bytes."""
        taken: Taken | None = None
        try:
            for _ in range(ATTEMPTS):
                outcome = await decide(order)
                if isinstance(outcome, SaveError):
                    raise outcome
                if not isinstance(outcome, BytesMissing):
                    taken = outcome
                    return taken
                if spool is not None:
                    order = await self._supplied(order, outcome.known, spool)
        finally:
            await self._tidy(order.appended, taken)
        raise DatabaseBusy("Too much goes on with these bytes. Send them again in a moment.")

    async def _supplied(self, order: Order, known: int | None, spool: BinaryIO) -> Order:
        """The order with a blob that surely holds the bytes: one that is there and good, else an appended one."""
        if known is not None and known != order.checked and order.appended is None:
            try:
                await self._store.check(known)
                return replace(order, checked=known)
            except (BlobCorrupt, BlobNotFound):
                pass
        await self._tidy(order.appended, None)
        return replace(order, appended=await self._store.append(order.entry.player_id, spool))

    async def _tidy(self, appended: int | None, outcome: WriteResult | Staged | None) -> None:
        """An appended blob that nothing wants goes at once, however it came to that; else it is swept later."""
        if appended is None or (outcome is not None and outcome.took(appended)):
            return
        try:
            await self._store.discard(appended)
        except DatabaseError:
            return


class SaveStore(ByteStore, Protocol):
    """Each call is one transaction; StoreError when it did not take place, SessionError where a token is judged."""

    def holdings(self, token: Secret, now_ms: int) -> Awaitable[tuple[AuthenticatedSession, SavesSummary]]: ...
    def list_saves(
        self, token: Secret, now_ms: int, since: Cursor | None, conditions: Conditions
    ) -> Awaitable[tuple[AuthenticatedSession, Listing]]: ...
    def look_at(
        self, token: Secret, now_ms: int, look: ReadRequest
    ) -> Awaitable[tuple[AuthenticatedSession, SlotSnapshot]]: ...
    def recall(
        self, token: Secret, now_ms: int, slot: str
    ) -> Awaitable[tuple[AuthenticatedSession, VersionHistory]]: ...
    def write(self, order: WriteCommand) -> Awaitable[WriteResult | BytesMissing | SaveError]: ...
    def remove(self, order: DeleteCommand) -> Awaitable[DeleteResult | SaveError]: ...
    def restore(self, order: RestoreCommand) -> Awaitable[WriteResult | SaveError]: ...
    def dismiss(self, order: DismissCommand) -> Awaitable[SaveError | None]: ...
    def fetch(self, blob_id: int) -> Awaitable[IO[bytes] | SavePartReader]: ...


class SaveService(Component, frozen=True):
    """All saves of all players. Raises SaveError, SessionError, StoreError, RangeUnsatisfiable."""

    _store: SaveStore
    _sessions: SessionService
    _limits: SaveLimits
    _now_ms: Now
    _random: Random
    _waits: ChangeWaiters
    _rate: WriteRateLimiter

    async def holdings(self, token: Secret, *, reading: bool = False) -> tuple[AuthenticatedSession, SavesSummary]:
        """Who asks, and the shelf as a whole; the token's first use is settled."""
        caller, holdings = await self._store.holdings(token, self._now_ms())
        await self._sessions.settle(caller, reading=reading)
        return caller, holdings

    async def overview(self, token: Secret) -> tuple[Cursor, dict[str, object]]:
        """The cursor and the body of `GET /game/`."""
        now_ms = self._now_ms()
        caller, holdings = await self.holdings(token, reading=True)
        return holdings.cursor, summary_response(caller.player_id, caller.owner, holdings, self._limits, now_ms)

    def granted(self, wanted_seconds: int) -> int:
        """How long a request for a list may wait that would like to wait so long."""
        return min(wanted_seconds, self._limits.wait_seconds)

    async def list_saves(
        self, token: Secret, since: Cursor | None, conditions: Conditions, wait_seconds: int = 0
    ) -> Listing:
        """Everything, or what changed since; where nothing has, what changes within `wait_seconds`.

        The token may expire while it waits, but not be revoked.
        """
        began_ms = self._now_ms()
        caller, listing = await self._store.list_saves(token, began_ms, since, conditions)
        await self._sessions.settle(caller, reading=True)
        if wait_seconds <= 0 or listing.is_news(since):
            return listing
        with self._waits.open(caller.player_id, listing.cursor) as slot:
            while True:
                _, listing = await self._store.list_saves(token, began_ms, since, conditions)
                left_ms = min(began_ms + wait_seconds * 1000 - self._now_ms(), wait_seconds * 1000)
                if left_ms <= 0 or listing.is_news(since) or await slot.wait(left_ms / 1000) is not WakeReason.CHANGED:
                    return listing

    async def read(self, token: Secret, look: ReadRequest) -> ReadResult:
        """The current version, with its bytes where they will be sent; stored bytes were hashed again."""
        for _ in range(ATTEMPTS):
            try:
                caller, sight = await self._store.look_at(token, self._now_ms(), look)
            except DatabaseCorrupt:
                if not look.whole:
                    raise
                reading = await self.read(token, replace(look, whole=False))  # StoreCorrupt if more than bytes is hit
                raise await self._damaged(token, reading.version) from None
            await self._sessions.settle(caller, reading=True)
            reading = self._judged(look, sight)
            if not reading.modified or not look.whole or reading.content is not None:
                return reading
            try:
                return replace(reading, content=await self._bytes_of(sight, reading.version))
            except BlobNotFound:  # replaced and swept since the look
                continue
            except (BlobCorrupt, DatabaseCorrupt):
                raise await self._damaged(token, reading.version) from None
        raise DatabaseBusy("The save changes faster than it can be read. Try again in a moment.")

    async def recall(self, token: Secret, slot: str) -> dict[str, object]:
        """The body of the versions list."""
        caller, past = await self._store.recall(token, self._now_ms(), slot)
        await self._sessions.settle(caller, reading=True)
        if not past.view.seen:
            raise not_found(slot)
        head = past.view.head.version if past.view.head else None
        return version_list(self._limits, slot, head, past.versions)

    async def enter(self, token: Secret) -> WriteContext:
        """Judge who wants to change something, before any of the body is taken."""
        caller, holdings = await self.holdings(token)
        self._rate.spend(caller.player_id, self._now_ms())
        return WriteContext(caller.player_id, holdings.cursor.epoch, holdings.usage)

    async def write(self, entry: WriteContext, arrival: ReceivedSave) -> WriteResult:
        """Judge and store a body; what was refused is raised, and may be kept all the same."""
        check_digest(arrival.announced, arrival.body.sha256)
        arrival.blank.check(arrival.body.size, allowed=self._limits.allow_blank_saves)
        order = WriteCommand(
            entry,
            arrival.slot,
            arrival.condition,
            arrival.body,
            self._now_ms(),
            new_epoch(self._random) if entry.epoch == EMPTY_CURSOR.epoch else entry.epoch,
            arrival.data,
        )
        written = await BlobUploader(self._store).carry_out(order, self._store.write, arrival.spool)
        if written.changed:
            self._waits.changed(entry.player_id)
        refusal = write_error(arrival.slot, arrival.condition, written)
        if refusal is not None:
            raise refusal
        return written

    async def remove(self, entry: WriteContext, slot: str, condition: Condition) -> None:
        """Empty a slot; its history stays."""
        outcome = await self._store.remove(DeleteCommand(entry, slot, condition, self._now_ms()))
        refusal = outcome if isinstance(outcome, SaveError) else removal_error(slot, condition, outcome)
        if refusal is not None:
            raise refusal
        if isinstance(outcome, DeleteResult) and outcome.removal is DeleteDecision.DELETES:
            self._waits.changed(entry.player_id)

    async def restore(self, token: Secret, slot: str, number: int, condition: Condition) -> Version:
        """Make an old version current again, after its bytes were hashed; -> what is current now."""
        entry = await self.enter(token)
        look = ReadRequest(slot, Conditions(), whole=False, version=number)
        _, sight = await self._store.look_at(token, self._now_ms(), look)
        await self._check(token, self._judged(look, sight).version)
        outcome = await self._store.restore(RestoreCommand(entry, slot, number, condition, self._now_ms()))
        if isinstance(outcome, WriteResult) and outcome.verdict.rule in WRITES:
            self._waits.changed(entry.player_id)
        refusal = outcome if isinstance(outcome, SaveError) else restore_error(slot, condition, outcome)
        if isinstance(outcome, WriteResult) and outcome.current is not None and refusal is None:
            return outcome.current
        raise refusal or version_gone(slot, number)

    async def dismiss(self, token: Secret, slot: str, number: int) -> None:
        """Let go of a conflict copy."""
        entry = await self.enter(token)
        refusal = await self._store.dismiss(DismissCommand(entry, slot, number))
        if refusal is not None:
            raise refusal
        self._waits.changed(entry.player_id)

    async def _check(self, token: Secret, version: Version) -> None:
        """Stored bytes that are not what they were are not made current."""
        if version.blob_id is None:
            raise no_bytes(version)
        try:
            await self._store.check(version.blob_id)
        except BlobNotFound:
            raise version_gone(version.slot, version.version) from None
        except (BlobCorrupt, DatabaseCorrupt):
            raise await self._damaged(token, version) from None

    def _judged(self, look: ReadRequest, sight: SlotSnapshot) -> ReadResult:
        if sight.outcome is Precondition.FAILED:
            raise reading_error(look.slot, look.conditions, sight)
        if sight.target is None or sight.current is None:
            raise nothing_to_read(look, sight)
        if sight.outcome is Precondition.NOT_MODIFIED or not look.whole:
            return ReadResult(sight.target, sight.outcome is not Precondition.NOT_MODIFIED)
        part = parse_range(look.range, sight.target.size) if range_holds(look.conditions, sight.current) else None
        return ReadResult(sight.target, True, part, sight.data)

    async def _bytes_of(self, sight: SlotSnapshot, version: Version) -> IO[bytes] | SavePartReader:
        if sight.damaged or version.blob_id is None:
            raise BlobCorrupt
        return await self._store.fetch(version.blob_id)

    async def _damaged(self, token: Secret, version: Version) -> CorruptBlob:
        _, past = await self._store.recall(token, self._now_ms(), version.slot)
        return await corrupt_blob_error(self._store.check, version, past)
