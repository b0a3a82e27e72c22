"""Litestream copies a server's databases, and restores them, with the commands of docs/owners/postgresql.md."""

import json
import os
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.service import ROOT, START_SECONDS, STOP_SECONDS, Service
from tests.readme.test_transcript import bash
from tests.support.folders import unused_path
from tests.support.stores import sqlite_files
from tests.test_page_commands import blocks

PAGE = "docs/owners/postgresql.md"
SAVES = 200


def marked() -> list[str]:
    """Return the blocks of the page that this module runs: start the copying, restore."""
    found = blocks(PAGE, (ROOT / PAGE).read_text("utf-8"))
    return [block.text for block in found if block.how == "run by" and block.word == __name__]


def of_language(language: str) -> list[str]:
    """Return the blocks of the page in this language."""
    return [block.text for block in blocks(PAGE, (ROOT / PAGE).read_text("utf-8")) if block.language == language]


@sqlite_files("Litestream copies SQLite's files")
class LitestreamTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = unused_path(self)
        [config] = [text for text in of_language("json") if "checkpoints" in text]
        self.service = Service(self.folder, json.loads(config))
        self.addCleanup(self.service.close)
        self.service.config.with_name("game.json").write_text('{"writes_per_minute": 0}')
        self.copies = self.folder / "disk"
        [settings] = of_language("yaml")
        (self.folder / "litestream.yml").write_text(self.moved(settings))

    def moved(self, text: str) -> str:
        """Return a text of the page with the places of this test."""
        text = text.replace("/etc/litestream.yml", str(self.folder / "litestream.yml"))
        return text.replace("/var/lib/gamed", str(self.service.data)).replace("/mnt/disk", str(self.copies))

    def run_printed(self, commands: str) -> str:
        """Run commands of the page for this server; return the output."""
        places = f"--config '{self.service.config}' --data '{self.service.data}'"
        prelude = f"gamed() {{ PYTHONPATH='{ROOT}' '{sys.executable}' -m gamed {places} \"$@\"; }}\n"
        programs = f"PATH='{Path(sys.executable).parent}':$PATH\n"
        done = bash(f"{programs}{prelude}{self.moved(commands)}", self.folder)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def ask(self, method: str, path: str, token: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.service.port, timeout=START_SECONDS)
        condition = {} if body is None else {"If-None-Match": "*"}
        connection.request(method, path, body, {"Authorization": f"Bearer {token}", **condition})
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def token(self) -> str:
        return str(json.loads(self.run_printed("gamed players token anna --json"))["access_token"])

    def start_copying(self, command: str) -> "subprocess.Popen[bytes]":
        """Start Litestream until the end of the test; return when it has copied something of both files."""
        program = Path(sys.executable).with_name("litestream")
        process = subprocess.Popen(
            [program, *self.moved(command).split()[1:]],
            env={"PATH": os.environ["PATH"]},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + START_SECONDS
        while not all(list((self.copies / "litestream" / name).rglob("*.ltx")) for name in ("auth", "state")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        return process

    def test_copy_and_restore(self) -> None:
        """Saves that were written while Litestream copied are in the restored databases; every session has ended.

        The server is killed while Litestream runs. Litestream then copies the rest of the logs before it ends.
        """
        start, restore = marked()
        self.service.start()
        self.run_printed("echo 'correct horse battery' | gamed players add anna --password-stdin")
        token = self.token()
        copying = self.start_copying(start)
        for number in range(SAVES):
            self.assertEqual(self.ask("PUT", f"/game/saves/s{number}", token, b"%d" % number)[0], 201)
        self.service.kill()
        copying.terminate()
        copying.wait(STOP_SECONDS)
        self.lose_databases()
        self.run_printed(restore)
        self.service.start()
        self.assertEqual(self.ask("GET", "/game/saves/s0", token)[0], 401)
        token = self.token()
        for number in range(SAVES):
            self.assertEqual(self.ask("GET", f"/game/saves/s{number}", token), (200, b"%d" % number))

    def lose_databases(self) -> None:
        """Move the data folder away, and keep the key only, as on a new machine."""
        key = (self.service.data / "auth.key").read_bytes()
        self.service.data.rename(self.folder / "lost")
        self.service.data.mkdir(mode=0o700)
        (self.service.data / "auth.key").write_bytes(key)
        (self.service.data / "auth.key").chmod(0o600)
