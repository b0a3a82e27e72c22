"""The floors of the house: who may import whom, read from the source with `ast`, so a late import counts too."""

import ast
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parent.parent

GROUND, RULES, WORK, DOORS, WIRING, PORCH = range(6)
ALONE = {
    "gamed": GROUND,
    "gamed.crypto": GROUND,
    "gamed.tokens": GROUND,
    "gamed.instants": GROUND,
    "gamed.durations": GROUND,
    "gamed.event_log": GROUND,
    "gamed.loading": GROUND,
    "gamed.store": GROUND,
    "gamed.structs": GROUND,
    "gamed.strict_json": GROUND,
    "gamed.audit": RULES,
    "gamed.backups": RULES,
    "gamed.limits": RULES,
    "gamed.waits": RULES,
    "gamed.wheel": RULES,
    "gamed.assets.channels": DOORS,
    "gamed.assets.collecting": DOORS,
    "gamed.assets.crew": DOORS,
    "gamed.assets.disk": DOORS,
    "gamed.assets.listing": DOORS,
    "gamed.assets.plan": DOORS,
    "gamed.assets.publisher": DOORS,
    "gamed.assets.scanning": DOORS,
    "gamed.assets.flights": DOORS,
    "gamed.assets.library": DOORS,
    "gamed.assets.objects": DOORS,
    "gamed.assets.open_file": DOORS,
    "gamed.assets.reading": WORK,
    "gamed.assets.running": DOORS,
    "gamed.assets.store": DOORS,
    "gamed.assets.storing": DOORS,
    "gamed.assets.verifying": DOORS,
    "gamed.login.account_check": WORK,
    "gamed.login.attempts": WORK,
    "gamed.login.browser": WORK,
    "gamed.login.collecting": WORK,
    "gamed.login.departing": WORK,
    "gamed.login.done": WORK,
    "gamed.login.entrance": WORK,
    "gamed.login.handoff": WORK,
    "gamed.login.local": WORK,
    "gamed.login.logins": WORK,
    "gamed.login.returning": WORK,
    "gamed.login.starting": WORK,
    "gamed.players.departures": WORK,
    "gamed.players.own_account": WORK,
    "gamed.players.told": WORK,
    "gamed.sessions.keeper": WORK,
    "gamed.saves.erasure": WORK,
    "gamed.saves.exports": WORK,
    "gamed.saves.commits": WORK,
    "gamed.saves.damage": WORK,
    "gamed.saves.player_waits": WORK,
    "gamed.saves.shelf": WORK,
    "gamed.saves.supply": WORK,
    "gamed.identity.body": DOORS,
    "gamed.identity.cached": DOORS,
    "gamed.identity.endpoint": DOORS,
    "gamed.identity.oauth2": DOORS,
    "gamed.identity.oidc": DOORS,
    "gamed.identity.passwords": DOORS,
    "gamed.identity.providers": DOORS,
    "gamed.identity.watched": DOORS,
    "gamed.identity.wire": DOORS,
    "gamed.dev.authorize": RULES,
    "gamed.dev.documents": RULES,
    "gamed.dev.grants": RULES,
    "gamed.dev.people": RULES,
    "gamed.dev.sides": RULES,
    "gamed.admin": WIRING,
    "gamed.clock": WIRING,
    "gamed.delivering": WIRING,
    "gamed.keeping": WIRING,
    "gamed.people": WIRING,
    "gamed.service": WIRING,
    "gamed.sign_in": WIRING,
    "gamed.supervision": WIRING,
    "gamed.__main__": PORCH,
    "gamed.tap": PORCH,
}
ROOMS = {
    "assets": RULES,
    "config": RULES,
    "doctor": RULES,
    "http_rules": RULES,
    "identity": RULES,
    "login": RULES,
    "players": RULES,
    "saves": RULES,
    "sessions": RULES,
    "storage": DOORS,
    "http": DOORS,
    "web": DOORS,
    "ops": DOORS,
    "dev": DOORS,
    "cli": PORCH,
}
"""Where a room's modules stand that ALONE does not name."""

HTTP = "gamed.http"
HTTP_MAY_NOT_IMPORT = {"assets", "identity", "login", "players", "saves", "sessions", "web"}
"""The packages of features: HTTP is the same for all of them. Of the doors, `web` alone stands on it."""

