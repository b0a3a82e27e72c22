"""Commands while another process does not finish its write to a database."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from signal import SIGSTOP

from tests.cli.process import CommandTestCase
from tests.support.stores import sqlite_files

PASSWORD = "correct horse battery"


@sqlite_files("lock files; tests.database.postgresql.test_transactions has PostgreSQL's locks")
class LockedTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        process, _ = self.serve()
        self.stop(process)
        command = [sys.executable, "-m", "tests.database.lock_users", "hold", str(self.data / "auth.db")]
        self.writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.writer.communicate)
        self.addCleanup(self.writer.kill)
        assert self.writer.stdout is not None
        self.writer.stdout.readline()
        os.kill(self.writer.pid, SIGSTOP)

    def test_a_stopped_writer(self) -> None:
        """Commands that write end with 1 and name the process; commands that read work; a backup is made."""
        code, listed, _ = self.gamed("players", "list")
        self.assertEqual(code, 0, listed)
        (code, made, warned), *refused = self.at_once(
            ("backup", str(self.folder / "backups"), "--json"),
            ("players", "add", "Anna", "--password-stdin"),
            ("serve", "--listen=tcp:0:interface=127.0.0.1"),
        )
        self.assertEqual(code, 0, warned)
        self.assertIn(f"auth.db could not record it: {self.data}/auth.db cannot be used now: process", warned)
        refused += [
            self.gamed(*words)
            for words in (
                ("move-data", str(self.folder / "moved")),
                ("restore", json.loads(made)["backup"]),
            )
        ]
        for code, out, err in refused:
            self.assertEqual((code, out), (1, ""), err)
            self.assertIn(f"process {self.writer.pid} has been writing to it for 5 seconds. ", err)
            self.assertIn("If that process is stopped, continue or end it. Then try again.", err)
        self.assertEqual((list(self.data.glob("*.before-*")), (self.folder / "moved").exists()), ([], False))
        self.writer.kill()
        self.assertEqual(self.gamed("players", "add", "Anna", "--password-stdin", stdin=PASSWORD)[0], 0)

    def at_once(self, *commands: Sequence[str]) -> list[tuple[int, str, str]]:
        """Run commands that may run beside each other: each waits for the database for 5 seconds."""
        with ThreadPoolExecutor() as threads:
            return list(threads.map(lambda words: self.gamed(*words, stdin=PASSWORD), commands))

    def test_locked_twice(self) -> None:
        """A command locks the files for its write alone: the next one works, and no new file is left."""
        self.writer.kill()
        before = set(os.listdir(self.data))
        for name in ("Anna", "Ben"):
            self.assertEqual(self.gamed("players", "add", name, "--password-stdin", stdin=PASSWORD)[0], 0)
        self.assertEqual(set(os.listdir(self.data)), before)
