"""docs/internals/spec.md has a test, a page or `words` for every sentence of the specification."""

import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from textwrap import dedent

from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

from tests.covers_pages import COMMAND, PAGES, ROOT, all_covering_tests, cells, covering_tests, faults, with_tests
from tests.support.covers import covers

PAGE = ROOT / "docs/internals/spec.md"
SPEC = ROOT.parent / "shared/SPEC.md"
SENTENCES = "2274e8460da6bdbda418daaaccaf98daed369a22a2d240b9a0840d65edc49dad"
"""The SHA-256 of the specification's sentences, one a line, so that no sentence can be removed or changed unnoticed."""

BREAK = re.compile(r"(?<=\.) +(?=[A-Z`<(])")
LINK = re.compile(r"\[[^]]+\]\(([^)#]*)(?:#([^)]+))?\)")
WORDS = "words"


class Row(Struct, frozen=True):
    """A sentence, and the tests or pages that show that it is fulfilled."""

    section: str
    name: str
    sentence: str
    page: str
    tests: str


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of the specification; a table row is one, and each further sentence of its last cell."""
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


def listed(page: str) -> Iterator[Row]:
    """Yield the rows of docs/internals/spec.md, without the heads of its tables."""
    section = ""
    for line in page.splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("|") and section and not line.startswith(("| Id |", "| --- |")):
            name, sentence, shown, tests = cells(line)
            yield Row(section, name, sentence.replace("\\<", "<"), shown, tests)


def complaints(row: Row) -> Iterator[str]:
    """Yield what is wrong with a row: an entry that is missing or not understood, a page that does not exist."""
    if row.page == WORDS:
        return
    entries = row.page.split(", ") if row.page else []
    links = [LINK.fullmatch(entry) for entry in entries]
    if not all(links) or not (entries or row.tests):
        yield f"no entry: {row.sentence}"
    yield from (f"no such page: {link[1]}#{link[2] or ''}" for link in links if link and not is_page(*link.groups("")))


def names(rows: list[Row]) -> Iterator[str]:
    """Yield the id of each row: the number of its section, or the first word of its title, and a running number."""
    section, number = "", 0
    for row in rows:
        section, number = (section, number + 1) if row.section == section else (row.section, 1)
        yield f"{section.split()[0].rstrip('.').lower()}/{number}"


def is_page(page: str, anchor: str) -> bool:
    file = PAGE.parent / page
    return file.is_file() and (not anchor or anchor in anchors(file))


@cache
def anchors(file: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    heads = re.findall(r"(?m)^#+ +(.+)$", file.read_text("utf-8"))
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


class SpecTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.rows = list(listed(PAGE.read_text("utf-8")))

    def test_every_sentence_is_listed(self) -> None:
        """The page holds exactly the specification's sentences, in order."""
        known = [row.sentence for row in self.rows]
        self.assertEqual(sha256("\n".join(known).encode()).hexdigest(), SENTENCES)

    def test_the_specification_itself(self) -> None:
        """The page's sentences are those of the specification, if that is beside the checkout."""
        known = [row.sentence for row in self.rows]
        self.assertEqual(known, list(sentences(SPEC.read_text("utf-8"))) if SPEC.is_file() else known)

    def test_ids(self) -> None:
        """The id of a row is its section and its number there, so that an id always names the same sentence."""
        self.assertEqual([row.name for row in self.rows], list(names(self.rows)))

    def test_every_sentence_has_an_entry(self) -> None:
        """Each row has tests, or pages that exist, or the entry `words`."""
        self.assertEqual([complaint for row in self.rows for complaint in complaints(row)], [])

    def test_planted_faults(self) -> None:
        """A missing entry, an entry that is neither a link nor `words`, and a missing page are found."""
        for page, tests, found in (
            ("", "", ["no entry: It holds."]),
            ("soon", "", ["no entry: It holds."]),
            ("open", "a test", ["no entry: It holds."]),
            ("words", "", []),
            ("", "a test", []),
            ("[this page](spec.md)", "", []),
            ("[this page](spec.md#nowhere)", "a test", ["no such page: spec.md#nowhere"]),
            ("[this page](spec.md), [a page](nowhere.md)", "", ["no such page: nowhere.md#"]),
        ):
            self.assertEqual(list(complaints(Row("1", "1/1", "It holds.", page, tests))), found)

    def test_cutting(self) -> None:
        """Lists, wrapped lines and table cells are split into sentences; headings and rulers are not sentences."""
        text = "# A\nOne two.\nThree, e.g. four.\n\n1. Five: six.\n2. Seven. Eight\n\n| Nine | Ten. Eleven |\n|---|---|"
        cut = ["One two.", "Three, e.g. four.", "Five: six.", "Seven.", "Eight", "Nine · Ten.", "Nine · Eleven"]
        self.assertEqual(list(sentences(text)), cut)


