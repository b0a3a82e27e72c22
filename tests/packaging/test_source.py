"""The source has a plugin that always imports, declared requirements, and ignores the plugin cache."""

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.packaging.environments import ROOT, ask, call

BESIDES = {"multipart", "pyopenssl", "service-identity", "treq"}
"""Requirements of Twisted's TLS and of treq that no module of gamed imports."""

LAZY = """
import sys, gamed.tap
print([name for name in ("twisted.internet.reactor", "klein") if name in sys.modules])
"""

OLD = """
import runpy, sys
sys.version_info = (3, 10, 13)
runpy.run_path("setup.py")
"""


def top_level_imports(file: Path) -> set[str]:
    """Return the first parts of all names that a file imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name.split(".")[0] for name in names}


def requirements() -> set[str]:
    """Return the normalized names of the distributions in setup.py's install_requires and POSTGRESQL."""
    nodes = list(ast.walk(ast.parse((ROOT / "setup.py").read_text("utf-8"))))
    always = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "install_requires"]
    extra = [
        node.value
        for node in nodes
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["POSTGRESQL"]
    ]
    listed = [name for value in (*always, *extra) for name in ast.literal_eval(value)]
    return {normal(re.split(r"[\[<>=,!~ ]", requirement)[0]) for requirement in listed}


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


class PluginTests(SynchronousTestCase):
    def test_imports_nothing_of_ours(self) -> None:
        """The plugin imports only Twisted's service maker, because Twisted ignores a plugin with an import error."""
        tree = ast.parse((ROOT / "twisted/plugins/gamed_plugin.py").read_text("utf-8"))
        imported = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        self.assertEqual(imported, ["from twisted.application.service import ServiceMaker"])

    def test_no_init(self) -> None:
        """`twisted/` has no __init__.py, which would overwrite Twisted's at installation."""
        self.assertEqual([str(file) for file in (ROOT / "twisted").rglob("__init__.py")], [])

    def test_importing_tap_is_cheap(self) -> None:
        """`import gamed.tap` installs no reactor and imports no Klein, which would install one."""
        self.assertEqual(call([sys.executable, "-c", LAZY], ROOT).stdout, "[]\n")


class SourceTests(SynchronousTestCase):
    def test_imports_are_declared(self) -> None:
        """install_requires and POSTGRESQL name every distribution that the package needs, and no other."""
        imported = set().union(*(top_level_imports(file) for file in (ROOT / "gamed").rglob("*.py")))
        foreign = imported - sys.stdlib_module_names - {"gamed", "zope"}
        owners = packages_distributions()
        needed = {normal(owner) for name in foreign for owner in owners[name]} - {"gamed"}  # it has a twisted.plugins
        self.assertEqual(needed | BESIDES, requirements())

    def test_an_old_python(self) -> None:
        """An old Python can read setup.py, which then names the required version."""
        result = ask([sys.executable, "-c", OLD], ROOT)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("gamed needs Python 3.11 or newer", result.stderr)
        ast.parse((ROOT / "setup.py").read_text("utf-8"), feature_version=(3, 8))

    def test_the_cache_is_ignored(self) -> None:
        """git does not see the plugin cache that Twisted writes beside the plugin."""
        ignored = ask(["git", "check-ignore", "twisted/plugins/dropin.cache"], ROOT)
        self.assertEqual(ignored.stdout, "twisted/plugins/dropin.cache\n")

    def test_trial_runs_as_a_module(self) -> None:
        """Tests are started with `python -m twisted.trial`, because `trial` does not import from the checkout."""
        for name in ("README.md", "CONTRIBUTING.md"):
            text = (ROOT / name).read_text("utf-8")
            self.assertEqual(re.findall(r"(?<!twisted\.)\btrial +(?:-|tests)", text), [], name)
            self.assertIn("-m twisted.trial", text)
