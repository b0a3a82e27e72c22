"""Transactions that change one slot: write, delete, restore and dismiss (docs/internals/rules.md: Writes, History).

Each one runs on the write queue of state.db: it reads the slot, lets the rules decide, writes the rows and updates the
stored totals. All checks that return an error stand before the first statement that writes: a value that is returned
is committed with whatever was written, and only an exception rolls back.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gamed.config.game import SaveLimits
from gamed.database.connection import Connection
from gamed.saves import blob_tables, prune_store, tables, version_tables
from gamed.saves.commands import (
    BytesMissing,
    CommitCommand,
    DeleteCommand,
    DeleteResult,
    DismissCommand,
    RestoreCommand,
    StageCommand,
    WriteCommand,
    WriteContext,
    WriteResult,
)
from gamed.saves.errors import Erased, SaveError, TokenUnread
from gamed.saves.limits import ONE_TRIP_BYTES, Usage, count_change, room_to_change, slots_to_expire
from gamed.saves.model import EMPTY_CURSOR, SaveContent, SavesSummary, SlotState, Version, VersionKind, version_of_tag
from gamed.saves.responses import no_bytes_error, not_found_error, protected_error, version_gone_error
from gamed.saves.retention import DAY_MS
from gamed.saves.write_rules import (
    NOTHING_EARLIER,
    WRITES,
    DeleteDecision,
    WriteDecision,
    WriteRule,
    decide_delete,
    decide_write,
)
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.errors import SessionError
from gamed.sessions.recent import AccessKey
from gamed.sessions.tables import authenticate_key

T = TypeVar("T")
Presented = TypeVar("Presented", WriteCommand, DeleteCommand, RestoreCommand, DismissCommand)
Bodiless = TypeVar("Bodiless", DeleteCommand, RestoreCommand, DismissCommand)


def write_save(
    connection: Connection, limits: SaveLimits, command: WriteCommand
) -> WriteResult | BytesMissing | SaveError:
    """Apply the rules W1 to W7 to a PUT. BytesMissing and SaveError change nothing."""
    summary, state = tables.load_slot(connection, command.context.player_id, command.slot)
    # First, because every later check would look at the saves after the erase: to them this is a first write.
    if summary.erased_since(command.context.epoch):
        return erased_error()
    return _write(connection, limits, counted(limits, summary, command, command.now_ms), summary, state)


def write_presented(
    connection: Connection, limits: SaveLimits, key: AccessKey, command: WriteCommand
) -> WriteResult | BytesMissing | SaveError | None:
    """Authenticate an access token, then write as write_save() does; errors and None are those of presented()."""
    caller = _authenticate(connection, key, command.context)
    if caller is None:
        return None
    summary, state = tables.load_slot(connection, command.context.player_id, command.slot)
    admitted = _admit(command, caller, summary)
    if not isinstance(admitted, WriteCommand):
        return admitted
    command = counted(limits, summary, admitted, admitted.now_ms)
    result = _write(connection, limits, command, summary, state)
    if not isinstance(result, WriteResult):
        return result
    first = summary.cursor == EMPTY_CURSOR and result.decision.rule in WRITES
    epoch = command.new_epoch if first else summary.cursor.epoch
    return replace(result, epoch=epoch, arrival_ms=command.context.arrival_ms)


def presented(
    connection: Connection,
    limits: SaveLimits,
    key: AccessKey,
    command: Bodiless,
    change: Callable[[Connection, SaveLimits, Bodiless], T],
) -> T | SaveError | None:
    """Authenticate an access token, then run `change`; None changes nothing: authenticate it before.

    Raise SessionError, or TokenUnread if auth.db cannot be read. The player and the epoch of the command's context are
    what this process knew of the token; its device and everything else is read here.
    """
    caller = _authenticate(connection, key, command.context)
    if caller is None:
        return None
    admitted = _admit(command, caller, tables.find_player(connection, command.context.player_id))
    if admitted is None or isinstance(admitted, SaveError):
        return admitted
    if isinstance(admitted, RestoreCommand) and not _is_small_and_intact(connection, admitted):
        return None
    return change(connection, limits, admitted)


def _authenticate(connection: Connection, key: AccessKey, context: WriteContext) -> AuthenticatedSession | None:
    try:
        # With the instant of the head, as if it had been authenticated then: a token may expire while its body arrives.
        caller = authenticate_key(connection.auth, key, context.admitted_ms)
    except SessionError:
        raise
    except Exception as e:  # whatever it is: an error or damage of auth.db must not count as one of state.db
        # PostgreSQL reports with the first result that a lock was not given, or that the server is lost. That is an
        # error of the whole batch: a second attempt would wait for as long once more.
        if connection.fatal_error is not None:
            raise
        raise TokenUnread from e
    return caller if caller.first_use_of is None and caller.player_id == context.player_id else None


def _admit(command: Presented, caller: AuthenticatedSession, summary: SavesSummary) -> Presented | SaveError | None:
    """Return the command with what its player's saves are now."""
    context = command.context
    now_ms = command.now_ms if isinstance(command, WriteCommand) else context.admitted_ms  # the others have no body
    if summary.erased_during(context.epoch, context.admitted_ms, now_ms):
        return erased_error()
    if summary.cursor == EMPTY_CURSOR and context.epoch != EMPTY_CURSOR.epoch:
        return None
    return replace(command, context=replace(context, epoch=summary.cursor.epoch, device=caller.device))


