"""The header fields that make a request conditional or partial, as pure functions.

Entity-tags and preconditions are of RFC 9110 8.8.3 and 13, byte ranges of RFC 9110 14, digests of RFC 9530, the wait
that a client prefers of RFC 7240 4.3.

See docs/protocol.md: Conditions and ranges.
"""

from base64 import b64encode
from collections.abc import Callable
from enum import Enum, auto
from functools import lru_cache
from re import ASCII, IGNORECASE, compile
from typing import Final

from msgspec import Struct

from gamed.timestamps import parse_http_date

# entity-tags

_OPAQUE = r'"([\x21\x23-\x7e\x80-\xff]*)"'
_TAG: Final = compile(rf"(W/)?{_OPAQUE}", ASCII)
_GAP: Final = compile(r"[ \t]*(,[ \t]*)*", ASCII)


class TagsMalformed(ValueError):
    """A text that is neither `*` nor a list of entity-tags in double quotes."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"If-Match and If-None-Match take etags: {reason}.")


class EntityTag(Struct, frozen=True):
    """An entity-tag: the text between the quotes, and whether `W/` precedes them."""

    opaque: str
    weak: bool = False

    def __str__(self) -> str:
        return f'W/"{self.opaque}"' if self.weak else f'"{self.opaque}"'

    def strongly_equals(self, other: "EntityTag") -> bool:
        """Compare strongly: neither is weak, and the text is the same (RFC 9110 8.8.3.2)."""
        return not self.weak and not other.weak and self.opaque == other.opaque

    def weakly_equals(self, other: "EntityTag") -> bool:
        """Compare weakly: the text is the same (RFC 9110 8.8.3.2)."""
        return self.opaque == other.opaque


class EntityTagList(Struct, frozen=True):
    """The value of If-Match or If-None-Match: `*` (any representation), or a list."""

    listed: tuple[EntityTag, ...]
    star: bool = False

    def match_strongly(self, current: EntityTag | None) -> bool:
        """Return whether the list has the tag of a representation; False for a resource without one, also for `*`."""
        return current is not None and (self.star or any(map(current.strongly_equals, self.listed)))

    def match_weakly(self, current: EntityTag | None) -> bool:
        """Return the same by weak comparison."""
        if current is None or self.star:
            return current is not None
        return current in self.listed or any(  # mostly the list has exactly this tag
            map(current.weakly_equals, self.listed)
        )


def parse_tags(text: str) -> EntityTagList:
    """Parse `*` or `"a", W/"b"`; skip empty elements (RFC 9110 5.6.1.2). Raise TagsMalformed for any other text."""
    if (single := parse_tag(text)) is not None:
        return EntityTagList((single,))
    if text.strip(" \t") == "*":
        return EntityTagList((), star=True)
    listed: list[EntityTag] = []
    at = _after_gap(text, 0)
    while at < len(text):
        match = _TAG.match(text, at)
        if match is None:
            raise TagsMalformed('expected an entity-tag in double quotes, such as "9-9f86d081884c7d65"')
        listed.append(EntityTag(match[2], weak=match[1] is not None))
        at = _after_gap(text, match.end())
        if at < len(text) and "," not in text[match.end() : at]:
            raise TagsMalformed("expected a comma between entity-tags")
    if not listed:
        raise TagsMalformed("expected an entity-tag in double quotes, or *")
    return EntityTagList(tuple(listed))


def parse_tag(text: str) -> EntityTag | None:
    """Parse exactly one entity-tag; return None for any other text."""
    match = _TAG.fullmatch(text.strip(" \t"))
    return EntityTag(match[2], weak=match[1] is not None) if match else None


def _after_gap(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


# preconditions

Header = Callable[[str], str | None]
"""The lower-case name of a header field -> its lines joined by ", ", or None if it was not sent (RFC 9110 5.2)."""


class Precondition(Enum):
    """The result of evaluating the conditions of a request."""

    PROCEED = auto()
    NOT_MODIFIED = auto()
    FAILED = auto()


class Representation(Struct, frozen=True):
    """The current representation: its strong entity-tag, and when it was last modified in epoch milliseconds."""

    tag: EntityTag
    modified_ms: int
    date_is_strong: bool = True
    """Whether no other representation can have the same Last-Modified (RFC 9110 8.8.2.2)."""

    @property
    def last_modified_ms(self) -> int:
        """Return the instant in whole seconds, as Last-Modified has it."""
        return self.modified_ms // 1000 * 1000


class Conditions(Struct, frozen=True):
    """The parsed conditions of a request, None for a missing field; instants are epoch milliseconds."""

    if_match: EntityTagList | None = None
    if_none_match: EntityTagList | None = None
    if_modified_since_ms: int | None = None
    if_unmodified_since_ms: int | None = None
    if_range: EntityTag | int | None = None
    """A tag or a date; NEVER_CURRENT for any other text."""


UNCONDITIONAL = Conditions()
CACHED_CONDITIONS = 256
"""All clients that have a file send the same conditions for it."""
CACHED_CHARACTERS = 256
"""Longest conditions to cache: a list of tags may be as long as a head, and takes ten times its memory once parsed."""
NEVER_CURRENT = EntityTag("", weak=True)
"""Stands for a malformed If-Range: it never matches, so the whole representation is sent."""


def parse_conditions(header: Header) -> Conditions:
    """Parse the conditions of a request; raise TagsMalformed for malformed tags, ignore malformed dates."""
    match, none_match = header("if-match"), header("if-none-match")
    modified, unmodified, if_range = header("if-modified-since"), header("if-unmodified-since"), header("if-range")
    if match is none_match is modified is unmodified is if_range is None:
        return UNCONDITIONAL
    short = len(f"{match}{none_match}{modified}{unmodified}{if_range}") <= CACHED_CHARACTERS
    return (_parse_cached if short else _parse)(match, none_match, modified, unmodified, if_range)


def _parse(
    match: str | None, none_match: str | None, modified: str | None, unmodified: str | None, if_range: str | None
) -> Conditions:
    return Conditions(
        if_match=None if match is None else parse_tags(match),
        if_none_match=None if none_match is None else parse_tags(none_match),
        if_modified_since_ms=_date(modified),
        if_unmodified_since_ms=_date(unmodified),
        if_range=_if_range(if_range),
    )


_parse_cached = lru_cache(CACHED_CONDITIONS)(_parse)


def evaluate_conditions(conditions: Conditions, current: Representation | None, *, reading: bool) -> Precondition:
    """Evaluate steps 1 to 4 of RFC 9110 13.2.2.

    `current` is None for a resource without a representation; `reading` is True for GET and HEAD.
    """
    if not _may_proceed(conditions, current):
        return Precondition.FAILED
    if conditions.if_none_match is not None:
        if not conditions.if_none_match.match_weakly(_tag(current)):
            return Precondition.PROCEED
        return Precondition.NOT_MODIFIED if reading else Precondition.FAILED
    since_ms = conditions.if_modified_since_ms
    unmodified = reading and current is not None and since_ms is not None and current.last_modified_ms <= since_ms
    return Precondition.NOT_MODIFIED if unmodified else Precondition.PROCEED


def range_holds(conditions: Conditions, current: Representation) -> bool:
    """Evaluate step 5: a Range counts without If-Range, or if that is exactly the current representation."""
    match conditions.if_range:
        case None:
            return True
        case EntityTag() as tag:
            return tag.strongly_equals(current.tag)
        case date_ms:
            return current.date_is_strong and date_ms == current.last_modified_ms


def _may_proceed(conditions: Conditions, current: Representation | None) -> bool:
    """Evaluate If-Match, or If-Unmodified-Since if there is no If-Match."""
    if conditions.if_match is not None:
        return conditions.if_match.match_strongly(_tag(current))
    if conditions.if_unmodified_since_ms is None or current is None:
        return True
    return current.last_modified_ms <= conditions.if_unmodified_since_ms


def _tag(current: Representation | None) -> EntityTag | None:
    return None if current is None else current.tag


def _date(text: str | None) -> int | None:
    """Parse one date; ignore two joined lines (RFC 9110 13.1.3)."""
    return None if text is None or text.count(",") > 1 else parse_http_date(text)


def _if_range(text: str | None) -> EntityTag | int | None:
    if text is None:
        return None
    tag, date_ms = parse_tag(text), _date(text)
    return tag or (NEVER_CURRENT if date_ms is None else date_ms)


# ranges, digests, preferences

_ONE: Final = compile(r"bytes=[ \t]*([0-9]{1,100})?-([0-9]{1,100})?[ \t]*", ASCII | IGNORECASE)


class RangeUnsatisfiable(ValueError):
    """A well-formed range of which the representation has no byte; the response has the size (RFC 9110 15.5.17)."""

    def __init__(self, detail: str, size: int) -> None:
        super().__init__(detail)
        self.members = {"size": size}
        self.headers = {"Content-Range": f"bytes */{size}"}


class ByteRange(Struct, frozen=True):
    """A byte range: `first` to `last`, both included, of `size` bytes."""

    first: int
    last: int
    size: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1

    @property
    def content_range(self) -> str:
        return f"bytes {self.first}-{self.last}/{self.size}"


def parse_range(text: str | None, size: int) -> ByteRange | None:
    """Return the bytes that a Range header asks for, or None to send everything.

    Several ranges, other units and what does not parse are ignored, as RFC 9110 14.2 allows.
    """
    match = _ONE.fullmatch(text) if text is not None else None
    if match is None:
        return None
    begin, end = match.groups()
    if begin is None and end is None:
        return None
    if begin is None:
        first, last = max(0, size - int(end)), size - 1
    else:
        first, last = int(begin), int(end) if end else size - 1
        if end and last < first:
            return None
    if first >= size:
        raise RangeUnsatisfiable(
            f"There are {size} bytes, so the last one is number {size - 1}." if size else EMPTY, size
        )
    return ByteRange(first, min(last, size - 1), size)


EMPTY: Final = "There are 0 bytes; send no Range."


def sha256_field(sha256: bytes) -> str:
    """Return the value of Repr-Digest."""
    return f"sha-256=:{b64encode(sha256).decode()}:"


_WAIT: Final = compile(r'[ \t]*wait[ \t]*=[ \t]*(?:([0-9]{1,9})|"([0-9]{1,9})")[ \t]*(?:;.*)?', ASCII | IGNORECASE)
_NAMED: Final = compile(r"[ \t]*wait[ \t]*(?:[=;].*)?", ASCII | IGNORECASE)


def prefer_wait(text: str | None) -> int:
    """Return the first `wait` of a Prefer field in seconds (RFC 7240 2); 0 if there is none."""
    first = next((member for member in (text or "").split(",") if _NAMED.fullmatch(member)), "")
    match = _WAIT.fullmatch(first)
    return int(match[1] or match[2]) if match else 0
