"""A module may import only modules of certain kinds; its kind follows from the name of its file.

The sources are read with `ast`, so that an import inside a function counts, too. The rules are those of
docs/internals/architecture.md. Values and decisions do no I/O, services know neither Twisted nor SQL, routes and stores
never import each other, and `http/` and `database/` know no feature.
"""

import ast
import tokenize
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from io import StringIO
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parent.parent
FEATURES = {
    *("account", "login", "providers", "sessions", "players", "saves", "assets", "notify", "tickets", "passkeys"),
    "owner",
}


class Kind(Enum):
    """The kind of a module; the members are in the order of the layers, shared modules first."""

    SHARED = "small shared module"
    RULES = "values and pure decisions"
    SERVICE = "work over a store"
    TABLES = "SQL"
    STORE = "transactions"
    FILES = "files, threads and connections of a feature"
    ROUTES = "Klein routes"
    HTTP = "http/"
    PAGES = "pages/"
    DATABASE = "database/"
    SQLITE = "database/sqlite/"
    POSTGRESQL = "database/postgresql/"
    CONFIG = "config/"
    OPS = "ops/"
    OWNER_FILES = "what the owner's pages gather"
    DEV = "dev/"
    WIRING = "builds everything"
    COMMANDS = "command line"


BY_NAME = {
    "model": Kind.RULES,
    "errors": Kind.RULES,
    "limits": Kind.RULES,
    "rules": Kind.RULES,
    "service": Kind.SERVICE,
    "tables": Kind.TABLES,
    "store": Kind.STORE,
    "routes": Kind.ROUTES,
    "build": Kind.WIRING,
}
"""The kind of a file in a feature's folder; a name such as `collect_store` counts by its last word."""

OTHERS = {
    "login/transaction": Kind.RULES,
    "login/keys": Kind.RULES,
    "login/attempt": Kind.RULES,
    "login/policy": Kind.RULES,
    "login/callback_rules": Kind.RULES,
    "login/diagram": Kind.RULES,
    "login/places": Kind.RULES,
    "login/start": Kind.SERVICE,
    "login/authorize": Kind.SERVICE,
    "login/callback": Kind.SERVICE,
    "login/browser": Kind.SERVICE,
    "login/collect": Kind.SERVICE,
    "login/local": Kind.SERVICE,
    "login/newcomer": Kind.SERVICE,
    "login/passkeys": Kind.SERVICE,
    "login/recovery": Kind.SERVICE,
    "passkeys/recovery": Kind.SERVICE,
    "passkeys/ceremony": Kind.RULES,
    "login/csrf": Kind.ROUTES,
    "login/responder": Kind.ROUTES,
    "login/sentences": Kind.ROUTES,
    "login/views": Kind.ROUTES,
    "providers/base": Kind.RULES,
    "providers/messages": Kind.RULES,
    "providers/id_token": Kind.RULES,
    "providers/discovery": Kind.RULES,
    "providers/oauth2": Kind.FILES,
    "providers/openid2": Kind.FILES,
    "providers/oidc": Kind.FILES,
    "providers/client": Kind.FILES,
    "providers/transport": Kind.FILES,
    "providers/circuit_breaker": Kind.FILES,
    "providers/document_cache": Kind.FILES,
    "sessions/credentials": Kind.RULES,
    "sessions/recent": Kind.RULES,
    "players/names": Kind.RULES,
    "account/browser": Kind.SERVICE,
    "account/links": Kind.SERVICE,
    "account/own_data": Kind.SERVICE,
    "account/guard": Kind.ROUTES,
    "account/responder": Kind.ROUTES,
    "account/sentences": Kind.ROUTES,
    "account/views": Kind.ROUTES,
    "players/passwords": Kind.FILES,
    "players/keyring": Kind.STORE,
    "saves/validation": Kind.RULES,
    "saves/retention": Kind.RULES,
    "saves/commands": Kind.RULES,
    "saves/responses": Kind.RULES,
    "saves/batch": Kind.SERVICE,
    "saves/export": Kind.SERVICE,
    "saves/erase": Kind.SERVICE,
    "saves/change_waits": Kind.STORE,
    "login/problems": Kind.ROUTES,
    "players/problems": Kind.ROUTES,
    "sessions/problems": Kind.ROUTES,
    "saves/problems": Kind.ROUTES,
    "saves/cleanup": Kind.STORE,
    "saves/integrity": Kind.STORE,
    "saves/reads": Kind.STORE,
    "saves/uploads": Kind.ROUTES,
    "assets/channel_store": Kind.FILES,
    "assets/manifest": Kind.RULES,
    "assets/paths": Kind.RULES,
    "assets/pointer": Kind.RULES,
    "assets/marks": Kind.RULES,
    "assets/snapshot": Kind.RULES,
    "assets/store": Kind.FILES,
    "assets/publish": Kind.FILES,
    "assets/scan": Kind.FILES,
    "assets/gc": Kind.FILES,
    "assets/verify": Kind.FILES,
    "assets/cache": Kind.FILES,
    "assets/open_file": Kind.FILES,
    "notify/client": Kind.FILES,
    "owner/acts": Kind.STORE,
    "owner/reads": Kind.OWNER_FILES,
    "owner/report": Kind.OWNER_FILES,
    "owner/backups": Kind.OWNER_FILES,
    "owner/files": Kind.OWNER_FILES,
    "owner/figures": Kind.OWNER_FILES,
    "owner/looks": Kind.OWNER_FILES,
    "owner/responder": Kind.ROUTES,
    "owner/sentences": Kind.ROUTES,
    "owner/site_sentences": Kind.ROUTES,
    "owner/site_views": Kind.ROUTES,
    "owner/views": Kind.ROUTES,
    "notify/watch": Kind.FILES,
    "tickets/keys": Kind.RULES,
}
"""The kind of a file that has a name of its own, in a feature's folder."""

