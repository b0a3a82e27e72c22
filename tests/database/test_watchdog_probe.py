"""The watchdog probe checks both databases past every queue."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.connection import AUTH, STATE
from gamed.database.errors import DatabaseCorrupt, DatabaseUnavailable
from gamed.database.health import WatchdogProbe
from gamed.database.sqlite.engine import SqliteReadEngine
from gamed.database.sqlite.files import DatabaseFile
from tests.support.databases import InlineReactor, InlineThreads, data_folder, prepare_files
from tests.support.stores import sqlite_files


@sqlite_files("files that are moved and damaged")
class WatchdogProbeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = data_folder(self)
        prepare_files(self.data)
        self.auth, self.state = DatabaseFile.at(self.data, AUTH), DatabaseFile.at(self.data, STATE)

    def watchdog_probe(self) -> WatchdogProbe:
        probe = WatchdogProbe(InlineReactor(), SqliteReadEngine(self.auth, self.state), self.state)
        probe._thread.pool.threadpool = InlineThreads()
        self.addCleanup(probe.close)
        return probe

    def path(self, name: str) -> Path:
        return self.data / f"{name}.db"

    def test_both_answer(self) -> None:
        """Every ping succeeds, on one connection."""
        probe = self.watchdog_probe()
        for _ in range(3):
            self.successResultOf(probe.ping())
        self.assertEqual(len(probe._thread.pool.connections), 1)

    def test_one_does_not(self) -> None:
        """A ping fails while a file is missing, and succeeds when it is back."""
        self.path(STATE).rename(self.data / "elsewhere")
        probe = self.watchdog_probe()
        self.failureResultOf(probe.ping(), DatabaseUnavailable)
        (self.data / "elsewhere").rename(self.path(STATE))
        self.successResultOf(probe.ping())

    def test_damaged(self) -> None:
        """A ping fails if auth.db is not a database."""
        self.path(AUTH).write_bytes(b"no database" * 1000)
        self.failureResultOf(self.watchdog_probe().ping(), DatabaseCorrupt)

    def test_left_alone(self) -> None:
        """A state.db that was unavailable at the start is left out: a restart would not repair it."""
        self.path(STATE).unlink()
        self.state.unavailable_as = DatabaseUnavailable
        self.successResultOf(self.watchdog_probe().ping())
