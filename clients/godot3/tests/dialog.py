"""The ready dialog in a headless engine, used by a player with a browser."""

import socket
import subprocess
from pathlib import Path
from shutil import copy, rmtree
from tempfile import TemporaryFile, mkdtemp
from typing import ClassVar

from clients.conformance.tests.test_godot3 import own_folders
from clients.godot3.tests import scripts
from clients.godot3.tests.readme_game import LIMIT_SECONDS, without_browser
from gamed.pages.languages import Languages
from tests.e2e.client import CONFIG, gamed
from tests.e2e.service import Service

from gamed_conformance.browser import Browser  # isort: skip  (the helpers set its path)

HANDS = Path(__file__).with_name("specimens") / "hands.gd"
PASSWORD = "correct horse"


class Game:
    """A game that runs, and what its dialog shows: lines of the game's `said`, the words, the field, the buttons."""

    def __init__(self, command: list[str]) -> None:
        self.shown: list[list[str]] = []
        self.output = TemporaryFile("w+")  # noqa: SIM115
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(LIMIT_SECONDS)
            environ = f"GAMED_TEST_PORT={listener.getsockname()[1]}"
            self.process = subprocess.Popen(
                ["env", environ, *command],
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=subprocess.STDOUT,
            )
            self.connection, _ = listener.accept()
        self.connection.settimeout(LIMIT_SECONDS)
        self.lines = self.connection.makefile("r", encoding="utf-8")

    def shows(self, text: str) -> list[str]:
        """Return the next thing that the dialog shows with this text in it."""
        for line in self.lines:
            self.shown.append(line.rstrip("\n").split("\t"))
            if text in line:
                return self.shown[-1]
        raise AssertionError(f"The game ended before it showed {text}: {self.shown} {self.close()}")

    def press(self, button: str) -> None:
        self.connection.sendall(f"press {button}\n".encode())

    def type(self, code: str) -> None:
        """Type a code, and press the button that goes on with it."""
        self.connection.sendall(f"type {code}\n".encode())

    def close(self) -> str:
        """End the game; return its output."""
        self.process.terminate()
        self.process.wait(LIMIT_SECONDS)
        self.shown += [line.rstrip("\n").split("\t") for line in self.lines]
        self.lines.close()
        self.connection.close()
        self.output.seek(0)
        return self.output.read()


