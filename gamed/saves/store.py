"""Reads of saves, and the transactions that change them, on the queues of the databases.

A read authenticates its token in the same transaction of the read queue (docs/internals/architecture.md: Storage).
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from hashlib import sha256
from operator import attrgetter
from typing import BinaryIO, TypeVar

from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from gamed.config.game import SaveLimits
from gamed.crypto import Keys, Secret
from gamed.database.connection import STATE, Connection, Transaction, attributed
from gamed.database.databases import Databases
from gamed.event_log import EventLog
from gamed.http.conditional import UNCONDITIONAL, Conditions, Precondition, Representation, evaluate_conditions
from gamed.players.tables import display_name_of
from gamed.saves import batch_store, blob_tables, tables, version_tables, write_store
from gamed.saves.commands import (
    BlobsMissing,
    BytesMissing,
    CommitCommand,
    CommitConflict,
    Committed,
    DeleteCommand,
    DeleteResult,
    DismissCommand,
    ListRequest,
    ReadRequest,
    RestoreCommand,
    SlotSnapshot,
    StageCommand,
    Staged,
    VersionHistory,
    WriteCommand,
    WriteResult,
)
from gamed.saves.errors import SaveError, TokenUnread
from gamed.saves.limits import INLINE_BYTES, LISTED_FREELY, VERSIONS_AT_ONCE, SaveRateLimiter
from gamed.saves.model import (
    ANY_VERSION,
    EMPTY_CURSOR,
    Listing,
    SaveContent,
    SavesSummary,
    SlotEntry,
    SlotState,
    Version,
)
from gamed.saves.retention import Retention, kept_until_ms, protected_versions
from gamed.saves.write_store import version_before_delete, version_by_tag
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.recent import AccessKey
from gamed.sessions.tables import authenticate
from gamed.structs import Component

_log = EventLog(Logger())
T = TypeVar("T")
PlayerCommand = WriteCommand | DeleteCommand | RestoreCommand | DismissCommand | StageCommand | CommitCommand
CHANGE_BYTES = 64 * 1024
"""The size of one entry of a commit in a batch: a full commit is a batch alone, so that no request waits for two."""


class SaveStore(Component, frozen=True, kw_only=True):
    """The saves and staged bytes in state.db; each method runs one transaction, and raises DatabaseError if it failed.

    The methods with a token raise SessionError, too.
    """

    databases: Databases
    keys: Keys
    limits: SaveLimits
    lists: SaveRateLimiter
    """Counts in the transactions, because the player is known there, and the length before all of it is read."""

    def read_summary(self, token: Secret, now_ms: int) -> Deferred[tuple[AuthenticatedSession, SavesSummary]]:
        return self._read(token, now_ms, tables.find_player)

    def read_overview(
        self, token: Secret, now_ms: int
    ) -> Deferred[tuple[AuthenticatedSession, SavesSummary, str | None]]:
        """Read the totals of the player's saves, and the player's display name."""

        def transaction(connection: Connection) -> tuple[AuthenticatedSession, SavesSummary, str | None]:
            caller, summary = self._read_as(connection, token, now_ms, tables.find_player)
            return caller, summary, display_name_of(connection, self.keys.sealer, caller.player_id)

        return self.databases.reads.submit(transaction)

    def list_saves(
        self, token: Secret, now_ms: int, request: ListRequest
    ) -> Deferred[tuple[AuthenticatedSession, Listing]]:
        count = partial(self.lists.acquire, now_ms=now_ms)
        return self._read(token, now_ms, partial(read_list, request=request, count=count))

    def slots_by_name(
        self, token: Secret, now_ms: int, after: str, limit: int
    ) -> Deferred[tuple[AuthenticatedSession, Sequence[SlotEntry]]]:
        """Read the next slots by name, the deleted ones included, with what is kept of them."""
        return self._read(token, now_ms, partial(read_slots, limits=self.limits, after=after, limit=limit))

    def copied_slots(
        self, token: Secret, now_ms: int, after: str, limit: int
    ) -> Deferred[tuple[AuthenticatedSession, Sequence[SlotEntry]]]:
        """Read the next slots by name that have conflict copies."""
        return self._read(token, now_ms, partial(tables.copied_slots, after=after, limit=limit))

    def read_slot(
        self, token: Secret, now_ms: int, request: ReadRequest
    ) -> Deferred[tuple[AuthenticatedSession, SlotSnapshot]]:
        return self._read(token, now_ms, partial(read_slot, request=request))

    def read_history(
        self, token: Secret, now_ms: int, slot: str, before: int = ANY_VERSION, limit: int = VERSIONS_AT_ONCE
    ) -> Deferred[tuple[AuthenticatedSession, VersionHistory]]:
        """Read the newest versions with a number below `before`."""
        count = partial(self.lists.acquire, now_ms=now_ms)
        read = partial(read_history, limits=self.limits, slot=slot, before=before, limit=limit, count=count)
        return self._read(token, now_ms, read)

    def read_sides(
        self, token: Secret, now_ms: int, slot: str
    ) -> Deferred[tuple[AuthenticatedSession, VersionHistory]]:
        """Read the current version, or the delete that emptied the slot, and all conflict copies, newest first."""
        return self._read(token, now_ms, partial(read_sides, limits=self.limits, slot=slot))

    def write(self, command: WriteCommand) -> Deferred[WriteResult | BytesMissing | SaveError]:
        size = len(command.data) if command.data is not None else 0
        return self._change(partial(write_store.write_save, limits=self.limits, command=command), command, size)

    def write_presented(
        self, key: AccessKey, command: WriteCommand
    ) -> Deferred[WriteResult | BytesMissing | SaveError | None]:
        """Authenticate an access token and write in one transaction; None and TokenUnread: authenticate it before."""
        write = partial(write_store.write_presented, limits=self.limits, key=key, command=command)
        return self._change(write, command, command.content.size)

    def log_unread(self, error: TokenUnread) -> None:
        """Log why a session could not be read: SQLite's or PostgreSQL's code, no text that might quote a value."""
        cause = error.__cause__
        code = getattr(cause, "sqlite_errorname", None) or getattr(cause, "code", None) or type(cause).__name__
        _log.warn("sessions_unread", code=code)

    def delete(self, command: DeleteCommand) -> Deferred[DeleteResult | SaveError]:
        return self._change(partial(write_store.delete_save, limits=self.limits, command=command), command)

    def restore(self, command: RestoreCommand) -> Deferred[WriteResult | SaveError]:
        return self._change(partial(write_store.restore_version, limits=self.limits, command=command), command)

    def dismiss(self, command: DismissCommand) -> Deferred[Version | SaveError]:
        return self._change(partial(write_store.dismiss_conflict, limits=self.limits, command=command), command)

    def delete_presented(self, key: AccessKey, command: DeleteCommand) -> Deferred[DeleteResult | SaveError | None]:
        """Authenticate an access token and do this in one transaction, as write_presented() does."""
        return self._present(key, command, write_store.delete_save)

    def restore_presented(self, key: AccessKey, command: RestoreCommand) -> Deferred[WriteResult | SaveError | None]:
        return self._present(key, command, write_store.restore_version)

    def dismiss_presented(self, key: AccessKey, command: DismissCommand) -> Deferred[Version | SaveError | None]:
        return self._present(key, command, write_store.dismiss_conflict)

    def _present(
        self,
        key: AccessKey,
        command: write_store.Bodiless,
        change: Callable[[Connection, SaveLimits, write_store.Bodiless], T],
    ) -> Deferred[T | SaveError | None]:
        run = partial(write_store.presented, limits=self.limits, key=key, command=command, change=change)
        return self._change(run, command)

    def size_of(self, player_id: str, sha256: bytes) -> Deferred[int | None]:
        return self.databases.reads.submit(
            attributed(STATE, partial(batch_store.staged_size_of, player_id=player_id, sha256=sha256))
        )

    def find_blobs(self, player_id: str, digests: Collection[bytes]) -> Deferred[dict[bytes, int]]:
        return self.databases.reads.submit(
            attributed(STATE, partial(blob_tables.find_blobs, player_id=player_id, digests=digests))
        )

    def stage(self, command: StageCommand) -> Deferred[Staged | BytesMissing | SaveError]:
        size = len(command.data) if command.data is not None else 0
        return self._change(partial(batch_store.stage_bytes, limits=self.limits, command=command), command, size)

    def commit(self, command: CommitCommand) -> Deferred[Committed | CommitConflict | BlobsMissing | SaveError]:
        size = CHANGE_BYTES * len(command.changes)
        return self._change(partial(batch_store.commit_changes, limits=self.limits, command=command), command, size)

    def _change(self, transaction: Transaction[T], command: PlayerCommand, size: int = 0) -> Deferred[T]:
        """Run a transaction that writes only rows of the command's player."""
        return self.databases.state.submit(transaction, size, (command.context.player_id,))

    def append(self, player_id: str, spool: BinaryIO) -> Deferred[int]:
        return self.databases.blobs.append(player_id, spool)

    def check(self, blob_id: int) -> Deferred[None]:
        return self.databases.blobs.check(blob_id)

    def begin_discard(self, blob_id: int, player_id: str) -> None:
        self.databases.blobs.begin_discard(blob_id, player_id)

    def _read(
        self, token: Secret, now_ms: int, read: Callable[[Connection, str], T]
    ) -> Deferred[tuple[AuthenticatedSession, T]]:
        return self.databases.reads.submit(partial(self._read_as, token=token, now_ms=now_ms, read=read))

    def _read_as(
        self, connection: Connection, token: Secret, now_ms: int, read: Callable[[Connection, str], T]
    ) -> tuple[AuthenticatedSession, T]:
        """Authenticate the token and read the saves in one transaction; auth.db is read first."""
        caller = authenticate(connection, self.keys.indexer, token, now_ms)
        try:
            return caller, read(connection, caller.player_id)
        except Exception as e:  # a damaged state.db must not mark auth.db as damaged, which the same connection reads
            raise connection.found_in(STATE, e)  # noqa: B904  its cause is set


