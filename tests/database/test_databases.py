"""Both stores from open to close: what fails alone, what is noticed from outside."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.database.connection import connect, file_uri
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseBusy, DatabaseCorrupt, DatabaseError, DatabaseUnavailable
from gamed.database.migrations import prepare_files
from tests.database.test_queues import arrivals, arrive
from tests.support.covers import covers
from tests.support.databases import InlineReactor, ask, data_folder, file_databases, memory_databases

OUTSIDER = """
import sys
from pathlib import Path
from gamed.database.offline import run_transaction
run_transaction(Path(sys.argv[1]), lambda c: c.execute(sys.argv[2]).rowcount)
"""


def from_outside(path: Path, sql: str) -> None:
    """A write of another process."""
    subprocess.run([sys.executable, "-c", OUTSIDER, str(path), sql], check=True, cwd=Path(__file__).parents[2])


shelves = ask("SELECT player_id FROM player_saves")


def shelve(connection: sqlite3.Connection) -> int:
    return connection.execute("INSERT INTO player_saves (player_id, epoch) VALUES ('p', 'e')").rowcount


@covers("1/12")
class StateUnavailable(SynchronousTestCase):
    def broken(self, content: bytes) -> Databases:
        """Stores of a folder whose state.db holds this."""
        data = data_folder(self)
        prepare_files(data)
        (data / "state.db").write_bytes(content)
        for left in ("state.db-wal", "state.db-shm"):
            (data / left).unlink(missing_ok=True)
        stores = file_databases(self, data=data)
        self.flushLoggedErrors()
        return stores

    def check(self, stores: Databases) -> None:
        self.assertFalse(stores.state_available)
        self.failureResultOf(stores.state.submit(shelve), DatabaseUnavailable)
        self.failureResultOf(stores.reads.submit(shelves), DatabaseUnavailable)
        self.failureResultOf(stores.blobs.fetch(1), DatabaseUnavailable)
        self.failureResultOf(stores.blobs.discard(1), DatabaseUnavailable)
        self.failureResultOf(stores.check(), DatabaseUnavailable)
        self.assertEqual(1, self.successResultOf(stores.auth.submit(arrive(1))))
        self.assertEqual([1], self.successResultOf(stores.reads.submit(arrivals)))
        self.successResultOf(stores.close())

    def test_no_database(self) -> None:
        """A state.db of other bytes: signing in works, saves are unavailable, the file is left as it is."""
        stores = self.broken(b"not a database " * 1000)
        self.check(stores)
        path = stores.state._file.path
        assert path is not None
        self.assertEqual(b"not a database " * 1000, path.read_bytes())

    def test_torn(self) -> None:
        """The same when its second half is missing."""
        data = data_folder(self)
        prepare_files(data)
        whole = (data / "state.db").read_bytes()
        self.check(self.broken(whole[: len(whole) // 2]))

    def test_unreadable(self) -> None:
        """The same when it is a folder."""
        data = data_folder(self)
        prepare_files(data)
        (data / "state.db").unlink()
        (data / "state.db").mkdir()
        self.check(file_databases(self, data=data))

    def test_own_mistakes_stay_visible(self) -> None:
        """A table that no store has is not excused by a missing store, as long as both are there."""
        stores = file_databases(self)
        self.failureResultOf(stores.reads.submit(ask("SELECT * FROM nowhere")), sqlite3.OperationalError)

    @covers("1/13")
    def test_missing_state_is_made(self) -> None:
        """Deleting state.db deletes saves, nothing else: the next start makes it anew."""
        data = data_folder(self)
        stores = file_databases(self, data=data)
        self.successResultOf(stores.auth.submit(arrive(1)))
        self.successResultOf(stores.state.submit(shelve))
        self.successResultOf(stores.close())
        (data / "state.db").unlink()
        stores = file_databases(self, data=data)
        self.assertEqual([], self.successResultOf(stores.reads.submit(shelves)))
        self.assertEqual([1], self.successResultOf(stores.reads.submit(arrivals)))

    def test_auth_is_needed(self) -> None:
        """Without a readable auth.db nothing opens."""
        data = data_folder(self)
        prepare_files(data)
        (data / "auth.db").write_bytes(b"not a database " * 1000)
        with self.assertRaises(DatabaseUnavailable):
            Databases.open(InlineReactor(), data, lambda: 0)
        with self.assertRaises(DatabaseError):
            prepare_files(data)


class Opened(SynchronousTestCase):
    def test_nothing_runs_before_the_reactor(self) -> None:
        """Opening holds no connection and starts no thread, so the process may still fork."""
        data = data_folder(self)
        prepare_files(data)
        stores = Databases.open(InlineReactor(), data, lambda: 0)
        for worker in stores.threads:
            self.assertFalse(worker.started)
            self.assertEqual({}, worker.pool.connections)
            self.assertEqual([], worker.pool.threadpool.threads)
        self.assertFalse((data / "auth.db-wal").exists())
        self.successResultOf(stores.close())

    def test_every_connection(self) -> None:
        """Every lane's connection is durable, checks references, waits its turn and never checkpoints in a commit."""
        expected = {
            "synchronous": 2,
            "foreign_keys": 1,
            "busy_timeout": 5000,
            "trusted_schema": 0,
            "secure_delete": 1,
            "journal_size_limit": 67108864,
            "wal_autocheckpoint": 0,
            "temp_store": 2,
            "journal_mode": "wal",
            "page_size": 4096,
            "auto_vacuum": 2,
        }
        stores = file_databases(self)
        for worker in stores.threads:
            found = self.successResultOf(
                worker.run(lambda c: {name: c.execute(f"PRAGMA {name}").fetchone()[0] for name in expected})
            )
            self.assertEqual(expected, found)

    def test_pages_kept(self) -> None:
        """A write lane keeps 16 MiB of its file's pages in memory."""
        stores = file_databases(self)
        for lane in (stores.auth, stores.state):
            self.assertEqual([(-16 * 1024,)], self.successResultOf(lane.submit(ask("PRAGMA cache_size"))))

    def test_reads_cannot_write(self) -> None:
        """The read lane refuses to write either file."""
        stores = file_databases(self)
        for unit in (arrive(1), shelve):
            self.failureResultOf(stores.reads.submit(unit), DatabaseError)
        self.assertEqual([], self.successResultOf(stores.reads.submit(arrivals)))

    def test_unit_that_raises(self) -> None:
        """Through a lane, too, a unit that raises changes nothing and its error is its caller's."""

        def refuse(connection: sqlite3.Connection) -> None:
            arrive(1)(connection)
            raise KeyError("mine")

        stores = file_databases(self)
        self.failureResultOf(stores.auth.submit(refuse), KeyError)
        self.assertEqual([], self.successResultOf(stores.reads.submit(arrivals)))

    def test_connection_lost_at_first(self) -> None:
        """A connection that cannot be opened now is tried again at the next use."""
        data = data_folder(self)
        stores = file_databases(self, data=data)
        (data / "auth.db").rename(data / "away")
        self.failureResultOf(stores.auth.submit(arrive(1)), DatabaseUnavailable)
        (data / "away").rename(data / "auth.db")
        self.assertEqual(1, self.successResultOf(stores.auth.submit(arrive(1))))

    def test_closed(self) -> None:
        """A closed store takes nothing, and can be closed again."""
        stores = file_databases(self)
        self.successResultOf(stores.close())
        for lane in (stores.auth, stores.state, stores.reads):
            self.failureResultOf(lane.submit(lambda _: 1), DatabaseBusy)
        self.successResultOf(stores.close())


