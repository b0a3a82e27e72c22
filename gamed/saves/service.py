"""Reads, writes, deletes and restores of saves, and waits for changes (docs/protocol.md: Saves).

Its functions raise SaveError, SessionError, DatabaseError or RangeUnsatisfiable.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import BinaryIO, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gamed.config.game import SaveLimits
from gamed.crypto import Random, Secret
from gamed.database.errors import (
    BlobCorrupt,
    BlobNotFound,
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseError,
    DatabaseUnreachable,
)
from gamed.http.conditional import Conditions, Precondition, parse_range, range_holds
from gamed.long_poll import WakeReason
from gamed.players.errors import AccountReauthenticationRequired
from gamed.rate_limit import RateLimited
from gamed.saves import commands, responses
from gamed.saves.change_waits import ChangeWaiters, KnownSaves
from gamed.saves.errors import CorruptBlob, Erased, SaveError, TokenUnread
from gamed.saves.limits import VERSIONS_AT_ONCE, SaveRateLimiter, count_change
from gamed.saves.model import ANY_VERSION, EMPTY_CURSOR, Cursor, Listing, SavesSummary, SlotEntry, Version, new_epoch
from gamed.saves.reads import LargeReads
from gamed.saves.retention import kept_until_ms
from gamed.saves.store import SaveStore
from gamed.saves.write_rules import WRITES, Condition, DeleteDecision
from gamed.saves.write_store import erased_error
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.errors import SessionError
from gamed.sessions.recent import AccessKey, RecentToken
from gamed.sessions.service import SessionService
from gamed.structs import Component
from gamed.timestamps import Now

T = TypeVar("T")
Presented = TypeVar(
    "Presented", commands.WriteCommand, commands.DeleteCommand, commands.RestoreCommand, commands.DismissCommand
)
ATTEMPTS = 4
"""How often a write or read starts again because its bytes changed or were deleted meanwhile.