def read_slots(
    connection: Connection, player_id: str, limits: SaveLimits, after: str, limit: int
) -> Sequence[SlotEntry]:
    """Return the next slots by name; a deleted one with the version that can be restored."""
    entries = tables.slots_by_name(connection, player_id, after, limit)
    deleted = [entry.slot for entry in entries if entry.deleted_ms is not None and entry.current is None]
    kept = version_tables.newest_written(connection, player_id, deleted)
    return [
        replace(entry, kept=kept[entry.slot], kept_until_ms=kept_until_ms(limits, entry.deleted_ms or 0))
        if entry.slot in kept
        else entry
        for entry in entries
    ]


def read_list(connection: Connection, player_id: str, request: ListRequest, count: Callable[[str], object]) -> Listing:
    """Return a page of all saves, or of those that changed since; none if the client knows this cursor (If-None-Match).

    Call `count` before many rows are read. All saves are in the order of their names if they fit into a page; else a
    page has those that changed longest ago, and its cursor leads to the others as to changes.
    """
    summary, since = tables.find_player(connection, player_id), request.since
    cursor = summary.cursor
    known = request.conditions.if_none_match
    # First, because a waiting game asks this again and again: it costs one row.
    if known is not None and known.match_weakly(cursor.entity_tag):
        return Listing(cursor, None)
    if summary.erasing:
        return Listing(cursor, (), reset=since is not None)
    after = since if since is not None and summary.covers(since) else None
    if request.limit <= LISTED_FREELY:
        many = False
    elif after is None:
        many = summary.usage.slots > LISTED_FREELY
    else:  # counted before they are read: 33 rows at most, not 257 with their versions
        many = tables.count_changes(connection, player_id, after.seq, LISTED_FREELY + 1) > LISTED_FREELY
    if many:
        count(player_id)
    if after is None:
        found = tables.current_saves(connection, player_id, request.limit + 1)
    else:
        found = tables.changed_slots(connection, player_id, after.seq, request.limit + 1)
    page, more = _whole_changes(connection, player_id, found, request.limit)
    # a client would delete its copy of a deleted save, so none that is only damaged may look like one
    listed = (entry for _, entry in page if entry.current or (after is not None and not entry.damaged))
    entries = sorted(listed, key=attrgetter("slot"))
    reset = since is not None and after is None
    expired = since is not None and summary.has_expired_since(since) and not tables.has_damaged(connection, player_id)
    if not more:
        return Listing(cursor, entries, reset, expired)
    begun = cursor.seq if after is None or after == EMPTY_CURSOR else after.begun
    return Listing(summary.cursor_at(page[-1][0], begun), entries, reset, expired, more=True)


