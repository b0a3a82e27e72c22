"""The condition under which a slot may be changed (PROTOCOL 4.1): exactly one, or none."""

from enum import Enum, auto

from msgspec import Struct

from gamed.http_rules.conditions import Header
from gamed.http_rules.tags import EntityTag, Tags, TagsMalformed, parse_tags
from gamed.saves.errors import BadPrecondition
from gamed.saves.version import Version

MAX_LENGTH = 1024
"""Characters of a condition: a commit's body could hold one of 256 KiB."""
MAX_TAG = 64
"""Characters; what is kept with refused bytes is bounded."""


class Wants(Enum):
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

    wants: Wants = Wants.ANYTHING
    tag: EntityTag | None = None

    def holds(self, head: Version | None) -> bool:
        """Against the current version; None is a slot that is deleted or was never there."""
        return self.allows(None if head is None else head.entity_tag)

    def allows(self, current: EntityTag | None) -> bool:
        """Against the tag of what is there now, if anything is. Tags compare strongly."""
        match self.wants:
            case Wants.THIS:
                return self.tag is not None and current is not None and self.tag.strongly_equals(current)
            case Wants.PRESENT:
                return current is not None
            case Wants.ABSENT:
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
        raise BadPrecondition("Send If-Match or If-None-Match, not both.")
    if none_match:
        if not none_match.star:
            raise BadPrecondition("To create a save, send If-None-Match: *; it takes no entity-tag here.")
        return Condition(Wants.ABSENT)
    return _matching(match)


def deleting_condition(header: Header) -> Condition:
    """For DELETE: `If-Match: "<etag>"`, `If-Match: *` or nothing; else BadPrecondition."""
    if header("if-none-match") is not None:
        raise BadPrecondition('To delete, send If-Match: "<etag>"; If-None-Match makes no sense here.')
    return _matching(_tags(header, "if-match"))


def _matching(match: Tags | None) -> Condition:
    if match is None:
        return UNCONDITIONAL
    if match.star:
        return Condition(Wants.PRESENT)
    if any(len(tag.opaque) > MAX_TAG for tag in match.listed):
        raise BadPrecondition("This entity-tag is longer than any of this server. Send the etag as you received it.")
    if len(match.listed) > 1:
        raise BadPrecondition("Send one entity-tag in If-Match: the one of the version you built on.")
    return Condition(Wants.THIS, match.listed[0])


def _tags(header: Header, name: str) -> Tags | None:
    text = header(name)
    if text is not None and len(text) > MAX_LENGTH:
        raise BadPrecondition(
            f"{name.title()} is longer than {MAX_LENGTH} characters. Send one etag as you received it."
        )
    try:
        return None if text is None else parse_tags(text)
    except TagsMalformed:
        raise BadPrecondition(
            f'{name.title()} takes the etag with its double quotes, such as "9-9f86d081884c7d65", or *.'
        ) from None
