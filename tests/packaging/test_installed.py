"""gamed works when installed from a wheel and from a checkout, and changes no file of Twisted."""

import atexit
import json
import os
import pickle
import re
import sys
from collections.abc import Callable
from contextlib import suppress as suppressed  # trial reads a name `suppress` itself
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from functools import cache
from hashlib import sha256
from pathlib import Path
from shutil import copy, rmtree, unpack_archive
from subprocess import Popen
from tempfile import gettempdir
from time import sleep
from typing import IO, TypeVar
from zipfile import ZipFile

from twisted.trial.unittest import SynchronousTestCase

import gamed
from tests.cli.process import free_port, get
from tests.packaging.environments import ROOT, TWISTED, ask, call, checkout, environment, install, wheel
from tests.support.covers import covers
from tests.support.stores import MASTER_KEY, POSTGRESQL, forget_store, with_store

T = TypeVar("T")
PLUGINS = """
from twisted.application.service import IServiceMaker
from twisted.plugin import getPlugins
print([maker.module for maker in getPlugins(IServiceMaker) if maker.tapname == "gamed"])
"""
SHIPPED = """
from importlib.resources import files
root = files("gamed")
engines = [root / "database" / engine for engine in ("postgresql", "sqlite")]
kinds = [engine / "schema" / kind for engine in engines for kind in ("auth", "state")]
print([sorted(script.name for script in kind.iterdir()) for kind in kinds])
print((root / "py.typed").is_file())
"""


@cache
def shared_folder() -> Path:
    """Return a folder outside of this checkout that all workers of this run share; the last one to end removes it."""
    run = os.getppid() if Path.cwd().name.isdigit() else os.getpid()  # a worker's own folder is a number
    folder = Path(gettempdir()) / f"gamed-packaging-{run}"
    folder.mkdir(exist_ok=True)
    users = open(folder / "users", "wb")  # noqa: SIM115  open until the process ends
    flock(users, LOCK_SH)
    atexit.register(_leave, folder, users)
    return folder


def _leave(folder: Path, users: IO[bytes]) -> None:
    with users, suppressed(BlockingIOError):
        flock(users, LOCK_EX | LOCK_NB)  # fails while another worker has it, and gives up the lock of this one
        rmtree(folder)


def made_once(name: str, make: Callable[[Path], T]) -> T:
    """Return what `make` returns for the shared folder of this name; one worker calls it while the others wait."""
    folder = shared_folder() / name
    result = folder.with_suffix(".made")
    with open(folder.with_suffix(".lock"), "wb") as lock:
        flock(lock, LOCK_EX)
        if not result.exists():
            rmtree(folder, ignore_errors=True)
            result.write_bytes(pickle.dumps(make(folder)))
        made: T = pickle.loads(result.read_bytes())
        return made


def source() -> Path:
    def make(folder: Path) -> Path:
        checkout(folder)
        (folder / "twisted/plugins/dropin.cache").touch()  # as twistd leaves it there
        return folder

    return made_once("for-wheel", make)


def built() -> Path:
    return made_once("wheels", lambda folder: wheel(source(), folder))


def from_wheel() -> Path:
    def make(folder: Path) -> Path:
        python = environment(folder)
        install(python, str(built()))
        return python

    return made_once("wheel", make)


def from_checkout() -> Path:
    def make(folder: Path) -> Path:
        python = environment(folder)
        install(python, "--editable", str(checkout(shared_folder() / "for-checkout")))
        return python

    return made_once("editable", make)


def schema() -> list[list[str]]:
    folders = sorted((source() / "gamed/database").glob("*/schema/*"))
    return [sorted(script.name for script in folder.glob("*.sql")) for folder in folders]


PACKAGED = {".py", ".sql", ".css", ".js", ".html", ".svg", ".po"}