def _whole_changes(
    connection: Connection, player_id: str, found: Sequence[tuple[int, SlotEntry]], limit: int
) -> tuple[Sequence[tuple[int, SlotEntry]], bool]:
    """Return about `limit` of the entries that were found, and whether there are more.

    A page never ends between two slots with the same number: its cursor would skip the second one. Changes of earlier
    releases may share their number.
    """
    if len(found) <= limit:
        return found, False
    last = found[limit - 1][0]
    if found[limit][0] != last:
        return found[:limit], True
    before = [each for each in found if each[0] < last]
    if before:
        return before, True
    more = tables.count_changes(connection, player_id, last, 1) > 0
    return tables.slots_of_change(connection, player_id, last), more


def read_slot(connection: Connection, player_id: str, request: ReadRequest) -> SlotSnapshot:
    """Return a version and the result of the conditions, with its checked bytes if they are small and needed."""
    # With the bytes in the same statement a small save costs one query less; a statement is a round trip on PostgreSQL.
    if request.with_bytes and request.version is None and request.conditions is UNCONDITIONAL:
        state, data = tables.slot_state_and_bytes(connection, player_id, request.slot)
    else:  # the client may not need the bytes
        state, data = tables.slot_state(connection, player_id, request.slot), None
    target = (
        state.current
        if request.version is None
        else version_tables.find_version(connection, player_id, request.slot, request.version)
    )
    if target is None or target.content is None:
        return SlotSnapshot(state, target, last=version_before_delete(connection, player_id, state))
    current = _representation(connection, player_id, target, request.conditions)
    outcome = evaluate_conditions(request.conditions, current, reading=True)
    if outcome is Precondition.FAILED:
        match = request.conditions.if_match
        tag = match.listed[0].opaque if match and match.listed else None
        return SlotSnapshot(
            state, target, base=version_by_tag(connection, player_id, request.slot, tag), precondition=outcome
        )
    if outcome is Precondition.NOT_MODIFIED or not request.with_bytes or target.size > INLINE_BYTES:
        return SlotSnapshot(state, target, precondition=outcome, representation=current)
    data = _bytes_of(connection, target, target.content, data)
    return SlotSnapshot(state, target, precondition=outcome, representation=current, data=data, damaged=data is None)


