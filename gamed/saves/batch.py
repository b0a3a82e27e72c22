"""Changes of several slots at once: the client stages bytes, then a commit names them (docs/protocol.md: Commits).

A client can only name, read and commit the player's own bytes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gamed.config.game import SaveLimits
from gamed.crypto import Secret
from gamed.database.errors import BlobCorrupt, BlobNotFound, DatabaseBusy
from gamed.saves import commands, errors, validation
from gamed.saves.limits import SaveRateLimiter
from gamed.saves.model import new_epoch
from gamed.saves.responses import commit_error
from gamed.saves.service import ATTEMPTS, SaveEnvironment, SaveService, execute_with_blob
from gamed.saves.store import SaveStore
from gamed.saves.write_rules import Condition
from gamed.structs import Component


class CommitService(Component, frozen=True, kw_only=True):
    """The staged bytes and commits of all players; raises SaveError, SessionError or DatabaseError."""

    saves: SaveService
    store: SaveStore
    environment: SaveEnvironment
    staged_seconds: int
    """How long staged bytes are kept."""
    staging_rate: SaveRateLimiter
    search_rate: SaveRateLimiter
    """The rate of HEAD, apart from that of uploads: a client asks before each of them whether the bytes are there."""

    async def authorize_commit(self, token: Secret) -> commands.WriteContext:
        """Authenticate the player of a commit, which counts as one change."""
        return await self.saves.authorize_write(token)

    async def authorize_stage(self, token: Secret) -> commands.WriteContext:
        """Authenticate the player of an upload; staging changes no save, so it has a rate limit of its own."""
        caller, summary = await self.saves.read_summary(token)
        self.staging_rate.acquire(caller.player_id, self.environment.now_ms())
        return commands.WriteContext(caller.player_id, summary.cursor.epoch, summary.usage)

    async def size_of(self, token: Secret, sha256: bytes) -> int:
        """Return the size of the player's staged or saved bytes with this hash; raise BlobNotStaged."""
        caller, _ = await self.saves.read_summary(token, reading=True)
        self.search_rate.acquire(caller.player_id, self.environment.now_ms())
        size = await self.store.size_of(caller.player_id, sha256)
        if size is None:
            raise errors.BlobNotStaged("These bytes are not staged, or not any more: PUT them here.")
        return size

    async def stage(self, context: commands.WriteContext, sha256: bytes, received: commands.ReceivedBody) -> None:
        """Keep bytes with this hash for a commit; staging the same bytes again restarts their time."""
        content = received.content
        if sha256 != content.sha256:
            raise errors.DigestMismatch("Other bytes arrived than the path says; nothing was stored. Send them again.")
        received.check(allow_blank=self.environment.limits.allow_blank_saves)
        now_ms = self.environment.now_ms()
        command = commands.StageCommand(context, content, now_ms, now_ms - self.staged_seconds * 1000, received.data)
        await execute_with_blob(self.store, command, self.store.stage, received.spool)

    async def commit(self, context: commands.WriteContext, changes: Sequence[commands.Change]) -> commands.Committed:
        """Apply all changes or none; raise SaveError, in a conflict with refused bytes kept as copies."""
        environment = self.environment
        command = commands.CommitCommand(context, changes, environment.now_ms(), new_epoch(environment.random), {})
        outcome = await self._execute(command)
        if not outcome.changed:  # else the transaction has counted it
            self.saves.count_entries(context.player_id, len(changes))
        if outcome.changed:
            environment.waiters.notify(context.player_id)
        if isinstance(outcome, commands.CommitConflict):
            raise commit_error(outcome.outcomes, len(changes))
        return outcome

    async def _execute(self, command: commands.CommitCommand) -> commands.Committed | commands.CommitConflict:
        """Check the named blobs outside of the transaction, then commit; repeat if blobs changed in between."""
        for _ in range(ATTEMPTS):
            command = replace(command, checked_blobs=await self._checked_blobs(command))
            outcome = await self.store.commit(command)
            if isinstance(outcome, errors.SaveError):
                raise outcome
            if not isinstance(outcome, commands.BlobsMissing):
                return outcome
            missing = [sha256.hex() for sha256 in outcome.digests if sha256 not in command.checked_blobs]
            if missing:
                raise errors.BlobMissing(
                    f"Nothing was changed: {len(missing)} of the named bytes are not here. PUT them to /game/blobs/ "
                    "and their sha256, then send the same commit again.",
                    {"missing": missing},
                )
        raise DatabaseBusy("Too much goes on with these bytes. Send the commit again in a moment.")

    async def _checked_blobs(self, command: commands.CommitCommand) -> Mapping[bytes, int]:
        """Return the named blobs that are intact; a damaged one counts as missing, and staging it again repairs it."""
        intact = {}
        for sha256, blob_id in (await self.store.find_blobs(command.context.player_id, command.digests)).items():
            try:
                await self.store.check(blob_id)
            except (BlobCorrupt, BlobNotFound):
                continue
            intact[sha256] = blob_id
        return intact


