"""The write-ahead log stays small, also under full load and beside another process's snapshot."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from threading import Event
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.database.connection import Connection
from gamed.database.databases import Databases
from gamed.database.sqlite.backend import SqliteBackend
from gamed.database.sqlite.checkpoints import PASSIVE_SECONDS, Checkpointer
from gamed.database.sqlite.files import EXTERNAL_LIMIT_BYTES, WAL_LIMIT_BYTES, connect, file_uri
from tests.database.load import Load, overwrite
from tests.support.databases import InlineReactor, InlineThreads, ask, data_folder, file_databases, prepare_files
from tests.support.examples import examples
from tests.support.stores import sqlite_files

MIB = 1024 * 1024
ENOUGH_BYTES = 512 * MIB
SOAK_SECONDS = examples(few=2 * PASSIVE_SECONDS, many=60)


@sqlite_files("the write-ahead log; PostgreSQL's server has its own")
class Checkpoints(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = InlineReactor()
        self.stores = file_databases(self, inline=self.clock)
        path = self.stores.state._database.path
        assert path is not None
        self.path, self.wal = path, path.with_name("state.db-wal")

    def write(self, mib: int) -> None:
        for n in range(mib):
            self.successResultOf(self.stores.state.submit(overwrite(n % 4, MIB), MIB))

    def test_after_a_write(self) -> None:
        """Five seconds after a write the log is copied into the file."""
        small = self.path.stat().st_size
        self.write(1)
        self.assertEqual(small, self.path.stat().st_size)
        self.clock.advance(PASSIVE_SECONDS)
        self.assertGreater(self.path.stat().st_size, MIB)

    def test_while_writing(self) -> None:
        """Every 16 MiB the log is copied and begins anew: without a reader it never grows much larger."""
        self.write(200)
        self.assertLess(self.wal.stat().st_size, 32 * MIB)

    def test_refused(self) -> None:
        """Transactions that change nothing start no checkpoint, however many bytes were announced for them."""
        small = self.path.stat().st_size
        self.write(1)
        for _ in range(100):
            self.successResultOf(self.stores.state.submit(ask("SELECT 1"), MIB))
        self.assertEqual(self.path.stat().st_size, small)
        self.clock.advance(PASSIVE_SECONDS)
        self.assertGreater(self.path.stat().st_size, small)
        timers = self.clock.getDelayedCalls()
        self.successResultOf(self.stores.state.submit(ask("SELECT 1"), MIB))
        self.assertEqual(self.clock.getDelayedCalls(), timers)

    def test_released_pages(self) -> None:
        """Pages that are given back are a change, although no row is."""
        for place in range(24):
            self.successResultOf(self.stores.state.submit(overwrite(place, MIB), MIB))
        self.successResultOf(self.stores.state.submit(ask("DELETE FROM blob_part")))
        self.clock.advance(PASSIVE_SECONDS)
        large = self.path.stat().st_size
        self.assertTrue(self.successResultOf(self.stores.state.release_space()))
        self.clock.advance(PASSIVE_SECONDS)
        self.assertLess(self.path.stat().st_size, large)

    def test_snapshot_of_another(self) -> None:
        """Beside a held snapshot (a backup) the log grows and all queues go on; after it the log shrinks again."""
        with closing(connect(file_uri(self.path, "ro"))) as backup:
            backup.execute("BEGIN")
            backup.execute("SELECT * FROM blob").fetchall()
            self.write(80)
            self.assertGreater(self.wal.stat().st_size, WAL_LIMIT_BYTES)
            self.successResultOf(self.stores.reads.submit(ask("SELECT * FROM blob")))
        self.clock.advance(60)
        self.write(3)
        self.assertLessEqual(self.wal.stat().st_size, WAL_LIMIT_BYTES)

    def test_restart_is_retried_rarely(self) -> None:
        """While another process's snapshot prevents a restart, the queues do not pause for every batch."""
        stops: list[None] = []
        pause = self.stores.state.pause
        self.stores.state.pause = lambda: (stops.append(None), pause())[1]  # type: ignore[method-assign]
        with closing(connect(file_uri(self.path, "ro"))) as backup:
            backup.execute("BEGIN")
            backup.execute("SELECT * FROM blob").fetchall()
            self.write(100)
            self.assertEqual(1, len(stops))
            self.clock.advance(1)
            self.write(1)
            self.assertEqual(2, len(stops))
            self.clock.advance(1)
            self.write(20)
            self.assertEqual(2, len(stops))

    def test_cleared(self) -> None:
        """After an erasure both logs are truncated at once, without a further write."""
        self.write(1)
        self.stores.clear_logs()
        self.clock.advance(0)
        for path in (self.wal, self.path.with_name("auth.db-wal")):
            self.assertEqual(path.stat().st_size, 0, path)

    def test_cleared_after_a_snapshot(self) -> None:
        """While another process's snapshot needs the log, clearing is tried again until it succeeds."""
        self.write(1)
        with closing(connect(file_uri(self.path, "ro"))) as backup:
            backup.execute("BEGIN")
            backup.execute("SELECT * FROM blob").fetchall()
            self.write(1)
            self.stores.clear_logs()
            self.clock.pump([1] * 100)
            self.assertGreater(self.wal.stat().st_size, MIB)
        self.clock.pump([1] * 40)
        self.assertEqual(self.wal.stat().st_size, 0)
        self.write(1)
        self.clock.pump([1] * 100)
        self.assertGreater(self.wal.stat().st_size, 0)

    def test_close_empties_it(self) -> None:
        """A closed database has everything in its file and no log."""
        self.write(2)
        self.successResultOf(self.stores.close())
        self.assertFalse(self.wal.exists() and self.wal.stat().st_size)
        self.assertGreater(self.path.stat().st_size, 2 * MIB)

    def test_a_failing_disk_is_one_line(self) -> None:
        """An error of SQLite at a checkpoint is one warning without a traceback; any other error has its traceback."""
        thread = self.stores.threads[-1]
        for error, line in (
            (sqlite3.OperationalError("disk I/O error"), "checkpoint_failed database=state code=unknown"),
            (ArithmeticError("why"), "checkpoint_crashed database=state"),
        ):
            with self.subTest(line):
                self.write(1)
                thread.run = lambda work, error=error: fail(error)  # type: ignore[method-assign, assignment, misc]
                with capturedLogs() as events:
                    self.clock.advance(PASSIVE_SECONDS)
                del thread.run
                self.assertEqual([formatEvent(event) for event in events], [line])
                self.assertEqual(["log_failure" in event for event in events], [line.startswith("checkpoint_crashed")])
        self.flushLoggedErrors(ArithmeticError)

    def test_nothing_else_during_a_restart(self) -> None:
        """During a restart the queues of that file pause; the other file's writes go on."""
        stores = self.stores
        queues = (stores.reads, stores.state, stores.blobs.queue, stores.auth)
        held: list[list[int]] = []
        run = stores.threads[-1].run

        def observed(work: Callable[[sqlite3.Connection], Any]) -> Deferred[Any]:
            held.append([queue._pauses for queue in queues])
            return run(work)

        stores.threads[-1].run = observed  # type: ignore[method-assign, assignment]
        with closing(connect(file_uri(self.path, "ro"))) as backup:
            backup.execute("BEGIN")
            backup.execute("SELECT * FROM blob").fetchall()
            self.write(80)
        self.assertIn([1, 1, 1, 0], held)
        self.assertEqual([0, 0, 0, 0], [queue._pauses for queue in queues])


