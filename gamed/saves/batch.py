"""The work of changing several slots at once: bytes are staged, then one commit names them (PROTOCOL 4.4).

The body of a commit, read entry by entry: what each wants of its slot (PROTOCOL 4.4).
"""

import json
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from re import ASCII, compile
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from gamed.crypto import Random, Secret
from gamed.database.errors import BlobCorrupt, BlobNotFound, DatabaseBusy
from gamed.saves.change_waits import ChangeWaiters
from gamed.saves.commands import (
    BlobsMissing,
    BytesMissing,
    Change,
    CommitCommand,
    CommitConflict,
    Committed,
    ReceivedBlob,
    StageCommand,
    Staged,
    StagedContent,
    WriteContext,
)
from gamed.saves.errors import (
    BadMeta,
    BlobMissing,
    BlobNotStaged,
    DigestMismatch,
    InvalidCommit,
    InvalidCondition,
    InvalidSaveRequest,
    InvalidSlot,
    SaveError,
)
from gamed.saves.limits import SaveLimits, WriteRateLimiter
from gamed.saves.model import new_epoch
from gamed.saves.responses import commit_error
from gamed.saves.service import ATTEMPTS, BlobUploader, ByteStore, SaveService
from gamed.saves.validation import check_digest, check_media_type, check_meta, check_slot
from gamed.saves.write_rules import Condition, deleting_condition, writing_condition
from gamed.structs import Component
from gamed.timestamps import Now


class CommitStore(ByteStore, Protocol):
    """Each call is one transaction; StoreError when it did not take place."""

    def size_of(self, player_id: str, sha256: bytes) -> Awaitable[int | None]: ...
    def find_blobs(self, player_id: str, digests: Collection[bytes]) -> Awaitable[Mapping[bytes, int]]: ...
    def stage(self, command: StageCommand) -> Awaitable[Staged | BytesMissing | SaveError]: ...
    def commit(self, command: CommitCommand) -> Awaitable[Committed | CommitConflict | BlobsMissing | SaveError]: ...


class CommitService(Component, frozen=True):
    """Of all players; nobody ever learns of another's bytes. Raises SaveError, SessionError, StoreError."""

    _saves: SaveService
    _store: CommitStore
    _limits: SaveLimits
    _staged_seconds: int
    """How long bytes wait for a commit."""
    _now_ms: Now
    _random: Random
    _waits: ChangeWaiters
    _staging_rate: WriteRateLimiter

    async def authorize_commit(self, token: Secret) -> WriteContext:
        """To commit."""
        return await self._saves.authorize_write(token)

    async def authorize_stage(self, token: Secret) -> WriteContext:
        """Staged bytes have a rate of their own: nothing that a player sees is changed by them."""
        caller, summary = await self._saves.read_summary(token)
        self._staging_rate.acquire(caller.player_id, self._now_ms())
        return WriteContext(caller.player_id, summary.cursor.epoch, summary.usage)

    async def size_of(self, token: Secret, sha256: bytes) -> int:
        """Of the player's own bytes with this hash, staged or saved; else BlobNotStaged."""
        caller, _ = await self._saves.read_summary(token, reading=True)
        size = await self._store.size_of(caller.player_id, sha256)
        if size is None:
            raise BlobNotStaged("These bytes are not staged, or not any more: PUT them here.")
        return size

    async def stage(self, context: WriteContext, delivery: ReceivedBlob) -> None:
        """Keep bytes for a commit; the same again begins their time anew."""
        if delivery.sha256 != delivery.content.sha256:
            raise DigestMismatch("Other bytes arrived than the path says; nothing was stored. Send them again.")
        check_digest(delivery.expected_sha256, delivery.content.sha256)
        delivery.blank.check(delivery.content.size, allowed=self._limits.allow_blank_saves)
        now_ms = self._now_ms()
        command = StageCommand(context, delivery.content, now_ms, now_ms - self._staged_seconds * 1000, delivery.data)
        await BlobUploader(self._store).execute(command, self._store.stage, delivery.spool)

    async def commit(self, context: WriteContext, changes: Sequence[Change]) -> Committed:
        """All or nothing; what was refused is raised, and its bytes are kept all the same."""
        command = CommitCommand(context, changes, self._now_ms(), new_epoch(self._random), {})
        outcome = await self._decided(command)
        if outcome.changed:
            self._waits.changed(context.player_id)
        if isinstance(outcome, CommitConflict):
            raise commit_error(outcome.outcomes, len(changes))
        return outcome

    async def _decided(self, command: CommitCommand) -> Committed | CommitConflict:
        """Bytes are hashed beside the deciding lane; where they turn out to be others by then, it begins again."""
        for _ in range(ATTEMPTS):
            command = replace(command, checked_blobs=await self._checked(command))
            outcome = await self._store.commit(command)
            if isinstance(outcome, SaveError):
                raise outcome
            if not isinstance(outcome, BlobsMissing):
                return outcome
            absent = [sha256.hex() for sha256 in outcome.digests if sha256 not in command.checked_blobs]
            if absent:
                raise _missing(absent)
        raise DatabaseBusy("Too much goes on with these bytes. Send the commit again in a moment.")

    async def _checked(self, command: CommitCommand) -> Mapping[bytes, int]:
        """Blobs that hold what they should; damaged ones count as missing, and are healed when they are staged."""
        good = {}
        for sha256, blob_id in (await self._store.find_blobs(command.context.player_id, command.digests)).items():
            try:
                await self._store.check(blob_id)
            except (BlobCorrupt, BlobNotFound):
                continue
            good[sha256] = blob_id
        return good


