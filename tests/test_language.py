"""The words and the docstrings of the project keep the rules of its language.

`python -m tests.test_language` prints the counts of each folder; with folders or files as arguments it prints each
place there.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parent.parent
FOLDERS = (".ci", "bench", "clients", "docs", "etc", "examples", "gamed", "tests", "twisted")
TOP_SUFFIXES = {".md", ".toml", ".ini", ".py", ".txt"}
SKIPPED_SUFFIXES = {".cache", ".png", ".pyc"}
SKIPPED_FILES = {"tests/test_language.py", "CHANGELOG.md"}
"""This file, and the one that has to name what older versions had."""

VERB_PERCENT = 95
"""Smallest percentage of the function docstrings of gamed/ that begin with a verb."""

FORMS = {
    "lane": "lane lanes",
    "shelf": "shelf",
    "shelves": "shelves shelve shelved",
    "porch": "porch porches",
    "crew": "crew crews",
    "crowd": "crowd crowds crowded crowding",
    "haste": "haste hasten hastens hasty hastily",
    "judged": "judge judges judged judging",
    "judgement": "judgement judgements judgment judgments",
    "verdict": "verdict verdicts",
    "ruling": "ruling rulings",
    "whoever": "whoever whomever",
    "woken": "woken",
    "mend": "mend mends mended mending",
    "told": "told",
    "doorway": "doorway doorways",
}
"""Each forbidden word with its forms."""

FORBIDDEN = {form: word for word, forms in FORMS.items() for form in forms.split()}
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
"""A word of a text or of an identifier: `ReadLane`, `read_lane` and `READ_LANES` have two, `planes` has one."""

FORBIDDEN_STARTS = {"what", "who", "whoever", "whether", "of"}
FORBIDDEN_ANYWHERE = {"what", "who", "whoever", "of", "as"}
"""First words that no docstring may have: of a module, a class or an attribute, either. It would have no sentence."""
NOT_AFTER_VERB = {"of", "is", "are", "was", "were", "has", "by", "go"}
"""Second words after which the first is not such a verb: "Count of rows", "Set by"; the style forbids "Let go"."""

VERB_LIST = """
    abort accept acquire act add adjust admit advance aggregate allocate allow announce answer append apply
    approve arm ask assert assign attach authenticate authorize await begin bind block bound build cache calculate
    call cancel cap change check choose clamp classify clean clear close collapse collect combine commit compact
    compare compile compose compress compute configure confirm connect consume continue convert copy correct count
    cover create cut deactivate decide decline decode decompress decrement decrypt defer define delay delegate
    delete deliver deny derive describe detach detect determine disable discard disconnect dismiss dispatch
    display divide do download drain draw drop dump emit enable encode encrypt end enforce enqueue ensure enter
    erase escape estimate evaluate evict examine exclude execute exit expand expect expire explain export expose
    extend extract fail fetch fill filter find finish fire fix flag flatten flush fold follow forbid force forget
    fork format forward freeze generate get give grant group guard guess handle hash hide hold identify ignore
    implement import include increase increment inform initialize insert inspect install interpret interrupt
    introduce invalidate invoke iterate join keep kill leave lend let limit link list listen load locate lock log
    lower make map mark mask match measure merge migrate mint modify monitor mount move name narrow negotiate
    normalize note notify observe obtain offer omit open override pack pad parse pass patch pause percent-decode
    perform permit persist pick pin point poll pop postpone predict prefer prepare prevent print produce propagate
    protect prove provide prune publish purge push put query queue quote raise read rebuild receive recompute
    record redact redirect reduce refer refresh refuse register reject release reload remember remove rename
    render renew repair repeat replace reply report represent require reserve reset resolve respond restart
    restore restrict resume retain retire retry return reuse reverse revert revoke rewrite roll rotate round route
    run save say scan schedule seal search seek select send serialize serve set share shield shift shorten show
    shrink shut sign silence skip sleep sort spawn specify split spool stage start stop store stream strip submit
    subscribe subtract summarize supply suppress suspend swap switch sync synchronize terminate test throttle
    trace track transfer transform translate trim truncate try turn undo unlink unlock unpack unregister unwrap
    update upgrade upload use validate verify visit wait wake walk warn watch wrap write yield
