"""A folder in place of a database is named as what it is, by each command that opens it and by the start."""

import shutil
import time

from tests.cli.process import GAMED, WAIT_SECONDS, CommandTestCase, free_port, get
from tests.support.stores import sqlite_files

COMMANDS = {
    "auth": (
        ("players", "list"),
        ("players", "show", "anna"),
        ("players", "find", "--provider", "discord", "--subject", "1"),
        ("players", "add", "ben", "--password-stdin"),
        ("players", "invite"),
        ("players", "invites"),
        ("players", "token", "anna"),
        ("players", "note", "anna"),
        ("sessions", "list"),
        ("sessions", "revoke", "anna"),
        ("owner", "show"),
        ("owner", "reset"),
        ("events",),
        ("key", "fingerprint"),
        ("serve", "--listen=tcp:0:interface=127.0.0.1"),
    ),
    "state": (
        ("players", "erase", "anna", "--yes"),
        ("saves", "list", "anna"),
        ("saves", "versions", "anna", "auto"),
        ("saves", "restore", "anna", "auto", "1"),
        ("saves", "undelete", "anna", "auto"),
        ("saves", "export", "anna", "saves.zip"),
        ("saves", "erase", "anna", "--yes"),
        ("saves", "stats"),
    ),
}
"""Commands that open only one of the databases."""
BOTH = (
    ("check", "data"),
    ("check", "data", "--fix"),
    ("backup", "copies"),
    ("restored",),
    ("doctor",),
)


@sqlite_files("folders in place of files")
class FolderTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        process, _ = self.serve()
        self.gamed("players", "add", "anna", "--password-stdin", stdin="correct horse")
        (self.folder / "copies").mkdir()
        self.stop(process)

    def replace(self, database: str) -> None:
        """Put a folder in place of a database, whose files are kept."""
        path = self.data / f"{database}.db"
        path.rename(self.folder / path.name)
        path.mkdir()

    def put_back(self, database: str) -> None:
        path = self.data / f"{database}.db"
        shutil.rmtree(path)
        (self.folder / path.name).rename(path)

    def test_commands(self) -> None:
        """Each command that opens it says that it is a folder and what to do, and changes nothing."""
        for database, commands in COMMANDS.items():
            self.replace(database)
            before = self.files()
            move = ("move-data", str(self.folder / "new"))
            for command in (*commands, *BOTH, move):
                code, out, err = self.gamed(*command, stdin="battery staple")
                text = out + err
                self.assertIn(code, (1, 78), command)
                self.assertIn(
                    f"{database}.db is a folder, not a database file. Move it away, then restore ", text, command
                )
                self.assertNotRegex(text, "does not exist|I/O error|Traceback|chmod|\\.\\. ", command)
            self.assertEqual({path for path in self.files() - before if not path.name.endswith(".lock")}, set())
            self.put_back(database)

    def test_serving(self) -> None:
        """A service serves sign-ins without state.db, and its log says what is in its place."""
        self.replace("state")
        port = free_port()
        process = self.start(*GAMED, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        deadline = time.monotonic() + WAIT_SECONDS
        while " service_started " not in self.output() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(get(port, "/auth/config")[0], 200)
        self.assertIn("state.db is a folder, not a database file", self.output())
        self.assertNotIn("unable to open", self.output())
        self.stop(process)

    def test_restored_backup(self) -> None:
        """A restore sets the folder aside, and warns that it cannot read who was blocked."""
        self.gamed("backup", "copies")
        [backup] = (self.folder / "copies").iterdir()
        self.replace("auth")
        code, _, err = self.gamed("restore", str(backup))
        self.assertEqual(code, 0, err)
        self.assertIn("auth.db is a folder, not a database file", err)
        self.assertEqual(self.gamed("players", "show", "anna")[0], 0)
