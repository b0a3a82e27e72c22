"""The scripts of both clients in GDScript: those for Godot 3 are generated, with the games of the tests."""

from atexit import register
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from clients.conformance.tests.helpers import CLIENTS
from clients.godot3 import generate

SPECIMENS = CLIENTS / "godot4" / "tests" / "specimens"
GAMES = ("ends.gd", "hears.gd", "play.gd", "sign_in.gd")
"""Games for both engines."""


def folder(version: str) -> Path:
    """Return the folder with all files of a client."""
    return CLIENTS / "godot4" if version == "godot4" else _generated()


def game(version: str, name: str) -> Path:
    """Return the path of a game for this version of the engine."""
    return (SPECIMENS if version == "godot4" else _generated()) / name


@cache
def _generated() -> Path:
    made = Path(mkdtemp(prefix="gamed-godot3-"))
    register(rmtree, made, ignore_errors=True)
    for name, data in generate.files().items():
        (made / name).write_bytes(data)
    for name, text in generate.scripts(*(SPECIMENS / name for name in GAMES)).items():
        (made / name).write_text(text, "utf-8")
    return made