TOP = {
    "bounded_threads": Kind.SHARED,
    "crypto": Kind.SHARED,
    "event_log": Kind.SHARED,
    "gc_pause": Kind.SHARED,
    "open_files": Kind.SHARED,
    "timestamps": Kind.SHARED,
    "strict_json": Kind.SHARED,
    "letter_codes": Kind.SHARED,
    "rate_limit": Kind.SHARED,
    "readable": Kind.SHARED,
    "visible_text": Kind.SHARED,
    "structs": Kind.SHARED,
    "audit": Kind.SHARED,
    "outcomes": Kind.SHARED,
    "long_poll": Kind.SHARED,
    "disk": Kind.FILES,
    "clock": Kind.WIRING,
    "stores": Kind.WIRING,
    "service": Kind.WIRING,
    "context": Kind.WIRING,
    "tap": Kind.COMMANDS,
    "__main__": Kind.COMMANDS,
}
FOLDERS = {
    "http": Kind.HTTP,
    "database": Kind.DATABASE,
    "config": Kind.CONFIG,
    "pages": Kind.PAGES,
    "ops": Kind.OPS,
    "dev": Kind.DEV,
    "cli": Kind.COMMANDS,
}
PURE = {
    "gamed.http.conditional",
    "gamed.database.errors",
    "gamed.database.backup_format",
    "gamed.database.event_counts",
    "gamed.ops.findings",
}
"""Modules of another folder that hold values and pure functions; they keep the rules of rules."""