class WheelTests(SynchronousTestCase):
    def test_contents(self) -> None:
        """A wheel has the package with schema, templates, texts, samples, type marker, plugin and metadata."""
        with ZipFile(built()) as archive:
            names = set(archive.namelist())
        files = (source() / "gamed").rglob("*")
        ours = {str(file.relative_to(source())) for file in files if file.suffix in PACKAGED}
        metadata = {name for name in names if ".dist-info/" in name}
        samples = {f"gamed/{file.relative_to(source())}" for file in (source() / "etc").rglob("*") if file.is_file()}
        others = {"gamed/py.typed", "gamed/pages/locale/forms.json", "twisted/plugins/gamed_plugin.py"}
        self.assertEqual(names - metadata, ours | samples | others)

    def test_version(self) -> None:
        """The wheel's version is the package's."""
        self.assertEqual(built().name.split("-")[1], gamed.__version__)

    def test_licence(self) -> None:
        """The metadata state the licence, or that none has been given yet; no classifier names one."""
        with ZipFile(built()) as archive:
            [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            text = archive.read(name).decode()
        chosen = re.findall(r'(?m)^    license_expression="(.+)",$', (ROOT / "setup.py").read_text("utf-8"))
        lines = [f"License-Expression: {chosen[0]}", "License-File: LICENSE"] if chosen else ["License: none given yet"]
        self.assertEqual(re.findall(r"(?mi)^(?:license.*|classifier: license.*)$", text), lines)


class SourceArchiveTests(SynchronousTestCase):
    def test_complete(self) -> None:
        """A source archive has every file of the project, and the wheel that is built from it has every file."""
        folder = shared_folder() / "for-archive"
        listed = call(["git", "ls-files", "--cached", "--others", "--exclude-standard"], ROOT).stdout.splitlines()
        files = [name for name in listed if (ROOT / name).is_file()]
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / name, folder / name)
        build = "from setuptools.build_meta import build_sdist; build_sdist('dist')"
        call([sys.executable, "-c", build], folder)
        [archive] = (folder / "dist").glob("gamed-*.tar.gz")
        unpack_archive(archive, folder / "extracted")
        [root] = (folder / "extracted").iterdir()
        unpacked = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        made = {name for name in unpacked if name in ("PKG-INFO", "setup.cfg") or "gamed.egg-info/" in name}
        self.assertEqual(unpacked - made, set(files))
        again = wheel(root, shared_folder() / "wheels-of-archive")
        with ZipFile(again) as one, ZipFile(built()) as other:
            self.assertEqual(set(one.namelist()), set(other.namelist()))


