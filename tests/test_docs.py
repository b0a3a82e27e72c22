"""The pages name what exists: links, files, classes and functions; every setting, command and folder is described.

`python -m tests.test_docs` prints the words and the pictures of each page.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import click
from msgspec.structs import fields
from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.commands import gamed
from gamed.cli.paths import FIRST_RUN
from gamed.config import authentication, game, model, notify, providers, tickets
from gamed.config.validators import format_size, size
from tests.support.commands import members
from tests.support.covers import covers
from tests.test_layout import FEATURES, FOLDERS
from tests.test_spec import ROOT, anchors

LINK = re.compile(r"\[[^]]*\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")
SOURCE = re.compile(r'<(?:img|source) [^>]*?(?:src|srcset)="([^"]+)"')
FENCE = re.compile(r"(?ms)^```.*?^```$")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:bench|clients|docs|etc|examples|gamed|tests)/[\w/.-]*")
TESTS = re.compile(r"\b(?:clients|tests)(?:\.\w+)+")
NAME = re.compile(r"@?(?:[A-Z]\w+(?:\.\w+)?|\w+\.\w+(?=\()|[a-z_]\w*(?=\())(?:\(\))?")
"""`SaveService`, `SaveService.write()`, `decide_write()`, `LIMITS`: a name of the code, as pages spell it."""
NOT_OURS = {"COMMIT", "Host"}
WORDS = 700
"""A page for people has at most so many."""
REFERENCE: Mapping[str, int] = {
    "docs/protocol.md": 4470,
    "docs/developers/assets.md": 850,
    "docs/developers/game-developers.md": 1900,
    "docs/developers/offline.md": 2100,
    "docs/developers/saves.md": 1450,
    "docs/internals/architecture.md": 2660,
    "docs/internals/spec.md": 2500,
    "docs/internals/storage.md": 1050,
    "docs/internals/threats.md": 3150,
    "docs/owners/commands.md": 2150,
    "docs/owners/configuration.md": 2150,
    "docs/owners/events.md": 1800,
    "docs/owners/postgresql.md": 1400,
}
"""The words of pages in which a reader looks something up."""
ARCHITECTURE = "docs/internals/architecture.md"


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def broken_links(page: Path) -> list[str]:
    """Return the links to files or headings that do not exist."""
    broken = []
    text = page.read_text("utf-8")
    for path, anchor in [*LINK.findall(text), *((path, "") for path in SOURCE.findall(text))]:
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{page.name}: {path}#{anchor}")
    return broken


def counted_pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def words(page: Path) -> int:
    """Count the words of a page without comments, targets of links and lines of tables.

    The words of two cells count apart, even without blanks between the cells.
    """
    shown = re.sub(r"<!--.*?-->|(?<=\])\([^)]*\)", "", page.read_text("utf-8").replace("|", " "))
    return len(re.findall(r"\S*\w\S*", shown))


def pictures(text: str) -> int:
    """Count the pictures of a page."""
    return text.count("![") + text.count("<img ")


def print_counts() -> None:
    """Print the words and the pictures of each page."""
    print(f"{'page':40}{'words':>7}{'at most':>9}{'pictures':>10}")
    for page in counted_pages():
        name, text = page.relative_to(ROOT).as_posix(), page.read_text("utf-8")
        bound = REFERENCE.get(name, WORDS)
        print(f"{name:40}{words(page):7}{bound:9}{pictures(text):10}")


def definitions(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the functions, classes and constants that these statements define; those of a class as `Class.name`."""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name, body=inner):
                yield name
                yield from (f"{name}.{member}" for member in definitions(inner))
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name


@cache
def defined() -> Mapping[str, set[str]]:
    """Return the definitions of each module of the package, by its path in the checkout."""
    files = sorted((ROOT / "gamed").rglob("*.py"))
    return {file.relative_to(ROOT).as_posix(): set(definitions(ast.parse(file.read_text()).body)) for file in files}


def missing_files(page: Path) -> list[str]:
    """Return the paths in code font that the checkout does not have."""
    named = filter(PATH.fullmatch, CODE.findall(page.read_text("utf-8")))
    return [f"{page.name}: {path}" for path in named if not (ROOT / path).exists()]


def missing_tests(page: Path) -> list[str]:
    """Return the dotted names of test modules, cases and tests that do not exist."""
    return [f"{page.name}: {name}" for name in TESTS.findall(page.read_text("utf-8")) if not is_test(name)]


