"""The game of a README, as it is printed: on a first device, on a second one, and after its session was ended."""

import json
import os
import re
import subprocess
import time
from pathlib import Path
from shutil import copy, rmtree
from tempfile import mkdtemp
from threading import Timer
from typing import ClassVar

from clients.conformance.tests.helpers import CLIENTS
from clients.conformance.tests.test_godot3 import own_folders
from clients.godot3.tests import scripts
from tests.e2e.client import CONFIG, gamed
from tests.e2e.service import Service
from tests.e2e.wire import ask

from gamed_conformance.browser import Browser, fetched  # isort: skip  (the helpers set its path)

WATCH = Path(__file__).with_name("specimens") / "watch.gd"
LIMIT_SECONDS = 90
MOST_LINES = 15
APP_LINK = "com.example.game:"
PRINTED_ADDRESS = "http://127.0.0.1:8080"
CLASSES = {
    "gamed.gd": "GamedClient",
    "gamed_assets.gd": "GamedAssets",
    "gamed_dialog.gd": "GamedDialog",
    "gamed_sync.gd": "GamedSync",
    "gamed_texts.gd": "GamedTexts",
}
"""The global names of the scripts, by which a game and the editor of Godot 4 find them."""
PRELOADED = r'preload\("(?:res://)?(\w+\.gd)"\)'


def without_browser(folder: Path) -> str:
    """Return the search path for a game that opens no browser on the machine of the tests."""
    opener = folder / "xdg-open"
    opener.write_text("#!/bin/sh\n")
    opener.chmod(0o755)
    return f"PATH={folder}:{os.environ['PATH']}"


class ReadmeGame:
    """A mixin: subclasses name the client's folder, the engine's command, and the files of a project."""

    version: ClassVar[str]
    project: ClassVar[str]
    scene: ClassVar[str]

    @classmethod
    def engine(cls) -> list[str]:
        raise NotImplementedError

    def printed_game(self) -> str:
        """Return the first game that the README prints."""
        text = (CLIENTS / self.version / "README.md").read_text("utf-8")
        return re.search(r"^```gdscript\n(extends .*?)^```", text, re.DOTALL | re.MULTILINE)[1]

    def setUp(self) -> None:
        """Make a project of the printed game, whose address alone is replaced, and start a server with one player."""
        self.folder = Path(mkdtemp(prefix="gamed-godot-"))
        self.addCleanup(rmtree, self.folder, ignore_errors=True)
        config = {**CONFIG, "login": {"app_links": [APP_LINK]}}
        self.service = Service(self.folder / "world", config).start()
        self.addCleanup(self.service.close)
        gamed(self.service, "players", "add", "anna", "--password-stdin", stdin="correct horse\n")
        (self.folder / "main.tscn").write_text(self.scene, "utf-8")
        (self.folder / "project.godot").write_text(self.project, "utf-8")
        copy(WATCH, self.folder / "watch.gd")
        self.add_game(self.printed_game())

    def add_game(self, game: str) -> None:
        self.assertIn(PRINTED_ADDRESS, game)
        (self.folder / "main.gd").write_text(game.replace(PRINTED_ADDRESS, self.service.base), "utf-8")
        names = re.findall(PRELOADED, game) + [name for name, global_name in CLASSES.items() if global_name in game]
        for name in names:  # and what these need, which the README lists beside them
            source = scripts.folder(self.version) / name
            names += [each for each in re.findall(PRELOADED, source.read_text("utf-8")) if each not in names]
            copy(source, self.folder / name)

    def play(self, device: list[str], level: int) -> list[str]:
        """Run the game until it prints the level and the server has it; return its output."""
        game = subprocess.Popen(
            [*device, without_browser(self.folder), *self.engine(), "--path", str(self.folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        watch = Timer(LIMIT_SECONDS, game.kill)
        watch.start()
        lines = []
        with game:
            for line in game.stdout or ():
                lines.append(line)
                if line.startswith("LINK "):
                    self.sign_in(line.split()[1])
                if line == f"Level {level}\n":
                    self.await_saved(level)
                    game.terminate()
        watch.cancel()
        return lines

    def sign_in(self, url: str) -> None:
        self.open_address(Browser(self.service.port).sign_in(url, "anna", "correct horse")["return"])

    def open_address(self, url: str) -> None:
        """Do what the browser does at the end of a sign-in."""
        self.assertEqual(fetched(url)["status"], 303)

    def token(self) -> str:
        return json.loads(gamed(self.service, "players", "token", "anna", "--json"))["access_token"]

    def await_saved(self, level: int) -> None:
        """Wait until the server has this level."""
        token, end = self.token(), time.monotonic() + LIMIT_SECONDS
        while ask(self.service.port, "GET", "/game/saves/level", bearer=token).body != str(level).encode():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)

    def end_sessions(self) -> None:
        body = {"scope": "all"}
        answer = ask(self.service.port, "POST", "/auth/session/logout", json_body=body, bearer=self.token())
        self.assertEqual(answer.status, 204)

    def test_length(self) -> None:
        """The printed game signs in, saves and loads in 15 lines at most."""
        self.assertLessEqual(len([line for line in self.printed_game().splitlines() if line.strip()]), MOST_LINES)

    def test_plays(self) -> None:
        """The game plays on, on a second device, and signs in again after its session was ended; no script fails."""
        first, second = own_folders(), own_folders()
        said = self.play(first, 1)
        said += self.play(first, 2)
        self.assertEqual(len([line for line in said if line.startswith("LINK ")]), 1)
        said += self.play(second, 3)
        self.end_sessions()
        said += self.play(first, 4)
        self.assertEqual(len([line for line in said if line.startswith("LINK ")]), 3)
        self.assertEqual([line for line in said if line.startswith("Level ")], [f"Level {n}\n" for n in range(1, 5)])
        self.assertNotIn("res://", "".join(said))