BELOW = {Kind.SHARED, Kind.RULES}
MAY_IMPORT = {
    Kind.SHARED: {Kind.SHARED},
    Kind.RULES: BELOW | {Kind.CONFIG},
    Kind.SERVICE: BELOW | {Kind.SERVICE, Kind.STORE, Kind.FILES, Kind.CONFIG},
    Kind.TABLES: BELOW | {Kind.TABLES, Kind.DATABASE},
    Kind.STORE: BELOW | {Kind.STORE, Kind.TABLES, Kind.DATABASE, Kind.SERVICE, Kind.CONFIG},
    Kind.FILES: BELOW | {Kind.FILES, Kind.CONFIG},
    # Only the owner's routes have OWNER_FILES: another feature's would make a circle of folders.
    Kind.ROUTES: BELOW | {Kind.ROUTES, Kind.SERVICE, Kind.HTTP, Kind.PAGES, Kind.CONFIG, Kind.OWNER_FILES},
    Kind.HTTP: {Kind.SHARED, Kind.HTTP, Kind.CONFIG},
    Kind.PAGES: {Kind.SHARED, Kind.PAGES, Kind.CONFIG},
    Kind.DATABASE: {Kind.SHARED, Kind.DATABASE},
    Kind.SQLITE: {Kind.SHARED, Kind.DATABASE, Kind.SQLITE},
    Kind.POSTGRESQL: {Kind.SHARED, Kind.DATABASE, Kind.POSTGRESQL, Kind.CONFIG},
    Kind.CONFIG: BELOW | {Kind.CONFIG},
    Kind.OPS: BELOW | {Kind.OPS, Kind.PAGES, Kind.CONFIG, Kind.DATABASE, Kind.SQLITE},
    Kind.OWNER_FILES: BELOW
    | {Kind.OWNER_FILES, Kind.STORE, Kind.TABLES, Kind.FILES, Kind.DATABASE, Kind.OPS, Kind.CONFIG},
    Kind.DEV: {Kind.SHARED, Kind.DEV, Kind.CONFIG},
    Kind.WIRING: set(Kind) - {Kind.COMMANDS},
    Kind.COMMANDS: set(Kind),
}
FRAMEWORK = {"twisted", "treq", "klein", "werkzeug", "zope", "sqlite3"}
RULES_MAY_IMPORT = {
    *("base64", "binascii", "collections", "contextlib", "datetime", "enum", "errno", "functools", "hashlib", "hmac"),
    *("ipaddress", "json", "re", "struct", "types", "typing", "unicodedata", "email.utils", "urllib.parse"),
    *("cryptography", "fido2", "joserfc", "msgspec"),
}
"""All that rules have from outside: a list of what they may not import would miss the next way to do I/O."""
WORLD = {"os", "time", "random", "secrets", "socket", "subprocess", "asyncio", "threading"}
FORBIDDEN = {
    Kind.SHARED: FRAMEWORK | WORLD,
    Kind.SERVICE: FRAMEWORK | WORLD,
    Kind.TABLES: FRAMEWORK | WORLD,
    Kind.STORE: {"twisted.web", "treq", "klein", "werkzeug"},
    Kind.HTTP: {"treq"},
    Kind.DATABASE: {"klein", "werkzeug", "treq"},
    Kind.SQLITE: {"klein", "werkzeug", "treq"},
    Kind.POSTGRESQL: {"klein", "werkzeug", "treq"},
    Kind.OWNER_FILES: {"twisted.web", "treq", "klein", "werkzeug"},
}
ENGINES = {"sqlite3": Kind.SQLITE, "psycopg": Kind.POSTGRESQL}
"""The only kind of module that may import the library of a database engine."""
REACTOR = "twisted.internet.reactor"
SMALL_LINES = 60
CLOCK = {"now", "utcnow", "today"}
EXEMPT = {
    "gamed.bounded_threads": {  # work waits for a thread
        "twisted.internet.defer",
        "twisted.internet.interfaces",
        "twisted.python.failure",
    },
    "gamed.owner.figures": {"gamed.http.access_log"},  # counts the requests of each day
    "gamed.long_poll": {"twisted.internet.defer", "twisted.internet.interfaces"},  # waits end at a deadline
}
"""Imports that the kind of a module forbids, each with its reason."""

CEILINGS = {
    "account": 3040,
    "assets": 2000,
    "cli": 1410,
    "cli/checks": 710,
    "cli/data": 2360,
    "cli/dev": 550,
    "cli/files": 410,
    "cli/people": 820,
    "cli/service": 1140,
    "cli/setup": 1440,
    "config": 1900,
    "database": 1730,
    "database/postgresql": 2390,
    "database/sqlite": 1370,
    "dev": 840,
    "http": 2670,
    "login": 3930,
    "notify": 530,
    "ops": 1160,
    "owner": 2330,
    "pages": 510,
    "passkeys": 940,
    "players": 670,
    "providers": 1510,
    "saves": 4920,
    "sessions": 1340,
    "shared": 1390,
    "tickets": 380,
}
"""The most lines of code of each folder, `shared` for the modules beside them; raise one only for a reason."""
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def package() -> dict[str, str]:
    """Return source by module name: the package, and the plugin."""
    files = [*(ROOT / "gamed").rglob("*.py"), *(ROOT / "twisted").rglob("*.py")]
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}
    return {name: file.read_text("utf-8") for name, file in names.items()}