"""
"""Verbs that a docstring may begin with, none of them among those that the style forbids."""

VERBS = frozenset(VERB_LIST.split())


class Place(Struct, frozen=True):
    """One finding."""

    file: str
    line: int
    text: str


def text_files(root: Path) -> Iterator[Path]:
    """Yield the files of the project that people write, in the order of their paths."""
    yield from sorted(file for file in root.iterdir() if file.suffix in TOP_SUFFIXES)
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            parts = file.relative_to(root).parts
            hidden = any(part.startswith((".", "_trial_temp", "__pycache__", "dist")) for part in parts[1:])
            if file.is_file() and not hidden and file.suffix not in SKIPPED_SUFFIXES:
                yield file


def forbidden_words(text: str) -> list[str]:
    """Return the forbidden word of each part of the text that is one of its forms."""
    return [FORBIDDEN[part] for part in map(str.lower, PART.findall(text)) if part in FORBIDDEN]


def word_places() -> Iterator[Place]:
    """Yield each forbidden word of the project's files and of their paths, which count as line 0."""
    for file in text_files(ROOT):
        path = file.relative_to(ROOT).as_posix()
        if path not in SKIPPED_FILES:
            for number, line in enumerate([path, *file.read_text("utf-8", "replace").splitlines()]):
                yield from (Place(path, number, word) for word in forbidden_words(line))


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the docstring of each function and method that has one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            yield node.lineno, text


def all_docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that is a statement."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value.strip()


def has_no_sentence(docstring: str) -> bool:
    """Return whether a docstring begins with a word that stands for a missing subject."""
    return next(iter(re.findall(r"^\w+", docstring.lower())), "") in FORBIDDEN_ANYWHERE


def start(docstring: str) -> str:
    """Classify how a docstring begins: `verb`, `forbidden` or `other`."""
    first, second, *_ = [*re.findall(r"[\w'`-]+", docstring.partition(".")[0].lower()), "", ""]
    if first in FORBIDDEN_STARTS:
        return "forbidden"
    return "verb" if first in VERBS and second not in NOT_AFTER_VERB else "other"


