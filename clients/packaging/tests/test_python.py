"""The wheel and the source archive are installed, typed, and sign in and save at a real server."""

import sys
from functools import cache
from pathlib import Path
from venv import create

from twisted.trial.unittest import SynchronousTestCase

import gamed
from clients.packaging.tests.building import call, folder, made, played, run
from tests.support.folders import unused_path

OFFLINE = ("--no-index", "--no-cache-dir", "--disable-pip-version-check", "--quiet")
GAME = """
import asyncio, os, threading
from gamed_client import GamedClient, Person
from gamed_client.aio import AsyncClient, AsyncSync

class Dialogs(Person):
    def browser_opened(self, url, opened, *more):
        print(url, flush=True)

def sync_game():
    client = GamedClient(os.environ["GAMED_SERVER"], app="packaged")
    client.sign_in(Dialogs(), open_browser=None)
    print(client.put("auto", b"level 3", base=None).version)

async def aio_game():
    client = AsyncClient(os.environ["GAMED_SERVER"], app="packaged")
    save = await client.get("auto")
    print(save.data.decode())
    async with AsyncSync(client) as sync:
        await sync.start()
        assert await sync.ready()
        print((await sync.read("auto")).data.decode())

sync_game()
asyncio.run(aio_game())
"""
TYPED = """
import asyncio
from gamed_client import GamedClient, Save, SaveInfo
from gamed_client.aio import AsyncClient, AsyncSync
from gamed_client.sync import Sync
from gamed_sync import Sync as Older, Status

async def play(client: AsyncClient) -> bytes:
    save = await client.get("auto")
    async with AsyncSync(client) as sync:
        await sync.write("auto", b"", meta={"title": "Chapter 3"})
    return save.data if save else b""

def write(client: GamedClient, save: Save | None) -> SaveInfo:
    return client.put("auto", b"level 3", base=save)

def older(sync: Older, client: GamedClient) -> list[Status]:
    newer: Sync = sync
    return newer.slots()
"""
MISTYPED = """
async def wrong(client: AsyncClient) -> None:
    await client.put("auto", "text", base=None)
    client.get(1)
"""
LISTED = """
from importlib.metadata import files, version
print(version("gamed-client"), *files("gamed-client"), sep="\\n")
"""
MODULES = ("gamed_client", "gamed_sync", "gamed_assets", "gamed_aio", "gamed_texts")
"""The package, and the older names of its modules."""


def packages() -> tuple[Path, Path]:
    """Return the wheel and the source archive."""
    wheel, archive = sorted(made("python"), key=lambda path: path.suffix, reverse=True)
    return wheel, archive


@cache
def environment(package: Path) -> Path:
    """Return the Python of a new virtual environment that has only this package."""
    where = folder() / f"environment-{package.suffix[1:]}"
    create(where, symlinks=True)
    python = where / "bin" / "python"
    call([*pip(python), "install", *OFFLINE, str(package)], folder())
    return python


def pip(python: Path) -> list[str]:
    """Return the command of this environment's pip that works on another one: to install one there takes seconds."""
    return [sys.executable, "-m", "pip", "--python", str(python)]


class Installed(SynchronousTestCase):
    def setUp(self) -> None:
        self.wheel, self.archive = packages()
        self.home = unused_path(self)
        self.home.mkdir()

    def test_game(self) -> None:
        """A game with the installed wheel signs in and saves, and reads the save with asyncio."""
        game = self.home / "game.py"
        game.write_text(GAME)
        printed = played([str(environment(self.wheel)), str(game)], self.home)
        self.assertEqual(printed[1:], ["1", "level 3", "level 3"])

    def test_commands(self) -> None:
        """The command, and the module run as one, are those of the client."""
        python = environment(self.wheel)
        for command in ([str(python.with_name("gamed-client"))], [str(python), "-m", "gamed_client"]):
            self.assertIn("Sign in to a gamed server", call([*command, "--help"], self.home))

    def test_archive(self) -> None:
        """The source archive is installed offline, too, and gives the same files."""
        listed = []
        for package in (self.wheel, self.archive):
            python = environment(package)
            text = (
                "import importlib.metadata as m; print(m.version('gamed-client'), *m.files('gamed-client'), sep='\\n')"
            )
            lines = call([str(python), "-c", text], self.home).splitlines()
            listed.append([line for line in lines if "__pycache__" not in line and "direct_url" not in line])
        self.assertEqual(listed[0], listed[1])
        self.assertEqual(listed[0][0], gamed.__version__)
        self.assertLess({f"{name}/{file}" for name in MODULES for file in ("__init__.py", "py.typed")}, set(listed[0]))

    def test_twine(self) -> None:
        """PyPI accepts the metadata of both packages, and can show the README."""
        command = [sys.executable, "-m", "twine", "check", "--strict", str(self.wheel), str(self.archive)]
        self.assertEqual(call(command, self.home).count("PASSED"), 2)

    def test_checks(self) -> None:
        """`pip check` reports nothing."""
        self.assertIn("No broken", call([*pip(environment(self.wheel)), "check"], self.home))

    def test_typed(self) -> None:
        """Strict mypy accepts the client and a game, and finds the game's mistakes."""
        game, wrong = self.home / "game.py", self.home / "wrong.py"
        game.write_text(TYPED)
        wrong.write_text(TYPED + MISTYPED)
        python = str(environment(self.wheel))
        mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "--cache-dir", str(self.home)]
        site = call([python, "-c", "import gamed_client; print(gamed_client.__file__)"], self.home).strip()
        sources = [str(Path(site).parents[1] / name) for name in MODULES]
        done = run([*mypy, "--python-version", "3.10", *sources], self.home)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        done = run([*mypy, str(game)], self.home)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        done = run([*mypy, str(wrong)], self.home)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.count("[arg-type]"), 2, done.stdout)