class Health(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = InlineReactor()
        self.clock.advance(100)
        self.stores = memory_databases(reactor=self.clock)

    def asked(self) -> list[int]:
        """Counts the batches of the read lane from now on."""
        hops: list[int] = []
        worker = self.stores.reads._thread
        run = worker.run

        def counted(work: Any) -> Deferred[Any]:
            hops.append(1)
            return run(work)

        worker.run = counted  # type: ignore[method-assign]
        return hops

    def test_at_most_once_a_second(self) -> None:
        """However often it is asked, the stores are read once a second."""
        hops = self.asked()
        for _ in range(50):
            self.successResultOf(self.stores.check())
        self.assertEqual(1, len(hops))
        self.clock.advance(1)
        self.successResultOf(self.stores.check())
        self.assertEqual(2, len(hops))

    def test_many_wait_for_the_first_answer(self) -> None:
        """Requests that come before the first result wait for it together."""
        hops = self.asked()
        self.stores.reads.pause()
        answers = [self.stores.check() for _ in range(5)]
        self.stores.reads.resume()
        self.successResultOf(gatherResults(answers))
        self.assertEqual(1, len(hops))

    def test_a_busy_queue(self) -> None:
        """While a check waits behind other reads, requests are answered from the last result, up to 5 s old."""
        self.successResultOf(self.stores.check())
        self.stores.reads.pause()
        hops = self.asked()
        for seconds in (1, 2, 1.9):
            self.clock.advance(seconds)
            self.successResultOf(self.stores.check())
        self.clock.advance(0.1)
        late = self.stores.check()
        self.assertNoResult(late)
        self.stores.reads.resume()
        self.successResultOf(late)
        self.assertEqual(1, len(hops))

    def test_no_answer(self) -> None:
        """Without a result a request waits 2 s; the check itself fails after 5 s, and the stores are asked again."""
        self.stores.reads.pause()
        answer = self.stores.check()
        self.clock.advance(1.9)
        self.assertNoResult(answer)
        self.clock.advance(0.1)
        self.failureResultOf(answer, DatabaseBusy)
        self.clock.advance(2)
        second = self.stores.check()
        self.clock.advance(1)
        self.failureResultOf(second, DatabaseBusy)
        self.stores.reads.resume()
        self.successResultOf(self.stores.check())

    def test_a_failure_is_answered_at_once(self) -> None:
        """A failed check is a result as well: while the next one runs, requests get the failure without waiting."""
        self.stores.reads.pause()
        first = self.stores.check()
        self.clock.advance(5)
        self.failureResultOf(first, DatabaseBusy)
        self.failureResultOf(self.stores.check(), DatabaseBusy)
        self.stores.reads.resume()
        self.successResultOf(self.stores.check())

    def test_a_known_refusal(self) -> None:
        """A store that stopped taking writes is reported at once, whatever the last check found."""
        stores = file_databases(self, inline=self.clock)
        self.successResultOf(stores.check())
        stores.auth._file.unavailable_as = DatabaseCorrupt
        self.failureResultOf(stores.check(), DatabaseCorrupt)

    def test_a_file_is_gone_bad(self) -> None:
        """A check reads both files: one that can no longer be read fails it."""
        stores = file_databases(self, inline=self.clock)
        self.successResultOf(stores.check())
        run = stores.threads[0].run
        self.successResultOf(run(ask("DETACH state")))
        self.clock.advance(1)
        self.failureResultOf(stores.check(), DatabaseUnavailable)


class Watch(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = InlineReactor()
        self.data = data_folder(self)
        self.stores = file_databases(self, data=self.data, inline=self.clock)
        self.changes = 0
        self.stores.watch(self.changed)
        self.clock.advance(1)
        self.changes = 0

    def changed(self) -> None:
        self.changes += 1

    def test_another_process(self) -> None:
        """A write of another process to either file is noticed within half a second, once."""
        for name, sql in (
            ("auth.db", "INSERT INTO limit_bucket VALUES (x'01', 1)"),
            ("state.db", "INSERT INTO player_saves (player_id, epoch) VALUES ('p', 'e')"),
        ):
            self.changes = 0
            from_outside(self.data / name, sql)
            self.assertEqual(0, self.changes)
            self.clock.pump([0.5] * 5)
            self.assertEqual(1, self.changes)

    def test_one_file(self) -> None:
        """Who watches one file is told of that one only."""
        told: list[str] = []
        self.stores.watch(lambda: told.append("auth"), "auth")
        self.stores.watch(lambda: told.append("state"), "state")
        from_outside(self.data / "state.db", "INSERT INTO player_saves (player_id, epoch) VALUES ('p', 'e')")
        self.clock.pump([0.5] * 3)
        self.assertEqual((told, self.changes), (["state"], 1))

    def test_own_writes(self) -> None:
        """What this process writes wakes nobody: whoever wrote it says so."""
        self.successResultOf(self.stores.auth.submit(arrive(1)))
        self.successResultOf(self.stores.state.submit(shelve))
        self.clock.pump([0.5] * 5)
        self.assertEqual(0, self.changes)

    def test_idle(self) -> None:
        """While requests wait and nothing changes, nothing is written and no checkpoint is planned."""
        planned = len(self.clock.getDelayedCalls())
        self.clock.pump([0.5] * 20)
        self.assertEqual([lane.transactions for lane in (self.stores.auth, self.stores.state)], [0, 0])
        self.assertEqual(len(self.clock.getDelayedCalls()), planned)

    def test_another_writer(self) -> None:
        """A look at the files waits for no writer of another process."""
        with closing(connect(file_uri(self.data / "auth.db", "rw"))) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("INSERT INTO limit_bucket VALUES (x'01', 1)")
            self.clock.pump([0.5] * 2)
            self.assertEqual(0, self.changes)
            other.execute("COMMIT")
        self.clock.pump([0.5] * 2)
        self.assertEqual(1, self.changes)

    def test_lost_file(self) -> None:
        """A file that cannot be opened now counts as unchanged, and the next look notices its changes."""
        data = data_folder(self)
        stores = file_databases(self, data=data, inline=self.clock)
        (data / "auth.db").rename(data / "away")
        stores.watch(self.changed, "auth")
        self.clock.pump([0.5] * 3)
        self.assertEqual((0, self.flushLoggedErrors()), (self.changes, []))
        (data / "away").rename(data / "auth.db")
        self.clock.pump([0.5] * 3)
        self.assertEqual(1, self.changes)

    def test_while_nobody_watched(self) -> None:
        """A write between two watches is told to the next watcher at once; meanwhile no file is asked."""
        self.stores.unwatch(self.changed)
        from_outside(self.data / "auth.db", "INSERT INTO limit_bucket VALUES (x'01', 1)")
        self.clock.pump([0.5] * 5)
        self.assertEqual(0, self.changes)
        self.stores.watch(self.changed)
        self.assertEqual(1, self.changes)

    def test_first_look_counts(self) -> None:
        """The first watcher of all is told at once: nobody knows what happened before."""
        stores = file_databases(self, inline=self.clock)
        stores.watch(self.changed)
        self.assertEqual(1, self.changes)

    def test_watcher_that_fails(self) -> None:
        """A watcher's own error is logged and keeps nobody else from being told."""

        def fails() -> None:
            raise ZeroDivisionError

        self.stores.unwatch(self.changed)
        self.stores.watch(fails)
        self.stores.watch(self.changed)
        for n in range(2):
            from_outside(self.data / "auth.db", f"INSERT INTO limit_bucket VALUES (x'0{n}', 1)")
            self.clock.advance(0.5)
        self.assertEqual(2, self.changes)
        self.assertEqual(2, len(self.flushLoggedErrors(ZeroDivisionError)))

    def test_closed(self) -> None:
        """A closed store watches nothing."""
        self.successResultOf(self.stores.close())
        self.assertEqual([], self.clock.getDelayedCalls())


class InService(TestCase):
    async def test_noticed_in_time(self) -> None:
        """With the real reactor, too, another process's write wakes a watcher."""
        data = data_folder(self)
        stores = file_databases(self, reactor, data=data)
        told: list[Deferred[None]] = [Deferred(), Deferred()]
        waiting = iter(told)
        stores.watch(lambda: next(waiting).callback(None))
        await told[0]
        with closing(connect(file_uri(data / "auth.db", "rw"))) as other:
            other.execute("INSERT INTO limit_bucket VALUES (x'01', 1)")
        await told[1]