def kind(module: str) -> Kind | None:
    """Return the kind of a module by its name, or None if no rule names it."""
    if module.startswith("twisted.plugins."):
        return Kind.COMMANDS
    if module in PURE:
        return Kind.RULES
    parts = module.split(".")[1:]
    if not parts or (parts[0] in FEATURES and len(parts) == 1):
        return Kind.SHARED
    if parts[0] in FEATURES:
        name = parts[-1]
        own = OTHERS.get("/".join(parts[: 2 if parts[1] == "pages" else 3]))
        return own or BY_NAME.get(name) or BY_NAME.get(name.rpartition("_")[2])
    if parts[:2] in (["database", "sqlite"], ["database", "postgresql"]):
        return Kind.SQLITE if parts[1] == "sqlite" else Kind.POSTGRESQL
    return OTHERS.get("/".join(parts)) or FOLDERS.get(parts[0]) or TOP.get(parts[0])


def python_files(*folders: str) -> Iterator[tuple[str, str]]:
    """Yield path and source of every Python file in these folders."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield str(file.relative_to(ROOT)), file.read_text("utf-8")


def imports(source: str, modules: Collection[str]) -> Iterator[str]:
    """Yield full names of what a module imports; `from a import b` is `a`, and also `a.b` where that is a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            inside = [f"{base}.{alias.name}" for alias in node.names]
            found = [name for name in inside if name in modules or name == REACTOR]
            yield from found
            if len(found) < len(inside):
                yield base


def violations(sources: Mapping[str, str], modules: Collection[str]) -> list[str]:
    """Return one line per import or clock in `sources` that the rules forbid; `modules` are all there are."""
    return [
        f"{module}: {complaint}"
        for module, source in sorted(sources.items())
        for complaint in [*wrong_imports(module, source, modules), *clocks(module, source)]
    ]


def is_below(module: str, names: Collection[str]) -> bool:
    """Return whether a module is one of these, or lies in one."""
    return any(f"{module}.".startswith(f"{name}.") for name in names)


def wrong_imports(module: str, source: str, modules: Collection[str]) -> Iterator[str]:
    here = kind(module)
    if here is None:
        yield "has no kind"
        return
    for target in dict.fromkeys(imports(source, modules)):
        if target in EXEMPT.get(module, set()):
            continue
        if target.startswith("."):
            yield f"relative import {target}"
        elif target == REACTOR and here != Kind.COMMANDS:
            yield "only the command line imports the reactor"
        elif (
            here != ENGINES.get(target.split(".")[0], here)
            or is_below(target, FORBIDDEN.get(here, ()))
            or (here == Kind.RULES and not is_below(target, {"gamed", *RULES_MAY_IMPORT}))
            or (target.split(".")[0] == "gamed" and target not in PURE and kind(target) not in MAY_IMPORT[here])
        ):
            yield f"{target} in {here.value}"


def clocks(module: str, source: str) -> Iterator[str]:
    """Yield calls such as `datetime.now()` where the time must be an argument, and each `open` of rules."""
    if kind(module) not in {Kind.SHARED, Kind.RULES, Kind.SERVICE, Kind.TABLES}:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in CLOCK:
            yield f"line {node.lineno} reads a clock: .{node.attr}"
        if isinstance(node, ast.Name) and node.id == "open" and kind(module) == Kind.RULES:
            yield f"line {node.lineno} opens a file"


