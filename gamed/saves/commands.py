"""What is asked of the store in one transaction, and what comes of it (PROTOCOL 4.1).

A body that a client has sent (PROTOCOL 4.1).

What one look at a slot asks and shows (PROTOCOL 4.2).

Several slots changed at once, or none of them (PROTOCOL 4.4).

Each entry is judged as the PUT or DELETE that it stands for; the commit is carried out if all of them stand.

Bytes that are stored for a commit to come (PROTOCOL 4.4).
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import IO, BinaryIO, Protocol

from msgspec import Struct

from gamed.http.conditional import ByteRange, Conditions, Precondition, Representation
from gamed.saves.limits import Usage
from gamed.saves.model import Cursor, SaveContent, SlotEntry, Version
from gamed.saves.validation import BlankDetector
from gamed.saves.write_rules import WRITES, Condition, DeleteDecision, SlotState, WriteDecision, WriteRule
from gamed.structs import redacts


class WriteContext(Struct, frozen=True):
    """The authenticated player of a write request, and their saves when the request head arrived."""

    player_id: str
    epoch: str
    """Of the saves as they were then; erasing them draws another one."""
    usage: Usage = Usage()


@redacts("data")
class WriteCommand(Struct, frozen=True):
    """A PUT whose bytes are all here. Everything random or timed comes along: the transaction may run twice."""

    context: WriteContext
    slot: str
    condition: Condition
    content: SaveContent
    now_ms: int
    new_epoch: str
    """For a first write; every other one has its shelf's."""
    data: bytes | None = None
    """The bytes of a small body."""
    appended_blob: int | None = None
    """The blob that a larger body was appended as."""
    checked_blob: int | None = None
    """A blob of the player that was seen to hold exactly these bytes."""


class BytesMissing(Struct, frozen=True):
    """Nothing was changed: the bytes are not in the store, or nobody has checked the blob that should hold them."""

    known_blob: int | None


class WriteResult(Struct, frozen=True):
    """A PUT was judged, and carried out where the rule says so."""

    decision: WriteDecision
    current: Version | None
    created: bool = False
    """The slot held nothing before."""
    base: Version | None = None
    """The version that the condition names, if it is kept."""
    yours: Version | None = None
    """The refused bytes, as they are kept now."""
    dropped: bool = False
    """The refused bytes found no room."""

    @property
    def changed(self) -> bool:
        """Check whether the slot has one version more: a current one, or a copy of the refused bytes."""
        return self.decision.rule in WRITES or (self.decision.stores_copy and self.yours is not None)

    def uses_blob(self, blob_id: int) -> bool:
        """Whether an appended blob is wanted."""
        return any(version is not None and version.blob_id == blob_id for version in (self.current, self.yours))


class RestoreCommand(Struct, frozen=True):
    """Make an old version current again."""

    context: WriteContext
    slot: str
    version: int
    condition: Condition
    now_ms: int


class DismissCommand(Struct, frozen=True):
    """Let go of a conflict copy."""

    context: WriteContext
    slot: str
    version: int


class DeleteCommand(Struct, frozen=True):
    """A DELETE."""

    context: WriteContext
    slot: str
    condition: Condition
    now_ms: int


class DeleteResult(Struct, frozen=True):
    """A DELETE was judged, and carried out where it may be."""

    decision: DeleteDecision
    current: Version | None = None
    base: Version | None = None
    last: Version | None = None
    """What the slot held when it was deleted."""


class ReceivedSave(Struct, frozen=True, eq=False):
    """A body that is all here, small in `data` or larger in `spool`; the caller closes the spool."""

    slot: str
    condition: Condition
    content: SaveContent
    expected_sha256: bytes | None
    """The SHA-256 that Content-Digest promised."""
    blank: BlankDetector
    data: bytes | None = None
    spool: BinaryIO | None = None

    def __repr__(self) -> str:
        """Not the bytes."""
        return f"<Arrival {self.slot} {self.content.size}>"


class ReadRequest(Struct, frozen=True):
    """A GET or HEAD."""

    slot: str
    conditions: Conditions
    with_bytes: bool
    """The bytes are asked for too."""
    range: str | None = None
    """The Range header."""
    version: int | None = None
    """One of the history; None: the current one."""


class SlotSnapshot(Struct, frozen=True):
    """A slot at one instant, and what the conditions say about it."""

    state: SlotState
    target: Version | None = None
    """What was looked at: the current version, or the one asked for. None when there is no such."""
    last: Version | None = None
    """What an empty slot held when it was deleted."""
    base: Version | None = None
    """The version that If-Match names."""
    precondition: Precondition = Precondition.PROCEED
    representation: Representation | None = None
    data: bytes | None = None
    """The bytes, when asked for and small."""
    damaged: bool = False
    """The bytes are not those that were acknowledged."""

    def __repr__(self) -> str:
        """Not the bytes."""
        return f"<Sight {self.precondition.name} {self.target}>"