class InstalledTests(SynchronousTestCase):
    def test_plugin(self) -> None:
        """Twisted finds the service, once, in both kinds of installation."""
        for python in (from_wheel(), from_checkout()):
            self.assertEqual(call([str(python), "-c", PLUGINS], python.parent).stdout, "['gamed.tap']\n")

    def test_twistd_offers_it(self) -> None:
        """`twistd --help` lists gamed in both kinds of installation, and `--help` prints its usage."""
        for python in (from_wheel(), from_checkout()):
            printed = call([*twistd(python), "--help"], python.parent).stdout
            self.assertRegex(printed, r"(?m)^ +gamed +\S")
            for command in (["gamed"], ["gamed", "serve"]):
                printed = call([*twistd(python), *command, "--help"], python.parent).stdout
                self.assertRegex(printed, r"\AUsage: \S+ \[options\] gamed serve \[options\]\n")

    def test_data_files(self) -> None:
        """The installation has every migration of both engines and the type marker."""
        for python in (from_wheel(), from_checkout()):
            printed = call([str(python), "-c", SHIPPED], python.parent).stdout
            self.assertEqual(printed, f"{schema()}\nTrue\n")

    def test_twisted_is_untouched(self) -> None:
        """No installation overwrites or adds an `__init__.py` of Twisted."""
        for python in (from_wheel(), from_checkout()):
            [theirs] = python.parents[1].glob("lib/*/site-packages/twisted")
            for name in ("__init__.py", "plugins/__init__.py"):
                self.assertEqual(digest(theirs / name), digest(TWISTED / name))

    def test_plugin_cache(self) -> None:
        """Installing a checkout beside Twisted leaves a plugin cache that names the plugin."""
        from_checkout()
        written = shared_folder() / "for-checkout/twisted/plugins/dropin.cache"
        self.assertIn(b"gamed_plugin", written.read_bytes())

    def test_console_script(self) -> None:
        """`gamed --version` prints gamed's version."""
        for python in (from_wheel(), from_checkout()):
            printed = call([str(python.parent / "gamed"), "--version"], python.parent).stdout
            self.assertRegex(printed, rf"\b{re.escape(gamed.__version__)}\n$")

    def test_twistd_version(self) -> None:
        """`twistd gamed serve --version` prints gamed's version, not Twisted's."""
        printed = ask([*twistd(from_wheel()), "gamed", "serve", "--version"], from_wheel().parent).stdout
        self.assertRegex(printed, rf"\b{re.escape(gamed.__version__)}\n$")

    def test_serves(self) -> None:
        """`gamed serve` and `twistd gamed serve` of an installed wheel answer, outside of any checkout."""
        python, folder = from_wheel(), shared_folder() / "served"
        folder.mkdir()
        plain = [*twistd(python), "--nodaemon", "--pidfile=", "gamed"]
        for number, command in enumerate(([str(python.parent / "gamed")], plain)):
            port, config = free_port(), folder / str(number) / "authentication.json"
            environ = {"PATH": "/usr/bin:/bin"}
            if POSTGRESQL:
                config.parent.mkdir()
                config.write_text(json.dumps(with_store({"mode": "local"}, config.with_name("data"))))
                self.addCleanup(forget_store, config.with_name("data"))
                environ["GAMED_MASTER_KEY"] = MASTER_KEY
            words = [*command, "serve", "--config", str(config), f"--listen=tcp:{port}:interface=127.0.0.1"]
            with open(folder / "out", "wb") as out:
                service = Popen(words, cwd=folder, env=environ, stdout=out, stderr=out)
            self.addCleanup(service.kill)
            while not answers(port):
                self.assertIsNone(service.poll(), (folder / "out").read_text())
                sleep(0.05)
            service.terminate()
            self.assertEqual(service.wait(60), 0)

    def test_samples(self) -> None:
        """The commands that print samples find them in a wheel, and name the installed program."""
        for python in (from_wheel(), from_checkout()):
            config = python.parent / "public.json"
            config.write_text('{"mode": "local", "public_url": "https://play.example.net"}')
            program = str(python.parent / "gamed")
            unit = call([program, "--config", str(config), "unit"], python.parent).stdout
            self.assertIn(f"\nExecStart={program} serve ", unit)
            for command in ("nginx", "caddy"):
                self.assertIn(
                    "play.example.net", call([program, "--config", str(config), command], python.parent).stdout
                )

    @covers("operational/1")
    def test_refusal(self) -> None:
        """A wrong configuration exits with 78 and every problem on stderr, without stdout, usage text or traceback."""
        broken = shared_folder() / "broken.json"
        broken.write_text('{"mode": "locl"}', "utf-8")
        python = from_wheel()
        for command in ([*twistd(python), "--nodaemon", "--pidfile=", "gamed"], [str(python.parent / "gamed")]):
            done = ask([*command, "serve", "--config", str(broken)], python.parent)
            self.assertEqual((done.returncode, done.stdout), (78, ""))
            self.assertRegex(done.stderr, r"broken\.json:1:10: mode: ")
            self.assertNotRegex(done.stderr, "Usage|Traceback")


def answers(port: int) -> bool:
    """Return whether a server answers on this port."""
    try:
        return get(port, "/healthz") == (200, b"ok")
    except OSError:
        return False


def twistd(python: Path) -> list[str]:
    return [str(python), "-c", "from twisted.scripts.twistd import run; run()"]


def digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()
