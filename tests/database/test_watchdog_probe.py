"""Whether both stores answer, asked past every lane."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.connection import AUTH, STATE, DatabaseFile
from gamed.database.errors import DatabaseCorrupt, DatabaseUnavailable
from gamed.database.health import WatchdogProbe
from gamed.database.migrations import prepare_files
from tests.support.databases import InlineReactor, InlineThreads, data_folder


class PulseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = data_folder(self)
        prepare_files(self.data)
        self.auth, self.state = DatabaseFile.at(self.data, AUTH), DatabaseFile.at(self.data, STATE)

    def watchdog_probe(self) -> WatchdogProbe:
        pulse = WatchdogProbe(InlineReactor(), self.auth, self.state)
        pulse._thread.pool.threadpool = InlineThreads()
        self.addCleanup(pulse.close)
        return pulse

    def path(self, name: str) -> Path:
        return self.data / f"{name}.db"

    def test_both_answer(self) -> None:
        """Again and again, on one connection."""
        pulse = self.watchdog_probe()
        for _ in range(3):
            self.successResultOf(pulse.ping())
        self.assertEqual(len(pulse._thread.pool.connections), 1)

    def test_one_does_not(self) -> None:
        """A store that is gone is no life, and a beat after it is back is."""
        self.path(STATE).rename(self.data / "elsewhere")
        pulse = self.watchdog_probe()
        self.failureResultOf(pulse.ping(), DatabaseUnavailable)
        (self.data / "elsewhere").rename(self.path(STATE))
        self.successResultOf(pulse.ping())

    def test_damaged(self) -> None:
        """An auth.db that is no database is no life either."""
        self.path(AUTH).write_bytes(b"no database" * 1000)
        self.failureResultOf(self.watchdog_probe().ping(), DatabaseCorrupt)

    def test_left_alone(self) -> None:
        """A state.db that was unusable at the start is not asked: to start again would not mend it."""
        self.path(STATE).unlink()
        self.state.unavailable_as = DatabaseUnavailable
        self.successResultOf(self.watchdog_probe().ping())
