"""The rules W1 to W7 of docs/internals/rules.md, which decide whether a request may change a slot, as pure functions.

They promise three things. A client that has not seen the current version cannot replace it; refused bytes are kept;
and a repeated request recognises its own effect and succeeds.
"""

from enum import Enum, auto

from msgspec import Struct

from gamed.http.conditional import EntityTag
from gamed.saves.model import SaveContent, SavesSummary, SlotState, Version


class ConditionKind(Enum):
    """The state that the slot must have for the change to happen."""

    ANYTHING = auto()
    """The request has no condition."""
    THIS = auto()
    """If-Match with a tag."""
    PRESENT = auto()
    """If-Match: *"""
    ABSENT = auto()
    """If-None-Match: *"""


class Condition(Struct, frozen=True):
    """The condition of a write: at most one of If-Match and If-None-Match."""

    kind: ConditionKind = ConditionKind.ANYTHING
    tag: EntityTag | None = None

    def holds(self, current: Version | None) -> bool:
        """Evaluate the condition against the current version; None is a slot that is deleted or was never used."""
        return self.allows(None if current is None else current.entity_tag)

    def allows(self, current: EntityTag | None) -> bool:
        """Evaluate the condition against the current entity-tag, if there is one, by strong comparison."""
        match self.kind:
            case ConditionKind.THIS:
                return self.tag is not None and current is not None and self.tag.strongly_equals(current)
            case ConditionKind.PRESENT:
                return current is not None
            case ConditionKind.ABSENT:
                return current is None
        return False

    @property
    def base(self) -> str | None:
        """Return the tag, without quotes, of the version that the client built on; None if it named none."""
        return self.tag.opaque if self.tag else None

    @property
    def weak(self) -> bool:
        return self.tag is not None and self.tag.weak


UNCONDITIONAL = Condition()


class WriteRule(Enum):
    """The rule of docs/internals/rules.md that applies to a PUT."""

    W1_ALREADY_THERE = auto()
    W1_RELABELLED = auto()
    """The same bytes and media type with another Save-Meta."""
    W2_FIRST = auto()
    W3_UNCONDITIONAL = auto()
    W4_WRITTEN = auto()
    W5_SUPERSEDED = auto()
    W6_CONFLICT = auto()
    W7_NEVER_USED = auto()


WRITES = frozenset({WriteRule.W1_RELABELLED, WriteRule.W2_FIRST, WriteRule.W4_WRITTEN})
"""The rules that make a new current version."""


class DeleteDecision(Enum):
    """The decision on a DELETE."""

    DELETES = auto()
    ALREADY_DONE = auto()
    """The slot was deleted on top of the named version, so this repeats an earlier request (RFC 9110 13.1.1)."""
    NEVER_USED = auto()
    ALREADY_DELETED = auto()
    UNCONDITIONAL = auto()
    CONFLICT = auto()


class WriteDecision(Struct, frozen=True):
    """The rule that applies to a PUT, and the earlier version that holds the client's bytes (W5, or a repeated W6)."""

    rule: WriteRule
    yours: Version | None = None

    @property
    def stores_copy(self) -> bool:
        """Check whether the refused bytes become a conflict copy: only the first time (W6)."""
        return self.rule is WriteRule.W6_CONFLICT and self.yours is None


class MatchingVersions(Struct, frozen=True):
    """Versions of the slot that hold the same bytes and were written on top of the version that the client names."""

    written: Version | None = None
    """A version that was current once."""
    copied: Version | None = None
    """A conflict copy."""


NOTHING_EARLIER = MatchingVersions()


def decide_write(
    state: SlotState, condition: Condition, content: SaveContent, earlier: MatchingVersions
) -> WriteDecision:
    """Return the first rule that fits; the caller found `earlier` by Condition.base and the content's SHA-256."""
    current, holds = state.current, condition.holds(state.current)
    # Before the condition: a client whose response was lost sends the same request again. Its If-Match then names the
    # version before its own, and must not make a conflict of bytes that are there.
    if current is not None and current.content is not None and _same(current.content, content):
        relabelled = current.content.meta != content.meta and holds
        return WriteDecision(WriteRule.W1_RELABELLED if relabelled else WriteRule.W1_ALREADY_THERE)
    if condition.kind is ConditionKind.ANYTHING:
        return WriteDecision(WriteRule.W3_UNCONDITIONAL if state.exists else WriteRule.W2_FIRST)
    if holds:
        return WriteDecision(WriteRule.W4_WRITTEN)
    if not state.exists:
        return WriteDecision(WriteRule.W7_NEVER_USED)
    # Not for If-Match: *, which names no version: the first bytes of a slot that was deleted would look like a repeat.
    if earlier.written is not None and condition.kind is not ConditionKind.PRESENT:
        return WriteDecision(WriteRule.W5_SUPERSEDED, earlier.written)
    return WriteDecision(WriteRule.W6_CONFLICT, earlier.copied)


def decide_delete(state: SlotState, condition: Condition) -> DeleteDecision:
    """Decide on a DELETE; a slot without a current version needs no condition (RFC 9110 13.2.1)."""
    if not state.exists:
        return DeleteDecision.NEVER_USED
    if state.current is None:
        repeated = _may_have_made(state.tombstone, condition)
        return DeleteDecision.ALREADY_DONE if repeated else DeleteDecision.ALREADY_DELETED
    if condition.kind is ConditionKind.ANYTHING:
        return DeleteDecision.UNCONDITIONAL
    return DeleteDecision.DELETES if condition.holds(state.current) else DeleteDecision.CONFLICT


def _same(one: SaveContent, other: SaveContent) -> bool:
    return one.sha256 == other.sha256 and one.size == other.size and one.content_type == other.content_type


def _may_have_made(tombstone: Version | None, condition: Condition) -> bool:
    """Check whether this DELETE may have made the tombstone."""
    if condition.kind is ConditionKind.PRESENT:
        return True
    named = condition.base is not None and not condition.weak
    return named and tombstone is not None and tombstone.parent_tag == condition.base


def decide_erase(summary: SavesSummary, condition: Condition, *, empty: bool) -> DeleteDecision:
    """Decide whether all saves may be erased; `empty` means that the player has no versions, not even of deleted slots.

    A repeated request succeeds if it names an epoch that was erased and nothing was saved since (RFC 9110 13.1.1).
    """
    if condition.kind is ConditionKind.ANYTHING:
        return DeleteDecision.UNCONDITIONAL
    if condition.allows(summary.cursor.entity_tag):
        return DeleteDecision.DELETES
    erased = summary.erasing or (empty and summary.erased_ms is not None)
    return DeleteDecision.ALREADY_DONE if erased and not condition.weak else DeleteDecision.CONFLICT