class DialogCase:
    """A mixin for both versions of the engine: everything that a sign-in can call."""

    version: ClassVar[str]
    project: ClassVar[str]
    scene: ClassVar[str]

    @classmethod
    def engine(cls) -> list[str]:
        raise NotImplementedError

    def setUp(self) -> None:
        """Make a project, and a server that does not run yet."""
        self.folder = Path(mkdtemp(prefix="gamed-godot-"))
        self.addCleanup(rmtree, self.folder, ignore_errors=True)
        self.service = Service(self.folder / "world", CONFIG)
        self.addCleanup(self.service.close)
        (self.folder / "main.tscn").write_text(self.scene, "utf-8")
        (self.folder / "project.godot").write_text(self.project.replace("Watch", "Hands").replace("watch", "hands"))
        for path in (
            HANDS,
            *(scripts.folder(self.version) / name for name in ("gamed.gd", "gamed_dialog.gd", "gamed_texts.gd")),
        ):
            copy(path, self.folder)
        # it calls ensure_signed_in until there is a session, then choose_provider; `said` is the outcome of each
        copy(scripts.game(self.version, "sign_in.gd"), self.folder / "main.gd")

    def serve(self) -> None:
        self.service.start()
        gamed(self.service, "players", "add", "anna", "--password-stdin", stdin=f"{PASSWORD}\n")

    def run_game(
        self, loopback: str = "yes", return_seconds: float = 0.2, left: str = "no", locale: str = "en"
    ) -> Game:
        options = {"LOOPBACK": loopback, "RETURN_SECONDS": return_seconds, "LEFT": left, "GAME_LOCALE": locale}
        environ = [f"{name}={value}" for name, value in {"GAMED_SERVER": self.service.base, **options}.items()]
        path = without_browser(self.folder)
        game = Game([*own_folders(), *environ, path, *self.engine(), "--path", str(self.folder)])
        self.addCleanup(game.process.kill)
        return game

    def test_problem(self) -> None:
        """A server that does not answer is a problem in words; the player tries again, or goes on."""
        game = self.run_game()
        self.assertEqual(game.shows("does not answer")[2:], ["", "Try again", "Continue"])
        game.press("Continue")
        game.shows("not signed in 1")
        game.shows("does not answer")
        self.service.start()
        game.press("Try again")
        self.assertEqual(game.shows("http://")[0], "not signed in 1")
        self.assertNotIn("res://", game.close())

    def test_language(self) -> None:
        """The dialog is in the game's language."""
        game, german = self.run_game(locale="de_AT.UTF-8"), Languages().get("de")
        again = german.gettext("Try again")
        self.assertNotEqual(again, "Try again")
        self.assertIn(again, game.shows(again))
        self.assertNotIn("res://", game.close())

    def test_left(self) -> None:
        """A scene that was freed while it showed a problem does not keep the next one from signing in."""
        game = self.run_game(left="yes")
        game.shows("does not answer")
        game.press("Continue")
        game.shows("not signed in 1")
        self.assertNotIn("res://", game.close())

    def test_code(self) -> None:
        """A text that cannot be a code costs no attempt, a wrong code shows how many are left, the right code works."""
        self.serve()
        game = self.run_game(loopback="no")
        url = game.shows("http://")[2]
        code = Browser(self.service.port).sign_in(url, "anna", PASSWORD)["code"]
        self.assertEqual(game.shows("Type the six letters")[3:], ["Continue", "Cancel"])
        game.type("nonsense")
        game.shows("like BKT-RVW")
        game.type("BCDFGH" if code != "BCD-FGH" else "BCDFGJ")
        game.shows("Attempts left: 4")
        game.type(code)
        game.shows("signed in 0")
        self.assertNotIn("res://", game.close())

    def test_show_me_a_code(self) -> None:
        """A player whose browser does not return asks for the code, and chooses a provider by its label."""
        self.serve()
        game = self.run_game()
        url = game.shows("http://")[2]
        browser = Browser(self.service.port)
        browser.sign_in(url, "anna", PASSWORD)
        self.assertEqual(game.shows("Type the six letters")[3:], ["Continue", "Show me a code", "Cancel"])
        game.press("Show me a code")
        game.type(browser.open(url)["code"])
        self.assertEqual(game.shows("How do you")[3:], ["Sign in with Discord", "Sign in with My School", "Cancel"])
        game.press("Sign in with My School")
        game.shows("school")
        self.assertNotIn("res://", game.close())

    def test_phone(self) -> None:
        """The player scans the link with a phone, unless a browser has used it already."""
        self.serve()
        game = self.run_game(return_seconds=LIMIT_SECONDS)
        url = game.shows("http://")[2]
        game.press("Use a phone instead")
        game.shows("To sign in with a phone")
        Browser(self.service.port).sign_in(url, "anna", PASSWORD)
        game.press("Use a phone instead")
        game.shows("A browser has used the link already.")
        self.assertNotIn("res://", game.close())

    def test_cancel(self) -> None:
        """Cancel ends the sign-in without a word; the next one is another."""
        self.serve()
        game = self.run_game()
        url = game.shows("http://")[2]
        game.press("Cancel")
        self.assertEqual(game.shows("not signed in 1"), ["not signed in 1", "hidden"])
        self.assertNotEqual(game.shows("http://")[2], url)
        page = Browser(self.service.port).open(url)
        self.assertEqual(page["forms"], {})
        self.assertNotIn("res://", game.close())