def docstring_places(folder: str = "gamed") -> Iterator[tuple[str, Place]]:
    """Yield how each function docstring of a folder begins, and where it is."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        for line, text in docstrings(file.read_text("utf-8")):
            yield start(text), Place(file.relative_to(ROOT).as_posix(), line, text.partition("\n")[0])


class WordTests(SynchronousTestCase):
    def test_forbidden_words(self) -> None:
        """No forbidden word is in a file of the project or in its path."""
        self.assertEqual([f"{place.file}:{place.line}: {place.text}" for place in word_places()], [])

    def test_planted_words(self) -> None:
        """A forbidden word is found alone, in each form, and as a part of an identifier or a path."""
        for text, found in (
            ("The lane waits.", ["lane"]),
            ("class ReadLane(Lane): HTTPLane", ["lane", "lane", "lane"]),
            ("READ_LANES", ["lane"]),
            ("host_shelves._shelf", ["shelves", "shelf"]),
            ("tests/porch/test_crew.py", ["porch", "crew"]),
            ("Crowded: too_many_crowds", ["crowd", "crowd"]),
            ("It is judged, Judge_2 judges in haste.", ["judged", "judged", "judged", "haste"]),
            ("`mend` the verdict; MENDED", ["mend", "verdict", "mend"]),
            ("Whoever is told", ["whoever", "told"]),
        ):
            self.assertEqual(forbidden_words(text), found)

    def test_words_that_only_look_alike(self) -> None:
        """A longer word that contains a forbidden one is in order."""
        alike = (
            "planes mention recommend amendment tolderance ordinary screw unfold schooling Doorways2go awoken prejudice"
        )
        self.assertEqual(forbidden_words(alike.replace("Doorways2go", "door way")), [])

    def test_all_folders_are_read(self) -> None:
        """Code, tests, pages, clients and the top folder are read; the exceptions exist."""
        files = {file.relative_to(ROOT).as_posix() for file in text_files(ROOT)}
        known = {
            "gamed/crypto.py",
            "tests/test_docs.py",
            "docs/protocol.md",
            "docs/openapi.yaml",
            "README.md",
            ".ci/run",
        }
        self.assertLessEqual(known | SKIPPED_FILES, files)
        self.assertEqual([folder for folder in FOLDERS if not any(file.startswith(f"{folder}/") for file in files)], [])


class DocstringTests(SynchronousTestCase):
    def test_starts(self) -> None:
        """At least 95 % of the docstrings begin with a verb in the imperative, and none with a forbidden word."""
        places = [*docstring_places()]
        starts = Counter(kind for kind, _ in places)
        self.assertEqual([place for kind, place in places if kind == "forbidden"], [])
        self.assertGreaterEqual(100 * starts["verb"] / starts.total(), VERB_PERCENT)
        self.assertGreater(starts.total(), 500)

    def test_starts_elsewhere(self) -> None:
        """Docstrings of tests, clients and measurements do not begin with a forbidden word either."""
        places = [found for folder in ("tests", "clients", "bench") for found in docstring_places(folder)]
        self.assertEqual([place for kind, place in places if kind == "forbidden"], [])
        self.assertGreater(len(places), 1000)

    def test_all_starts(self) -> None:
        """No docstring of a module, a class or an attribute begins with What, Who, Of or As."""
        found = []
        for folder in ("gamed", "tests", "bench", "clients"):
            for file in sorted((ROOT / folder).rglob("*.py")):
                path = file.relative_to(ROOT).as_posix()
                if "node_modules" not in file.parts:
                    texts = all_docstrings(file.read_text("utf-8"))
                    found += [f"{path}:{line}: {text[:60]}" for line, text in texts if has_no_sentence(text)]
        self.assertEqual(found, [])

    def test_planted_starts(self) -> None:
        """The first word counts, of docstrings of modules, classes and attributes alike."""
        source = '"What it is."\nclass A:\n "Of a row."\n b = 1\n "As many as c."\nd("What")\ne = 2\n"Asked by f."'
        found = [text for _, text in all_docstrings(source) if has_no_sentence(text)]
        self.assertEqual(found, ["What it is.", "Of a row.", "As many as c."])

    def test_planted_docstrings(self) -> None:
        """Only a verb in the imperative counts: no noun, article, pronoun, other form of a verb, or forbidden verb."""
        for text, kind in (
            ("Return the player's current saves.", "verb"),
            ("Set `name`.", "verb"),
            ("Percent-decode a path.", "verb"),
            ("Retry.", "verb"),
            ("Returns the player's current saves.", "other"),
            ("Written by the operator.", "other"),
            ("Set by the operator.", "other"),
            ("Count of the rows.", "other"),
            ("The rows of a table.", "other"),
            ("It reads a row.", "other"),
            ("Nothing is read.", "other"),
            ("`read` a row.", "other"),
            ("-> the row.", "other"),
            ("Judge a write.", "other"),
            ("Look up a row.", "other"),
            ("Let go of the row.", "other"),
            ("Let the client read on.", "verb"),
            ("...", "other"),
            ("What is read.", "forbidden"),
            ("Who: the player.", "forbidden"),
            ("Whoever waits.", "forbidden"),
            ("Whether a row exists.", "forbidden"),
            ("Of all rows, the first.", "forbidden"),
        ):
            self.assertEqual(start(text), kind, text)
        source = 'class A:\n "A row."\n def f(self):\n  "Read."\n  async def g(): "What?"\n def h(self): ...'
        self.assertEqual(list(docstrings(source)), [(3, "Read."), (5, "What?")])


def folder_of(file: str) -> str:
    """Return the first two folders of a path, as the counts are printed."""
    return "/".join(file.split("/")[:-1][:2]) or "."


def print_places(under: list[str]) -> None:
    """Print each forbidden word and each docstring without a verb of these folders and files."""
    starts = (place for kind, place in docstring_places() if kind != "verb")
    for place in (*word_places(), *starts):
        if any(f"{place.file}/".startswith(f"{path.rstrip('/')}/") for path in under):
            print(f"{place.file}:{place.line}: {place.text}")


def print_counts() -> None:
    """Print the counts of each folder, and of each word in all."""
    places = list(word_places())
    words = Counter(folder_of(place.file) for place in places)
    kinds = Counter((folder_of(place.file), kind) for kind, place in docstring_places())
    print(f"{'folder':24}{'words':>8}{'verb':>8}{'other':>8}{'forbidden':>11}")
    for folder in sorted({*words, *(folder for folder, _ in kinds)}):
        verb, other, forbidden = (kinds[folder, kind] for kind in ("verb", "other", "forbidden"))
        print(f"{folder:24}{words[folder]:8}{verb:8}{other:8}{forbidden:11}")
    print(dict(sorted(Counter(place.text for place in places).items())))


if __name__ == "__main__":
    print_places(sys.argv[1:]) if sys.argv[1:] else print_counts()