class CommitEntry(Struct):
    """One entry of a commit as the client sent it; an absent member is None."""

    slot: str
    if_match: str | None = None
    if_none_match: str | None = None
    sha256: str | None = None
    content_type: str | None = None
    meta: dict[str, object] | None = None
    delete: bool = False


EntryError = tuple[str, str]
"""A JSON pointer (RFC 6901), and the error at that place."""


def parse_commit(entries: Sequence[CommitEntry], limits: SaveLimits) -> tuple[commands.Change, ...]:
    """Parse the entries of a commit; raise InvalidCommit, which lists all errors."""
    if not 1 <= len(entries) <= limits.commit_writes:
        raise _invalid_commit([("/writes", f"takes 1 to {limits.commit_writes} entries; there are {len(entries)}")])
    wrong = list(_repeated_slots(entries))
    changes = [_parse_entry(f"/writes/{n}", entry, limits, wrong) for n, entry in enumerate(entries)]
    if wrong:
        raise _invalid_commit(wrong)
    return tuple(change for change in changes if change is not None)


def _invalid_commit(wrong: Sequence[EntryError]) -> errors.InvalidCommit:
    pointer, detail = wrong[0]
    members = [{"pointer": pointer, "detail": detail} for pointer, detail in wrong]
    return errors.InvalidCommit(f"{pointer}: {detail}", {"errors": members})


def _repeated_slots(entries: Sequence[CommitEntry]) -> Iterator[EntryError]:
    first: dict[str, int] = {}
    for n, entry in enumerate(entries):
        if first.setdefault(entry.slot, n) != n:
            yield (f"/writes/{n}/slot", f"is the slot of /writes/{first[entry.slot]} too; a commit changes a slot once")


def _parse_entry(at: str, entry: CommitEntry, limits: SaveLimits, wrong: list[EntryError]) -> commands.Change | None:
    """Return the change that an entry asks for; if it is invalid, add to `wrong` and return None."""
    count_before = len(wrong)
    try:
        validation.check_slot(entry.slot)
    except errors.InvalidSlot as e:
        wrong.append((f"{at}/slot", str(e)))
    condition = _parse_condition(at, entry, wrong)
    content = None if entry.delete else _parse_content(at, entry, limits, wrong)
    if entry.delete:
        names = ("sha256", "content_type", "meta")
        wrong += [
            (f"{at}/{name}", "makes no sense beside delete") for name in names if getattr(entry, name) is not None
        ]
    return commands.Change(entry.slot, condition, content) if condition and len(wrong) == count_before else None


def _parse_condition(at: str, entry: CommitEntry, wrong: list[EntryError]) -> Condition | None:
    if entry.if_match is None and entry.if_none_match is None:
        wrong.append((at, "needs if_match or if_none_match: what you know of the slot"))
        return None
    parse = validation.deleting_condition if entry.delete else validation.writing_condition
    try:
        return parse({"if-match": entry.if_match, "if-none-match": entry.if_none_match}.get)
    except errors.InvalidCondition as e:
        member = "if_match" if entry.if_none_match is None else "if_none_match"
        wrong.append((f"{at}/{member}", str(e)))
        return None


def _parse_content(
    at: str, entry: CommitEntry, limits: SaveLimits, wrong: list[EntryError]
) -> commands.StagedContent | None:
    sha256 = None if entry.sha256 is None else validation.parse_sha256(entry.sha256)
    if sha256 is None:
        wrong.append((f"{at}/sha256", "takes the 64 lower-case hex digits that the bytes were staged by"))
    content_type = meta = None
    try:
        content_type = validation.check_media_type(entry.content_type)
    except errors.InvalidSaveRequest as e:
        wrong.append((f"{at}/content_type", str(e)))
    try:
        line = None if entry.meta is None else json.dumps(entry.meta, separators=(",", ":"))
        meta = validation.check_meta(line, limits.meta_bytes)
    except errors.BadMeta as e:
        wrong.append((f"{at}/meta", str(e)))
    return commands.StagedContent(sha256, content_type, meta) if sha256 and content_type else None