def is_test(name: str) -> bool:
    """Return whether trial can run this folder, module, case or test."""
    path, inside = ROOT, name.split(".")
    while inside and (path / inside[0]).is_dir():
        path /= inside.pop(0)
    if not inside:
        return True
    path /= f"{inside.pop(0)}.py"
    return path.is_file() and (not inside or ".".join(inside) in definitions(ast.parse(path.read_text()).body))


def missing_names(text: str) -> list[str]:
    """Return the names in code font that no module defines; functions of a table's row must be in a file of the row."""
    anywhere = set().union(*defined().values())
    missing = []
    for line in FENCE.sub("", text).splitlines():
        spans = CODE.findall(line)
        files = [defined()[span] for span in spans if span in defined()] if line.startswith("|") else []
        for span in filter(NAME.fullmatch, spans):
            name = span.strip("@()")
            if name not in (set().union(*files) if files and span.endswith("()") else anywhere | NOT_OURS):
                missing.append(name)
    return missing


def opens_its_file(answer: str) -> bool:
    """Return whether an answer begins with a file of the package, and names something that this file defines."""
    first, *others = CODE.findall(answer)
    return answer.startswith(f"`{first}`") and any(other.strip("@()") in defined().get(first, ()) for other in others)


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    """Yield every command that is not a group, such as `serve` and `key new`."""
    for name, command in members(group):
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield before + name


def limit_rows() -> dict[str, tuple[str, str]]:
    """Return the default and the bounds of each member of game.json, as the page shows them."""
    settings = game.GameSettings()
    rows = {
        "staged_ttl": (f"{settings.staged_seconds // 3600}h", "60s to 365d"),
        "access": (settings.assets.access.value, ""),
        "keep_releases": (str(settings.assets.keep_releases), "1 to 1000"),
        "allow_blank_saves": (str(settings.saves.allow_blank_saves).lower(), ""),
    }
    for name, limit in game.LIMITS.items():
        text = format_size if limit.form is size else str
        default = getattr(settings.saves, name)
        rows[name] = text(default), f"{text(limit.lowest)} to {text(limit.highest)}"
    return rows


def described_limits(page: str) -> dict[str, tuple[str, str]]:
    """Return the default and the bounds of each row of the tables about game.json."""
    section = page.partition("\n## Saves and assets")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| `(\w+)` \| ([^|]+?) \| ([^|]*?) ?\| [^|]+ \|$", section)
    return {name: (default, bounds) for name, default, bounds in rows}


