"""Several slots changed at once, or none of them (PROTOCOL 4.4).

Each entry is judged as the PUT or DELETE that it stands for; the commit is carried out if all of them stand.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from gamed.saves.condition import Condition
from gamed.saves.cursor import Cursor
from gamed.saves.entry import SlotEntry
from gamed.saves.orders import Entry, Removed, Written
from gamed.saves.rules import Removal, Rule, Verdict
from gamed.saves.version import Body, Version


class Content(Struct, frozen=True):
    """Bytes that are staged, and what goes with them: 32 bytes of SHA-256, media type, Save-Meta in one line."""

    sha256: bytes
    ctype: str
    meta: str | None = None

    def body(self, size: int) -> Body:
        return Body(self.sha256, size, self.ctype, self.meta)


class Change(Struct, frozen=True):
    """What a commit wants of one slot; without content it is to be deleted."""

    slot: str
    condition: Condition
    content: Content | None = None


class CommitOrder(Struct, frozen=True):
    """A commit. Everything random or timed comes along: the transaction may run twice."""

    entry: Entry
    changes: Sequence[Change]
    """Each of another slot."""
    now_ms: int
    new_epoch: str
    """For a first write."""
    checked: Mapping[bytes, int]
    """SHA-256 -> the player's blob that was seen to hold exactly these bytes."""

    @property
    def digests(self) -> frozenset[bytes]:
        """Of all bytes that are named."""
        return frozenset(change.content.sha256 for change in self.changes if change.content)


class NeedsBlobs(Struct, frozen=True):
    """Nothing was changed: for these bytes there is no blob that was checked."""

    digests: Sequence[bytes]


class Disagreed(Struct, frozen=True):
    """Nothing was changed; refused bytes are kept. Only the entries that do not stand."""

    outcomes: Sequence[tuple[Change, Written | Removed]]
    changed: bool
    """Whether bytes are kept that were not before."""


class Committed(Struct, frozen=True):
    """All is in place, now or before."""

    cursor: Cursor
    slots: Sequence[Version | SlotEntry]
    """In the order of the changes: the current version, or when the slot was deleted."""
    changed: bool
    """Whether any slot has another version than before."""


STANDING = frozenset({Rule.W1_ALREADY_THERE, Rule.W1_RELABELLED, Rule.W2_FIRST, Rule.W4_WRITTEN})
DONE = frozenset({Removal.DELETES, Removal.ALREADY_DONE})


def stands(judgement: Verdict | Removal) -> bool:
    """Whether an entry can be carried out, or was before."""
    return judgement.rule in STANDING if isinstance(judgement, Verdict) else judgement in DONE