@sqlite_files("the write-ahead log; PostgreSQL's server has its own")
class External(SynchronousTestCase):
    """Databases whose checkpoints another program makes, with its connection."""

    def setUp(self) -> None:
        self.clock = InlineReactor()
        data = data_folder(self)
        prepare_files(data)
        backend = SqliteBackend.open(self.clock, data, "", external_checkpoints=True)
        self.stores = Databases(self.clock, backend, data, lambda: 0)
        for thread in self.stores.threads:
            thread.pool.threadpool = InlineThreads()
        self.path, self.wal = data / "state.db", data / "state.db-wal"
        self.other = connect(file_uri(self.path, "rw"))
        self.other.execute("SELECT count(*) FROM blob").fetchall()
        self.addCleanup(self.other.close)
        self.addCleanup(self.stores.close)

    def write(self, mib: int = 1) -> None:
        for n in range(mib):
            self.successResultOf(self.stores.state.submit(overwrite(n % 4, MIB), MIB))

    def logged(self) -> list[str]:
        """Write, and return what is logged; the last check was more than ten seconds ago."""
        self.clock.advance(60)
        with capturedLogs() as events:
            self.write()
        return [str(formatEvent(event)) for event in events]

    def test_no_checkpoint(self) -> None:
        """Leave everything in the log for the other program, which alone copies it into the file, also at the end."""
        small = self.path.stat().st_size
        self.write(80)
        self.stores.clear_logs()
        self.clock.advance(60)
        self.write()
        self.successResultOf(self.stores.close())
        self.assertEqual(self.path.stat().st_size, small)
        self.assertGreater(self.wal.stat().st_size, 80 * MIB)
        self.other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.assertGreater(self.path.stat().st_size, 4 * MIB)

    def test_no_other_program(self) -> None:
        """A log that no program copies is a warning: above 512 MiB, and each time when it has doubled."""
        self.assertEqual(self.logged(), [])
        os.truncate(self.wal, EXTERNAL_LIMIT_BYTES + MIB)
        self.assertEqual(self.logged(), [f"checkpoints_missing database=state bytes={EXTERNAL_LIMIT_BYTES + MIB}"])
        os.truncate(self.wal, 2 * EXTERNAL_LIMIT_BYTES)
        self.assertEqual(self.logged(), [])
        os.truncate(self.wal, 2 * EXTERNAL_LIMIT_BYTES + 3 * MIB)
        self.assertEqual(len(self.logged()), 1)

    def test_warns_again(self) -> None:
        """After the log was short again the next one that is too long is a warning."""
        for _ in range(2):
            self.write()
            os.truncate(self.wal, EXTERNAL_LIMIT_BYTES + MIB)
            self.assertEqual(len(self.logged()), 1)
            self.other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self.assertEqual(self.logged(), [])