TABLE = "| Id | Sentence | Tests |\n| --- | --- | --- |\n| 1/1 | It is. | gone |\n| 1/2 | It was. |  |\n"
MARKED = """
    @covers("1/2", "1/1")
    class OneTests(TestCase):
        def helper(self): ...

        @given(none())
        @support.covers("1/2")
        async def test_two(self): ...
"""


class CoversTests(SynchronousTestCase):
    def test_pages_are_up_to_date(self) -> None:
        """The committed pages have the Tests columns that the decorators of the tests make."""
        tests = all_covering_tests()
        pages = {path: path.read_text("utf-8") for path in PAGES}
        self.assertEqual(faults(pages.values(), tests), [])
        stale = [path.name for path, page in pages.items() if with_tests(page, path.parent, tests) != page]
        self.assertEqual(stale, [], f"run: {COMMAND}")

    def test_the_column(self) -> None:
        """Each id has one link to each file with a test of it, and the other columns and lines stay as they are."""
        file, other = ROOT / "clients/python/tests/test_one.py", ROOT / "tests/saves/test_two.py"
        tests = [*covering_tests(file, dedent(MARKED)), *covering_tests(other, dedent(MARKED.replace(', "1/1"', "")))]
        page = with_tests(f"# Title\n\n{TABLE}\nText.\n\n| Id | Pages |\n", ROOT / "docs", tests)
        one, two = "[python/one](../clients/python/tests/test_one.py)", "[saves/two](../tests/saves/test_two.py)"
        table = TABLE.replace("| 1/1 | It is. | gone |", f"|1/1|It is.|{one}|")
        table = table.replace("| 1/2 | It was. |  |", f"|1/2|It was.|{one}, {two}|")
        self.assertEqual(page, f"# Title\n\n{table}\nText.\n\n| Id | Pages |\n")

    def test_unknown_and_repeated_ids(self) -> None:
        """An id that no row has, and an id of two rows, are named."""
        tests = list(covering_tests(Path("test_one.py"), dedent(MARKED)))
        self.assertEqual(faults([TABLE], tests), [])
        lone = TABLE.replace("| 1/2 |", "| 1/3 |")
        self.assertEqual(faults([lone], tests), ["unknown id: 1/2 at OneTests", "unknown id: 1/2 at OneTests.test_two"])
        self.assertEqual(faults([TABLE, TABLE], tests), ["two rows: 1/1", "two rows: 1/2"])

    def test_misplaced_decorators(self) -> None:
        """A decorator on something that is not run as a test, and an argument that is not an id, fail with the line."""
        for file, source in (
            ("one.py", '@covers("1/1")\nclass OneTests(TestCase): ...'),
            ("test_one.py", '@covers("1/1")\nclass One: ...'),
            ("test_one.py", '@covers("1/1")\ndef test_one(): ...'),
            ("test_one.py", 'class OneTests(TestCase):\n @covers("1/1")\n def helper(self): ...'),
            ("test_one.py", 'class OneTests(TestCase):\n @covers("1/1")\n class Two(TestCase): ...'),
            ("test_one.py", "@covers()\nclass OneTests(TestCase): ..."),
            ("test_one.py", "@covers(NAME)\nclass OneTests(TestCase): ..."),
            ("test_one.py", "@covers(1)\nclass OneTests(TestCase): ..."),
        ):
            with self.assertRaisesRegex(ValueError, f"^{file}: line [1-3]: "):
                list(covering_tests(Path(file), source))

    def test_the_decorator(self) -> None:
        """The decorator returns what it marks, and refuses an id of another form when the module is imported."""
        self.assertIs(covers("2.2/3", "words/1", "threats/70")(CoversTests), CoversTests)
        for wrong in ("2.2", "2.2/0", "2.2/03", "2.2/3 ", "Words/1", "10/1", ""):
            self.assertRaises(ValueError, covers, "2.2/3", wrong)
        self.assertRaises(ValueError, covers)
