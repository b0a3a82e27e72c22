"""docs/spec.md answers for every sentence of the specification: a test, a page, or `words`."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/spec.md"
SPEC = ROOT.parent / "shared/SPEC.md"
SENTENCES = "2274e8460da6bdbda418daaaccaf98daed369a22a2d240b9a0840d65edc49dad"
"""SHA-256 of the specification's sentences, one a line: none can be dropped or reworded, wherever the tests run."""

BREAK = re.compile(r"(?<=\.) +(?=[A-Z`<(])")
TEST = re.compile(r"`(tests(?:\.\w+)+)`")
LINK = re.compile(r"\[[^]]+\]\(([^)#]*)(?:#([^)]+))?\)")
BARE = {"words"}


@frozen
class Row:
    """One sentence and what shows that it holds."""

    section: str
    sentence: str
    shown_by: str


def sentences(text: str) -> Iterator[str]:
    """The specification cut into sentences; a table row is one, and one more for each further in its last cell."""
    paragraph: list[str] = []
    for line in map(str.strip, [*text.splitlines(), ""]):
        if not line or line.startswith(("#", "|")) or re.match(r"(\d+\.|-) ", line):
            yield from BREAK.split(" ".join(paragraph)) if paragraph else ()
            paragraph = []
        if line.startswith("|"):
            yield from table_row(line)
        elif line and not line.startswith("#"):
            paragraph.append(re.sub(r"^(\d+\.|-) +", "", line))


def table_row(line: str) -> Iterator[str]:
    first, *middle, last = (cell.strip() for cell in line.strip("|").split("|"))
    if set(first) == {"-"}:
        return
    head, *rest = BREAK.split(last)
    yield " · ".join([first, *middle, head])
    yield from (f"{first} · {sentence}" for sentence in rest)


def rows(page: str) -> Iterator[Row]:
    """The tables of docs/spec.md, without their heads."""
    section = ""
    for line in page.splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and section and not line.startswith(("| Sentence |", "| --- |")):
            sentence, shown_by = (cell.strip() for cell in line.strip("|").split("|"))
            yield Row(section, sentence.replace("\\<", "<"), shown_by)


def complaints(row: Row) -> Iterator[str]:
    """What is wrong with a row; nothing when it is in order."""
    if row.shown_by in BARE:
        return
    tests, links = TEST.findall(row.shown_by), LINK.findall(row.shown_by)
    if not tests and not links:
        yield f"no entry: {row.sentence}"
    yield from (f"no such test: {test}" for test in tests if not is_test(test))
    yield from (f"no such page: {page}#{anchor}" for page, anchor in links if not is_page(page, anchor))


def is_test(name: str) -> bool:
    """A test method, or a whole test case, that the source defines."""
    module, _, rest = re.sub(r"\.([A-Z])", r":\1", name, count=1).partition(":")
    parts = rest.split(".")
    methods = cases(module)
    return parts[0] in methods and (len(parts) == 1 or parts[1] in methods[parts[0]])


@cache
def cases(module: str) -> dict[str, set[str]]:
    """Test methods by class, read from the source of a test module."""
    file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        return {}
    classes = [node for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.ClassDef)]
    return {node.name: {item.name for item in node.body if is_method(item)} for node in classes}


def is_method(item: ast.stmt) -> bool:
    return isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name.startswith("test")


def is_page(page: str, anchor: str) -> bool:
    file = PAGE.parent / page
    return file.is_file() and (not anchor or anchor in anchors(file))


@cache
def anchors(file: Path) -> set[str]:
    """Names of a page's headings, as links spell them."""
    heads = re.findall(r"(?m)^#+ +(.+)$", file.read_text("utf-8"))
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def listed() -> list[Row]:
    return list(rows(PAGE.read_text("utf-8")))


class SpecTests(SynchronousTestCase):
    def test_every_sentence_is_listed(self) -> None:
        """The page holds exactly the specification's sentences, in order."""
        known = [row.sentence for row in listed()]
        self.assertEqual(sha256("\n".join(known).encode()).hexdigest(), SENTENCES)

    def test_the_specification_itself(self) -> None:
        """Where the specification lies beside the checkout, the page's sentences are its sentences, word for word."""
        known = [row.sentence for row in listed()]
        self.assertEqual(known, list(sentences(SPEC.read_text("utf-8"))) if SPEC.is_file() else known)

    def test_every_sentence_has_an_entry(self) -> None:
        """Each row names tests and pages that exist, or says `words`: nothing of the specification is left open."""
        self.assertEqual([complaint for row in listed() for complaint in complaints(row)], [])

    def test_planted_faults(self) -> None:
        """A missing entry, a test, class, module or page that is not there: each is found."""
        here = "tests.test_spec.SpecTests"
        for shown_by, found in (
            ("", ["no entry: It holds."]),
            ("soon", ["no entry: It holds."]),
            ("open", ["no entry: It holds."]),
            ("words", []),
            (f"`{here}.test_planted_faults`", []),
            (f"`{here}`", []),
            (f"`{here}.test_nowhere`", [f"no such test: {here}.test_nowhere"]),
            ("`tests.test_spec.Nowhere`", ["no such test: tests.test_spec.Nowhere"]),
            ("`tests.nowhere.SpecTests`", ["no such test: tests.nowhere.SpecTests"]),
            ("[this page](spec.md)", []),
            ("[this page](spec.md#nowhere)", ["no such page: spec.md#nowhere"]),
            ("[a page](nowhere.md)", ["no such page: nowhere.md#"]),
        ):
            self.assertEqual(list(complaints(Row("1", "It holds.", shown_by))), found)

    def test_cutting(self) -> None:
        """Lists, wrapped lines and table cells are cut into sentences; headings and rulers are none."""
        text = "# A\nOne two.\nThree, e.g. four.\n\n1. Five: six.\n2. Seven. Eight\n\n| Nine | Ten. Eleven |\n|---|---|"
        cut = ["One two.", "Three, e.g. four.", "Five: six.", "Seven.", "Eight", "Nine · Ten.", "Nine · Eleven"]
        self.assertEqual(list(sentences(text)), cut)
