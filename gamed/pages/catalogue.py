"""Catalogues of texts in gettext's format (.po), read as they are: nothing is compiled.

    msgid "Sign out {device}"
    msgstr "{device} abmelden"

A catalogue may come from an owner, so that nothing in it is trusted: its size is bounded, its plural rule is an
expression that the standard library checks, and each text has exactly the placeholders of its source.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from gettext import c2py
from re import ASCII, compile
from typing import Final

from msgspec import Struct

FILE_BYTES: Final = 256 * 1024
TEXT_CHARACTERS: Final = 4096
COUNTS: Final = (*range(1001), 10_000, 1_000_000)
"""The numbers with which the rule of plurals is tried."""
_PLACEHOLDER = compile(r"\{([a-z_]{1,32})\}", ASCII)
_LINE = compile(r'(?:(msgid|msgid_plural|msgstr|msgstr\[([0-5])\])[ ]+)?"((?:[^"\\]|\\[nt"\\])*+)"', ASCII)
_HEADER = compile(r"[ ]*nplurals=([1-6]);[ ]*plural=([^;]{1,500});[ ]*", ASCII)
_ESCAPED: Final = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\\\": "\\"}
_ESCAPE = compile(r"\\.")


def split_placeholders(filled: str) -> Iterator[tuple[str, str | None]]:
    """Yield each piece of text with the name of the placeholder after it; None after the last."""
    start = 0
    for match in _PLACEHOLDER.finditer(filled):
        yield filled[start : match.start()], match[1]
        start = match.end()
    yield filled[start:], None


def placeholders(filled: str) -> set[str]:
    return {name for _, name in split_placeholders(filled) if name is not None}


class CatalogueError(Exception):
    """A catalogue that cannot be used; the text has the line and what to change."""


class Catalogue(Struct, frozen=True):
    """The texts of a language by their English source, each with a form for each kind of number."""

    texts: Mapping[str, Sequence[str]]
    plural: Callable[[int], int]
    """The index of the form for a count."""


class CatalogueEntry(Struct):
    """The lines of one text; `line` is that of its msgid."""

    line: int
    fuzzy: bool = False
    source: str = ""
    many: str | None = None
    forms: dict[int, str] = {}


def read_catalogue(raw: bytes) -> Catalogue:
    """Return the catalogue of a file; raise CatalogueError."""
    if len(raw) > FILE_BYTES:
        raise CatalogueError(f"the file is larger than {FILE_BYTES // 1024} KiB")
    try:
        content = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CatalogueError("the file is not UTF-8; save it with that encoding") from None
    header, *entries = _entries(content)
    if header.source:
        raise CatalogueError(f'line {header.line}: a catalogue begins with msgid "" and the line Plural-Forms')
    count, plural = _plural(header)
    texts = {}
    for entry in entries:
        if entry.source in texts:
            raise CatalogueError(f"line {entry.line}: a second text for {entry.source[:60]!r}; remove one")
        if not entry.fuzzy and any(entry.forms.values()):
            texts[entry.source] = _checked(entry, count)
    return Catalogue(texts, plural)


def _entries(content: str) -> Iterator[CatalogueEntry]:
    """Yield the texts, the header first."""
    entry, append, fuzzy = None, None, False
    for number, line in enumerate(content.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("#"):
            fuzzy = fuzzy or (stripped.startswith("#,") and "fuzzy" in stripped)
            continue
        if not stripped:
            continue
        match = _LINE.fullmatch(stripped) if len(stripped) <= TEXT_CHARACTERS else None
        if match is None:
            raise CatalogueError(f'line {number}: expected msgid, msgid_plural or msgstr, and a text in "..."')
        keyword, form, quoted = match.groups()
        piece = _ESCAPE.sub(lambda escape: _ESCAPED[escape[0]], quoted)
        if keyword == "msgid":
            if entry is not None:
                yield entry
            entry, fuzzy = CatalogueEntry(number, fuzzy, forms={}), False
        if entry is None:
            raise CatalogueError(f"line {number}: a text without its msgid before it")
        place = append if keyword is None else (keyword, int(form or 0))
        if place is None or _add(entry, *place, piece) > TEXT_CHARACTERS:
            raise CatalogueError(f"line {number}: a text has at most {TEXT_CHARACTERS} characters")
        append = place
    if entry is None:
        raise CatalogueError("the file has no texts")
    yield entry


def _add(entry: CatalogueEntry, keyword: str, form: int, piece: str) -> int:
    """Add a piece to a text; return the text's length."""
    match keyword:
        case "msgid":
            entry.source += piece
            return len(entry.source)
        case "msgid_plural":
            entry.many = (entry.many or "") + piece
            return len(entry.many)
        case _:
            entry.forms[form] = entry.forms.get(form, "") + piece
            return len(entry.forms[form])


def _plural(header: CatalogueEntry) -> tuple[int, Callable[[int], int]]:
    lines = dict(line.split(":", 1) for line in header.forms.get(0, "").split("\n") if ":" in line)
    match = _HEADER.fullmatch(lines.get("Plural-Forms", "")[:600])
    if match is None:
        raise CatalogueError("the header has no line such as Plural-Forms: nplurals=2; plural=n != 1;")
    count = int(match[1])
    try:
        plural = c2py(match[2])
        usable = all(0 <= plural(number) < count for number in COUNTS)
    except (ValueError, ArithmeticError, RecursionError):
        usable = False
    if not usable:
        raise CatalogueError(
            f"Plural-Forms gives no number below {count} for each count; copy the line of your language"
        )
    return count, plural


def _checked(entry: CatalogueEntry, count: int) -> Sequence[str]:
    """Return the forms of a text; raise CatalogueError if one is missing or has other placeholders than its source."""
    wanted = count if entry.many is not None else 1
    if sorted(entry.forms) != list(range(wanted)) or not all(entry.forms.values()):
        raise CatalogueError(f"line {entry.line}: the text needs {wanted} forms, each in a msgstr of its own")
    forms = [entry.forms[number] for number in range(wanted)]
    names = placeholders(entry.source) | placeholders(entry.many or "")
    for form in forms:
        if placeholders(form) != names:
            listed = ", ".join(f"{{{name}}}" for name in sorted(names)) or "none"
            raise CatalogueError(f"line {entry.line}: the placeholders of the text are {listed}; use exactly these")
    return forms