class SavePartReader(Protocol):
    """Bytes that are read piece by piece, where there is no room for a copy; closed by the reader."""

    @property
    def part_bytes(self) -> int:
        """The size of every part but the last."""

    def part(self, n: int) -> Awaitable[bytes]: ...

    def close(self) -> None: ...


SnapshotContent = bytes | IO[bytes] | SavePartReader


class ReadResult(Struct, frozen=True):
    """What a GET or HEAD found. `content` is None when it is not modified or only the head was asked for."""

    version: Version
    modified: bool
    range: ByteRange | None = None
    """What of the bytes is asked for; None: all."""
    body: SnapshotContent | None = None

    def __repr__(self) -> str:
        """Not the bytes."""
        return f"<Reading {self.version}>"


class VersionHistory(Struct, frozen=True):
    """Everything kept of a slot, newest first."""

    state: SlotState
    versions: Sequence[Version]


class StagedContent(Struct, frozen=True):
    """Bytes that are staged, and what goes with them: 32 bytes of SHA-256, media type, Save-Meta in one line."""

    sha256: bytes
    content_type: str
    meta: str | None = None

    def with_size(self, size: int) -> SaveContent:
        return SaveContent(self.sha256, size, self.content_type, self.meta)


class Change(Struct, frozen=True):
    """What a commit wants of one slot; without content it is to be deleted."""

    slot: str
    condition: Condition
    content: StagedContent | None = None


class CommitCommand(Struct, frozen=True):
    """A commit. Everything random or timed comes along: the transaction may run twice."""

    context: WriteContext
    changes: Sequence[Change]
    """Each of another slot."""
    now_ms: int
    new_epoch: str
    """For a first write."""
    checked_blobs: Mapping[bytes, int]
    """SHA-256 -> the player's blob that was seen to hold exactly these bytes."""

    @property
    def digests(self) -> frozenset[bytes]:
        """Of all bytes that are named."""
        return frozenset(change.content.sha256 for change in self.changes if change.content)


class BlobsMissing(Struct, frozen=True):
    """Nothing was changed: for these bytes there is no blob that was checked."""

    digests: Sequence[bytes]


class CommitConflict(Struct, frozen=True):
    """Nothing was changed; refused bytes are kept. Only the entries that do not stand."""

    outcomes: Sequence[tuple[Change, WriteResult | DeleteResult]]
    changed: bool
    """Whether bytes are kept that were not before."""


class Committed(Struct, frozen=True):
    """All is in place, now or before."""

    cursor: Cursor
    slots: Sequence[Version | SlotEntry]
    """In the order of the changes: the current version, or when the slot was deleted."""
    changed: bool
    """Whether any slot has another version than before."""


SUCCESSFUL_WRITES = frozenset(
    {WriteRule.W1_ALREADY_THERE, WriteRule.W1_RELABELLED, WriteRule.W2_FIRST, WriteRule.W4_WRITTEN}
)
SUCCESSFUL_DELETES = frozenset({DeleteDecision.DELETES, DeleteDecision.ALREADY_DONE})


def succeeds(decision: WriteDecision | DeleteDecision) -> bool:
    """Whether an entry can be carried out, or was before."""
    return decision.rule in SUCCESSFUL_WRITES if isinstance(decision, WriteDecision) else decision in SUCCESSFUL_DELETES


@redacts("data")
class ReceivedBlob(Struct, frozen=True):
    """Bytes that are all here, small in `data` or larger in `spool`; the caller closes the spool."""

    sha256: bytes
    """What the path says they are."""
    content: SaveContent
    expected_sha256: bytes | None
    """The SHA-256 that Content-Digest promised."""
    blank: BlankDetector
    data: bytes | None = None
    spool: BinaryIO | None = None


@redacts("data")
class StageCommand(Struct, frozen=True):
    """Keep these bytes for a while. Everything timed comes along: the transaction may run twice."""

    context: WriteContext
    content: SaveContent
    """Of which only hash and size count."""
    now_ms: int
    expired_ms: int
    """What was staged then or before does not count any more."""
    data: bytes | None = None
    """The bytes of a small body."""
    appended_blob: int | None = None
    """The blob that a larger body was appended as."""
    checked_blob: int | None = None
    """A blob of the player that was seen to hold exactly these bytes."""


class Staged(Struct, frozen=True):
    """The bytes are there."""

    blob_id: int

    def uses_blob(self, blob_id: int) -> bool:
        """Whether an appended blob is wanted."""
        return blob_id == self.blob_id
