"""A backup put in the place of the stores: no player is signed in, a blocked one stays blocked, nothing is deleted."""

import shutil
import sys
from io import StringIO
from pathlib import Path

from gamed.cli.data import backup
from gamed.cli.data.restore import RestoreResult, replace_databases
from gamed.cli.errors import CommandFailed
from gamed.cli.paths import FIRST_RUN, Paths
from gamed.database.connection import Connection
from gamed.database.sqlite import migrations
from gamed.database.sqlite.files import APPLICATION_ID
from gamed.sessions import tables as session_tables
from gamed.sessions.errors import SessionRevoked
from tests.cli.backup_helpers import BackupCase, rows
from tests.sessions.fixtures import ANNA, BERT, NOW_MS
from tests.support.covers import covers
from tests.support.databases import ask, data_folder, prepare_files, unlogged_commands
from tests.support.stores import sqlite_files

EPOCH = "SELECT epoch FROM player_saves"


@sqlite_files("copies of its files; tests.cli.test_postgresql_backup has PostgreSQL's dumps")
class RestoreCase(BackupCase):
    def setUp(self) -> None:
        super().setUp()
        self.made = self.back_up().path
        self.change_after_backup()

    def restore(self, path: Path | None = None) -> RestoreResult:
        return replace_databases(backup.read(path or self.made), self.where, "uid:7")


class RoundTripTests(RestoreCase):
    def test_both_stores(self) -> None:
        """Restore the content of the backup; set later content aside, where it can be read."""
        self.assertEqual(self.slots(), ["auto", "later"])
        done = self.restore()
        self.assertEqual((self.players(), self.slots()), ([(ANNA, "active")], ["auto"]))
        auth, state = (path.name for path in done.aside)
        self.assertRegex(auth, r"^auth\.db\.before-restore-\d{8}T\d{6}Z$")
        self.assertEqual([player for player, _ in self.players(auth)], [ANNA, BERT])
        self.assertEqual(self.slots(state), ["auto", "later"])
        left = {path.name for path in self.data.iterdir()}
        self.assertEqual(left, {"auth.db", "auth.db.lock", "state.db", "state.db.lock", "auth.key", auth, state})
        self.assertEqual((self.data / "auth.db").stat().st_mode & 0o777, 0o600)
        prepare_files(self.data)
        self.assertEqual(self.slots(), ["auto"])

    def test_twice(self) -> None:
        """Keep the files that a first restore set aside when there is a second."""
        first, second = self.restore().aside, self.restore().aside
        self.assertEqual(len({*first, *second}), 4)
        self.assertEqual(self.slots(first[1].name), ["auto", "later"])
        self.assertEqual(self.slots(second[1].name), ["auto"])

    @covers("threats/62")
    def test_sessions_end(self) -> None:
        """Access tokens and refresh credentials of the backup open nothing, and say why; no sign-in is under way."""
        self.assertEqual(self.restore().sessions, 1)

        def unit(connection: Connection) -> None:
            with self.assertRaises(SessionRevoked):
                session_tables.authenticate(connection, self.keys.indexer, self.pair.access, NOW_MS)

        self.auth(unit)
        self.assertEqual(self.auth(ask("SELECT count(*) FROM login")), [(0,)])
        self.assertEqual(self.auth(unlogged_commands), [("restore", None, "uid:7")])

    def test_new_epochs(self) -> None:
        """The saves of each player get a new epoch, which no device knows."""
        before = rows(self.data / "state.db", EPOCH)
        self.restore()
        [(after,)] = rows(self.data / "state.db", EPOCH)
        self.assertNotIn((after,), before)
        self.assertRegex(str(after), r"^[A-Za-z0-9_-]{8}$")

    def test_one_store(self) -> None:
        """One store alone comes back, the other stays as it is, sessions too."""
        self.restore(self.made / "state.db")
        self.assertEqual(self.slots(), ["auto"])
        self.assertEqual(len(self.players()), 2)
        self.assertEqual(self.auth(ask("SELECT count(*) FROM session WHERE revoked_ms IS NULL")), [(2,)])

    def test_new_machine(self) -> None:
        """Where nothing is, configuration and stores come out of the backup."""
        new = data_folder(self)
        where = Paths(new / "etc" / "authentication.json", new / "data")
        where.data.mkdir()
        done = replace_databases(backup.read(self.made), where, "uid:7")
        self.assertEqual((done.aside, done.settings, done.kept), ((), (where.config,), ()))
        self.assertEqual(where.config.read_text(), FIRST_RUN)
        self.assertEqual(len(rows(where.data / "auth.db", "SELECT 1 FROM player")), 1)

    def test_configuration_stays(self) -> None:
        """A configuration that was changed since is the owner's newer word."""
        self.where.config.write_text('{"mode": "local"}')
        self.assertEqual(self.restore().kept, (self.where.config,))
        self.assertEqual(self.where.config.read_text(), '{"mode": "local"}')


