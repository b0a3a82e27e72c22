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
    delete_error,
    no_bytes_error,
    not_found_error,
    read_error,
    restore_error,
    summary_response,
    unreadable_error,
    version_gone_error,
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


Command = TypeVar("Command", WriteCommand, StageCommand)
Outcome = TypeVar("Outcome", WriteResult, Staged)


class BlobUploader(Component, frozen=True):
    """Decides; where the store lacks larger bytes, appends them and decides again."""

    _store: ByteStore

    async def execute(
        self,
        command: Command,
        decide: Callable[[Command], Awaitable[Outcome | BytesMissing | SaveError]],
        spool: BinaryIO | None,
    ) -> Outcome:
        """What `decide` came to at last; its SaveError is raised. `spool` is None when the order has the bytes."""
        taken: Outcome | None = None
        try:
            for _ in range(ATTEMPTS):
                outcome = await decide(command)
                if isinstance(outcome, SaveError):
                    raise outcome
                if not isinstance(outcome, BytesMissing):
                    taken = outcome
                    return taken
                if spool is not None:
                    command = await self._with_blob(command, outcome.known_blob, spool)
        finally:
            await self._discard_unused(command.appended_blob, taken)
        raise DatabaseBusy("Too much goes on with these bytes. Send them again in a moment.")

    async def _with_blob(self, command: Command, known: int | None, spool: BinaryIO) -> Command:
        """The order with a blob that surely holds the bytes: one that is there and good, else an appended one."""
        if known is not None and known != command.checked_blob and command.appended_blob is None:
            try:
                await self._store.check(known)
                return replace(command, checked_blob=known)
            except (BlobCorrupt, BlobNotFound):
                pass
        await self._discard_unused(command.appended_blob, None)
        return replace(command, appended_blob=await self._store.append(command.context.player_id, spool))

    async def _discard_unused(self, appended: int | None, outcome: WriteResult | Staged | None) -> None:
        """An appended blob that nothing wants goes at once, however it came to that; else it is swept later."""
        if appended is None or (outcome is not None and outcome.uses_blob(appended)):
            return
        try:
            await self._store.discard(appended)
        except DatabaseError:
            return


