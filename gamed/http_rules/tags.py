"""Entity-tags and their comparison (RFC 9110 8.8.3)."""

from re import ASCII, compile
from typing import Final

from msgspec import Struct

_OPAQUE = r'"([\x21\x23-\x7e\x80-\xff]*)"'
_TAG: Final = compile(rf"(W/)?{_OPAQUE}", ASCII)
_GAP: Final = compile(r"[ \t]*(,[ \t]*)*", ASCII)


class TagsMalformed(ValueError):
    """Not `*`, and not a list of entity-tags in double quotes."""


class EntityTag(Struct, frozen=True):
    """The text between the quotes, and whether `W/` stood before them."""

    opaque: str
    weak: bool = False

    def __str__(self) -> str:
        return f'W/"{self.opaque}"' if self.weak else f'"{self.opaque}"'

    def strongly_equals(self, other: "EntityTag") -> bool:
        """RFC 9110 8.8.3.2: neither is weak, and the text is the same."""
        return not self.weak and not other.weak and self.opaque == other.opaque

    def weakly_equals(self, other: "EntityTag") -> bool:
        """RFC 9110 8.8.3.2: the text is the same."""
        return self.opaque == other.opaque


class Tags(Struct, frozen=True):
    """The value of If-Match or If-None-Match: `*` (any representation), or a list."""

    listed: tuple[EntityTag, ...]
    star: bool = False

    def match_strongly(self, current: EntityTag | None) -> bool:
        """Whether a representation is named; None is a resource without one, which nothing names, `*` neither."""
        return current is not None and (self.star or any(map(current.strongly_equals, self.listed)))

    def match_weakly(self, current: EntityTag | None) -> bool:
        """The same by RFC 9110 8.8.3.2's weak comparison; who names one mostly names exactly the current one."""
        if current is None or self.star:
            return current is not None
        return current in self.listed or any(map(current.weakly_equals, self.listed))


def parse_tags(text: str) -> Tags:
    """`*` or `"a", W/"b"`; empty list elements are passed over (RFC 9110 5.6.1.2). Else TagsMalformed."""
    if (single := parse_tag(text)) is not None:
        return Tags((single,))
    if text.strip(" \t") == "*":
        return Tags((), star=True)
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
    return Tags(tuple(listed))


def parse_tag(text: str) -> EntityTag | None:
    """Exactly one entity-tag, or None."""
    match = _TAG.fullmatch(text.strip(" \t"))
    return EntityTag(match[2], weak=match[1] is not None) if match else None


def _after_gap(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at
