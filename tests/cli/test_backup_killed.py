"""kill -9 at every step of a restore: the stores are all as they were, or all the backup's, never one of each."""

import shutil
from contextlib import closing
from pathlib import Path

from gamed.cli.data import backup, restore_journal
from gamed.cli.data.restore import replace_databases
from gamed.cli.errors import SetupError
from gamed.cli.paths import Paths
from gamed.database.sqlite.files import connect, file_uri
from tests.cli.backup_helpers import BackupCase, killed_at_step, put, rows
from tests.sessions.fixtures import ANNA, BERT
from tests.support.covers import covers
from tests.support.stores import sqlite_files

OLD, NEW = ([ANNA, BERT], ["auto", "later"]), ([ANNA], ["auto"])


@covers("threats/54")
@sqlite_files("files that are renamed; tests.cli.test_postgresql_backup has PostgreSQL's restore")
class KilledTests(BackupCase):
    def setUp(self) -> None:
        """Leave the changes after the backup in the WAL files alone, as a killed server does."""
        super().setUp()
        self.made = backup.read(self.back_up().path)
        self.before = self.folder / "before"
        with closing(connect(file_uri(self.data / "state.db", "rw"))) as state:
            put(state, "later", b"two")
            with closing(connect(file_uri(self.data / "auth.db", "rw"))) as auth:
                auth.execute("PRAGMA wal_autocheckpoint = 0")
                auth.execute(f"INSERT INTO player (player_id, state, created_ms) VALUES ('{BERT}', 'active', 1)")
                shutil.copytree(self.data, self.before)
        self.assertTrue((self.before / "auth.db-wal").stat().st_size and (self.before / "state.db-wal").stat().st_size)

    def fresh(self, step: int) -> Paths:
        where = Paths(self.where.config, self.folder / f"data{step}")
        shutil.copytree(self.before, where.data)
        return where

    def test_every_step(self) -> None:
        """The next process finds everything unchanged, or finishes the restore; previous files stay."""
        found: list[tuple[list[str], list[str]]] = []
        step = 1
        while True:
            where = self.fresh(step)
            died = killed_at_step(lambda where=where: replace_databases(self.made, where, "uid:7"), where.data, step)
            if restore_journal.unfinished(where.data) is not None:
                with self.assertRaises(SetupError):
                    restore_journal.refuse_unfinished(where.data)
            restore_journal.recover(where.data)
            self.assertFalse((where.data / restore_journal.STAGED).exists())
            found.append(contents(where.data))
            if found[-1] == NEW:
                self.assertEqual(contents(where.data, next(where.data.glob("auth.db.before-*")).name[7:]), OLD)
            if not died:
                break
            shutil.rmtree(where.data)
            step += 1
        self.assertEqual(found, sorted(found, key=lambda each: each == NEW))
        self.assertGreater(found.count(OLD), 10)
        self.assertGreater(found.count(NEW), 10)

    def test_killed_again(self) -> None:
        """Bringing it to its end may itself be cut off, at every step, and goes on from there."""
        where = self.fresh(0)
        step = 1
        while restore_journal.unfinished(where.data) is None:
            if where.data.exists():
                shutil.rmtree(where.data)
            shutil.copytree(self.before, where.data)
            self.assertTrue(killed_at_step(lambda: replace_databases(self.made, where, "uid:7"), where.data, step))
            step += 1
        deaths = 0
        while (cut_off := restore_journal.unfinished(where.data)) is not None:
            # a step more each time: the first ones of each try are looks at what was done before
            deaths += killed_at_step(
                lambda cut_off=cut_off: restore_journal.finish(where.data, cut_off), where.data, deaths + 1
            )
        self.assertGreater(deaths, 3)
        self.assertEqual(contents(where.data), NEW)
        self.assertEqual(contents(where.data, next(where.data.glob("auth.db.before-*")).name[7:]), OLD)


def contents(data: Path, suffix: str = "") -> tuple[list[str], list[str]]:
    """Return players and slots; with a log of another file beside them, SQLite would return others or an error."""
    queries = (("auth.db", "SELECT player_id FROM player ORDER BY 1"), ("state.db", "SELECT slot FROM save ORDER BY 1"))
    players, slots = ([str(value) for (value,) in rows(data / f"{name}{suffix}", sql)] for name, sql in queries)
    return players, slots