def circle(sources: Mapping[str, str]) -> list[str]:
    """Return modules that import each other in a circle, the first one again at the end, or nothing."""
    graph = {name: {*imports(source, sources)} & sources.keys() - {name} for name, source in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as e:
        return list(e.args[1])
    return []


def folder(module: str) -> str:
    """Return the folder of a module, or its own name if it lies in none; all that starts a process is one: `cli`."""
    parts = module.split(".")
    if kind(module) == Kind.COMMANDS:
        return "cli"
    return parts[1] if len(parts) > 2 or parts[-1] in {*FEATURES, *FOLDERS} else parts[-1]


def folder_circle(sources: Mapping[str, str]) -> list[str]:
    """Return folders that import each other, directly or through others, the first one again at the end."""
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        here = folder(module)
        targets = {folder(name) for name in {*imports(source, sources)} & sources.keys()}
        graph.setdefault(here, set()).update(targets - {here})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as e:
        return list(e.args[1])
    return []


def lines_of_code(source: str) -> int:
    """Return the number of lines without blank ones, comments and docstrings, also those of attributes."""
    tokens = tokenize.generate_tokens(StringIO(source).readline)
    lines = {line for each in tokens if each.type not in NO_CODE for line in range(each.start[0], each.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def lines_by_part() -> Counter[str]:
    """Return the lines of code of each folder; those in `cli/` and `database/` count alone."""
    found: Counter[str] = Counter()
    for path, source in python_files("gamed"):
        _, *folders, _ = path.split("/")
        depth = 2 if folders[:1] in (["cli"], ["database"]) else 1
        found["/".join(folders[:depth]) or "shared"] += lines_of_code(source)
    return found


class LayoutTests(SynchronousTestCase):
    def test_imports(self) -> None:
        """Each module imports only what its kind may."""
        self.assertEqual(violations(package(), package()), [])

    def test_annotations_name_no_engine(self) -> None:
        """No test or measurement imports sqlite3 for the type of a connection alone."""
        alone = "from sqlite3 import Connection\n"
        self.assertEqual([path for path, source in python_files("tests", "bench") if f"\n{alone}" in source], [])

    def test_no_circles(self) -> None:
        """No modules import each other, directly or through others; planted circles are found."""
        self.assertEqual(circle(package()), [])
        planted = {"gamed.http.a": "from gamed.http import b", "gamed.http.b": "def f():\n    import gamed.http.a"}
        self.assertEqual(set(circle(package() | planted)), {"gamed.http.a", "gamed.http.b"})

    def test_no_circles_of_folders(self) -> None:
        """No two folders import each other, directly or through others; planted circles are found."""
        self.assertEqual(folder_circle(package()), [])
        for module, source, others in (
            ("gamed.config.planted", "from gamed.saves.model import Version", {"config", "saves"}),
            ("gamed.players.planted", "def f():\n    from gamed.login import policy", {"login", "players"}),
            ("gamed.providers.planted", "import gamed.account.links", {"providers", "account"}),
        ):
            self.assertLessEqual(others, set(folder_circle(package() | {module: source})))
        through = {"gamed.a": "import gamed.b", "gamed.b": "import gamed.c", "gamed.c": "import gamed.a"}
        self.assertEqual(set(folder_circle(through)), {"a", "b", "c"})

    def test_small_modules(self) -> None:
        """No module under 60 lines is imported by one module alone, but for packages and files of every feature."""
        modules = package()
        importers = {name: [] for name in modules}
        for module, source in modules.items():
            for name in {*imports(source, modules)} & modules.keys() - {module}:
                importers[name].append(module)
        small = {name for name, source in modules.items() if source.count("\n") < SMALL_LINES}
        packages = {name.rpartition(".")[0] for name in modules}
        alone = {name for name in small - packages if len(importers[name]) == 1}
        self.assertEqual(sorted(name for name in alone if name.rpartition(".")[2] not in BY_NAME), [])

    def test_ceilings(self) -> None:
        """No folder has more lines of code than its ceiling, and none has a ceiling that is far above it."""
        found = lines_by_part()
        self.assertEqual({part: lines for part, lines in found.items() if lines > CEILINGS.get(part, 0)}, {})
        self.assertEqual({part: found[part] for part, ceiling in CEILINGS.items() if found[part] < ceiling - 100}, {})
        counted = (
            '"""Doc\nstring."""\n\nA = (  # why\n    1,\n)\n"""About A."""\n\n\ndef f():\n    """Do."""\n    return 1\n'
        )
        self.assertEqual(lines_of_code(counted), 5)

    def test_class_names(self) -> None:
        """No two modules have a class of the same name."""
        found = Counter(
            node.name
            for source in package().values()
            for node in ast.parse(source).body
            if isinstance(node, ast.ClassDef)
        )
        self.assertEqual([name for name, count in found.items() if count > 1], [])

    def test_components(self) -> None:
        """Every component takes its collaborators by keyword, and the search finds those of the package."""
        found = {
            node.name: {word.arg for word in node.keywords}
            for source in package().values()
            for node in ast.parse(source).body
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Component" for base in node.bases)
        }
        self.assertIn("SaveService", found)
        self.assertEqual([name for name, words in found.items() if "kw_only" not in words], [])

    def test_names_are_real(self) -> None:
        """Each name in the tables above is a module or folder, and the walk finds the whole package."""
        modules = package()
        named = {f"gamed.{name.replace('/', '.')}" for name in [*OTHERS, *TOP, *FOLDERS]} | {*EXEMPT, *PURE}
        self.assertEqual(sorted(named - set(modules)), [])
        self.assertLessEqual(
            {"gamed", "gamed.tap", "gamed.saves.service", "twisted.plugins.gamed_plugin"}, set(modules)
        )

    def test_planted_violations(self) -> None:
        """Each kind of wrong import is found when it is planted."""
        modules = set(package())
        for module, source, complaint in (
            ("gamed.crypto", "import gamed.config.model", "gamed.config.model in small shared module"),
            ("gamed.saves.write_rules", "import os.path", "os.path in values and pure decisions"),
            ("gamed.saves.write_rules", "import urllib.request", "urllib.request in values and pure decisions"),
            ("gamed.saves.write_rules", "from pathlib import Path", "pathlib in values and pure decisions"),
            ("gamed.saves.write_rules", "def f():\n    open('x')", "line 2 opens a file"),
            ("gamed.ops.findings", "import socket", "socket in values and pure decisions"),
            ("gamed.owner.model", "import threading", "threading in values and pure decisions"),
            (
                "gamed.owner.model",
                "from gamed.sessions import store",
                "gamed.sessions.store in values and pure decisions",
            ),
            ("gamed.owner.model", "d.now()", "line 1 reads a clock: .now"),
            ("gamed.owner.routes", "from gamed.saves import store", "gamed.saves.store in Klein routes"),
            ("gamed.owner.views", "from gamed.players import tables", "gamed.players.tables in Klein routes"),
            ("gamed.owner.service", "from twisted.internet import defer", "twisted.internet in work over a store"),
            ("gamed.owner.service", "import subprocess", "subprocess in work over a store"),
            ("gamed.owner.reads", "import gamed.owner.views", "gamed.owner.views in what the owner's pages gather"),
            ("gamed.saves.model", "from gamed.saves import store", "gamed.saves.store in values and pure decisions"),
            ("gamed.saves.service", "from twisted.internet import defer", "twisted.internet in work over a store"),
            ("gamed.saves.service", "import sqlite3", "sqlite3 in work over a store"),
            ("gamed.saves.routes", "from gamed.saves import store", "gamed.saves.store in Klein routes"),
            ("gamed.saves.tables", "from sqlite3 import Connection", "sqlite3 in SQL"),
            ("gamed.database.queues", "import sqlite3", "sqlite3 in database/"),
            ("gamed.database.queues", "import psycopg", "psycopg in database/"),
            ("gamed.database.sqlite.files", "from psycopg import pq", "psycopg in database/sqlite/"),
            ("gamed.cli.keys", "import sqlite3", "sqlite3 in command line"),
            ("gamed.database.queues", "import gamed.database.sqlite.files", "gamed.database.sqlite.files in database/"),
            ("gamed.saves.store", "import gamed.database.sqlite.files", "gamed.database.sqlite.files in transactions"),
            ("gamed.saves.write_store", "import gamed.http.app", "gamed.http.app in transactions"),
            ("gamed.http.app", "from gamed.saves.errors import SaveError", "gamed.saves.errors in http/"),
            ("gamed.database.queues", "import gamed.saves.model", "gamed.saves.model in database/"),
            ("gamed.database.queues", "from gamed.http import app", "gamed.http.app in database/"),
            ("gamed.service", "import gamed.cli.commands", "gamed.cli.commands in builds everything"),
            ("gamed.saves.shop", "", "has no kind"),
            ("gamed.config.model", "from . import validators", "relative import ."),
            ("gamed.http.app", "from twisted.internet import reactor", "only the command line imports the reactor"),
            ("gamed.timestamps", "datetime.now(UTC)", "line 1 reads a clock: .now"),
        ):
            self.assertIn(f"{module}: {complaint}", violations({module: source}, modules))

    def test_right_imports(self) -> None:
        """Imports of lower layers and within a feature are allowed."""
        modules = set(package())
        for module, source in (
            ("gamed.saves.routes", "from gamed.http.app import make_app\nfrom gamed.saves.service import SaveService"),
            ("gamed.saves.write_store", "from gamed.saves import tables, write_rules"),
            ("gamed.saves.write_rules", "from gamed.http.conditional import EntityTag"),
            ("gamed.database.sqlite.files", "import sqlite3, time"),
            ("gamed.tap", "from twisted.internet import reactor\nfrom gamed.service import build_service"),
        ):
            self.assertEqual(violations({module: source}, modules), [])