def _is_small_and_intact(connection: Connection, command: RestoreCommand) -> bool:
    """Check the bytes to restore as BlobStore.check() does; larger ones would delay the write queue."""
    old = version_tables.find_version(connection, command.context.player_id, command.slot, command.version)
    if old is None or old.content is None:
        return True  # restore_version() says so
    if old.blob_id is None or old.size > ONE_TRIP_BYTES:
        return False
    data = blob_tables.load_blob(connection, old.blob_id)
    return data is not None and sha256(data).digest() == old.content.sha256


def _write(
    connection: Connection, limits: SaveLimits, command: WriteCommand, summary: SavesSummary, state: SlotState
) -> WriteResult | BytesMissing | SaveError:
    player_id, slot = command.context.player_id, command.slot
    # The rules before the quota: a request whose response was lost is repeated, and succeeds although its own bytes
    # may have filled the quota. Refused bytes count in the history, which has a limit of its own.
    decision = decide(connection, command, state)
    if decision.rule not in WRITES:
        return _keep_current(connection, limits, command, state, decision)
    error = room_to_change(limits, summary.usage, [(state.size, command.content.size)])
    if error is not None:
        return error
    expiring: list[str] | SaveError = []
    if count := slots_to_expire(limits, summary.usage, 0 if state.exists else 1):
        expiring = prune_store.find_slots_to_expire(
            connection, limits, summary.usage, command, count=count, named={slot}
        )
    if isinstance(expiring, SaveError):
        return expiring
    known = blob_tables.find_blob_to_share(connection, player_id, slot, command.content)
    blob_id = ensure_blob(connection, command, known, refs=1)
    if isinstance(blob_id, BytesMissing):
        return blob_id
    # After the last early return, and after the blob has its reference: an expiring slot may hold the only other one.
    if expiring:
        prune_store.expire_slots(connection, player_id, expiring)
        summary = tables.find_player(connection, player_id)
    current = SlotWriter(connection, limits).set_current(command, state, command.content, blob_id, summary)
    return WriteResult(decision, current, created=state.current is None)


def _keep_current(
    connection: Connection, limits: SaveLimits, command: WriteCommand, state: SlotState, decision: WriteDecision
) -> WriteResult | BytesMissing:
    """Answer a PUT that does not change the current version; keep its bytes as a conflict copy if the rule says so."""
    player_id, slot = command.context.player_id, command.slot
    base = version_by_tag(connection, player_id, slot, command.condition.base)
    # A client that names no condition has seen no version, and W7 has no slot for a copy: nothing is kept for them.
    if decision.rule in (WriteRule.W3_UNCONDITIONAL, WriteRule.W7_NEVER_USED):
        return WriteResult(decision, state.current, base=base)
    if decision.stores_copy and not prune_store.HistoryRoom(connection, limits, player_id).has_room(command.content):
        return WriteResult(decision, state.current, base=base, dropped=True)
    if not decision.stores_copy:
        # The bytes are stored already, but perhaps damaged: a player who sends them again repairs the save.
        holder = decision.yours or state.current
        held = ensure_blob(connection, command, holder.blob_id if holder else None)
        if isinstance(held, BytesMissing):
            return held
        return WriteResult(decision, state.current, base=base, yours=decision.yours)
    known = blob_tables.find_blob_to_share(connection, player_id, slot, command.content)
    blob_id = ensure_blob(connection, command, known, refs=1)
    if isinstance(blob_id, BytesMissing):
        return blob_id
    yours = SlotWriter(connection, limits).store_conflict_copy(command, state, base, blob_id)
    base = version_by_tag(connection, player_id, slot, command.condition.base)  # the copy may have displaced it
    return WriteResult(decision, state.current, base=base, yours=yours)