class PagesTests(SynchronousTestCase):
    def test_links(self) -> None:
        """Each link between pages leads to a file, and to a heading where it names one."""
        self.assertEqual([link for page in pages() for link in broken_links(page)], [])

    @covers("2.3/9")
    def test_every_member_is_described(self) -> None:
        """The configuration page has each member of the file that gamed accepts, and each limit's default."""
        page = (ROOT / "docs/owners/configuration.md").read_text("utf-8")
        session = {"access_ttl", "refresh_ttl", "device_transaction_ttl", "max_lifetime", "ticket_ttl"}
        login = {field.name for field in fields(model.LoginSettings)}
        limits = {field.name for field in fields(model.AuthLimits)}
        sections = {*providers.MEMBERS, *notify.MEMBERS, *tickets.MEMBERS}
        known = {*authentication.MEMBERS, *sections, *session, *login, *limits}
        self.assertEqual(sorted(name for name in known if f"`{name}`" not in page), [])
        defaults = [f"| `{field.name}` | {field.default} |" for field in fields(model.AuthLimits)]
        self.assertEqual([row for row in defaults if row not in page], [])

    def test_every_limit_is_described(self) -> None:
        """Each member of game.json has its row, with the default and the bounds that gamed has."""
        page = (ROOT / "docs/owners/configuration.md").read_text("utf-8")
        self.assertEqual(described_limits(page), limit_rows())
        self.assertEqual({*limit_rows()}, {*game.MEMBERS, *game.ASSETS} - {"assets"})
        [example] = re.findall(r'(?ms)^```json\n(\{\n  "save_bytes".+?)^```', page)
        self.assertEqual(game.parse_game(example).saves.keep_days, 60)

    def test_wrong_limits_are_found(self) -> None:
        """A row with another name, default or bound is not that of gamed, nor is a page without the row."""
        page = (ROOT / "docs/owners/configuration.md").read_text("utf-8")
        for name, (default, bounds) in limit_rows().items():
            row = f"| `{name}` | {default} | {bounds}{' ' * bool(bounds)}| "
            self.assertEqual(page.count(row), 1, name)
            others = [f"| `{name}s` | {default} | {bounds} | ", f"| `{name}` | {default}0 | {bounds} | ", "| "]
            others += [f"| `{name}` | {default} | {other} | " for other in (f"1{bounds}", f"{bounds}0")]
            for other in others:
                self.assertNotEqual(described_limits(page.replace(row, other)), limit_rows(), other)

    @covers("2.1/27")
    def test_first_file(self) -> None:
        """The configuration page prints the file that the first run writes."""
        self.assertIn(f"```json\n{FIRST_RUN}```", (ROOT / "docs/owners/configuration.md").read_text("utf-8"))

    def test_index(self) -> None:
        """The index has a link to each page below docs/, and the site's navigation names each."""
        index, site = (ROOT / "docs/README.md").read_text("utf-8"), (ROOT / "mkdocs.yml").read_text("utf-8")
        names = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
        self.assertEqual([name for name in names if f"({name})" not in index and name != "README.md"], [])
        self.assertEqual([name for name in names if not re.search(rf"(?m) {re.escape(name)}$", site)], [])

    def test_length(self) -> None:
        """Each page keeps the bound of its kind, and no page has a figure of its own without need."""
        found = {page.relative_to(ROOT).as_posix(): words(page) for page in counted_pages()}
        self.assertEqual({name: count for name, count in found.items() if count > REFERENCE.get(name, WORDS)}, {})
        self.assertEqual([name for name in REFERENCE if found.get(name, 0) <= WORDS], [])

    def test_pictures(self) -> None:
        """Each page for people has a picture; pages of REFERENCE need none."""
        texts = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in counted_pages()}
        people = [name for name in texts if not name.startswith("docs/internals/") and name not in REFERENCE]
        self.assertEqual([name for name in people if not pictures(texts[name])], [])
        self.assertGreater(len(people), 30)

    def test_every_command_is_described(self) -> None:
        """The commands page has a row for each command, and for no other."""
        page = (ROOT / "docs/owners/commands.md").read_text("utf-8")
        rows = re.findall(r"(?m)^\| `([a-z -]+)` \| .+ \| (?:yes|no) \|$", page)
        self.assertEqual(sorted(rows), sorted(commands(gamed)))

    def test_every_cookie_is_described(self) -> None:
        """The privacy page has a row for each cookie, and for no other."""
        page = (ROOT / "docs/players/privacy.md").read_text("utf-8")
        sources = [file.read_text("utf-8") for file in (ROOT / "gamed").rglob("*.py")]
        named = {name for source in sources for name in re.findall(r'"(__Host-[a-z]+)"', source)}
        self.assertEqual(set(re.findall(r"(?m)^\| `(__Host-[a-z]+)` \|", page)), named)
        self.assertGreater(len(named), 3)

    def test_every_folder_is_described(self) -> None:
        """The tree of the architecture page has a line for each folder of the package."""
        page = (ROOT / ARCHITECTURE).read_text("utf-8")
        self.assertEqual([name for name in sorted([*FEATURES, *FOLDERS]) if f"\n  {name}/ " not in page], [])

    def test_files_exist(self) -> None:
        """Each path in code font is a file or folder of the checkout, and each dotted name of a test is one."""
        self.assertEqual([path for page in pages() for path in missing_files(page)], [])
        self.assertEqual([name for page in pages() for name in missing_tests(page)], [])

    def test_names_exist(self) -> None:
        """Each class, function and constant of the architecture page exists, in a table in the file of its row."""
        page = (ROOT / ARCHITECTURE).read_text("utf-8")
        self.assertEqual(missing_names(page), [])
        row = "| `gamed/saves/service.py` | `SaveService.write()`, `decide_write()`, `SaveService.fly()` |"
        self.assertEqual(missing_names(f"{row}\n`Nothing`"), ["decide_write", "SaveService.fly", "Nothing"])

    def test_questions(self) -> None:
        """Each question of the architecture page begins with a file that exists and holds a name of the row."""
        section = (ROOT / ARCHITECTURE).read_text("utf-8").partition("## Where is ...?")[2].partition("\n## ")[0]
        answers = [line.split(" | ", 1) for line in section.splitlines() if line.startswith("| W")]
        self.assertGreaterEqual(len(answers), 10)
        self.assertEqual([question for question, answer in answers if not opens_its_file(answer)], [])
        for wrong in (
            "`gamed/saves/shop.py`: `decide_write()`",
            "`gamed/saves/model.py`: `decide_write()`",
            "`decide_write()` in `gamed/saves/write_rules.py`",
        ):
            self.assertFalse(opens_its_file(wrong), wrong)


if __name__ == "__main__":
    print_counts()
