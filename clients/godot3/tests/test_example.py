"""The example of the client for Godot 3 is played: a real engine, a real service, a sign-in in the browser."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Timer

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.test_godot3 import godot3_server, own_folders
from clients.godot3.tests import scripts
from tests.e2e.client import CONFIG
from tests.e2e.service import Service

from gamed_conformance.browser import Browser, fetched  # isort: skip  (the helpers set its path)

LIMIT_SECONDS = 90
LINK = re.compile(r"SHOWS Open this in a browser: (\S+)")
PLAYED = r"SHOWS 0 presses\. A new game\.\n(.*\n)*SHOWS 1 presses\. Saved there, too\."


def played(test: SynchronousTestCase, version: str, engine: Sequence[str]) -> str:
    """Run the game of this client until it ends; return its output. The browser signs in when the game shows the link.

    Stop the engine after a limit.
    """
    folder = Path(mkdtemp(prefix="gamed-godot-"))
    test.addCleanup(rmtree, folder, ignore_errors=True)
    service = Service(folder / "world", CONFIG)
    service.start()
    test.addCleanup(service.close)
    script, client = scripts.game(version, "play.gd"), scripts.folder(version)
    game = subprocess.Popen(
        [*own_folders(), f"GAMED_SERVER={service.base}", *engine, "--path", str(client), "-s", str(script)],
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
                page = Browser(service.port).sign_in(link[1], "anna", "correct horse", create=True)
                test.assertEqual(fetched(page["return"])["status"], 303)
    watch.cancel()
    return "".join(lines)


class Example(SynchronousTestCase):
    def test_plays(self) -> None:
        """The example opens the browser, gets its return, saves on this device and at the server; no script fails."""
        said = played(self, "godot3", [godot3_server(), "--no-window"])
        self.assertRegex(said, PLAYED)
        self.assertNotIn("res://", said)