class SaveStore(ByteStore, Protocol):
    """Each call is one transaction; StoreError when it did not take place, SessionError where a token is judged."""

    def read_summary(self, token: Secret, now_ms: int) -> Awaitable[tuple[AuthenticatedSession, SavesSummary]]: ...
    def list_saves(
        self, token: Secret, now_ms: int, since: Cursor | None, conditions: Conditions
    ) -> Awaitable[tuple[AuthenticatedSession, Listing]]: ...
    def read_slot(
        self, token: Secret, now_ms: int, request: ReadRequest
    ) -> Awaitable[tuple[AuthenticatedSession, SlotSnapshot]]: ...
    def read_history(
        self, token: Secret, now_ms: int, slot: str
    ) -> Awaitable[tuple[AuthenticatedSession, VersionHistory]]: ...
    def write(self, command: WriteCommand) -> Awaitable[WriteResult | BytesMissing | SaveError]: ...
    def delete(self, command: DeleteCommand) -> Awaitable[DeleteResult | SaveError]: ...
    def restore(self, command: RestoreCommand) -> Awaitable[WriteResult | SaveError]: ...
    def dismiss(self, command: DismissCommand) -> Awaitable[SaveError | None]: ...
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

    async def read_summary(self, token: Secret, *, reading: bool = False) -> tuple[AuthenticatedSession, SavesSummary]:
        """Who asks, and the shelf as a whole; the token's first use is settled."""
        caller, summary = await self._store.read_summary(token, self._now_ms())
        await self._sessions.record_first_use(caller, reading=reading)
        return caller, summary

    async def summary(self, token: Secret) -> tuple[Cursor, dict[str, object]]:
        """The cursor and the body of `GET /game/`."""
        now_ms = self._now_ms()
        caller, summary = await self.read_summary(token, reading=True)
        return summary.cursor, summary_response(caller.player_id, caller.owner, summary, self._limits, now_ms)

    def clamp_wait(self, wanted_seconds: int) -> int:
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
        await self._sessions.record_first_use(caller, reading=True)
        if wait_seconds <= 0 or listing.has_changes(since):
            return listing
        with self._waits.register(caller.player_id, listing.cursor) as slot:
            while True:
                _, listing = await self._store.list_saves(token, began_ms, since, conditions)
                left_ms = min(began_ms + wait_seconds * 1000 - self._now_ms(), wait_seconds * 1000)
                if (
                    left_ms <= 0
                    or listing.has_changes(since)
                    or await slot.wait(left_ms / 1000) is not WakeReason.CHANGED
                ):
                    return listing

    async def read(self, token: Secret, request: ReadRequest) -> ReadResult:
        """The current version, with its bytes where they will be sent; stored bytes were hashed again."""
        for _ in range(ATTEMPTS):
            try:
                caller, snapshot = await self._store.read_slot(token, self._now_ms(), request)
            except DatabaseCorrupt:
                if not request.with_bytes:
                    raise
                reading = await self.read(
                    token, replace(request, with_bytes=False)
                )  # StoreCorrupt if more than bytes is hit
                raise await self._damaged(token, reading.version) from None
            await self._sessions.record_first_use(caller, reading=True)
            reading = self._judged(request, snapshot)
            if not reading.modified or not request.with_bytes or reading.body is not None:
                return reading
            try:
                return replace(reading, body=await self._bytes_of(snapshot, reading.version))
            except BlobNotFound:  # replaced and swept since the look
                continue
            except (BlobCorrupt, DatabaseCorrupt):
                raise await self._damaged(token, reading.version) from None
        raise DatabaseBusy("The save changes faster than it can be read. Try again in a moment.")

    async def versions(self, token: Secret, slot: str) -> dict[str, object]:
        """The body of the versions list."""
        caller, past = await self._store.read_history(token, self._now_ms(), slot)
        await self._sessions.record_first_use(caller, reading=True)
        if not past.state.exists:
            raise not_found_error(slot)
        head = past.state.current.version if past.state.current else None
        return version_list(self._limits, slot, head, past.versions)

    async def authorize_write(self, token: Secret) -> WriteContext:
        """Judge who wants to change something, before any of the body is taken."""
        caller, summary = await self.read_summary(token)
        self._rate.acquire(caller.player_id, self._now_ms())
        return WriteContext(caller.player_id, summary.cursor.epoch, summary.usage)

    async def write(self, context: WriteContext, arrival: ReceivedSave) -> WriteResult:
        """Judge and store a body; what was refused is raised, and may be kept all the same."""
        check_digest(arrival.expected_sha256, arrival.content.sha256)
        arrival.blank.check(arrival.content.size, allowed=self._limits.allow_blank_saves)
        command = WriteCommand(
            context,
            arrival.slot,
            arrival.condition,
            arrival.content,
            self._now_ms(),
            new_epoch(self._random) if context.epoch == EMPTY_CURSOR.epoch else context.epoch,
            arrival.data,
        )
        written = await BlobUploader(self._store).execute(command, self._store.write, arrival.spool)
        if written.changed:
            self._waits.changed(context.player_id)
        refusal = write_error(arrival.slot, arrival.condition, written)
        if refusal is not None:
            raise refusal
        return written

    async def delete(self, context: WriteContext, slot: str, condition: Condition) -> None:
        """Empty a slot; its history stays."""
        outcome = await self._store.delete(DeleteCommand(context, slot, condition, self._now_ms()))
        refusal = outcome if isinstance(outcome, SaveError) else delete_error(slot, condition, outcome)
        if refusal is not None:
            raise refusal
        if isinstance(outcome, DeleteResult) and outcome.decision is DeleteDecision.DELETES:
            self._waits.changed(context.player_id)

    async def restore(self, token: Secret, slot: str, number: int, condition: Condition) -> Version:
        """Make an old version current again, after its bytes were hashed; -> what is current now."""
        context = await self.authorize_write(token)
        request = ReadRequest(slot, Conditions(), with_bytes=False, version=number)
        _, snapshot = await self._store.read_slot(token, self._now_ms(), request)
        await self._check(token, self._judged(request, snapshot).version)
        outcome = await self._store.restore(RestoreCommand(context, slot, number, condition, self._now_ms()))
        if isinstance(outcome, WriteResult) and outcome.decision.rule in WRITES:
            self._waits.changed(context.player_id)
        refusal = outcome if isinstance(outcome, SaveError) else restore_error(slot, condition, outcome)
        if isinstance(outcome, WriteResult) and outcome.current is not None and refusal is None:
            return outcome.current
        raise refusal or version_gone_error(slot, number)

    async def dismiss(self, token: Secret, slot: str, number: int) -> None:
        """Let go of a conflict copy."""
        context = await self.authorize_write(token)
        refusal = await self._store.dismiss(DismissCommand(context, slot, number))
        if refusal is not None:
            raise refusal
        self._waits.changed(context.player_id)

    async def _check(self, token: Secret, version: Version) -> None:
        """Stored bytes that are not what they were are not made current."""
        if version.blob_id is None:
            raise no_bytes_error(version)
        try:
            await self._store.check(version.blob_id)
        except BlobNotFound:
            raise version_gone_error(version.slot, version.version) from None
        except (BlobCorrupt, DatabaseCorrupt):
            raise await self._damaged(token, version) from None

    def _judged(self, request: ReadRequest, snapshot: SlotSnapshot) -> ReadResult:
        if snapshot.precondition is Precondition.FAILED:
            raise read_error(request.slot, request.conditions, snapshot)
        if snapshot.target is None or snapshot.representation is None:
            raise unreadable_error(request, snapshot)
        if snapshot.precondition is Precondition.NOT_MODIFIED or not request.with_bytes:
            return ReadResult(snapshot.target, snapshot.precondition is not Precondition.NOT_MODIFIED)
        part = (
            parse_range(request.range, snapshot.target.size)
            if range_holds(request.conditions, snapshot.representation)
            else None
        )
        return ReadResult(snapshot.target, True, part, snapshot.data)

    async def _bytes_of(self, snapshot: SlotSnapshot, version: Version) -> IO[bytes] | SavePartReader:
        if snapshot.damaged or version.blob_id is None:
            raise BlobCorrupt
        return await self._store.fetch(version.blob_id)

    async def _damaged(self, token: Secret, version: Version) -> CorruptBlob:
        _, past = await self._store.read_history(token, self._now_ms(), version.slot)
        return await corrupt_blob_error(self._store.check, version, past)