def _missing(absent: Sequence[str]) -> BlobMissing:
    return BlobMissing(
        f"Nothing was changed: {len(absent)} of the named bytes are not here. PUT them to /game/blobs/ and their "
        "sha256, then send the same commit again.",
        {"missing": absent},
    )


Flaw = tuple[str, str]
"""A JSON pointer (RFC 6901), and what is wrong there."""
_SHA256: Final = compile(r"[0-9a-f]{64}", ASCII)
_NEEDS_CONDITION = "needs if_match or if_none_match: what you know of the slot"


class CommitEntry(Struct):
    """One entry of a commit as the client sent it; an absent member is None."""

    slot: str
    if_match: str | None = None
    if_none_match: str | None = None
    sha256: str | None = None
    content_type: str | None = None
    meta: dict[str, object] | None = None
    delete: bool = False


def parse_commit(proposals: Sequence[CommitEntry], limits: SaveLimits) -> tuple[Change, ...]:
    """What all entries want, in their order; InvalidCommit names everything that is wrong."""
    if not 1 <= len(proposals) <= limits.commit_writes:
        raise _invalid([("/writes", f"takes 1 to {limits.commit_writes} entries; there are {len(proposals)}")])
    flaws = list(_twice(proposals))
    changes = [_change(f"/writes/{n}", proposal, limits, flaws) for n, proposal in enumerate(proposals)]
    if flaws:
        raise _invalid(flaws)
    return tuple(change for change in changes if change is not None)


def sha256_in(text: str) -> bytes | None:
    """64 lower-case hex digits, as SaveInfo has them; None for anything else."""
    return bytes.fromhex(text) if _SHA256.fullmatch(text) else None


def _invalid(flaws: Sequence[Flaw]) -> InvalidCommit:
    listed = [{"pointer": pointer, "detail": detail} for pointer, detail in flaws]
    return InvalidCommit(f"{flaws[0][0]}: {flaws[0][1]}", {"errors": listed})


def _twice(proposals: Sequence[CommitEntry]) -> Iterator[Flaw]:
    first: dict[str, int] = {}
    for n, proposal in enumerate(proposals):
        if first.setdefault(proposal.slot, n) != n:
            yield (
                f"/writes/{n}/slot",
                f"is the slot of /writes/{first[proposal.slot]} too; a commit changes a slot once",
            )


def _change(at: str, proposal: CommitEntry, limits: SaveLimits, flaws: list[Flaw]) -> Change | None:
    """None when something is wrong, which is told in `flaws`."""
    known = len(flaws)
    try:
        check_slot(proposal.slot)
    except InvalidSlot as e:
        flaws.append((f"{at}/slot", str(e)))
    condition = _condition(at, proposal, flaws)
    content = None if proposal.delete else _content(at, proposal, limits, flaws)
    if proposal.delete:
        named = ("sha256", "content_type", "meta")
        flaws += [
            (f"{at}/{name}", "makes no sense beside delete") for name in named if getattr(proposal, name) is not None
        ]
    return Change(proposal.slot, condition, content) if condition and len(flaws) == known else None


def _condition(at: str, proposal: CommitEntry, flaws: list[Flaw]) -> Condition | None:
    if proposal.if_match is None and proposal.if_none_match is None:
        flaws.append((at, _NEEDS_CONDITION))
        return None
    read = deleting_condition if proposal.delete else writing_condition
    try:
        return read({"if-match": proposal.if_match, "if-none-match": proposal.if_none_match}.get)
    except InvalidCondition as e:
        at_fault = "if_match" if proposal.if_none_match is None else "if_none_match"
        flaws.append((f"{at}/{at_fault}", str(e)))
        return None


def _content(at: str, proposal: CommitEntry, limits: SaveLimits, flaws: list[Flaw]) -> StagedContent | None:
    sha256 = None if proposal.sha256 is None else sha256_in(proposal.sha256)
    if sha256 is None:
        flaws.append((f"{at}/sha256", "takes the 64 lower-case hex digits that the bytes were staged by"))
    ctype = meta = None
    try:
        ctype = check_media_type(proposal.content_type)
    except InvalidSaveRequest as e:
        flaws.append((f"{at}/content_type", str(e)))
    try:
        line = None if proposal.meta is None else json.dumps(proposal.meta, separators=(",", ":"))
        meta = check_meta(line, limits.meta_bytes)
    except BadMeta as e:
        flaws.append((f"{at}/meta", str(e)))
    return StagedContent(sha256, ctype, meta) if sha256 and ctype else None
