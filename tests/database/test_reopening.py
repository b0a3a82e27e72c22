"""Databases that could not be opened or written are used as soon as they can be, without a restart."""

import sqlite3
import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.errors import DatabaseReadOnly, DatabaseUnavailable
from gamed.database.sqlite.backend import RETRY_SECONDS
from tests.database.test_databases import insert_player, list_players
from tests.database.test_queues import arrivals, arrive
from tests.support.databases import InlineReactor, InlineThreads, data_folder, file_databases, prepare_files
from tests.support.stores import sqlite_files


@sqlite_files("a missing file; tests.database.postgresql has PostgreSQL's failures")
class Unavailable(SynchronousTestCase):
    """A state.db that could not be opened at the start."""

    def setUp(self) -> None:
        self.clock = InlineReactor()
        self.data = data_folder(self)
        prepare_files(self.data)
        self.path, self.away = self.data / "state.db", self.data / "away"
        self.path.rename(self.away)
        self.path.mkdir()
        self.stores = file_databases(self, data=self.data, inline=self.clock)
        self.flushLoggedErrors()
        self.failureResultOf(self.stores.reads.submit(list_players), DatabaseUnavailable)
        self.failureResultOf(self.stores.state.submit(insert_player), DatabaseUnavailable)

    def wait(self) -> list[str]:
        """Return the lines of the log until the next attempt is over."""
        with capturedLogs() as events:
            self.clock.advance(RETRY_SECONDS)
        return [str(formatEvent(event)) for event in events]

    def test_opened_later(self) -> None:
        """Once the file is there its rows are read, written and checkpointed, and the log says so once."""
        self.assertEqual(self.wait(), [])
        self.path.rmdir()
        self.away.rename(self.path)
        self.assertEqual(self.wait(), ["database_available database=state"])
        self.assertEqual(self.wait(), [])
        self.assertEqual(self.successResultOf(self.stores.state.submit(insert_player)), 1)
        self.assertEqual(self.successResultOf(self.stores.reads.submit(list_players)), [("p",)])
        self.assertEqual(self.successResultOf(self.stores.blobs.append("p", BytesIO(b"bytes"))), 1)
        self.successResultOf(self.stores.check())
        self.successResultOf(self.stores.close())
        self.assertFalse((self.data / "state.db-wal").exists())

    def test_still_damaged(self) -> None:
        """A file that no start would use stays unavailable, untouched and without a line in the log each time."""
        self.path.rmdir()
        self.path.write_bytes(b"not a database " * 1000)
        self.assertEqual(self.wait() + self.wait(), [])
        self.assertEqual(self.path.read_bytes(), b"not a database " * 1000)
        self.failureResultOf(self.stores.check(), DatabaseUnavailable)
        self.assertEqual(self.successResultOf(self.stores.auth.submit(arrive(1))), 1)
        self.assertEqual(self.successResultOf(self.stores.reads.submit(arrivals)), [1])

    def test_missing(self) -> None:
        """A missing file is not created while the service runs: the operator may be about to restore it."""
        self.path.rmdir()
        self.wait()
        self.assertFalse(self.path.exists())
        self.failureResultOf(self.stores.state.submit(insert_player), DatabaseUnavailable)

    def test_watchdog_probe(self) -> None:
        """The watchdog probe checks state.db, too, once it is open."""
        probe = self.stores.watchdog_probe()
        probe._thread.pool.threadpool = InlineThreads()
        self.addCleanup(probe.close)
        self.successResultOf(probe.ping())
        self.path.rmdir()
        self.away.rename(self.path)
        self.wait()
        self.successResultOf(probe.ping())
        self.assertEqual(
            [name for _, name, _ in self.successResultOf(probe._thread.run(databases))],
            ["main", "state"],
        )


def databases(connection: sqlite3.Connection) -> list[tuple[int, str, str]]:
    return connection.execute("PRAGMA database_list").fetchall()


@sqlite_files("a file system that is read-only")
class ReadOnly(SynchronousTestCase):
    """Databases whose files could only be read when they were opened."""

    def setUp(self) -> None:
        self.data = data_folder(self)
        prepare_files(self.data)
        for path in self.files:
            mount("--bind", str(path), str(path))
            self.addCleanup(subprocess.run, ["umount", "--lazy", str(path)], check=True)
            mount("-o", "remount,bind,ro", str(path))
        self.stores = file_databases(self, data=self.data)

    @property
    def files(self) -> list[Path]:
        return [self.data / "auth.db", self.data / "state.db"]

    def test_written_later(self) -> None:
        """A write fails with the reason; once the files can be written, all writes work."""
        for _ in range(2):
            for write in self.writes():
                error = self.failureResultOf(write, DatabaseReadOnly).value
                self.assertIn("make it writable", str(error))
            self.assertEqual(self.successResultOf(self.stores.reads.submit(arrivals)), [])
        for path in self.files:
            mount("-o", "remount,bind,rw", str(path))
        for write in self.writes():
            self.assertEqual(self.successResultOf(write), 1)
        self.assertEqual(self.successResultOf(self.stores.reads.submit(arrivals)), [1])
        self.successResultOf(self.stores.close())
        self.assertFalse((self.data / "auth.db-wal").exists())
        self.assertEqual(self.flushLoggedErrors(), [])

    def writes(self) -> Iterator[Deferred[int]]:
        yield self.stores.auth.submit(arrive(1))
        yield self.stores.state.submit(insert_player)
        yield self.stores.blobs.append("p", BytesIO(b"bytes"))


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
