"""Commands and reads that services send to a store, and their results (docs/protocol.md: Saves).

A store runs each in one transaction. A transaction may run twice, so a command carries every instant and random value.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import BinaryIO, Protocol

from msgspec import Struct

from gamed.crypto import Secret
from gamed.http.conditional import UNCONDITIONAL, ByteRange, Conditions, Precondition, Representation
from gamed.saves.errors import BlankSave, DigestMismatch
from gamed.saves.limits import LISTED_AT_ONCE, Usage
from gamed.saves.model import Cursor, SaveContent, SlotEntry, SlotState, Version
from gamed.saves.retention import Retention
from gamed.saves.write_rules import WRITES, Condition, DeleteDecision, WriteDecision, WriteRule
from gamed.sessions.recent import RecentToken
from gamed.structs import redacts


class WriteContext(Struct, frozen=True):
    """The authenticated player of a write request, and their saves when the request head arrived."""

    player_id: str
    epoch: str
    """The epoch of the saves at that time; an erase changes it."""
    usage: Usage = Usage()
    device: str | None = None
    """The device's own name, which each version keeps."""
    admitted_ms: int = 0
    """When the change was counted in memory and admitted."""
    arrival_ms: int | None = None
    """The player's bucket with this change, which the transaction writes with it; None changes no bucket."""


class PresentedToken(Struct, frozen=True):
    """An access token that the transaction of the write authenticates, and what this process knew of it."""

    token: Secret
    recent: RecentToken


@redacts("data")
class WriteCommand(Struct, frozen=True):
    """A PUT whose body is complete."""

    context: WriteContext
    slot: str
    condition: Condition
    content: SaveContent
    now_ms: int
    new_epoch: str
    """The epoch for the player's first write; later writes do not use it."""
    data: bytes | None = None
    """The bytes of a small body."""
    appended_blob: int | None = None
    """The blob to which a larger body was appended."""
    checked_blob: int | None = None
    """A blob of the player that holds exactly these bytes, as a check has shown."""


class BytesMissing(Struct, frozen=True):
    """The result that the store needs a blob with the bytes and changed nothing.

    `known_blob` is a blob that should hold them, but was not checked.
    """

    known_blob: int | None


class WriteResult(Struct, frozen=True):
    """The decision on a PUT or restore, and the slot afterwards."""

    decision: WriteDecision
    current: Version | None
    created: bool = False
    """The slot was empty before."""
    base: Version | None = None
    """The version that the condition names, if it is kept."""
    yours: Version | None = None
    """The version that holds the refused bytes."""
    dropped: bool = False
    """The refused bytes did not fit into the history and were not kept."""
    epoch: str | None = None
    """The epoch of the saves afterwards, if the transaction authenticated the token."""
    arrival_ms: int | None = None
    """The player's bucket afterwards, if the transaction authenticated the token and the rate has a limit."""

    @property
    def changed(self) -> bool:
        """Check whether the slot has a new version: a current one, or a copy of the refused bytes."""
        return self.decision.rule in WRITES or (self.decision.stores_copy and self.yours is not None)

    def uses_blob(self, blob_id: int) -> bool:
        """Check whether a version of this result has its bytes in this blob."""
        return any(version is not None and version.blob_id == blob_id for version in (self.current, self.yours))


class RestoreCommand(Struct, frozen=True):
    """A request to make an old version current again."""

    context: WriteContext
    slot: str
    version: int
    condition: Condition
    now_ms: int


class DismissCommand(Struct, frozen=True):
    """A request to delete a conflict copy."""

    context: WriteContext
    slot: str
    version: int


class DeleteCommand(Struct, frozen=True):
    """A DELETE of a slot."""

    context: WriteContext
    slot: str
    condition: Condition
    now_ms: int


class EraseCommand(Struct, frozen=True):
    """A request to erase a player's saves if the condition holds for their cursor."""

    player_id: str
    condition: Condition
    new_epoch: str
    now_ms: int


class DeleteResult(Struct, frozen=True):
    """The decision on a DELETE, and the slot afterwards."""

    decision: DeleteDecision
    current: Version | None = None
    base: Version | None = None
    last: Version | None = None
    """The version that was current when the slot was deleted."""


@redacts("data")
class ReceivedBody(Struct, frozen=True):
    """The complete body of a PUT: small bytes in `data`, larger ones in `spool`, which the caller closes."""

    content: SaveContent
    expected_sha256: bytes | None
    """The SHA-256 of Content-Digest."""
    blank: bool
    """All bytes are zero, or there are none."""
    data: bytes | None = None
    spool: BinaryIO | None = None

    def is_acceptable(self, *, allow_blank: bool) -> bool:
        """Return whether check() raises nothing."""
        return self.expected_sha256 in (None, self.content.sha256) and (allow_blank or not self.blank)

    def check(self, *, allow_blank: bool) -> None:
        """Raise DigestMismatch if other bytes arrived than the client announced, BlankSave if they are blank."""
        if self.expected_sha256 not in (None, self.content.sha256):
            raise DigestMismatch("Other bytes arrived than Content-Digest says; nothing was stored. Send it again.")
        if self.blank and not allow_blank:
            seen = "holds only zero bytes" if self.content.size else "is empty"
            raise BlankSave(
                f"The body {seen}, as after a crash while saving. Nothing was stored and the save on the server is "
                "as it was; to remove it, DELETE it."
            )


