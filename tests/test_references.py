"""References of docstrings and comments lead somewhere: to a page, a heading, a sentence or a rule.

- `docs/protocol.md: Sessions` names a page and its headings; a heading may be cited up to its first colon.
- `SPEC 2.2` names a section of docs/internals/spec.md, `SPEC 2.2/8` a sentence.
- W1 to W7, R1 to R6, M1 to M5 and check 1 to 8 are rows of docs/internals/rules.md; bench/ has letters of its own in
  its README.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from io import StringIO
from tokenize import COMMENT, generate_tokens

from twisted.trial.unittest import SynchronousTestCase

from gamed.login.callback_rules import CallbackCheck
from gamed.saves.write_rules import WriteRule
from tests.covers_pages import ROOT
from tests.test_language import text_files

SUFFIXES = {
    *(".c", ".conf", ".cs", ".css", ".gd", ".html", ".js", ".json", ".lua", ".md", ".mjs", ".mts", ".py", ".service"),
    *(".sh", ".sql", ""),
}
RULES = "docs/internals/rules.md"
SPEC = "docs/internals/spec.md"
SKIPPED = {RULES, "CHANGELOG.md"}
"""The page that has the older numbers, and the one that names what older versions had."""
FROZEN = re.compile(r"gamed/database/\w+/schema/")
"""Released scripts never change; they may use the numbers in the last table of the rules' page."""

OLD = re.compile(
    r"(?<![\w`.])(?:(?:PROTOCOL|SPEC|DESIGN|LAYOUT|STYLE)\b(?![`\"])|[Ii]ssues? #?\d)"
    r"(?: ?\d+(?:\.\d+)*(?:, \d+(?:\.\d+)*)*)?"
)
SENTENCES = re.compile(r"(?<![\w`.])SPEC (?P<ids>[\w./]*\w(?:(?:, | and | to )(?:\d[\d./]*(?<!\.)|operational)\b)*)")
PAGE = re.compile(r"(?<![\w/])docs/[\w/-]+\.(?:md|yaml)")
END = re.compile(r"$|[\])>.;:\"'`<]|, ?(?:[a-z]|$)| \*/")
"""The text that may follow a heading, so that a longer name does not pass for the heading that it begins with."""
RULE = re.compile(r"(?<![\w`%/:.+-])[A-Z]\d\d?(?![\w-])")
CHECK = re.compile(r"\bchecks? (\d)\b(?:(?: to | and |, )(\d)\b)?")
COMMENTED = re.compile(r"(?m)(?:^|\s)(?:#|//+|/?\*+|--) (.*)$")
NAMES = {"C0", "C1", "S3"}
"""The sets of control characters of ISO 6429, and a protocol of storage services."""
WITHOUT_RULES = (".html", ".json")
"""Files that are read as a whole, and have paths of pictures and data of tests."""


@cache
def headings(page: str) -> set[str]:
    """Return the headings of a page as they may be cited: whole, and up to a colon."""
    whole = re.findall(r"(?m)^#+ +(.+)$", (ROOT / page).read_text("utf-8"))
    return {*whole, *(heading.partition(":")[0] for heading in whole)}


@cache
def sentences() -> set[str]:
    """Return the ids of the specification's sentences, and their sections."""
    ids = re.findall(r"(?m)^\|([\w.]+/\d+)\|", (ROOT / SPEC).read_text("utf-8"))
    return {*ids, *(name.partition("/")[0] for name in ids)}


@cache
def rows(page: str) -> list[str]:
    """Return the first cells of a page's tables; `**A**, **B**` are two."""
    cells = re.findall(r"(?m)^\| ([^|]+) \|", (ROOT / page).read_text("utf-8"))
    return [name for cell in cells for name in cell.replace("*", "").split(", ")]


