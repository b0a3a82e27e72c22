"""Whether a slot may be changed, and what is kept either way: W1 to W7 of PROTOCOL 4.1, pure.

The promise: nothing current is replaced by a writer who has not seen it, refused bytes are kept, and a repeated
request finds its own effect and calls it success.
"""

from enum import Enum, auto

from msgspec import Struct

from gamed.saves.condition import Condition, Wants
from gamed.saves.version import Body, Version


class Rule(Enum):
    """Which row of PROTOCOL 4.1 answers."""

    W1_ALREADY_THERE = auto()
    W1_RELABELLED = auto()
    """The same bytes and type under another Save-Meta."""
    W2_FIRST = auto()
    W3_UNCONDITIONAL = auto()
    W4_WRITTEN = auto()
    W5_SUPERSEDED = auto()
    W6_CONFLICT = auto()
    W7_NEVER_SEEN = auto()


WRITES = frozenset({Rule.W1_RELABELLED, Rule.W2_FIRST, Rule.W4_WRITTEN})
"""These make a new current version."""


class Removal(Enum):
    """What a DELETE comes to."""

    DELETES = auto()
    ALREADY_DONE = auto()
    """The slot was deleted on top of the version named: this request, answered again (RFC 9110 13.1.1)."""
    NEVER_SEEN = auto()
    ALREADY_DELETED = auto()
    UNCONDITIONAL = auto()
    CONFLICT = auto()


class SlotView(Struct, frozen=True):
    """What decides: the highest version ever given out (0: never seen), the current version, the tombstone on top."""

    last: int = 0
    head: Version | None = None
    tombstone: Version | None = None

    @property
    def seen(self) -> bool:
        return self.last > 0

    @property
    def size(self) -> int | None:
        """Bytes of the current version; None for an empty slot."""
        return self.head.size if self.head else None


class Verdict(Struct, frozen=True):
    """A rule, and the version in history that the answer shows as the client's own (W5, or W6 repeated)."""

    rule: Rule
    yours: Version | None = None

    @property
    def keeps_copy(self) -> bool:
        """W6 for the first time: the refused bytes are kept beside the current ones."""
        return self.rule is Rule.W6_CONFLICT and self.yours is None


class Earlier(Struct, frozen=True):
    """Versions of this slot that hold the same bytes and were written on top of the version named, if any."""

    written: Version | None = None
    """It was current once."""
    copied: Version | None = None
    """It was refused."""


NOTHING_EARLIER = Earlier()


def judge_write(view: SlotView, condition: Condition, body: Body, earlier: Earlier) -> Verdict:
    """The first rule that fits; `earlier` was looked up by Condition.base and the body's SHA-256."""
    head, holds = view.head, condition.holds(view.head)
    if head is not None and head.body is not None and _same(head.body, body):
        changed = head.body.meta != body.meta and holds
        return Verdict(Rule.W1_RELABELLED if changed else Rule.W1_ALREADY_THERE)
    if condition.wants is Wants.ANYTHING:
        return Verdict(Rule.W3_UNCONDITIONAL if view.seen else Rule.W2_FIRST)
    if holds:
        return Verdict(Rule.W4_WRITTEN)
    if not view.seen:
        return Verdict(Rule.W7_NEVER_SEEN)
    if earlier.written is not None and condition.wants is not Wants.PRESENT:
        return Verdict(Rule.W5_SUPERSEDED, earlier.written)
    return Verdict(Rule.W6_CONFLICT, earlier.copied)


def judge_delete(view: SlotView, condition: Condition) -> Removal:
    """A slot without a current version is judged before the condition (RFC 9110 13.2.1)."""
    if not view.seen:
        return Removal.NEVER_SEEN
    if view.head is None:
        return Removal.ALREADY_DONE if _made(view.tombstone, condition) else Removal.ALREADY_DELETED
    if condition.wants is Wants.ANYTHING:
        return Removal.UNCONDITIONAL
    return Removal.DELETES if condition.holds(view.head) else Removal.CONFLICT


def _same(one: Body, other: Body) -> bool:
    return one.sha256 == other.sha256 and one.size == other.size and one.ctype == other.ctype


def _made(tombstone: Version | None, condition: Condition) -> bool:
    """Whether this very DELETE may have left the tombstone."""
    if condition.wants is Wants.PRESENT:
        return True
    named = condition.base is not None and not condition.weak
    return named and tombstone is not None and tombstone.parent_tag == condition.base