class ReadRequest(Struct, frozen=True):
    """A GET or HEAD of a save."""

    slot: str
    conditions: Conditions
    with_bytes: bool
    """The client wants the bytes, too."""
    range: str | None = None
    """The Range header."""
    version: int | None = None
    """The number of a version; None is the current one."""


class SlotSnapshot(Struct, frozen=True):
    """A slot at one instant, with the result of the request's conditions."""

    state: SlotState
    target: Version | None = None
    """The requested version; None if it is not kept."""
    last: Version | None = None
    """In an empty slot, the version that was current when the slot was deleted."""
    base: Version | None = None
    """The version that If-Match names."""
    precondition: Precondition = Precondition.PROCEED
    representation: Representation | None = None
    data: bytes | None = None
    """The bytes of a small save, if the client wants them."""
    damaged: bool = False
    """The bytes are not those that the server acknowledged."""

    def __repr__(self) -> str:
        """Leave out the bytes: a log must not have them."""
        return f"<SlotSnapshot {self.precondition.name} {self.target}>"


class SavePartReader(Protocol):
    """A reader of a large save in parts; the caller closes it."""

    @property
    def part_bytes(self) -> int:
        """Return the size of every part but the last, in bytes."""

    def part(self, n: int) -> Awaitable[bytes]: ...

    def close(self) -> None: ...


SaveBody = bytes | SavePartReader


class ReadResult(Struct, frozen=True):
    """The version that a GET or HEAD read; `body` is None if it is not modified, or the client wants only the head."""

    version: Version
    modified: bool
    range: ByteRange | None = None
    """The part of the bytes that the client wants; None is all of them."""
    body: SaveBody | None = None

    def __repr__(self) -> str:
        """Leave out the bytes: a log must not have them."""
        return f"<ReadResult {self.version}>"


class ListRequest(Struct, frozen=True):
    """A GET of the list of saves: at most `limit` of all, or of those that changed after `since`."""

    since: Cursor | None = None
    conditions: Conditions = UNCONDITIONAL
    limit: int = LISTED_AT_ONCE


class VersionHistory(Struct, frozen=True):
    """A page of the kept versions of a slot, newest first."""

    state: SlotState
    versions: Sequence[Version]
    retention: Retention
    more: bool = False
    """There are older versions."""


class StagedContent(Struct, frozen=True):
    """The staged bytes that a commit names: SHA-256 (32 bytes), media type, and Save-Meta in one line."""

    sha256: bytes
    content_type: str
    meta: str | None = None


class Change(Struct, frozen=True):
    """One entry of a commit: a write of staged bytes, or without content a delete."""

    slot: str
    condition: Condition
    content: StagedContent | None = None


class CommitCommand(Struct, frozen=True):
    """A commit: several slots change, or none."""

    context: WriteContext
    changes: Sequence[Change]
    """At most one for each slot."""
    now_ms: int
    new_epoch: str
    """The epoch for the player's first write."""
    checked_blobs: Mapping[bytes, int]
    """By SHA-256, the player's blobs that hold exactly these bytes, as a check has shown."""

    @property
    def digests(self) -> frozenset[bytes]:
        """Return the SHA-256 of all bytes that the commit names."""
        return frozenset(change.content.sha256 for change in self.changes if change.content)


class BlobsMissing(Struct, frozen=True):
    """The result that the store needs checked blobs with these bytes and changed nothing."""

    digests: Sequence[bytes]


class CommitConflict(Struct, frozen=True):
    """A commit that changed no current version, because the entries in `outcomes` do not fit."""

    outcomes: Sequence[tuple[Change, WriteResult | DeleteResult]]
    changed: bool
    """Refused bytes became new conflict copies."""


class Committed(Struct, frozen=True):
    """A commit that took effect, now or at an earlier attempt."""

    cursor: Cursor
    slots: Sequence[Version | SlotEntry]
    """In the order of the changes: the current version, or the entry of a deleted slot."""
    changed: bool
    """A slot has another version than before."""


SUCCESSFUL_WRITES = frozenset(
    {WriteRule.W1_ALREADY_THERE, WriteRule.W1_RELABELLED, WriteRule.W2_FIRST, WriteRule.W4_WRITTEN}
)
SUCCESSFUL_DELETES = frozenset({DeleteDecision.DELETES, DeleteDecision.ALREADY_DONE})


def succeeds(decision: WriteDecision | DeleteDecision) -> bool:
    """Check whether an entry of a commit can take effect, or took effect before."""
    return decision.rule in SUCCESSFUL_WRITES if isinstance(decision, WriteDecision) else decision in SUCCESSFUL_DELETES


@redacts("data")
class StageCommand(Struct, frozen=True):
    """A request to keep these bytes for a commit."""

    context: WriteContext
    content: SaveContent
    """Only its hash and size count."""
    now_ms: int
    expired_ms: int
    """Bytes that were staged at this instant or earlier have expired."""
    data: bytes | None = None
    """The bytes of a small body."""
    appended_blob: int | None = None
    """The blob to which a larger body was appended."""
    checked_blob: int | None = None
    """A blob of the player that holds exactly these bytes, as a check has shown."""


class Staged(Struct, frozen=True):
    """The result that the bytes are stored in this blob."""

    blob_id: int

    def uses_blob(self, blob_id: int) -> bool:
        """Check whether the bytes are in this blob."""
        return blob_id == self.blob_id
