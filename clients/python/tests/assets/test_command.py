"""`python -m gamed_client assets FOLDER`, and the lines of the client's page."""

import json
import os
import pty
import re
import subprocess
import sys

from clients.python.tests.assets.cases import FIRST, SECOND, AssetsCase
from tests.support.python_client import CLIENT_PATH as CLIENT
from tests.support.python_client import FOLDER
from tests.support.python_client import gamed_assets as ga
from tests.support.python_client import gamed_client as gc

SIZE = sum(map(len, FIRST.values()))


class Commands(AssetsCase):
    def run_client(self, *arguments: str, **how: object):
        command = [sys.executable, str(CLIENT), "--server", self.server, "--folder", str(self.root / "state")]
        return subprocess.run([*command, *arguments], check=False, capture_output=True, timeout=120, **how)

    def test_download(self) -> None:
        """The command prints the path of the release, and writes nothing elsewhere."""
        release = self.fake.publish(FIRST, note="1.0")
        done = self.run_client("assets", str(self.folder))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        where = self.folder / "releases" / release
        self.assertEqual(
            done.stdout.decode(), f"{release} is in {where}: 5 files, 51.3 KiB, of which 50.4 KiB were fetched.\n"
        )
        self.assert_has(FIRST)
        again = json.loads(self.run_client("--json", "assets", str(self.folder), "--verify").stdout)
        self.assertEqual((again["release"], again["note"], again["fetched"], again["size"]), (release, "1.0", 0, SIZE))
        self.fake.publish(SECOND, "beta")
        self.assertEqual(self.run_client("assets", str(self.folder), "--channel", "beta").returncode, 0)
        self.assert_has(SECOND)

    def test_offline(self) -> None:
        """The command prints the local release, and sends no request."""
        none = self.run_client("assets", str(self.folder), "--offline")
        self.assertEqual((none.returncode, none.stdout), (5, b""))
        release = self.fake.publish(FIRST)
        self.assets.download()
        asked = len(self.fake.seen)
        found = json.loads(self.run_client("--json", "assets", str(self.folder), "--offline").stdout)
        self.assertEqual((found["release"], found["fetched"], found["files"]), (release, 0, 5))
        self.assertEqual(len(self.fake.seen), asked)

    def test_refusals(self) -> None:
        """Each failure prints one sentence, and has the exit code of its kind."""
        for channel, code, word in (("none", 5, b"channel_not_found"), ("NO", 1, b"invalid_channel")):
            done = self.run_client("assets", str(self.folder), "--channel", channel)
            self.assertEqual((done.returncode, done.stdout), (code, b""))
            self.assertIn(word, done.stderr)
        self.fake.private = True
        self.assertEqual(self.run_client("assets", str(self.folder)).returncode, 3)

    def test_bar(self) -> None:
        """A terminal shows one line that fills up."""
        self.fake.publish(FIRST)
        near, far = pty.openpty()
        command = [sys.executable, str(CLIENT), "--server", self.server, "assets", str(self.folder)]
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=far, timeout=120)
        os.close(far)
        shown = os.read(near, 1 << 16).decode()
        os.close(near)
        self.assertEqual(done.returncode, 0, shown)
        self.assertTrue(shown.endswith("finishing [####################] 100%  51.3 KiB of 51.3 KiB\r\n"), repr(shown))

    def test_line(self) -> None:
        progress = ga.Progress("fetching", "r0123456789abcdef", 3 << 20, 12 << 20, 2 << 20)
        line = "fetching  [#####...............]  25%  3.0 MiB of 12.0 MiB  1.0 MiB/s"
        self.assertEqual(ga.Bar().line(progress, 2.0), line)
        self.assertEqual(
            [ga.shown_bytes(size) for size in (0, 999, 1000, 5 << 40)], ["0 bytes", "999 bytes", "1.0 KiB", "5.0 TiB"]
        )

    def test_page(self) -> None:
        """Each command line on the client's page is valid."""
        lines = re.findall(r"(?m)^python -m gamed_client (.+)$", (FOLDER / "README.md").read_text("utf-8"))
        commands = [gc.parser().parse_args(line.split()).command for line in lines]
        self.assertEqual(commands, ["login", "save", "account", "account", "sync", "assets"])