Counted = TypeVar("Counted", WriteCommand, DeleteCommand, RestoreCommand, DismissCommand, CommitCommand)


def counted(limits: SaveLimits, summary: SavesSummary, command: Counted, now_ms: int) -> Counted:
    """Return the command with the player's bucket after this change; raise RateLimited before anything is written."""
    context = command.context
    count = len(command.changes) if isinstance(command, CommitCommand) else 1
    arrival_ms = count_change(limits, summary.write_arrival_ms, now_ms, context.admitted_ms, count)
    if arrival_ms is None:
        return command
    return replace(command, context=replace(context, arrival_ms=arrival_ms))


def decide(connection: Connection, command: WriteCommand, state: SlotState) -> WriteDecision:
    """Apply the rules W1 to W7; search for a repeated request only if there would be a conflict.

    The search reads all versions of the slot, up to 1,000; a write that fits needs none of them.
    """
    decision = decide_write(state, command.condition, command.content, NOTHING_EARLIER)
    if decision.rule is not WriteRule.W6_CONFLICT:
        return decision
    player_id, base = command.context.player_id, command.condition.base
    earlier = version_tables.matching_versions(connection, player_id, command.slot, base, command.content.sha256)
    return decide_write(state, command.condition, command.content, earlier)


def delete_save(connection: Connection, limits: SaveLimits, command: DeleteCommand) -> DeleteResult | SaveError:
    """Apply the rules of DELETE: the slot becomes empty, its history stays. SaveError changes nothing."""
    player_id, slot = command.context.player_id, command.slot
    summary, state = tables.load_slot(connection, player_id, slot)
    if summary.erased_since(command.context.epoch):
        return erased_error()
    command = counted(limits, summary, command, command.now_ms)
    decision = decide_delete(state, command.condition)
    if decision is DeleteDecision.DELETES and state.current is not None:
        SlotWriter(connection, limits).delete_current(command, state.last_version + 1, state.current)
    last = version_before_delete(connection, player_id, state)
    return DeleteResult(
        decision, state.current, version_by_tag(connection, player_id, slot, command.condition.base), last
    )


def restore_version(connection: Connection, limits: SaveLimits, command: RestoreCommand) -> WriteResult | SaveError:
    """Write the bytes of an old version by the same rules; nothing is copied, and no conflict copy is made."""
    player_id, slot = command.context.player_id, command.slot
    summary, state = tables.load_slot(connection, player_id, slot)
    if summary.erased_since(command.context.epoch):
        return erased_error()
    command = counted(limits, summary, command, command.now_ms)
    old = version_tables.find_version(connection, player_id, slot, command.version)
    if old is None or old.content is None:
        return _without_bytes(state, slot, command.version, old)
    base = command.condition.base
    earlier = version_tables.matching_versions(connection, player_id, slot, base, old.content.sha256)
    decision = decide_write(state, command.condition, old.content, earlier)
    if decision.rule not in WRITES:
        return WriteResult(decision, state.current, base=version_by_tag(connection, player_id, slot, base), yours=old)
    error = room_to_change(limits, summary.usage, [(state.size, old.size)])
    if error is not None:
        return error
    if old.blob_id is not None:
        blob_tables.add_references(connection, old.blob_id, 1)
    return WriteResult(decision, SlotWriter(connection, limits).set_current(command, state, old.content, old.blob_id))


def dismiss_conflict(connection: Connection, limits: SaveLimits, command: DismissCommand) -> Version | SaveError:
    """Delete a conflict copy and return it; other versions cannot be dismissed."""
    player_id, slot = command.context.player_id, command.slot
    summary = tables.find_player(connection, player_id)
    if summary.erased_since(command.context.epoch):
        return erased_error()
    command = counted(limits, summary, command, command.context.admitted_ms)  # no body: admitted just now
    copy = version_tables.find_version(connection, player_id, slot, command.version)
    if copy is None:
        return _without_bytes(tables.slot_state(connection, player_id, slot), slot, command.version, copy)
    if copy.kind is not VersionKind.CONFLICT:
        return protected_error(copy)
    prune_store.delete_version(connection, player_id, copy)
    prune_store.bump_slot(connection, player_id, slot, arrival_ms=command.context.arrival_ms)
    return copy


