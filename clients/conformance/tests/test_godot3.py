"""The client for Godot 3 keeps the rules (docs/protocol.md: Rules for clients), in Debian's headless engine."""

from atexit import register
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree, which
from tempfile import mkdtemp

from clients.conformance.tests.helpers import ConformanceCase
from clients.godot3.tests import scripts


def godot3_server() -> str:
    found = which("godot3-server")
    if found is None:
        raise FileNotFoundError("These tests need Godot 3 without a window: apt-get install godot3-server")
    return found


def own_folders() -> list[str]:
    """Return a command that sets own folders for the engine, so that a developer's own files are not touched."""
    home = Path(mkdtemp(prefix="gamed-godot-"))
    register(rmtree, home, ignore_errors=True)
    names = ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"]
    for name in names:
        (home / name.lower()).mkdir()
    return ["env", *(f"{name}={home / name.lower()}" for name in names)]


class Godot3(ConformanceCase):
    @classmethod
    def driver(cls) -> Sequence[str]:
        project = str(scripts.folder("godot3"))
        return [*own_folders(), godot3_server(), "--no-window", "--path", project, "-s", "driver.gd"]
