"""Catalogues of texts in gettext's format (.po), read as they are: nothing is compiled.

    msgid "Hello, {name}"
    msgstr "Hallo, {name}"

A catalogue may come from an owner, so that nothing in it is trusted: its size is bounded, its plural rule is an
expression that the standard library checks, and each text has exactly the placeholders of its source.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from gettext import c2py
from re import ASCII, MULTILINE, compile
from typing import Final

from msgspec import Struct

FILE_BYTES: Final = 256 * 1024
TEXT_BYTES: Final = 4096
COUNTS: Final = (*range(1001), 10_000, 1_000_000)
"""The numbers with which the rule of plurals is tried."""
_PLACEHOLDER = compile(r"\{([a-z_]{1,32})\}", ASCII)
_LINE = compile(r'(?:(msgid|msgid_plural|msgstr|msgstr\[[0-5]\])[ ]+)?"((?:[^"\\]|\\[nt"\\])*+)"', ASCII)
_RULE = compile(r"^Plural-Forms:[ ]*+nplurals=([1-6]);[ ]*+plural=([^;\n]{1,500});", ASCII | MULTILINE)
_ESCAPED: Final = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\\\": "\\"}
_ESCAPE = compile(r"\\.")


def split_placeholders(filled: str) -> Iterator[tuple[str, str | None]]:
    """Return each piece of text with the name of the placeholder after it; None after the last."""
    parts = _PLACEHOLDER.split(filled)
    return zip(parts[::2], [*parts[1::2], None], strict=True)


def placeholders(filled: str) -> set[str]:
    return set(_PLACEHOLDER.findall(filled))


class CatalogueError(Exception):
    """A catalogue that cannot be used; the text has the line and what to change."""


class Catalogue(Struct, frozen=True):
    """The texts of a language by their English source, each with a form for each kind of number."""

    texts: Mapping[str, Sequence[str]]
    plural: Callable[[int], int]
    """The index of the form for a count."""


def read_catalogue(raw: bytes) -> Catalogue:
    """Return the catalogue of a file; raise CatalogueError."""
    if len(raw) > FILE_BYTES:
        raise CatalogueError(f"the file is larger than {FILE_BYTES // 1024} KiB")
    try:
        (first, _, header), *entries = _entries(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise CatalogueError("the file is not UTF-8; save it with that encoding") from None
    if header["msgid"]:
        raise CatalogueError(f'line {first}: a catalogue begins with msgid "" and the line Plural-Forms')
    count, plural = _plural(header.get("msgstr", ""))
    texts: dict[str, Sequence[str]] = {}
    for line, fuzzy, entry in entries:
        if entry["msgid"] in texts:
            raise CatalogueError(f"line {line}: a second text for {entry['msgid'][:60]!r}; remove one")
        if not fuzzy and any(text for keyword, text in entry.items() if keyword.startswith("msgstr")):
            texts[entry["msgid"]] = _forms(line, entry, count)
    return Catalogue(texts, plural)


def _entries(content: str) -> Iterator[tuple[int, bool, dict[str, str]]]:
    """Yield the line of each msgid, whether a comment calls it fuzzy, and its texts by keyword; the header first."""
    entry: dict[str, str] = {}
    line, fuzzy, next_fuzzy, keyword = 0, False, False, ""
    for number, stripped in enumerate(map(str.strip, content.split("\n")), 1):
        if not stripped or stripped.startswith("#"):
            next_fuzzy = next_fuzzy or (stripped.startswith("#,") and "fuzzy" in stripped)
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            raise CatalogueError(f'line {number}: expected msgid, msgid_plural or msgstr, and a text in "..."')
        keyword = match[1] or keyword
        if match[1] == "msgid":
            if entry:
                yield line, fuzzy, entry
            entry, line, fuzzy, next_fuzzy = {}, number, next_fuzzy, False
        elif not entry:
            raise CatalogueError(f"line {number}: a text without its msgid before it")
        entry[keyword] = entry.get(keyword, "") + _ESCAPE.sub(lambda escape: _ESCAPED[escape[0]], match[2])
        if len(entry[keyword].encode()) > TEXT_BYTES:
            raise CatalogueError(f"line {number}: a text is larger than {TEXT_BYTES // 1024} KiB; shorten it")
    if not entry:
        raise CatalogueError("the file has no texts")
    yield line, fuzzy, entry


def _plural(header: str) -> tuple[int, Callable[[int], int]]:
    match = _RULE.search(header)
    if match is None:
        raise CatalogueError("the header has no line such as Plural-Forms: nplurals=2; plural=n != 1;")
    count = int(match[1])
    with suppress(ValueError, ArithmeticError, RecursionError):
        plural = c2py(match[2])
        if all(0 <= plural(number) < count for number in COUNTS):
            return count, plural
    raise CatalogueError(f"Plural-Forms gives no number below {count} for each count; copy the line of your language")


def _forms(line: int, entry: Mapping[str, str], count: int) -> Sequence[str]:
    """Return the forms of a text; raise CatalogueError if one is missing or has other placeholders than its source."""
    wanted = [f"msgstr[{number}]" for number in range(count)] if "msgid_plural" in entry else ["msgstr"]
    forms = [entry.get(keyword, "") for keyword in wanted]
    if not all(forms) or any(keyword.startswith("msgstr") and keyword not in wanted for keyword in entry):
        raise CatalogueError(f"line {line}: the text needs {' '.join(wanted)}, none empty")
    names = placeholders(entry["msgid"]) | placeholders(entry.get("msgid_plural", ""))
    if any(placeholders(form) != names for form in forms):
        listed = ", ".join(f"{{{name}}}" for name in sorted(names)) or "none"
        raise CatalogueError(f"line {line}: the placeholders of the text are {listed}; use exactly these")
    return forms