One more attempt needs another change of the same bytes between two transactions; a client that makes four gets `busy`.
"""


class SaveEnvironment(Struct, frozen=True, eq=False):
    """The limits, the clock, the random source and the waiting clients that all services of saves share."""

    limits: SaveLimits
    now_ms: Now
    random: Random
    waiters: ChangeWaiters


class SaveService(Component, frozen=True, kw_only=True):
    """The saves of all players."""

    store: SaveStore
    sessions: SessionService
    environment: SaveEnvironment
    rate: SaveRateLimiter
    reads: LargeReads

    async def read_summary(
        self, token: Secret, *, reading: bool = False, now_ms: int | None = None
    ) -> tuple[AuthenticatedSession, SavesSummary]:
        """Authenticate the player, record the first use of the token, and return the totals of their saves.

        `now_ms` is the instant at which the token has to be valid, by default this one.
        """
        now_ms = self.environment.now_ms() if now_ms is None else now_ms
        caller, summary = await self.store.read_summary(token, now_ms)
        if caller.first_use_of is not None:  # only of the first request after a sign-in or refresh
            await self.sessions.record_first_use(caller, reading=reading)
        return caller, summary

    async def summary(self, token: Secret) -> tuple[Cursor, dict[str, object]]:
        """Return the cursor and the body of `GET /game/`."""
        now_ms, limits = self.environment.now_ms(), self.environment.limits
        caller, summary, name = await self.store.read_overview(token, now_ms)
        await self.sessions.record_first_use(caller, reading=True)
        player = {"id": caller.player_id, "owner": caller.owner, "name": name}
        return summary.cursor, responses.summary_response(player, summary, limits, now_ms)

    def clamp_wait(self, wanted_seconds: int) -> int:
        """Return the seconds that a long poll may wait, at most the wanted ones."""
        return min(wanted_seconds, self.environment.limits.wait_seconds)

    async def list_saves(self, token: Secret, request: commands.ListRequest, wait_seconds: int = 0) -> Listing:
        """Return a page of all saves or of those changed since; without changes, wait for one up to `wait_seconds`.

        The token may expire during the wait, but a revoked token ends it with an error.
        """
        now_ms, waiters = self.environment.now_ms, self.environment.waiters
        began_ms, since = now_ms(), request.since
        caller, listing = await self.store.list_saves(token, began_ms, request)
        await self.sessions.record_first_use(caller, reading=True)
        if wait_seconds <= 0 or listing.has_changes(since):
            return listing
        with waiters.register(caller.player_id) as waiter:
            while True:
                # Read again before the first wait: a change between the read above and the registration woke nothing.
                _, listing = await self.store.list_saves(token, began_ms, request)
                waiter.known = KnownSaves(caller.player_id, caller.session_id, listing.cursor)
                left_ms = min(began_ms + wait_seconds * 1000 - now_ms(), wait_seconds * 1000)
                if left_ms <= 0 or listing.has_changes(since):
                    return listing
                if await waiter.wait(left_ms / 1000) is not WakeReason.CHANGED:
                    return listing

    async def read(self, token: Secret, request: commands.ReadRequest) -> commands.ReadResult:
        """Return the requested version, with its bytes if the response needs them; their hash was checked.

        Raise TooManyReads, too.
        """
        for _ in range(ATTEMPTS):
            try:
                caller, snapshot = await self.store.read_slot(token, self.environment.now_ms(), request)
            except DatabaseCorrupt:
                if not request.with_bytes:
                    raise
                # raises DatabaseCorrupt again if SQLite cannot read the rows of the version either
                result = await self.read(token, replace(request, with_bytes=False))
                raise await self._corrupt_blob_error(token, result.version) from None
            await self.sessions.record_first_use(caller, reading=True)
            result, player_id = _evaluate(request, snapshot), caller.player_id
            if not result.modified or not request.with_bytes or result.body is not None:
                return result
            try:
                if snapshot.damaged or result.version.blob_id is None:
                    raise BlobCorrupt
                blob_id, size = result.version.blob_id, result.version.size
                return replace(result, body=await self.reads.open(player_id, blob_id, size, result.range))
            except BlobNotFound:  # replaced and deleted after the snapshot
                continue
            except (BlobCorrupt, DatabaseCorrupt):
                raise await self._corrupt_blob_error(token, result.version) from None
        raise DatabaseBusy("The save changes faster than it can be read. Try again in a moment.")

    async def slots_by_name(self, token: Secret, after: str, limit: int) -> Sequence[SlotEntry]:
        """Return the next slots by name, the deleted ones included, with what is kept of them."""
        return (await self.store.slots_by_name(token, self.environment.now_ms(), after, limit))[1]

    async def copied_slots(self, token: Secret, after: str, limit: int) -> Sequence[SlotEntry]:
        """Return the next slots by name that have conflict copies."""
        return (await self.store.copied_slots(token, self.environment.now_ms(), after, limit))[1]

    async def versions(
        self, token: Secret, slot: str, before: int = ANY_VERSION, limit: int = VERSIONS_AT_ONCE
    ) -> dict[str, object]:
        """Return the body of the versions list: at most `limit` versions with a number below `before`."""
        caller, history = await self.store.read_history(token, self.environment.now_ms(), slot, before, limit)
        await self.sessions.record_first_use(caller, reading=True)
        if not history.state.exists:
            raise responses.not_found_error(slot)
        return responses.version_list(self.environment.limits, slot, history)

    async def sides(self, token: Secret, slot: str) -> dict[str, object]:
        """Return a body like that of the versions list: the current version, or the delete, and all conflict copies."""
        caller, history = await self.store.read_sides(token, self.environment.now_ms(), slot)
        await self.sessions.record_first_use(caller, reading=True)
        if not history.state.exists:
            raise responses.not_found_error(slot)
        return responses.version_list(self.environment.limits, slot, history)

    async def authorize_write(self, token: Secret, *, erases: bool = False) -> commands.WriteContext:
        """Authenticate the player of a change and count it towards their rate, before the body is read.

        The count in memory stops a client that repeats a write which changes nothing. The transaction counts committed
        changes again, for all processes together, and only when it writes a row anyway.

        Raise AccountReauthenticationRequired if it `erases` all saves in a session that a recovery code opened.
        """
        caller, summary = await self.read_summary(token)
        if erases and caller.recovered:
            raise AccountReauthenticationRequired(caller.player_id, recovered=True)
        return self._admit(caller, summary)

    async def authorize_upload(self, token: Secret) -> commands.WriteContext:
        """Do what authorize_write() does; the next small write with this token may authenticate in its transaction."""
        caller, summary = await self.read_summary(token)
        self._remember(token, caller, summary)
        return self._admit(caller, summary)

    def _remember(self, token: Secret, caller: AuthenticatedSession, summary: SavesSummary) -> None:
        if not summary.erasing:  # the epoch changes once more at the end, before which the next write may begin
            self.sessions.remember(token, caller, summary.cursor.epoch, summary.write_arrival_ms)

    def _admit(self, caller: AuthenticatedSession, summary: SavesSummary) -> commands.WriteContext:
        now_ms = self.environment.now_ms()
        self.rate.acquire(caller.player_id, now_ms, summary.write_arrival_ms)
        return commands.WriteContext(caller.player_id, summary.cursor.epoch, summary.usage, caller.device, now_ms)

    def presented_context(self, recent: RecentToken) -> commands.WriteContext:
        """Return the context of a write that authenticates its token itself, as far as it is known now."""
        return commands.WriteContext(recent.player_id, recent.epoch, admitted_ms=self.environment.now_ms())

    def count_presented(self, context: commands.WriteContext, recent: RecentToken) -> bool:
        """Count such a write towards the player's rate; return False if they write too fast, as far as is known."""
        try:
            self.rate.acquire(context.player_id, context.admitted_ms, recent.arrival_ms)
        except RateLimited:
            return False
        return True

    def count_entries(self, player_id: str, count: int) -> None:
        """Count the other entries of a commit that authorize_write() counted as one change."""
        self.rate.add(player_id, self.environment.now_ms(), count - 1)

    async def write(
        self, context: commands.WriteContext, slot: str, condition: Condition, received: commands.ReceivedBody
    ) -> commands.WriteResult:
        """Store a save if the rules allow it; raise SaveError if not, in a conflict with the bytes kept as a copy."""
        received.check(allow_blank=self.environment.limits.allow_blank_saves)
        command = self._write_command(context, slot, condition, received)
        result = await execute_with_blob(self.store, command, self.store.write, received.spool)
        return self._finish_write(command, result)

    async def write_presented(
        self,
        presented: commands.PresentedToken,
        context: commands.WriteContext,
        slot: str,
        condition: Condition,
        received: commands.ReceivedBody,
    ) -> commands.WriteResult:
        """Authenticate a token and store a save in one transaction, else in two; the order of errors is the same.

        The change was counted by count_presented().
        """
        command = self._write_command(context, slot, condition, received)
        outcome: commands.WriteResult | commands.BytesMissing | SaveError | None = None
        if received.is_acceptable(allow_blank=self.environment.limits.allow_blank_saves):
            outcome = await self._present(presented, command, self.store.write_presented)
        if isinstance(outcome, commands.WriteResult):
            # A transaction does not refuse a body that came late. The bucket that it found refuses the next head.
            presented.recent.arrival_ms = outcome.arrival_ms or 0
            presented.recent.epoch = outcome.epoch or presented.recent.epoch
            return self._finish_write(command, outcome)
        admitted = await self._authorize_instead(presented, command, received)
        return await self.write(admitted, slot, condition, received)

    async def _present(
        self,
        presented: commands.PresentedToken,
        command: Presented,
        run: Callable[[AccessKey, Presented], Awaitable[T | SaveError | None]],
    ) -> T | None:
        """Authenticate a token in the transaction of its change; return None, or BytesMissing, if that is not possible.

        Raise SaveError if the change is refused.
        """
        recent, kept = presented.recent, self.sessions.recent
        try:
            outcome = await run(recent.key, command)
        except (SessionError, RateLimited):  # other processes may have filled the bucket: the read finds out sooner
            kept.forget(recent.session_id)
            raise
        except TokenUnread as e:
            # Each further attempt would cost a transaction in vain, and the reason may last.
            if kept.pause(self.environment.now_ms()):
                self.store.log_unread(e)
            return None
        except DatabaseUnreachable:  # a read would wait for the lost server once more
            raise
        except DatabaseError as e:
            # its error comes first, if it has one
            await self.read_summary(presented.token, now_ms=command.context.admitted_ms)
            if isinstance(command, commands.RestoreCommand) and not isinstance(e, DatabaseBusy):
                return None  # the read may still find that there is no such version
            raise
        if isinstance(outcome, SaveError):
            if isinstance(outcome, Erased):  # perhaps only by the clock: the next write reads the epoch first
                kept.forget(recent.session_id)
            raise outcome
        if outcome is not None:
            recent.seen_ms = self.environment.now_ms()
            kept.resume()
        return outcome

    async def _authorize_instead(
        self, presented: commands.PresentedToken, command: Presented, received: commands.ReceivedBody | None = None
    ) -> commands.WriteContext:
        """Authenticate the token of a change that _present() did not make; check its rate, its body, then an erase."""
        self.sessions.recent.forget(presented.recent.session_id)
        # By the instant of the head, as the transaction does it: the token may have expired since, and others may have
        # filled the bucket.
        context, limits = command.context, self.environment.limits
        admitted_ms = context.admitted_ms
        caller, summary = await self.read_summary(presented.token, now_ms=admitted_ms)
        self._remember(presented.token, caller, summary)
        now_ms = command.now_ms if isinstance(command, commands.WriteCommand) else admitted_ms
        count_change(limits, summary.write_arrival_ms, now_ms, admitted_ms)
        if received is not None:
            received.check(allow_blank=limits.allow_blank_saves)
        # The epoch that was read just now is that of the end of the request, so the transaction cannot see the erase.
        if summary.erased_during(context.epoch, admitted_ms, now_ms):
            raise erased_error()
        return commands.WriteContext(caller.player_id, summary.cursor.epoch, summary.usage, caller.device, admitted_ms)

    async def _change(
        self,
        token: Secret,
        make: Callable[[commands.WriteContext], Presented],
        run: Callable[[AccessKey, Presented], Awaitable[T | SaveError | None]],
    ) -> tuple[commands.WriteContext, T | None]:
        """Make a change without a body if this process knows its token; else return None, and its admitted context."""
        recent = self.sessions.find_recent(token)
        if recent is None or not self.count_presented(context := self.presented_context(recent), recent):
            return await self.authorize_upload(token), None
        presented, command = commands.PresentedToken(token, recent), make(context)
        outcome = await self._present(presented, command, run)
        if outcome is None:
            context = await self._authorize_instead(presented, command)
        return context, outcome

    def _write_command(
        self, context: commands.WriteContext, slot: str, condition: Condition, received: commands.ReceivedBody
    ) -> commands.WriteCommand:
        environment = self.environment
        epoch = new_epoch(environment.random) if context.epoch == EMPTY_CURSOR.epoch else context.epoch
        return commands.WriteCommand(
            context, slot, condition, received.content, environment.now_ms(), epoch, received.data
        )

    def _finish_write(self, command: commands.WriteCommand, result: commands.WriteResult) -> commands.WriteResult:
        context, slot, condition, environment = command.context, command.slot, command.condition, self.environment
        if result.changed:  # before the error: a refused write may have stored a conflict copy, which lists show
            environment.waiters.notify(context.player_id)
        error = responses.write_error(slot, condition, result)
        if error is not None:
            raise error
        return result

    def deleted_until_ms(self) -> int | None:
        """Return until when a save that is deleted now can be restored; None if the server keeps no deleted saves."""
        limits, now_ms = self.environment.limits, self.environment.now_ms()
        return kept_until_ms(limits, now_ms) if limits.keep_days else None

    async def delete(self, token: Secret, slot: str, condition: Condition) -> None:
        """Delete the current version of a slot; its history stays."""

        def make(context: commands.WriteContext) -> commands.DeleteCommand:
            return commands.DeleteCommand(context, slot, condition, self.environment.now_ms())

        context, outcome = await self._change(token, make, self.store.delete_presented)
        outcome = outcome or _done(await self.store.delete(make(context)))
        error = responses.delete_error(slot, condition, outcome)
        if error is not None:
            raise error
        if outcome.decision is DeleteDecision.DELETES:
            self.environment.waiters.notify(context.player_id)

    async def restore(self, token: Secret, slot: str, number: int, condition: Condition) -> Version:
        """Make an old version current again after a check of its bytes; return the version that is current then."""

        def make(context: commands.WriteContext) -> commands.RestoreCommand:
            return commands.RestoreCommand(context, slot, number, condition, self.environment.now_ms())

        context, outcome = await self._change(token, make, self.store.restore_presented)
        if outcome is None:
            # The check hashes up to `save_bytes`, which would delay the write queue. The transaction copies no bytes,
            # so what was intact before it is what becomes current.
            request = commands.ReadRequest(slot, Conditions(), with_bytes=False, version=number)
            _, snapshot = await self.store.read_slot(token, self.environment.now_ms(), request)
            await self._check_bytes(token, _evaluate(request, snapshot).version)
            outcome = _done(await self.store.restore(make(context)))
        if outcome.decision.rule in WRITES:
            self.environment.waiters.notify(context.player_id)
        error = responses.restore_error(slot, condition, outcome)
        if error is not None or outcome.current is None:
            raise error or responses.version_gone_error(slot, number)
        return outcome.current

    async def dismiss(self, token: Secret, slot: str, number: int) -> None:
        """Delete a conflict copy."""

        def make(context: commands.WriteContext) -> commands.DismissCommand:
            return commands.DismissCommand(context, slot, number)

        context, outcome = await self._change(token, make, self.store.dismiss_presented)
        if outcome is None:
            _done(await self.store.dismiss(make(context)))
        self.environment.waiters.notify(context.player_id)

    async def _check_bytes(self, token: Secret, version: Version) -> None:
        """Check the stored bytes of a version; raise SaveError if it has none or they are damaged."""
        if version.blob_id is None:
            raise responses.no_bytes_error(version)
        try:
            await self.store.check(version.blob_id)
        except BlobNotFound:
            raise responses.version_gone_error(version.slot, version.version) from None
        except (BlobCorrupt, DatabaseCorrupt):
            raise await self._corrupt_blob_error(token, version) from None

    async def _corrupt_blob_error(self, token: Secret, version: Version) -> CorruptBlob:
        _, history = await self.store.read_history(token, self.environment.now_ms(), version.slot)
        return await responses.corrupt_blob_error(self.store.check, version, history)


