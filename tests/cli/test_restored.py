"""A restore that other tools made is finished: no session and no version of a save exists twice."""

import json
from pathlib import Path

from gamed.cli.service.folder_lock import Lock
from gamed.database.connection import Connection
from gamed.sessions import tables as session_tables
from gamed.sessions.errors import SessionRevoked
from tests.cli.backup_helpers import BackupCase, command, rows
from tests.sessions.fixtures import ANNA, NOW_MS
from tests.support.covers import covers
from tests.support.databases import ask, unlogged_commands
from tests.support.stores import sqlite_files

EPOCH = "SELECT epoch FROM player_saves"


@sqlite_files("copies of its files; tests.cli.test_postgresql_backup has PostgreSQL's command")
class RestoredTests(BackupCase):
    def setUp(self) -> None:
        super().setUp()
        made = self.back_up().path
        self.change_after_backup()
        for name in ("auth.db", "state.db"):  # as Litestream does
            (self.data / name).write_bytes((made / name).read_bytes())

    def gamed(self, *arguments: str) -> tuple[int, str, str]:
        places = ("--config", str(self.where.config), "--data", str(self.data))
        return command(Path(self.mktemp()), {}, *places, *arguments)

    @covers("threats/70")
    def test_sessions_and_saves(self) -> None:
        """Every session ends, the saves of each player get a new epoch, and the log has the command."""
        before = rows(self.data / "state.db", EPOCH)
        code, out, err = self.gamed("restored", "--json")
        self.assertEqual((code, json.loads(out), err), (0, {"sessions_ended": 1}, ""))

        def check(connection: Connection) -> None:
            with self.assertRaises(SessionRevoked):
                session_tables.authenticate(connection, self.keys.indexer, self.pair.access, NOW_MS)

        self.auth(check)
        self.assertEqual([command for command, *_ in self.auth(unlogged_commands)], ["restored"])
        self.assertNotEqual(rows(self.data / "state.db", EPOCH), before)
        self.assertEqual((self.players(), self.slots()), ([(ANNA, "active")], ["auto"]))

    def test_twice(self) -> None:
        """A second call ends no further session."""
        self.gamed("restored")
        code, out, _ = self.gamed("restored")
        self.assertEqual(code, 0)
        self.assertIn("0 sessions ended. Every player must sign in again.", out)

    def test_beside_a_server(self) -> None:
        """While a server uses the folder nothing changes."""
        lock = Lock.acquire(self.data, "gamed serve")
        code, _, err = self.gamed("restored")
        lock.release()
        self.assertEqual(code, 1)
        self.assertIn(f"A gamed serves {self.data}", err)
        self.assertEqual(self.auth(ask("SELECT count(*) FROM session WHERE revoked_ms IS NULL")), [(1,)])

    def test_nothing_there(self) -> None:
        """A folder without databases is an error, and stays empty."""
        for path in self.data.iterdir():
            path.unlink()
        code, _, err = self.gamed("restored")
        self.assertEqual(code, 1)
        self.assertIn("There is no auth.db", err)
        self.assertEqual(list(self.data.iterdir()), [])