def docstrings_and_comments(source: str) -> Iterator[str]:
    """Yield each string that is a statement, and each block of comments, without line breaks."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield " ".join(node.value.value.split())
    block: list[str] = []
    last = 0
    for token in generate_tokens(StringIO(source).readline):
        if token.type == COMMENT:
            if token.start[0] != last + 1:
                yield " ".join(block)
                block = []
            block.append(token.string.lstrip("#").strip())
            last = token.start[0]
    yield " ".join(block)


def texts(name: str, content: str) -> Iterator[str]:
    """Yield the texts of a file that may have references: docstrings and comments, or a page, or a scenario."""
    if name.endswith(".py") or re.match(r"#!.*python", content):
        yield from docstrings_and_comments(content)
    else:
        whole = name.endswith((".html", ".json", ".md"))
        yield " ".join((content if whole else "\n".join(COMMENTED.findall(content))).split())


def wrong_headings(text: str) -> Iterator[str]:
    """Yield the pages that do not exist, and what follows a page and a colon without being one of its headings."""
    for found in PAGE.finditer(text):
        page, rest = found[0], text[found.end() :]
        if not (ROOT / page).is_file():
            yield page
        elif page.endswith(".md") and rest.startswith(": "):
            yield from wrong_names(page, rest[2:])


def wrong_names(page: str, text: str) -> Iterator[str]:
    """Yield the beginning of a text that should begin with headings of the page, one after another."""
    heading = max(filter(text.startswith, headings(page)), key=len, default="")
    rest = text[len(heading) :]
    if heading and re.match(", [A-Z]", rest):
        yield from wrong_names(page, rest[2:])
    elif not heading or not END.match(rest):
        yield f"{page}: {text[:40]}"


def wrong_references(name: str, text: str) -> Iterator[str]:
    """Yield the references of a text that lead nowhere, or that have an unknown form."""
    older = set(rows(RULES)) if FROZEN.match(name) else set()
    places = set()
    for found in SENTENCES.finditer(text):
        places.add(found.start())
        unknown = [each for each in re.split(", | and | to ", found["ids"]) if each not in sentences()]
        yield from (f"SPEC {each}" for each in unknown if f"SPEC {each}" not in older)
        if re.match(r" rules? \d", text[found.end() :]):
            yield f"{found[0]} rule"
    for found in OLD.finditer(text):
        word, *numbers = re.split(",? ", found[0])
        if found.start() not in places and not (numbers and older.issuperset(f"{word} {each}" for each in numbers)):
            yield found[0]
    yield from wrong_headings(text)


def wrong_rules(name: str, text: str) -> Iterator[str]:
    """Yield the letters with a number, and the numbered checks, that are no row of a table."""
    page = "bench/README.md" if name.startswith(("bench/", "tests/bench/")) else RULES
    yield from (rule for rule in RULE.findall(text) if rule not in {*rows(page), *NAMES})
    for found in CHECK.finditer(text):
        yield from (f"check {number}" for number in found.groups() if number and number not in rows(RULES))


def wrong(name: str, content: str) -> Iterator[str]:
    for text in texts(name, content):
        yield from wrong_references(name, text)
        if not name.endswith(WITHOUT_RULES):
            yield from wrong_rules(name, text)


class ReferenceTests(SynchronousTestCase):
    def test_references(self) -> None:
        """Each reference of the project leads to a page, a heading, a sentence or a rule."""
        files = {file.relative_to(ROOT).as_posix(): file for file in text_files(ROOT) if file.suffix in SUFFIXES}
        self.assertGreater(len(files), 1000)
        found = [
            f"{name}: {each}"
            for name, file in files.items()
            if name not in SKIPPED
            for each in wrong(name, file.read_text("utf-8", "replace"))
        ]
        self.assertEqual(found, [])

    def test_tables(self) -> None:
        """The page of rules has the rules of writes, and the checks of a callback, that the code has."""
        written = {rule.name.partition("_")[0] for rule in WriteRule}
        self.assertEqual({name for name in rows(RULES) if re.fullmatch(r"W\d", name)}, written)
        checks = {check.value for check in CallbackCheck} - {CallbackCheck.EXCHANGE.value}
        self.assertEqual([name for name in rows(RULES) if name.isdecimal()], [str(n) for n in sorted({1, *checks})])

    def test_planted_references(self) -> None:
        """Wrong headings, pages, sentences, rules and older forms are found; right ones are not."""
        for text, found in (
            ("It refreshes (docs/protocol.md: Sessions).", []),
            ("See docs/protocol.md: Start, Collect; SPEC 2.2, 1/12 and operational; RFC 9110 8.3.", []),
            ("(docs/owners/assets.md: Move channels), or docs/internals/storage.md: What is deleted, and when.", []),
            ("By rule W1, R5 and check 8; `R9`, X509, ES256, U+0041, C0.", []),
            ("SPEC 2.1 `session`; the operator's docs/openapi.yaml.", []),
            ("(docs/protocol.md: Session)", ["docs/protocol.md: Session)"]),
            ("(docs/protocol.md: Sessionss)", ["docs/protocol.md: Sessionss)"]),
            ("(docs/protocol.md: Sessions, Account)", ["docs/protocol.md: Account)"]),
            ("(docs/protocol.md: Sessions Accounts)", ["docs/protocol.md: Sessions Accounts)"]),
            ("docs/protocols.md has it.", ["docs/protocols.md"]),
            ("(PROTOCOL 3.7)", ["PROTOCOL 3.7"]),
            ("by PROTOCOL's table and the SPEC", ["PROTOCOL", "SPEC"]),
            ("(DESIGN 4, LAYOUT, STYLE 2; issue 34)", ["DESIGN 4", "LAYOUT", "STYLE 2", "issue 34"]),
            ("(SPEC 1.6)", ["SPEC 1.6"]),
            ("(SPEC 2.2.4, 2.1/99)", ["SPEC 2.2.4", "SPEC 2.1/99"]),
            ("(SPEC 2.2 rule 5)", ["SPEC 2.2 rule"]),
            ("(rule R7), W0 and checks 8 to 9", ["R7", "W0", "check 9"]),
        ):
            self.assertEqual(list(wrong("gamed/a.py", f'"""{text}"""')), found, text)
            self.assertEqual(list(wrong("gamed/a.py", f"a = 1  # {text}")), found, text)

    def test_where(self) -> None:
        """Wrapped lines, other languages and schema scripts are read; other strings of Python are not."""
        for name, content, found in (
            ("gamed/a.py", 'class A:\n    """It is (docs/protocol.md:\n    Sessions) there."""\n', []),
            ("gamed/a.py", "# as in (docs/protocol.md:\n# Session)\n", ["docs/protocol.md: Session)"]),
            ("gamed/a.py", 'A = 1\n"""PROTOCOL 1."""\nb("PROTOCOL 2")\n', ["PROTOCOL 1"]),
            ("clients/a.cs", "/// <summary>A (docs/protocol.md:\n/// Assets).</summary>", []),
            ("clients/a.gd", "# One login (PROTOCOL 3.4).", ["PROTOCOL 3.4"]),
            ("clients/a.json", '{"source": "docs/protocol.md: Rules"}', ['docs/protocol.md: Rules"}']),
            ("gamed/database/sqlite/schema/auth/001_first.sql", "-- (SPEC 1.6, 2.3; PROTOCOL 4, 7)", []),
            ("gamed/database/sqlite/schema/auth/001_first.sql", "-- (PROTOCOL 5)", ["PROTOCOL 5"]),
            ("bench/a.py", "# N1 and W1, not R1", ["R1"]),
            ("clients/a.mjs", "/**\n * By rule W1, not R7.\n */", ["R7"]),
            ("clients/a.gd", 'var a = "R7"  # by checks 8 to 9', ["check 9"]),
            ("clients/a.cs", "/// <summary>R6, W0.</summary>", ["W0"]),
            ("gamed/database/sqlite/schema/auth/001_first.sql", "-- keeps R9\nSELECT 1", ["R9"]),
            ("docs/a.md", "By **W0**, in S3.", ["W0"]),
            ("examples/a.html", '<path d="M6 9H20"/>', []),
        ):
            self.assertEqual(list(wrong(name, content)), found, content)
