"""The preconditions of a request, in the order of RFC 9110 13.2.2; pure (PROTOCOL 6)."""

from collections.abc import Callable
from enum import Enum, auto
from functools import lru_cache

from msgspec import Struct

from gamed.http_rules.tags import EntityTag, Tags, parse_tag, parse_tags
from gamed.instants import parse_http_date

Header = Callable[[str], str | None]
"""A header's name, lower case -> its lines joined by ", ", or None when there is none (RFC 9110 5.2)."""


class Outcome(Enum):
    """What the conditions say about carrying out the method."""

    PROCEED = auto()
    NOT_MODIFIED = auto()
    FAILED = auto()


class Representation(Struct, frozen=True):
    """The current one: a strong entity-tag, and when it was last modified in epoch milliseconds."""

    tag: EntityTag
    modified_ms: int
    date_is_strong: bool = True
    """Surely no other representation had the same Last-Modified second (RFC 9110 8.8.2.2)."""

    @property
    def last_modified_ms(self) -> int:
        """What Last-Modified can say: whole seconds."""
        return self.modified_ms // 1000 * 1000


class Conditions(Struct, frozen=True):
    """Each header as parsed, None when absent; instants are epoch milliseconds."""

    if_match: Tags | None = None
    if_none_match: Tags | None = None
    if_modified_since_ms: int | None = None
    if_unmodified_since_ms: int | None = None
    if_range: EntityTag | int | None = None
    """A tag, a date, or None; what is neither is a tag that matches nothing."""


UNCONDITIONAL = Conditions()
REMEMBERED = 256
"""Conditions that are kept as parsed: all who have a file name it in the same words."""
FEW_CHARACTERS = 256
"""Of conditions that are kept: a list of tags may be as long as a head, and takes ten times its memory once parsed."""
NEVER_CURRENT = EntityTag("", weak=True)
"""Stands for an If-Range that cannot be read: it never holds, so the whole representation is sent."""


def parse_conditions(header: Header) -> Conditions:
    """Read from a request's head; a malformed list of tags is TagsMalformed, a malformed date is no condition."""
    match, none_match = header("if-match"), header("if-none-match")
    modified, unmodified, if_range = header("if-modified-since"), header("if-unmodified-since"), header("if-range")
    if match is none_match is modified is unmodified is if_range is None:
        return UNCONDITIONAL
    few = len(f"{match}{none_match}{modified}{unmodified}{if_range}") <= FEW_CHARACTERS
    return (_known if few else _parsed)(match, none_match, modified, unmodified, if_range)


def _parsed(
    match: str | None, none_match: str | None, modified: str | None, unmodified: str | None, if_range: str | None
) -> Conditions:
    return Conditions(
        if_match=None if match is None else parse_tags(match),
        if_none_match=None if none_match is None else parse_tags(none_match),
        if_modified_since_ms=_date(modified),
        if_unmodified_since_ms=_date(unmodified),
        if_range=_if_range(if_range),
    )


_known = lru_cache(REMEMBERED)(_parsed)


def judge(conditions: Conditions, current: Representation | None, *, reading: bool) -> Outcome:
    """Steps 1 to 4 of RFC 9110 13.2.2; `reading` is GET or HEAD, None a resource without representation."""
    if not _may_proceed(conditions, current):
        return Outcome.FAILED
    if conditions.if_none_match is not None:
        if not conditions.if_none_match.match_weakly(_tag(current)):
            return Outcome.PROCEED
        return Outcome.NOT_MODIFIED if reading else Outcome.FAILED
    since_ms = conditions.if_modified_since_ms
    unmodified = reading and current is not None and since_ms is not None and current.last_modified_ms <= since_ms
    return Outcome.NOT_MODIFIED if unmodified else Outcome.PROCEED


def range_holds(conditions: Conditions, current: Representation) -> bool:
    """Step 5: a Range counts without If-Range, or when If-Range names exactly the current representation."""
    match conditions.if_range:
        case None:
            return True
        case EntityTag() as tag:
            return tag.strongly_equals(current.tag)
        case date_ms:
            return current.date_is_strong and date_ms == current.last_modified_ms


def _may_proceed(conditions: Conditions, current: Representation | None) -> bool:
    """If-Match, or If-Unmodified-Since where there is no If-Match."""
    if conditions.if_match is not None:
        return conditions.if_match.match_strongly(_tag(current))
    if conditions.if_unmodified_since_ms is None or current is None:
        return True
    return current.last_modified_ms <= conditions.if_unmodified_since_ms


def _tag(current: Representation | None) -> EntityTag | None:
    return None if current is None else current.tag


def _date(text: str | None) -> int | None:
    """One date; two lines of it joined are no condition (RFC 9110 13.1.3)."""
    return None if text is None or text.count(",") > 1 else parse_http_date(text)


def _if_range(text: str | None) -> EntityTag | int | None:
    if text is None:
        return None
    tag, date_ms = parse_tag(text), _date(text)
    return tag or (NEVER_CURRENT if date_ms is None else date_ms)
