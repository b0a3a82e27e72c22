"""The condition under which a slot may be changed (PROTOCOL 4.1): exactly one, or none.

Whether a slot may be changed, and what is kept either way: W1 to W7 of PROTOCOL 4.1, pure.

The promise: nothing current is replaced by a writer who has not seen it, refused bytes are kept, and a repeated
request finds its own effect and calls it success.
"""

from enum import Enum, auto

from msgspec import Struct

from gamed.http.conditional import EntityTag, EntityTagList, Header, TagsMalformed, parse_tags
from gamed.saves.errors import InvalidCondition
from gamed.saves.model import SaveContent, Version

MAX_LENGTH = 1024
"""Characters of a condition: a commit's body could hold one of 256 KiB."""
MAX_TAG = 64
"""Characters; what is kept with refused bytes is bounded."""


class ConditionKind(Enum):
    """What the slot must be for the change to happen."""

    ANYTHING = auto()
    """Nothing was said."""
    THIS = auto()
    """If-Match with a tag."""
    PRESENT = auto()
    """If-Match: *"""
    ABSENT = auto()
    """If-None-Match: *"""


class Condition(Struct, frozen=True):
    """What the client said it knows of the slot."""

    kind: ConditionKind = ConditionKind.ANYTHING
    tag: EntityTag | None = None

    def holds(self, head: Version | None) -> bool:
        """Against the current version; None is a slot that is deleted or was never there."""
        return self.allows(None if head is None else head.entity_tag)

    def allows(self, current: EntityTag | None) -> bool:
        """Against the tag of what is there now, if anything is. Tags compare strongly."""
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
        """The tag without quotes of the version that the client built on, when it named one."""
        return self.tag.opaque if self.tag else None

    @property
    def weak(self) -> bool:
        return self.tag is not None and self.tag.weak


UNCONDITIONAL = Condition()


def writing_condition(header: Header) -> Condition:
    """For PUT: `If-Match: "<etag>"`, `If-Match: *`, `If-None-Match: *` or nothing; else BadPrecondition."""
    match, none_match = _tags(header, "if-match"), _tags(header, "if-none-match")
    if match and none_match:
        raise InvalidCondition("Send If-Match or If-None-Match, not both.")
    if none_match:
        if not none_match.star:
            raise InvalidCondition("To create a save, send If-None-Match: *; it takes no entity-tag here.")
        return Condition(ConditionKind.ABSENT)
    return _matching(match)


def deleting_condition(header: Header) -> Condition:
    """For DELETE: `If-Match: "<etag>"`, `If-Match: *` or nothing; else BadPrecondition."""
    if header("if-none-match") is not None:
        raise InvalidCondition('To delete, send If-Match: "<etag>"; If-None-Match makes no sense here.')
    return _matching(_tags(header, "if-match"))


def _matching(match: EntityTagList | None) -> Condition:
    if match is None:
        return UNCONDITIONAL
    if match.star:
        return Condition(ConditionKind.PRESENT)
    if any(len(tag.opaque) > MAX_TAG for tag in match.listed):
        raise InvalidCondition("This entity-tag is longer than any of this server. Send the etag as you received it.")
    if len(match.listed) > 1:
        raise InvalidCondition("Send one entity-tag in If-Match: the one of the version you built on.")
    return Condition(ConditionKind.THIS, match.listed[0])


def _tags(header: Header, name: str) -> EntityTagList | None:
    text = header(name)
    if text is not None and len(text) > MAX_LENGTH:
        raise InvalidCondition(
            f"{name.title()} is longer than {MAX_LENGTH} characters. Send one etag as you received it."
        )
    try:
        return None if text is None else parse_tags(text)
    except TagsMalformed:
        raise InvalidCondition(
            f'{name.title()} takes the etag with its double quotes, such as "9-9f86d081884c7d65", or *.'
        ) from None


class WriteRule(Enum):
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


WRITES = frozenset({WriteRule.W1_RELABELLED, WriteRule.W2_FIRST, WriteRule.W4_WRITTEN})
"""These make a new current version."""


class DeleteDecision(Enum):
    """What a DELETE comes to."""

    DELETES = auto()
    ALREADY_DONE = auto()
    """The slot was deleted on top of the version named: this request, answered again (RFC 9110 13.1.1)."""
    NEVER_SEEN = auto()
    ALREADY_DELETED = auto()
    UNCONDITIONAL = auto()
    CONFLICT = auto()


class SlotState(Struct, frozen=True):
    """What decides: the highest version ever given out (0: never seen), the current version, the tombstone on top."""

    last_version: int = 0
    current: Version | None = None
    tombstone: Version | None = None

    @property
    def exists(self) -> bool:
        return self.last_version > 0

    @property
    def size(self) -> int | None:
        """Bytes of the current version; None for an empty slot."""
        return self.current.size if self.current else None


class WriteDecision(Struct, frozen=True):
    """A rule, and the version in history that the answer shows as the client's own (W5, or W6 repeated)."""

    rule: WriteRule
    yours: Version | None = None

    @property
    def stores_copy(self) -> bool:
        """W6 for the first time: the refused bytes are kept beside the current ones."""
        return self.rule is WriteRule.W6_CONFLICT and self.yours is None


class MatchingVersions(Struct, frozen=True):
    """Versions of this slot that hold the same bytes and were written on top of the version named, if any."""

    written: Version | None = None
    """It was current once."""
    copied: Version | None = None
    """It was refused."""


NOTHING_EARLIER = MatchingVersions()


def decide_write(state: SlotState, condition: Condition, body: SaveContent, earlier: MatchingVersions) -> WriteDecision:
    """The first rule that fits; `earlier` was looked up by Condition.base and the body's SHA-256."""
    head, holds = state.current, condition.holds(state.current)
    if head is not None and head.content is not None and _same(head.content, body):
        changed = head.content.meta != body.meta and holds
        return WriteDecision(WriteRule.W1_RELABELLED if changed else WriteRule.W1_ALREADY_THERE)
    if condition.kind is ConditionKind.ANYTHING:
        return WriteDecision(WriteRule.W3_UNCONDITIONAL if state.exists else WriteRule.W2_FIRST)
    if holds:
        return WriteDecision(WriteRule.W4_WRITTEN)
    if not state.exists:
        return WriteDecision(WriteRule.W7_NEVER_SEEN)
    if earlier.written is not None and condition.kind is not ConditionKind.PRESENT:
        return WriteDecision(WriteRule.W5_SUPERSEDED, earlier.written)
    return WriteDecision(WriteRule.W6_CONFLICT, earlier.copied)


def decide_delete(state: SlotState, condition: Condition) -> DeleteDecision:
    """A slot without a current version is judged before the condition (RFC 9110 13.2.1)."""
    if not state.exists:
        return DeleteDecision.NEVER_SEEN
    if state.current is None:
        return DeleteDecision.ALREADY_DONE if _made(state.tombstone, condition) else DeleteDecision.ALREADY_DELETED
    if condition.kind is ConditionKind.ANYTHING:
        return DeleteDecision.UNCONDITIONAL
    return DeleteDecision.DELETES if condition.holds(state.current) else DeleteDecision.CONFLICT


def _same(one: SaveContent, other: SaveContent) -> bool:
    return one.sha256 == other.sha256 and one.size == other.size and one.content_type == other.content_type


def _made(tombstone: Version | None, condition: Condition) -> bool:
    """Whether this very DELETE may have left the tombstone."""
    if condition.kind is ConditionKind.PRESENT:
        return True
    named = condition.base is not None and not condition.weak
    return named and tombstone is not None and tombstone.parent_tag == condition.base