FRAMEWORK = {"twisted", "treq", "klein", "werkzeug", "zope", "sqlite3"}
WORLD = {"os", "time", "random", "secrets", "socket", "subprocess", "asyncio", "threading"}
FORBIDDEN = {GROUND: FRAMEWORK | WORLD, RULES: FRAMEWORK | WORLD, WORK: FRAMEWORK | WORLD}
REACTOR = "twisted.internet.reactor"
CLOCK = {"now", "utcnow", "today"}


def house() -> dict[str, str]:
    """Source by module name: the package, and the plugin."""
    files = [*(ROOT / "gamed").rglob("*.py"), *(ROOT / "twisted").rglob("*.py")]
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}
    return {name: file.read_text("utf-8") for name, file in names.items()}


def floor(module: str) -> int | None:
    """0 to 5, or None: nobody has said where it stands."""
    if module.startswith("twisted.plugins."):
        return PORCH
    return ALONE.get(module, ROOMS.get(module.split(".")[1] if "." in module else ""))


def imports(source: str, modules: Collection[str]) -> Iterator[str]:
    """Full names of what a module imports; `from a import b` is `a`, and also `a.b` where that is a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            inside = (f"{base}.{alias.name}" for alias in node.names)
            yield from (name for name in inside if name in modules or name == REACTOR)


def violations(sources: Mapping[str, str], modules: Collection[str]) -> list[str]:
    """One line per arrow in `sources` that may not be there; `modules` are all there are."""
    return [
        f"{module}: {complaint}"
        for module, source in sorted(sources.items())
        for complaint in [*arrows(module, source, modules), *clocks(module, source), *waits(module, source)]
    ]


def arrows(module: str, source: str, modules: Collection[str]) -> Iterator[str]:
    here = floor(module)
    if here is None:
        yield "stands on no floor"
        return
    for target in imports(source, modules):
        if target.startswith("."):
            yield f"relative import {target}"
        elif target.split(".")[0] in FORBIDDEN.get(here, set()):
            yield f"{target} below the doors"
        elif target == REACTOR and here != PORCH:
            yield "only the porch imports the reactor"
        elif target.split(".")[0] == "gamed":
            yield from between(module, here, target)


def between(module: str, here: int, target: str) -> Iterator[str]:
    there = floor(target)
    room, other = (f"{name}.".split(".")[1] for name in (module, target))
    if there is None or there > here:
        yield f"{target} stands higher"
    elif room == "http" and other in HTTP_MAY_NOT_IMPORT:
        yield f"{target} is a feature"
    elif here == there == DOORS and room != other and (room, other) != ("web", "http"):
        yield f"{target} is another door"


def clocks(module: str, source: str) -> Iterator[str]:
    """`datetime.now()` and its like where time must be passed in."""
    if floor(module) not in FORBIDDEN:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in CLOCK:
            yield f"line {node.lineno} asks a clock: .{node.attr}"


def waits(module: str, source: str) -> Iterator[str]:
    """A rule waits for nothing: whatever does stands among the work."""
    if floor(module) not in (GROUND, RULES):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield f"line {node.lineno} waits"


def circle(sources: Mapping[str, str], package: str) -> list[str]:
    """Return modules of a package that import each other in a circle, the first one again at the end, or nothing."""
    inside = {name: source for name, source in sources.items() if name.startswith(f"{package}.")}
    graph = {name: {*imports(source, inside)} & inside.keys() for name, source in inside.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as e:
        return list(e.args[1])
    return []


class LayoutTests(SynchronousTestCase):
    def test_arrows_point_down(self) -> None:
        """No module imports a higher floor, no door another door, and below the doors nothing does IO."""
        self.assertEqual(violations(house(), house()), [])

    def test_http_has_no_circle(self) -> None:
        """No two modules of gamed.http import each other, directly or through others; a planted circle is found."""
        self.assertEqual(circle(house(), HTTP), [])
        planted = {"gamed.http.a": "from gamed.http import b", "gamed.http.b": "def f():\n    import gamed.http.a"}
        self.assertEqual(set(circle(house() | planted, HTTP)), {"gamed.http.a", "gamed.http.b"})
        self.assertIn("gamed.http.site", circle(house() | {"gamed.http.errors": "import gamed.http.site"}, HTTP))

    def test_tests_need_no_test_of_a_client(self) -> None:
        """The tests of the clients use fixtures of `tests`, never the other way round."""
        files = sorted((ROOT / "tests").rglob("*.py"))
        self.assertGreater(len(files), 100)
        found = [f"{file.name}: {name}" for file in files for name in imports(file.read_text("utf-8"), ())]
        self.assertEqual([each for each in found if each.partition(": ")[2].split(".")[0] == "clients"], [])

    def test_the_whole_package_is_read(self) -> None:
        """The walk finds the ground, the doors and the plugin: an empty house would be in order, too."""
        self.assertLessEqual(
            {"gamed", "gamed.crypto", "gamed.service", "gamed.http.app", "gamed.tap", "twisted.plugins.gamed_plugin"},
            set(house()),
        )

    def test_the_plan_names_only_what_exists(self) -> None:
        """A module that moved away leaves no floor behind."""
        modules = house()
        self.assertEqual(sorted(set(ALONE) - set(modules)), [])
        self.assertEqual(sorted(room for room in ROOMS if f"gamed.{room}" not in modules), [])

    def test_the_tour_says_the_same(self) -> None:
        """docs/architecture.md names each module that is in no room, and each room, on its own floor."""
        page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
        floors = {int(row[2]): row for row in page.splitlines() if row.startswith("| ") and row[2].isdecimal()}
        self.assertEqual(sorted(floors), [GROUND, RULES, WORK, DOORS, WIRING, PORCH])
        alone = {f"{name.removeprefix('gamed.')}.py": at for name, at in ALONE.items() if name.count(".") == 1}
        self.assertEqual([name for name, at in alone.items() if f"`{name}`" not in floors[at]], [])
        rooms = {f"{name}/": at for name, at in ROOMS.items()}
        self.assertEqual([name for name, at in rooms.items() if f"`{name}`" not in floors[at]], [])

    def test_planted_violations(self) -> None:
        """Each kind of wrong arrow is found when it is planted."""
        modules = set(house())
        for module, source, complaint in (
            ("gamed.crypto", "import gamed.config.model", "gamed.config.model stands higher"),
            ("gamed.login.proof", "from gamed.login import handoff", "gamed.login.handoff stands higher"),
            ("gamed.login.handoff", "from gamed.storage.lanes import ReadLane", "gamed.storage.lanes stands higher"),
            ("gamed.web.saves", "from gamed.storage import lanes", "gamed.storage is another door"),
            ("gamed.http.app", "from gamed.storage import lanes", "gamed.storage is another door"),
            ("gamed.http.app", "from gamed.web import saves", "gamed.web is a feature"),
            ("gamed.http.problems", "from gamed.saves.errors import SaveError", "gamed.saves.errors is a feature"),
            ("gamed.http.problems", "from gamed.identity.realm import Realm", "gamed.identity.realm is a feature"),
            ("gamed.storage.lanes", "from gamed.http.errors import HttpError", "gamed.http.errors is another door"),
            ("gamed.storage.lanes", "import gamed.identity.passwords", "gamed.identity.passwords is another door"),
            ("gamed.service", "import gamed.tap", "gamed.tap stands higher"),
            ("gamed.service", "import gamed.nowhere", "gamed.nowhere stands higher"),
            ("gamed.nowhere", "", "stands on no floor"),
            ("gamed.saves.rules", "import os.path", "os.path below the doors"),
            ("gamed.saves.rules", "from time import time", "time below the doors"),
            ("gamed.saves.shelf", "from twisted.internet import defer", "twisted.internet below the doors"),
            ("gamed.config.model", "def f():\n    import random", "random below the doors"),
            ("gamed.config.model", "from . import positions", "relative import ."),
            ("gamed.http.app", "from twisted.internet import reactor", "only the porch imports the reactor"),
            ("gamed.instants", "datetime.now(UTC)", "line 1 asks a clock: .now"),
            ("gamed.saves.rules", "async def judge(): ...", "line 1 waits"),
        ):
            self.assertIn(f"{module}: {complaint}", violations({module: source}, modules))

    def test_right_arrows(self) -> None:
        """Downwards, within a room, and a door's own clock are in order."""
        modules = set(house())
        for module, source in (
            ("gamed.web.saves", "from gamed.web import query\nfrom gamed.crypto import Secret"),
            ("gamed.web.saves", "from gamed.http.app import make_app"),
            ("gamed.http.app", "from gamed.http import problems\nfrom gamed.limits import RateLimited"),
            ("gamed.storage.lanes", "import sqlite3, time\nfrom gamed.store import StoreBusy"),
            ("gamed.login.handoff", "from gamed.login.transaction import NEXT"),
            ("gamed.tap", "from twisted.internet import reactor\nfrom gamed.service import build"),
        ):
            self.assertEqual(violations({module: source}, modules), [])