@covers("threats/62")
class BlockTests(RestoreCase):
    def block(self, player_id: str) -> None:
        self.auth(ask(f"UPDATE player SET state = 'blocked' WHERE player_id = '{player_id}'"))

    def link(self, player_id: str) -> None:
        self.auth(ask(f"INSERT INTO identity VALUES (x'01', '{player_id}', 'discord', x'00', 1, 1)"))

    def test_kept(self) -> None:
        """Keep players blocked who are blocked now, also those newer than the backup, with their identities."""
        self.link(BERT)
        self.block(ANNA)
        self.block(BERT)
        self.assertEqual(self.restore().blocked, 2)
        self.assertEqual(self.players(), [(ANNA, "blocked"), (BERT, "blocked")])
        self.assertEqual(self.auth(ask("SELECT player_id FROM identity")), [(BERT,)])

    def test_approval_is_kept(self) -> None:
        """Keep the approval of a blocked player as the replaced database had it."""
        self.auth(ask(f"UPDATE player SET approved = 0 WHERE player_id = '{BERT}'"))
        self.block(ANNA)
        self.block(BERT)
        made = self.back_up(NOW_MS + 5000).path
        self.auth(ask("UPDATE player SET approved = 1 - approved"))
        for folder in (self.made, made):
            self.restore(folder)
            found = self.auth(ask("SELECT player_id, approved FROM player ORDER BY player_id"))
            self.assertEqual(found, [(ANNA, 0), (BERT, 1)])

    def test_blocked_then(self) -> None:
        """Block players again who were blocked when the backup was made."""
        self.block(ANNA)
        made = self.back_up(NOW_MS + 5000).path
        self.auth(ask("UPDATE player SET state = 'active'"))
        self.assertEqual(self.restore(made).blocked, 0)
        self.assertIn((ANNA, "blocked"), self.players())

    def test_another_key(self) -> None:
        """Rows of another key say nothing here: the block is kept by the player's id alone."""
        self.block(ANNA)
        self.block(BERT)
        self.auth(ask("UPDATE key_record SET check_value = x'00'"))
        self.assertEqual(self.restore().blocked, 1)
        self.assertEqual(self.players(), [(ANNA, "blocked")])

    def test_damaged_file(self) -> None:
        """A store that cannot be read is what a restore is for: it is set aside as it is."""
        (self.data / "auth.db").write_bytes(b"something else" * 1000)
        self.patch(sys, "stderr", heard := StringIO())
        done = self.restore()
        self.assertIn("cannot be read", heard.getvalue())
        self.assertEqual(done.aside[0].read_bytes(), b"something else" * 1000)
        self.assertEqual(self.players(), [(ANNA, "active")])


class LeftAloneTests(RestoreCase):
    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.data.iterdir() if path.is_file()}

    def test_backup_that_changes(self) -> None:
        """A copy that is not any more what was examined leaves the stores as they were."""
        examined, before = backup.read(self.made), self.contents()
        (self.made / "state.db").write_bytes(b"something else")
        with self.assertRaises(CommandFailed):
            replace_databases(examined, self.where, "uid:7")
        self.assertEqual(self.contents(), before)
        self.assertFalse((self.data / "restore.new").exists())

    def test_log_of_a_store_in_use(self) -> None:
        """A log beside the present store goes along with it: beside another file it would ruin that."""
        for beside in ("-wal", "-shm"):
            (self.data / f"state.db{beside}").write_bytes(b"left")
        done = self.restore()
        self.assertEqual([path.name for path in self.data.glob("state.db-*")], [])
        self.assertEqual((self.data / f"{done.aside[1].name}-wal").read_bytes(), b"left")


NUMBERS = {name: len(migrations.scripts_in(migrations.schema_folder(name))) for name in APPLICATION_ID}
"""The present number of each schema."""


@sqlite_files("the copies of its files before a migration; PostgreSQL has backups alone")
class MigrationTests(BackupCase):
    """Schemas of a version to come, which adds a column to each store."""

    def setUp(self) -> None:
        super().setUp()
        newer = data_folder(self)
        for name in APPLICATION_ID:
            shutil.copytree(migrations.schema_folder(name), newer / name)
            (newer / name / f"{NUMBERS[name] + 1:03}_more.sql").write_text(
                f"CREATE TABLE more_{name} (n INTEGER) STRICT;"
            )
        self.versions = {"old": migrations.SCHEMAS, "new": newer}
        self.shown: list[str] = []

    def upgrade(self) -> None:
        self.patch(migrations, "SCHEMAS", self.versions["new"])
        prepare_files(self.data, self.shown.append)

    def restore(self, path: Path) -> RestoreResult:
        return replace_databases(backup.read(path), self.where, "uid:7")

    def test_back_to_the_version_before(self) -> None:
        """The copies that were made before an upgrade are what the old version restores; blocks are kept even so."""
        self.upgrade()
        self.change_after_backup()
        self.auth(ask(f"UPDATE player SET state = 'blocked' WHERE player_id = '{BERT}'"))
        commands = [line.rpartition("gamed ")[2] for line in self.shown if "restore" in line]
        self.assertEqual(
            commands, [f"--data {self.data} restore {self.data / name}.db.v{NUMBERS[name]}" for name in APPLICATION_ID]
        )
        self.patch(migrations, "SCHEMAS", self.versions["old"])
        for name in APPLICATION_ID:
            self.restore(self.data / f"{name}.db.v{NUMBERS[name]}")
        prepare_files(self.data)
        self.assertEqual((self.players(), self.slots()), ([(ANNA, "active"), (BERT, "blocked")], ["auto"]))
        self.assertEqual(rows(self.data / "state.db", "PRAGMA user_version"), [(NUMBERS["state"],)])

    def test_backup_of_the_version_before(self) -> None:
        """A newer version takes an older one's backup up to its own schema."""
        made = self.back_up().path
        self.upgrade()
        self.restore(made)
        self.assertEqual(rows(self.data / "state.db", "PRAGMA user_version"), [(NUMBERS["state"] + 1,)])
        self.assertEqual(self.slots(), ["auto"])

    def test_backup_of_a_newer_version(self) -> None:
        """An older version leaves a newer one's backup alone."""
        self.upgrade()
        made = self.back_up().path
        self.patch(migrations, "SCHEMAS", self.versions["old"])
        with self.assertRaises(backup.BackupError) as caught:
            backup.read(made)
        self.assertIn("newer gamed", str(caught.exception))