def _representation(connection: Connection, player_id: str, current: Version, conditions: Conditions) -> Representation:
    """Return the validators; the query whether the date is a strong one is made only if the client sent a date."""
    dated = isinstance(conditions.if_range, int)
    doubtful = dated and version_tables.shares_its_second(connection, player_id, current)
    return Representation(current.entity_tag, current.created_ms, date_is_strong=not doubtful)


def _bytes_of(connection: Connection, version: Version, body: SaveContent, stored: bytes | None) -> bytes | None:
    """Return the stored bytes, or None if they are not those that were acknowledged."""
    if stored is None:
        if version.blob_id is None:
            return None
        stored = blob_tables.load_blob(connection, version.blob_id)
    return stored if sha256(stored).digest() == body.sha256 else None


def read_history(
    connection: Connection,
    player_id: str,
    limits: SaveLimits,
    slot: str,
    *,
    before: int,
    limit: int,
    count: Callable[[str], object],
) -> VersionHistory:
    """Return a page of the versions that are kept of a slot, newest first, and what decides how long each is kept."""
    state = tables.slot_state(connection, player_id, slot)
    versions = version_tables.page_of_versions(connection, player_id, slot, before, limit + 1)
    # After the read, which costs as much as that of a save: only its length shows whether it is a long one.
    if len(versions[:limit]) > LISTED_FREELY:
        count(player_id)
    retention = _retention(connection, player_id, limits, slot, state)
    return VersionHistory(state, versions[:limit], retention, more=len(versions) > limit)


def read_sides(connection: Connection, player_id: str, limits: SaveLimits, slot: str) -> VersionHistory:
    """Return the versions to choose from: the current one, or the delete, and all conflict copies, newest first."""
    state = tables.slot_state(connection, player_id, slot)
    sides = version_tables.copies_of_slot(connection, player_id, slot)
    if head := state.current or state.tombstone:
        sides.append(head)
    sides.sort(key=attrgetter("version"), reverse=True)
    return VersionHistory(state, sides, _retention(connection, player_id, limits, slot, state))


def _retention(connection: Connection, player_id: str, limits: SaveLimits, slot: str, state: SlotState) -> Retention:
    protected = version_tables.written_numbers(connection, player_id, slot, protected_versions(limits))
    deleted_ms = None if state.current is not None else state.tombstone.created_ms if state.tombstone else 0
    return Retention(protected[-1] if protected else 0, deleted_ms)