def _without_bytes(state: SlotState, slot: str, number: int, version: Version | None) -> SaveError:
    if not state.exists:
        return not_found_error(slot)
    return version_gone_error(slot, number) if version is None else no_bytes_error(version)


def version_by_tag(connection: Connection, player_id: str, slot: str, tag: str | None) -> Version | None:
    """Return the version with this entity-tag if it is kept and the tag has the right hash."""
    number = None if tag is None else version_of_tag(tag)
    version = None if number is None else version_tables.find_version(connection, player_id, slot, number)
    return version if version is not None and version.tag == tag else None


def version_before_delete(connection: Connection, player_id: str, state: SlotState) -> Version | None:
    """Return the version that an empty slot had when it was deleted, if it is kept."""
    if state.tombstone is None:
        return None
    return version_tables.find_version(connection, player_id, state.tombstone.slot, state.tombstone.parent)


def erased_error() -> Erased:
    """Return the error for a write that began before the saves were erased."""
    return Erased("Your saves were erased after this request began; nothing was changed. Read the list, then decide.")


class SlotWriter(Struct):
    """The changes of slots in one transaction; each updates the totals, and prunes a history that it makes too large.

    The caller counts the references to blobs.
    """

    _connection: Connection
    _limits: SaveLimits
    _in_commit: bool = False
    """A history of many slots is left to prune_after_commit(): a search for each entry would take seconds."""

    def set_current(
        self,
        command: WriteCommand | RestoreCommand,
        state: SlotState,
        content: SaveContent,
        blob_id: int | None,
        summary: SavesSummary | None = None,
    ) -> Version:
        """Make the bytes the current version and retire the one before; `summary` is as change_player() takes it.

        A player's first save also creates their row in `player_saves`.
        """
        connection, player_id, old = self._connection, command.context.player_id, state.current
        latest = old or state.tombstone
        last_version = state.last_version
        if not state.exists:  # a slot of this name may have expired, and its etags must not come again
            last_version = (summary or tables.find_player(connection, player_id)).expired_version
        now = Version(
            slot=command.slot,
            version=last_version + 1,
            parent=latest.version if latest else None,
            parent_tag=old.tag if old else None,
            kind=VersionKind.WRITE if isinstance(command, WriteCommand) else VersionKind.RESTORE,
            blob_id=blob_id,
            content=content,
            created_ms=command.now_ms,
            device=command.context.device,
        )
        if not state.exists and isinstance(command, WriteCommand):
            tables.create_player(connection, player_id, command.new_epoch)
        version_tables.insert_version(connection, player_id, now)
        if now.parent is not None:
            version_tables.retire_version(connection, player_id, now.slot, now.parent, now.created_ms)
        if old is not None:
            grown = Usage(bytes=content.size - old.size, history_bytes=old.history_bytes)
        else:
            grown = Usage(slots=1, bytes=content.size, deleted_slots=-1 if state.exists else 0)
        arrival_ms = command.context.arrival_ms
        seq, kept = tables.change_player(connection, player_id, grown, summary, arrival_ms=arrival_ms)
        # With fewer versions none can expire, so that the slot does not enter the index of what is due.
        due_ms = now.created_ms if now.version > self._limits.keep_versions else None
        is_new = not state.exists
        tables.write_slot(connection, player_id, now.slot, now.version, seq=seq, prune_at_ms=due_ms, is_new=is_new)
        self._fit_into_quota(player_id, now, kept)
        return now

    def store_conflict_copy(
        self, command: WriteCommand, state: SlotState, base: Version | None, blob_id: int
    ) -> Version:
        """Keep the refused bytes as a conflict copy, and delete the oldest copies beyond the limit."""
        connection, player_id = self._connection, command.context.player_id
        copy = Version(
            slot=command.slot,
            version=state.last_version + 1,
            parent=base.version if base else None,
            parent_tag=command.condition.base,
            kind=VersionKind.CONFLICT,
            blob_id=blob_id,
            content=command.content,
            created_ms=command.now_ms,
            retired_ms=command.now_ms,
            device=command.context.device,
        )
        version_tables.insert_version(connection, player_id, copy)
        copies = version_tables.conflict_copies_of_slot(connection, player_id, copy.slot)
        for number in copies[: max(0, len(copies) - self._limits.conflict_copies)]:
            old = version_tables.find_version(connection, player_id, copy.slot, number)
            if old is not None:
                prune_store.delete_version(connection, player_id, old)
        grown = Usage(history_bytes=copy.history_bytes)
        seq, kept = tables.change_player(connection, player_id, grown, arrival_ms=command.context.arrival_ms)
        due_ms = copy.created_ms + self._limits.keep_days * DAY_MS
        tables.touch_slot(connection, player_id, copy.slot, last_version=copy.version, seq=seq, prune_at_ms=due_ms)
        self._fit_into_quota(player_id, copy, kept, spared=copy.version)
        return copy

    def delete_current(self, command: DeleteCommand, number: int, current: Version) -> None:
        """Delete the current version: a tombstone becomes the newest version of the slot; its history stays."""
        connection, player_id, now_ms = self._connection, command.context.player_id, command.now_ms
        tombstone = Version(
            slot=command.slot,
            version=number,
            parent=current.version,
            parent_tag=current.tag,
            kind=VersionKind.DELETE,
            created_ms=now_ms,
            device=command.context.device,
        )
        version_tables.insert_version(connection, player_id, tombstone)
        version_tables.retire_version(connection, player_id, current.slot, current.version, now_ms)
        more = current.history_bytes + tombstone.history_bytes
        grown = Usage(slots=-1, bytes=-current.size, history_bytes=more, deleted_slots=1)
        seq, kept = tables.change_player(connection, player_id, grown, arrival_ms=command.context.arrival_ms)
        # At once if there may be more than is kept: a slot that is deleted each time must not keep more than others.
        due_ms = now_ms if number > self._limits.keep_versions else now_ms + self._limits.keep_days * DAY_MS
        tables.write_slot(connection, player_id, command.slot, number, seq=seq, deleted_ms=now_ms, prune_at_ms=due_ms)
        self._fit_into_quota(player_id, tombstone, kept, spared=current.version)

    def _fit_into_quota(self, player_id: str, now: Version, kept: int, spared: int | None = None) -> None:
        """Prune if the history has more bytes, `kept`, than allowed; never delete the version `spared` of this slot."""
        if kept <= self._limits.history_bytes:
            return
        named = [] if spared is None else [(now.slot, spared)]
        if prune_store.prune_to_quota(self._connection, self._limits, player_id, named, later=self._in_commit):
            tables.set_prune_time(self._connection, player_id, now.slot, now.created_ms)


