"""gamed installed from a wheel and from a checkout: everything it needs is there, and nothing of Twisted is touched."""

import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from twisted.trial.unittest import SynchronousTestCase

import gamed
from tests.packaging.environments import TWISTED, ask, call, checkout, environment, install, wheel
from tests.support.covers import covers

PLUGINS = """
from twisted.application.service import IServiceMaker
from twisted.plugin import getPlugins
print([maker.module for maker in getPlugins(IServiceMaker) if maker.tapname == "gamed"])
"""
SHIPPED = """
from importlib.resources import files
root = files("gamed")
print(sorted(script.name for kind in ("auth", "state") for script in (root / "storage/schema" / kind).iterdir()))
print((root / "py.typed").is_file())
"""


@cache
def house() -> TemporaryDirectory[str]:
    """Holds what the tests of this process share; removed at its end."""
    return TemporaryDirectory(prefix="gamed-packaging-")


@cache
def source() -> Path:
    folder = checkout(Path(house().name) / "for-wheel")
    (folder / "twisted/plugins/dropin.cache").touch()  # as twistd leaves it there
    return folder


@cache
def built() -> Path:
    return wheel(source(), Path(house().name) / "wheels")


@cache
def from_wheel() -> Path:
    python = environment(Path(house().name) / "wheel")
    install(python, str(built()))
    return python


@cache
def from_checkout() -> Path:
    folder = Path(house().name)
    python = environment(folder / "editable")
    install(python, "--editable", str(checkout(folder / "for-checkout")))
    return python


def schema() -> list[str]:
    return sorted(script.name for script in (source() / "gamed/database/schema").glob("*/*.sql"))


class WheelTests(SynchronousTestCase):
    def test_contents(self) -> None:
        """The package with schema and type marker, the plugin, the metadata; nothing of Twisted, no test, no cache."""
        with ZipFile(built()) as archive:
            names = set(archive.namelist())
        files = (source() / "gamed").rglob("*")
        ours = {str(file.relative_to(source())) for file in files if file.suffix in {".py", ".sql"}}
        metadata = {name for name in names if ".dist-info/" in name}
        self.assertEqual(names - metadata, ours | {"gamed/py.typed", "twisted/plugins/gamed_plugin.py"})

    def test_version(self) -> None:
        """The wheel's version is the package's."""
        self.assertEqual(built().name.split("-")[1], gamed.__version__)


class InstalledTests(SynchronousTestCase):
    def test_plugin(self) -> None:
        """Twisted finds the service, once, in both kinds of installation."""
        for python in (from_wheel(), from_checkout()):
            self.assertEqual(call([str(python), "-c", PLUGINS], python.parent).stdout, "['gamed.tap']\n")

    def test_twistd_offers_it(self) -> None:
        """`twistd --help` lists gamed in both kinds of installation, and gamed says how it is used."""
        for python in (from_wheel(), from_checkout()):
            said = call([*twistd(python), "--help"], python.parent).stdout
            self.assertRegex(said, r"(?m)^ +gamed +\S")
            for command in (["gamed"], ["gamed", "serve"]):
                said = call([*twistd(python), *command, "--help"], python.parent).stdout
                self.assertRegex(said, r"\AUsage: \S+ \[options\] gamed serve \[options\]\n")

    def test_data_files(self) -> None:
        """Every migration and the type marker are there."""
        for python in (from_wheel(), from_checkout()):
            said = call([str(python), "-c", SHIPPED], python.parent).stdout
            self.assertEqual(said, f"{schema()}\nTrue\n")

    def test_twisted_is_untouched(self) -> None:
        """Neither installation writes over Twisted's own package files, nor adds one where it has none."""
        for python in (from_wheel(), from_checkout()):
            [theirs] = python.parents[1].glob("lib/*/site-packages/twisted")
            for name in ("__init__.py", "plugins/__init__.py"):
                self.assertEqual(digest(theirs / name), digest(TWISTED / name))

    def test_plugin_cache(self) -> None:
        """Installing a checkout beside Twisted leaves a plugin cache that names the plugin."""
        from_checkout()
        written = Path(house().name) / "for-checkout/twisted/plugins/dropin.cache"
        self.assertIn(b"gamed_plugin", written.read_bytes())

    def test_console_script(self) -> None:
        """`gamed --version` prints gamed's version."""
        for python in (from_wheel(), from_checkout()):
            said = call([str(python.parent / "gamed"), "--version"], python.parent).stdout
            self.assertRegex(said, rf"\b{re.escape(gamed.__version__)}\n$")

    def test_twistd_version(self) -> None:
        """`twistd gamed serve --version` prints gamed's version, not Twisted's."""
        said = ask([*twistd(from_wheel()), "gamed", "serve", "--version"], from_wheel().parent).stdout
        self.assertRegex(said, rf"\b{re.escape(gamed.__version__)}\n$")

    @covers("operational/1")
    def test_refusal(self) -> None:
        """A wrong configuration: exit 78, every problem on stderr, nothing on stdout, no usage text, no traceback."""
        broken = Path(house().name) / "broken.json"
        broken.write_text('{"mode": "locl"}', "utf-8")
        python = from_wheel()
        for command in ([*twistd(python), "--nodaemon", "--pidfile=", "gamed"], [str(python.parent / "gamed")]):
            done = ask([*command, "serve", "--config", str(broken)], python.parent)
            self.assertEqual((done.returncode, done.stdout), (78, ""))
            self.assertRegex(done.stderr, r"broken\.json:1:10: mode: ")
            self.assertNotRegex(done.stderr, "Usage|Traceback")


def twistd(python: Path) -> list[str]:
    return [str(python), "-c", "from twisted.scripts.twistd import run; run()"]


def digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()