def _evaluate(request: commands.ReadRequest, snapshot: commands.SlotSnapshot) -> commands.ReadResult:
    """Return the version and the part of its bytes to send; raise SaveError if there are none to send."""
    if snapshot.precondition is Precondition.FAILED:
        raise responses.read_error(request.slot, request.conditions, snapshot)
    version, representation = snapshot.target, snapshot.representation
    if version is None or representation is None:
        raise responses.unreadable_error(request, snapshot)
    modified = snapshot.precondition is not Precondition.NOT_MODIFIED
    if not modified or not request.with_bytes:
        return commands.ReadResult(version, modified)
    part = parse_range(request.range, version.size) if range_holds(request.conditions, representation) else None
    return commands.ReadResult(version, True, part, snapshot.data)


def _done(outcome: T | SaveError) -> T:
    if isinstance(outcome, SaveError):
        raise outcome
    return outcome


Command = TypeVar("Command", commands.WriteCommand, commands.StageCommand)
Outcome = TypeVar("Outcome", commands.WriteResult, commands.Staged)


async def execute_with_blob(
    store: SaveStore,
    command: Command,
    execute: Callable[[Command], Awaitable[Outcome | commands.BytesMissing | SaveError]],
    spool: BinaryIO | None,
) -> Outcome:
    """Execute a command; if the store lacks its bytes, append them as a blob and execute the command again.

    `spool` has the bytes, or is None if the command has them itself. Raise the SaveError of `execute`.

    Larger bytes are appended only when the first execution has asked for them. A full quota, a repeated request and
    bytes that the player has already need none, and an append may write 2 GiB.
    """
    # The deciding transaction moves no large bytes: they would delay the 63 others of its batch. So the blob is made
    # first, in transactions of its own. Meanwhile a cleanup may delete the known blob, or another device of the player
    # may store equal bytes; then the transaction lacks its bytes again. Devices could cause that for ever.
    result: Outcome | None = None
    try:
        for _ in range(ATTEMPTS):
            outcome = await execute(command)
            if isinstance(outcome, SaveError):
                raise outcome
            if not isinstance(outcome, commands.BytesMissing):
                result = outcome
                return result
            if spool is not None:
                command = await _with_blob(store, command, outcome.known_blob, spool)
    finally:  # also after a failure, else the blob would lie there until cleanup, a day later
        _discard_unused(store, command, result)
    raise DatabaseBusy("Too much goes on with these bytes. Send them again in a moment.")


async def _with_blob(store: SaveStore, command: Command, known: int | None, spool: BinaryIO) -> Command:
    """Return the command with a blob that holds its bytes: a known and intact one, or else a new one."""
    if known is not None and known != command.checked_blob and command.appended_blob is None:
        try:
            await store.check(known)
            return replace(command, checked_blob=known)
        except (BlobCorrupt, BlobNotFound):
            pass
    _discard_unused(store, command, None)
    return replace(command, appended_blob=await store.append(command.context.player_id, spool))


def _discard_unused(store: SaveStore, command: Command, result: commands.WriteResult | commands.Staged | None) -> None:
    """Begin to delete the appended blob unless the result uses it."""
    blob = command.appended_blob
    if blob is not None and (result is None or not result.uses_blob(blob)):
        store.begin_discard(blob, command.context.player_id)