def ensure_blob(
    connection: Connection, command: WriteCommand | StageCommand, known: int | None, refs: int = 0
) -> int | BytesMissing:
    """Return a blob of the player with exactly these bytes, with `refs` references more.

    `known` is a blob of the player with this hash, if one was found. The command's bytes replace damaged ones on disk,
    for every version that shares them: a player who still has the bytes repairs the save by storing it again.
    BytesMissing changes nothing.
    """
    if known is None and command.data is not None:
        return _insert(connection, command, command.data, command.content.sha256, refs)
    found = _use_or_publish(connection, command, known)
    if refs and not isinstance(found, BytesMissing):
        blob_tables.add_references(connection, found, refs)
    return found


def _insert(
    connection: Connection, command: WriteCommand | StageCommand, data: bytes, sha256: bytes | None, refs: int = 0
) -> int:
    return blob_tables.insert_blob(
        connection, command.context.player_id, sha256, data, refs=refs, now_ms=command.now_ms
    )


def _use_or_publish(
    connection: Connection, command: WriteCommand | StageCommand, known: int | None
) -> int | BytesMissing:
    player_id, content = command.context.player_id, command.content
    # Small bytes are compared here. Larger ones were hashed before, by the blob store: in this transaction the hash of
    # 16 MiB would delay the writes of all players by 15 ms.
    if known is not None and command.data is None and known == command.checked_blob:
        return known
    if known is not None and command.data is not None and blob_tables.load_blob(connection, known) == command.data:
        return known
    fresh = command.appended_blob if command.data is None else _insert(connection, command, command.data, None)
    if fresh is None or not blob_tables.is_unclaimed(connection, player_id, fresh, content.size):
        return BytesMissing(known)
    if known is not None:
        version_tables.move_blob(connection, player_id, known, fresh)
        blob_tables.unpublish(connection, known)
    blob_tables.publish(connection, fresh, content.sha256)
    return fresh
