"""The client's page: its game runs as printed, on several devices, and its calls exist."""

import os
import re
import subprocess
import sys
from inspect import signature
from shutil import copytree, rmtree

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import CLIENTS, lender
from tests.support.folders import unused_path
from tests.support.python_client import gamed_client as gc

from gamed_conformance.world import PASSWORD, requested  # isort: skip  (the helpers set its path)

PAGE = (CLIENTS / "python" / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
WAIT_SECONDS = 120
BROWSER = """
import sys
from urllib.parse import urlsplit

sys.path.append({suite!r})
from gamed_conformance.browser import Browser, fetched

url, what, name, password = sys.argv[1:]
window = Browser(urlsplit(url).port)
if what == "decline":
    window.decline(url)
else:
    page = window.sign_in(url, name, password, what == "create")
    assert fetched(page["return"])["status"] == 303
"""


class GameTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.server = lender().service("local")
        self.folder = unused_path(self)
        self.folder.mkdir()
        copytree(CLIENTS / "python" / "gamed_client", self.folder / "gamed_client")
        [game] = [block for block in BLOCKS if "ensure_signed_in" in block]
        self.assertEqual(game.count("http://127.0.0.1:8080"), 1)
        (self.folder / "game.py").write_text(game.replace("http://127.0.0.1:8080", self.server.base))
        (self.folder / "browser.py").write_text(BROWSER.format(suite=str(CLIENTS / "conformance")))
        self.game, self.name = game, f"player-{os.urandom(6).hex()}"

    def plays(self, device: str, browser: str = "false %s") -> tuple[str, str]:
        """Run the game on a device; return what it prints for the player."""
        home = self.folder / device
        home.mkdir(exist_ok=True)
        environ = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home), "BROWSER": browser}
        command = [sys.executable, "game.py"]
        how = {"cwd": self.folder, "env": environ, "stdin": subprocess.DEVNULL, "timeout": WAIT_SECONDS}
        done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout.strip(), done.stderr.strip()

    def window(self, what: str = "sign-in") -> str:
        """Return the command of a browser in which the player does this step."""
        return f"{sys.executable} {self.folder / 'browser.py'} %s {what} {self.name} '{PASSWORD}'"

    def test_lines(self) -> None:
        """The game has at most 15 lines."""
        self.assertLessEqual(len([line for line in self.game.splitlines() if line.strip()]), 15)

    def test_devices(self) -> None:
        """A second device continues the first one's game, and the first continues, also after its session was ended."""
        self.assertEqual(self.plays("desk", self.window("create"))[0], "Level 1")
        self.assertEqual(self.plays("sofa", self.window())[0], "Level 2")
        self.assertEqual(self.plays("desk"), ("Level 3", ""))
        self.revoke()
        self.assertEqual(self.plays("desk", self.window())[0], "Level 4")
        self.assertEqual(self.plays("desk"), ("Level 5", ""))
        client = gc.GamedClient(self.server.base, app="mygame", folder=self.folder / "desk" / "mygame")
        [save] = client.list_saves()
        self.assertEqual((save.version, save.conflicts), (5, ()))

    def test_offline(self) -> None:
        """Without the server the game continues, prints that, and sends its save at the next start."""
        self.plays("desk", self.window("create"))
        game = self.folder / "game.py"
        text = game.read_text()
        self.server.kill()
        level, said = self.plays("desk")
        self.assertEqual((level, "does not answer" in said), ("Level 2", True))
        self.server.start()
        self.assertEqual(game.read_text(), text)
        self.assertEqual(self.plays("desk"), ("Level 3", ""))

    def test_never_listed(self) -> None:
        """A signed-in player whose device never had a list begins a new game without a network, and goes on with it."""
        self.plays("desk", self.window("create"))
        rmtree(self.folder / "desk" / "mygame" / "sync")
        self.server.kill()
        try:
            level, said = self.plays("desk")
            again, _ = self.plays("desk")
        finally:
            self.server.start()
        self.assertEqual((level, again, "does not answer" in said), ("Level 1", "Level 2", True))

    def test_never_online(self) -> None:
        """A first start without the server ends with a text for the player."""
        self.server.kill()
        shown, said = self.plays("desk")
        self.server.start()
        self.assertEqual((shown, "does not answer" in said), ("", True))

    def test_declined(self) -> None:
        """A player who declines in the browser reads the reason."""
        shown, said = self.plays("desk", self.window("decline"))
        self.assertEqual((shown, "declined" in said.splitlines()[-1]), ("", True))

    def revoke(self) -> None:
        """End the sessions of all devices, as the player does on their page."""
        session = lender().session({"mode": "local", "name": self.name})
        body = {"scope": "all"}
        requested(self.server.port, "POST", "/auth/session/logout", body, session["access_token"])


class PageTests(SynchronousTestCase):
    def test_person(self) -> None:
        """The person on the page has all methods of a person."""
        [dialogs] = [block for block in BLOCKS if "(Person)" in block]
        asked = {name for name in vars(gc.Person) if not name.startswith("_")}
        self.assertEqual(set(re.findall(r"def (\w+)", dialogs)), asked)

    def test_calls(self) -> None:
        """Each call of the table exists, with the parameters that it shows."""
        rows = re.findall(r"(?m)^\| (`\w+\(.*?`) \|", PAGE)
        calls = [call for row in rows for call in re.findall(r"`(\w+)\((.*?)\)`", row)]
        self.assertGreaterEqual(len(calls), 12)
        for name, parameters in calls:
            known = signature(getattr(gc.GamedClient, name)).parameters
            self.assertLessEqual({each for each in parameters.split(", ") if each}, set(known), name)
