"""Pages for people have short sentences with a subject in front.

`python -m tests.test_sentences` prints the sentences of each page, their mean length and the longest; with pages as
arguments it prints each fault there.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

from tests.covers_pages import ROOT, cells
from tests.test_docs import CODE
from tests.test_guides import BLOCK
from tests.test_language import Place

LONGEST = 28
"""Words of a sentence. Each longer one of our pages was read twice before it was understood."""

ALONE = ("README.md", "docs/README.md", "docs/faq.md", "docs/comparison.md", "docs/glossary.md")
FOLDERS = ("docs/owners", "docs/players", "docs/developers")

COMMENT = re.compile(r"(?s)<!--.*?-->")
TAG = re.compile(r"</?[a-z][^>\n]*>")
LINK = re.compile(r"!?\[((?:[^][]|\[[^]]*\])*)\]\([^)]*\)")
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
END = re.compile(r"""(?<=[.!?])["')*_]*\s+(?=["'(*_]*(?:[A-Z0-9`]|(?:gamed|nginx|pip|systemd)\b))""")
"""The end of a sentence. The next one begins with a capital letter, a number, code, or a name that has no capital."""
WORD = re.compile(r"\S*\w\S*")

STARTS = re.compile(r"(?i)\W*(?:of|whether|who[e]ver)\b")
"""One of the words is forbidden in all files (tests/test_language.py), so it is spelt with a bracket here."""
INVERTED = re.compile(r"(?i)\bis no\b(?!-)")
OF_WHOM = re.compile(r"(?i)\bthe \w+(?: \w+)? of whom\b")


class Sentence(Struct, frozen=True):
    """One sentence of a page, with the line where it begins."""

    line: int
    text: str

    @property
    def words(self) -> int:
        return len(WORD.findall(self.text))


def people_pages() -> list[Path]:
    """Return the pages that owners, players and makers of games read."""
    folders = [page for name in FOLDERS for page in sorted((ROOT / name).glob("*.md"))]
    return [*(ROOT / name for name in ALONE), *folders]


def without_code(page: str) -> str:
    """Blank what is not a sentence, and keep the lines: a code span is one word, a link is the words that it shows."""
    for blanked in (BLOCK, COMMENT):
        page = blanked.sub(lambda found: "\n" * found[0].count("\n"), page)
    page = CODE.sub("`code`", page)
    return TAG.sub("", LINK.sub(lambda found: found[1], page))


def units(page: str) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines of each paragraph, item of a list, heading, and cell of a table."""
    unit: list[tuple[int, str]] = []
    for number, line in enumerate([*without_code(page).splitlines(), ""], 1):
        alone = cells(line.strip()) or [line] * line.startswith("#")
        if unit and (alone or not line.strip() or ITEM.match(line)):
            yield unit
            unit = []
        if alone:
            yield from ([(number, cell)] for cell in alone if WORD.search(cell))
        elif line.strip():
            unit.append((number, ITEM.sub("", line, count=1) if ITEM.match(line) else line.strip()))


def sentences(page: str) -> Iterator[Sentence]:
    """Yield the sentences of a page in their order, as a reader sees them."""
    for unit in units(page):
        text, starts = "", []
        for number, line in unit:
            starts.append((len(text), number))
            text += line.strip() + " "
        begin = 0
        for end in [*(found.end() for found in END.finditer(text)), len(text)]:
            if sentence := text[begin:end].strip(" #>"):
                yield Sentence([number for start, number in starts if start <= begin][-1], sentence)
            begin = end


def faults(sentence: Sentence) -> Iterator[str]:
    """Yield what is wrong with a sentence."""
    if start := STARTS.match(sentence.text):
        yield f"begins with {start[0].strip()}"
    for pattern in (INVERTED, OF_WHOM):
        if found := pattern.search(sentence.text):
            yield found[0]
    if sentence.words > LONGEST:
        yield f"{sentence.words} words"


def fault_places(page: Path) -> Iterator[Place]:
    """Yield each fault of a page, with its sentence."""
    for sentence in sentences(page.read_text("utf-8")):
        for fault in faults(sentence):
            yield Place(page.relative_to(ROOT).as_posix(), sentence.line, f"{fault}: {sentence.text}")


class SentenceTests(SynchronousTestCase):
    def test_pages(self) -> None:
        """Each page for people keeps the rules; a failure names the file, the line, the fault and the sentence."""
        found = [f"{place.file}:{place.line}: {place.text}" for page in people_pages() for place in fault_places(page)]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_all_pages_are_read(self) -> None:
        """Each page has sentences, and the pages of the three readers are among them."""
        pages = {page.relative_to(ROOT).as_posix(): page for page in people_pages()}
        known = {"README.md", "docs/faq.md", "docs/owners/backup.md", "docs/players/README.md"}
        self.assertLessEqual(known | {"docs/developers/saves.md"}, {*pages})
        self.assertEqual([name for name, page in pages.items() if not [*sentences(page.read_text("utf-8"))]], [])

    def test_planted_faults(self) -> None:
        """Each rule finds its fault, wherever on a page the sentence is."""
        who = "".join(("Who", "ever"))
        for text, found in (
            ("Of two saves, one stays.", ["begins with Of"]),
            ("It waits. Whether it works is unknown.", ["begins with Whether"]),
            (f"It waits.\n{who} has it signs in.", [f"begins with {who}"]),
            ("- **Of course** it works.", ["begins with **Of"]),
            ("| It works | whether it works |", ["begins with whether"]),
            ("1. One.\n2. Of all.", ["begins with Of"]),
            ("There is no backup.", ["is no"]),
            ("It\nis\nno backup.", ["is no"]),
            ("It is [no](a.md) backup.", ["is no"]),
            ("The player of whom it was.", ["The player of whom"]),
            (" ".join(["word"] * 28) + ".", []),
            (" ".join(["word"] * 29) + ".", ["29 words"]),
            ("\n".join(["word"] * 29) + ".", ["29 words"]),
            ("- " + " ".join(["word"] * 29) + ".\n- word", ["29 words"]),
            ("# " + " ".join(["word"] * 29), ["29 words"]),
            ("| a | " + " ".join(["word"] * 29) + " |", ["29 words"]),
            ("word `a b` " * 15, ["30 words"]),
        ):
            named = [fault.replace("\n", " ") for sentence in sentences(text) for fault in faults(sentence)]
            self.assertEqual(named, found, text)

    def test_sound_sentences(self) -> None:
        """A word that only looks alike, code, comments, addresses and two short sentences are in order."""
        half = " ".join(["word"] * 15)
        for text in (
            "Often it works. Offer more. It is not a backup; it is nothing. This is no-one's.",
            "Players, some of whom wait, are approved.",
            "```\nOf code: it is no text.\n```\n",
            "- An item:\n\n  ```sh\n  Of code\n  ```\n",
            "<!-- Of comments. It\nis no text. -->",
            "It says `it is no text`.",
            f"{half}. {half.capitalize()}.",
            f'{half}." "{half.capitalize()}.',
            f"**{half.capitalize()}?** {half.capitalize()}.",
            f"{half}. gamed {half}.",
            f"{half}.\n\n{half}.",
            f"- {half}\n- {half}",
            f"| {half} | {half} |",
            f"1. {half}\n   | {half} | {half} |",
            f"{half} `{half}`.",
            f"[{half}](a/of-{half.replace(' ', '/')}.md '{half}')",
            f'<img alt="{half}" src="{half}"> {half}',
        ):
            self.assertEqual([fault for sentence in sentences(text) for fault in faults(sentence)], [], text)

    def test_lines(self) -> None:
        """A sentence has the line where it begins, behind code and in the middle of a paragraph, too."""
        page = "# Head\n\n```sh\na\nb\n```\n\nOne is\nhere. Two\nis here.\n\n| A | B |\n| --- | --- |\n| `c` | D. E |\n"
        expected = [(1, "Head"), (8, "One is here."), (9, "Two is here."), (12, "A"), (12, "B")]
        expected += [(14, "`code`"), (14, "D."), (14, "E")]
        self.assertEqual([(sentence.line, sentence.text) for sentence in sentences(page)], expected)

    def test_version_numbers(self) -> None:
        """A point inside a number, a name of a file or an abbreviation ends no sentence."""
        text = "Version 1.2 reads game.json, e.g. for 1.x of Python 3.11 and up to 0.5 s."
        self.assertEqual([sentence.text for sentence in sentences(text)], [text])


def print_counts() -> None:
    """Print the sentences of each page, their mean length and the longest."""
    print(f"{'page':40}{'sentences':>10}{'words':>8}{'mean':>7}{'longest':>9}{'faults':>8}")
    for page in people_pages():
        lengths = [sentence.words for sentence in sentences(page.read_text("utf-8"))]
        name, mean = page.relative_to(ROOT).as_posix(), sum(lengths) / len(lengths)
        count = len([*fault_places(page)])
        print(f"{name:40}{len(lengths):10}{sum(lengths):8}{mean:7.1f}{max(lengths):9}{count:8}")


if __name__ == "__main__":
    if not sys.argv[1:]:
        print_counts()
    for path in sys.argv[1:]:
        for place in fault_places(Path(path).resolve()):
            print(f"{place.file}:{place.line}: {place.text}")
