"""The READMEs of the C# client are true: their samples compile, the tiny game and the tests run against a server."""

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from secrets import token_hex

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import CLIENTS, lender
from clients.csharp.tests.building import CHECKS, CSHARP, ENGINES, SECONDS, UNITY, bounded, built, folder, tool
from clients.csharp.tests.test_unity import BROWSER, UNITY_STUB
from tests.support.folders import unused_path

sys.path.append(str(CLIENTS / "conformance"))  # last: that folder has a package `tests` of its own

from gamed_conformance.service import Service

TINY_LINES = 15
ROOT = CSHARP.parents[1]


def shown(page: str = "README.md") -> list[Path]:
    """Write each sample of a page to a file."""
    files = []
    for text in re.findall(r"^```csharp\n(.*?)^```$", (CSHARP / page).read_text("utf-8"), re.M | re.S):
        files.append(folder() / f"{page.replace('/', '-')}{len(files)}.cs")
        files[-1].write_text(text, "utf-8")
    return files


class Page(SynchronousTestCase):
    def test_samples(self) -> None:
        """The samples compile with stand-ins for the engines."""
        game, *samples, _ = shown()
        unity = shown("unity/README.md")
        self.assertEqual((len(samples), len(unity)), (3, 2))
        self.assertTrue(built("Shown", game, *samples, *unity, *UNITY, UNITY_STUB, ENGINES, today=True).exists())

    def test_a_games_own_tests(self) -> None:
        """Two devices, a conflict and a download, as `gamed dev --script` runs them; and two devices with loops."""
        mono, online, checks = tool("mono"), built("Online", shown()[-1]), built("Checks", CHECKS)
        places = [unused_path(self) for _ in range(2)]
        steps = f"{mono} {online} && {mono} {checks} Started {places[0]} && {mono} {checks} Running {places[1]}"
        done = bounded([sys.executable, "-m", "gamed", "dev", "--script", shlex.join(["sh", "-c", steps])])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("all is well", done.stdout)


class GameCase(SynchronousTestCase):
    """A folder for the devices of one player, whose browser is a program."""

    def setUp(self) -> None:
        self.place = unused_path(self)
        (self.place / "bin").mkdir(parents=True)
        opener = self.place / "bin" / "xdg-open"
        opener.write_text(f'#!/bin/sh\ncd {ROOT} && {shlex.join(BROWSER)} "$1" tiny-{token_hex(4)} >&2\n')
        opener.chmod(0o755)
        self.service = lender().service("local")

    def played(self, command: Sequence[str], device: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
        """Start a game on a device; no start ends with a traceback."""
        path = f"{self.place / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command,
            cwd=self.place,
            env={**os.environ, "XDG_STATE_HOME": str(self.place / device), "PATH": path},
            input=typed,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        self.assertNotIn("   at ", done.stdout + done.stderr)
        return done


class Example(GameCase):
    def test_commands(self) -> None:
        """The complete game signs in, saves, lists the devices, exports, and rejects a typing error."""
        command = [tool("mono"), str(built("Example", CSHARP / "Example.cs")), self.service.base]
        typed = (
            f"add 3\nadd x\nmine\nsync\ndevices\nexport {self.place}/all.zip\nexport /nowhere/all.zip\nleave\nquit\n"
        )
        done = self.played(command, "desk", typed)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("The number is 3, in_step\n", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^\* .+, 20\S+Z$")
        self.assertIn("[local_disk]", done.stdout)
        self.assertIn("Signed out.", done.stdout)
        with zipfile.ZipFile(self.place / "all.zip") as exported:
            self.assertIn("manifest.json", exported.namelist())


class TinyGame(GameCase):
    """The first sample of the README, built and run by the commands below it."""

    def setUp(self) -> None:
        super().setUp()
        for name in ("GamedClient.cs", "GamedSync.cs"):
            (self.place / name).symlink_to(CSHARP / name)
        page = (CSHARP / "README.md").read_text("utf-8")
        self.game, commands = re.findall(r"^```csharp\n(.*?)^```\n```\n(.*?)^```$", page, re.M | re.S)[0]
        (self.place / "Game.cs").write_text(self.game)
        build, self.run_line = commands.splitlines()
        done = subprocess.run(
            shlex.split(build), cwd=self.place, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def play(self, device: str, ended: int = 0) -> "subprocess.CompletedProcess[str]":
        """Start the game on a device."""
        command = self.run_line.replace("http://127.0.0.1:8080", self.service.base)
        done = self.played(shlex.split(command), device)
        self.assertEqual(done.returncode, ended, done.stdout + done.stderr)
        return done

    def credential(self, device: str) -> dict[str, str]:
        [path] = (self.place / device / "mygame").glob("*.json")
        return json.loads(path.read_text())

    def revoke(self, token: str) -> None:
        """End all sessions of the player."""
        connection = HTTPConnection("127.0.0.1", self.service.port, timeout=SECONDS)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", "/auth/session/logout", json.dumps({"scope": "all"}), headers)
        self.assertEqual(connection.getresponse().status, 204)
        connection.close()

    def test_lines(self) -> None:
        """A game that signs in, loads and saves is short."""
        self.assertLessEqual(len(self.game.splitlines()), TINY_LINES)

    def test_two_devices_and_a_revoke(self) -> None:
        """A fresh second device reads the first one's save; after a revoke the game signs in again and continues."""
        first = self.play("desk")
        self.assertEqual(first.stdout, "Level 1\n")
        self.assertIn("The sign-in continues in your browser.", first.stderr)
        self.assertEqual(self.play("sofa").stdout, "Level 2\n")
        again = self.play("desk")
        self.assertEqual((again.stdout, again.stderr), ("Level 3\n", ""))
        before = self.credential("desk")
        self.revoke(before["access_token"])
        revoked = self.play("desk")
        self.assertEqual(revoked.stdout, "Level 4\n")
        self.assertIn("The sign-in continues in your browser.", revoked.stderr)
        self.assertNotEqual(self.credential("desk")["session_id"], before["session_id"])
        self.assertEqual(self.play("sofa").stdout, "Level 5\n")

    def test_offline(self) -> None:
        """A device that has been online continues without the server, and sends its saves later."""
        self.service = Service(self.place / "service")
        self.service.start()
        self.addCleanup(self.service.kill)
        self.assertEqual(self.play("desk").stdout, "Level 1\n")
        self.service.kill()
        alone = self.play("desk")
        self.assertEqual(alone.stdout, "Level 2\n")
        self.assertRegex(alone.stderr, r"^http://\S+ does not answer\. [^\n]*\n$")
        self.service.start()
        self.assertEqual(self.play("desk").stdout, "Level 3\n")
        self.assertEqual(self.play("sofa").stdout, "Level 4\n")

    def test_no_server(self) -> None:
        """The text for a wrong address is for the player, without a traceback."""
        self.run_line = self.run_line.replace("8080", "9")
        self.assertRegex(self.play("desk").stderr, r"^http://127\.0\.0\.1:9 does not answer\. [^\n]*\n$")
        self.run_line = self.run_line.replace("http://127.0.0.1:9", "http://play.example.org")
        self.assertIn("needs https://", self.play("desk", ended=1).stderr)