@sqlite_files("the write-ahead log; PostgreSQL's server has its own")
class FullLoad(TestCase):
    timeout = SOAK_SECONDS + 600

    async def test_log_stays_bounded(self) -> None:
        """At full rate, with readers, the log of state.db stays under 128 MiB."""
        data = data_folder(self)
        load = Load(file_databases(self, reactor, data=data), data, reactor.seconds() + SOAK_SECONDS, ENOUGH_BYTES)
        await load.run(range(32))
        self.assertGreater(load.reads, 0)
        self.assertLess(load.largest, 128 * MIB)

    async def test_two_processes(self) -> None:
        """So it does while another process writes at full rate, too, and both write about as much."""
        data = data_folder(self)
        stores = file_databases(self, reactor, data=data)
        command = [sys.executable, "-m", "tests.database.load", str(data), str(SOAK_SECONDS)]
        other = deferToThread(subprocess.run, command, stdout=subprocess.PIPE, check=True)
        load = Load(stores, data, reactor.seconds() + SOAK_SECONDS)
        await load.run(range(32))
        figures = json.loads((await other).stdout)
        self.assertLess(max(load.largest // MIB, figures["wal_mib"]), 128)
        fewer, more = sorted((len(load.seconds), figures["writes"]))
        self.assertGreater(fewer, more / 4)


@sqlite_files("the write-ahead log; PostgreSQL's server has its own")
class ReadByWrites(TestCase):
    """The log of auth.db while writes of state.db read it."""

    async def test_cleared_beside_writes(self) -> None:
        """A truncation of the log waits for the batch that reads auth.db, and the next batch reads what was written."""
        stores = file_databases(self, reactor)
        path = stores.auth._database.path
        assert path is not None
        wal = path.with_name("auth.db-wal")
        running, ended = Event(), Event()

        def read_long(connection: Connection) -> int:
            [(before,)] = connection.auth.rows("SELECT count(*) FROM invite")
            running.set()
            ended.wait(10)
            return int(before)

        await stores.auth.submit(lambda c: c.rows("CREATE TABLE kept (number INTEGER)"))
        reading = stores.state.submit(read_long)
        await deferToThread(running.wait, 10)
        self.assertGreater(wal.stat().st_size, 0)
        stores.clear_logs()
        backend = stores._backend
        assert isinstance(backend, SqliteBackend)
        assert isinstance(backend._checkpointer, Checkpointer)
        backend._checkpointer._logs[stores.state._database].clearing = False  # it would pause the same queue
        await deferLater(reactor, 0.3)  # longer than a checkpoint tries
        self.assertGreater(wal.stat().st_size, 0)
        self.assertEqual((stores.state._pauses, stores.reads._pauses), (1, 0))
        self.assertEqual(await stores.reads.submit(lambda c: c.rows("SELECT count(*) FROM kept")), [(0,)])
        ended.set()
        self.assertEqual(await reading, 0)
        while wal.stat().st_size:
            await deferLater(reactor, 0.01)
        await stores.auth.submit(lambda c: c.rows("INSERT INTO kept VALUES (1)"))
        rows = await stores.state.submit(lambda c: c.auth.rows("SELECT number FROM kept"))
        self.assertEqual(rows, [(1,)])
