"""clients/godot3/example.gd is played: a real engine, a real service, a sign-in in the browser."""

import re
import subprocess
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Timer

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import CLIENTS
from clients.conformance.tests.test_godot3 import godot3_server, own_folders
from tests.e2e.client import CONFIG
from tests.e2e.service import Service

from gamed_conformance.browser import Browser, fetched  # isort: skip  (the helpers set its path)

PLAY = Path(__file__).with_name("specimens") / "play.gd"
LIMIT_SECONDS = 90
LINK = re.compile(r"SHOWS Open this in a browser: (\S+)")


class Example(SynchronousTestCase):
    def setUp(self) -> None:
        folder = Path(mkdtemp(prefix="gamed-godot-"))
        self.addCleanup(rmtree, folder, ignore_errors=True)
        self.service = Service(folder / "world", CONFIG)
        self.service.start()
        self.addCleanup(self.service.close)

    def play(self) -> list[str]:
        """Run the game; return its output. The browser signs in when the game shows the link."""
        environ = [f"GAMED_SERVER={self.service.base}"]
        project = ["--no-window", "--path", str(CLIENTS / "godot3"), "-s", str(PLAY)]
        game = subprocess.Popen(
            [*own_folders(), *environ, godot3_server(), *project],
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
                if link := LINK.match(line):
                    self.sign_in(link[1])
        watch.cancel()
        return lines

    def sign_in(self, url: str) -> None:
        page = Browser(self.service.port).sign_in(url, "anna", "correct horse", create=True)
        self.assertEqual(fetched(page["return"])["status"], 303)

    def test_plays(self) -> None:
        """It opens the browser, hears that it is back, saves on this device and at the server; no script fails."""
        said = "".join(self.play())
        self.assertRegex(said, r"SHOWS 0 presses\. A new game\.\n(.*\n)*SHOWS 1 presses\. Saved there, too\.")
        self.assertNotIn("res://", said)
