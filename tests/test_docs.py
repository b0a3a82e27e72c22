"""The pages name what exists: every link leads somewhere, every setting and every room is described."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec.structs import fields
from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.main import gamed
from gamed.cli.paths import FIRST_RUN
from gamed.config import authentication, game, model, providers
from gamed.config.validators import format_size
from tests.support.commands import members
from tests.support.covers import covers
from tests.test_layout import FEATURES, FOLDERS
from tests.test_spec import ROOT, anchors

LINK = re.compile(r"\[[^]]*\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def broken_links(page: Path) -> list[str]:
    """Links within the checkout that lead nowhere."""
    broken = []
    for path, anchor in LINK.findall(page.read_text("utf-8")):
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{page.name}: {path}#{anchor}")
    return broken


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    """`serve`, `key new`, ...: every command that does something."""
    for name, command in members(group):
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield before + name


def shown(name: str, value: object) -> str:
    """As the page says it: sizes with their unit."""
    if isinstance(value, bool):
        return str(value).lower()
    return format_size(value) if name.endswith("bytes") and isinstance(value, int) and value > 10_000 else str(value)


class PagesTests(SynchronousTestCase):
    def test_links(self) -> None:
        """Each link between pages leads to a file, and to a heading where it names one."""
        self.assertEqual([link for page in pages() for link in broken_links(page)], [])

    @covers("2.3/9")
    def test_every_member_is_described(self) -> None:
        """The configuration page has each member of the file that gamed accepts, and each limit's default."""
        page = (ROOT / "docs/configuration.md").read_text("utf-8")
        session = {"access_ttl", "refresh_ttl", "device_transaction_ttl", "max_lifetime"}
        login = {field.name for field in fields(model.LoginSettings)}
        limits = {field.name for field in fields(model.AuthLimits)}
        known = {*authentication.MEMBERS, *providers.MEMBERS, *session, *login, *limits}
        self.assertEqual(sorted(name for name in known if f"`{name}`" not in page), [])
        defaults = [f"| `{field.name}` | {field.default} |" for field in fields(model.AuthLimits)]
        self.assertEqual([row for row in defaults if row not in page], [])

    def test_every_limit_is_described(self) -> None:
        """Each member of game.json has its row, with the default that gamed has."""
        page = (ROOT / "docs/configuration.md").read_text("utf-8")
        defaults = game.GameSettings()
        rows = {f"| `{name}` | {shown(name, getattr(defaults.saves, name))} |" for name in game.RULES}
        rows.add(f"| `staged_ttl` | {defaults.staged_seconds // 3600}h |")
        rows |= {f"| `access` | {defaults.assets.access} |", f"| `keep_releases` | {defaults.assets.keep_releases} |"}
        self.assertEqual([row for row in sorted(rows) if row not in page], [])
        self.assertEqual(len(rows), len(game.MEMBERS) + len(game.ASSETS) - 1)
        [example] = re.findall(r'(?ms)^```json\n(\{\n  "save_bytes".+?)^```', page)
        self.assertEqual(game.parse_game(example).saves.keep_days, 60)

    @covers("2.1/27")
    def test_first_file(self) -> None:
        """The configuration page prints the file that the first run writes."""
        self.assertIn(f"```json\n{FIRST_RUN}```", (ROOT / "docs/configuration.md").read_text("utf-8"))

    def test_every_command_is_described(self) -> None:
        """The commands page has a row for each command, and for no other."""
        page = (ROOT / "docs/commands.md").read_text("utf-8")
        rows = re.findall(r"(?m)^\| `([a-z -]+)` \| .+ \| (?:yes|no) \|$", page)
        self.assertEqual(sorted(rows), sorted(commands(gamed)))

    def test_every_room_is_described(self) -> None:
        """The architecture page has a row for each room of the package."""
        page = (ROOT / "docs/architecture.md").read_text("utf-8")
        self.assertEqual([room for room in sorted([*FEATURES, *FOLDERS]) if f"| `{room}/` |" not in page], [])
