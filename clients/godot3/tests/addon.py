"""The game that a README prints for the add-on, and the zip of the add-on."""

import re
import subprocess
from atexit import register
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree, rmtree, unpack_archive
from tempfile import mkdtemp

from clients.conformance.tests.helpers import CLIENTS
from clients.conformance.tests.test_godot3 import own_folders
from clients.godot3.tests import scripts
from clients.godot3.tests.readme_game import ReadmeGame
from clients.packaging.tests.building import made
from gamed import __version__

SECTION = re.compile(r"^## As an add-on$.*?^```gdscript\n(.*?)^```", re.DOTALL | re.MULTILINE)
LIMIT_SECONDS = 90
TRIES = 3
AUTOLOAD = 'Gamed="*res://addons/gamed/gamed_autoload.gd"\n'


def add_addon(version: str, project: Path) -> None:
    """Unpack the zip of the add-on into a project, as its users do."""
    [package] = made(version)
    unpack_archive(package, project, "zip")


def edited(version: str, settings: str, editor: Sequence[str]) -> list[str]:
    """Return the output of an editor with these settings of a project: its plugin enables and disables the add-on."""
    project = Path(mkdtemp(prefix="gamed-godot-"))
    register(rmtree, project, ignore_errors=True)
    add_addon(version, project)
    copytree(CLIENTS / version / "tests" / "specimens" / "switch", project / "addons" / "switch")
    (project / "project.godot").write_text(settings, "utf-8")
    command = [*own_folders(), *editor, "--editor", "--path", str(project)]
    for _ in range(TRIES):
        ran = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_SECONDS, check=False
        )
        if ran.returncode >= 0:  # the editor of Godot 3 may abort as it closes on a busy machine
            break
    if ran.returncode:
        raise AssertionError(f"the editor ended with {ran.returncode}:\n{ran.stdout}")
    return ran.stdout.splitlines()


class AddonGame(ReadmeGame):
    """A mixin: the printed game finds the server in the project's settings, and everything else in the autoload."""

    def printed_game(self) -> str:
        """Return the game that the README prints for the add-on."""
        [game] = SECTION.findall((CLIENTS / self.version / "README.md").read_text("utf-8"))
        return game

    def add_game(self, game: str) -> None:
        (self.folder / "main.gd").write_text(game, "utf-8")
        with (self.folder / "project.godot").open("a") as project:
            project.write(f'{AUTOLOAD}[gamed]\nserver="{self.service.base}"\n')
        add_addon(self.version, self.folder)

    def test_version(self) -> None:
        """The add-on has the version of the server."""
        stated = (scripts.folder(self.version) / "plugin.cfg").read_text("utf-8")
        self.assertIn(f'\nversion="{__version__}"\n', stated)
