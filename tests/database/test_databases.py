"""Both databases from open to close: failures of one of them, and changes by other processes."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.databases import Databases
from gamed.database.errors import DatabaseBusy, DatabaseCorrupt, DatabaseError, DatabaseUnavailable
from tests.database.test_queues import arrivals, arrive
from tests.support.covers import covers
from tests.support.databases import (
    InlineReactor,
    ask,
    data_folder,
    file_databases,
    memory_databases,
    open_databases,
    prepare_files,
)
from tests.support.stores import sqlite_files

OUTSIDER = """
import sys
from pathlib import Path
from gamed.database.sqlite.offline import run_transaction
run_transaction(Path(sys.argv[1]), lambda c: c.execute(sys.argv[2]).rowcount)
"""


def from_outside(path: Path, sql: str) -> None:
    """Write from another process."""
    subprocess.run([sys.executable, "-c", OUTSIDER, str(path), sql], check=True, cwd=Path(__file__).parents[2])


list_players = ask("SELECT player_id FROM player_saves")


def insert_player(connection: sqlite3.Connection) -> int:
    return connection.execute("INSERT INTO player_saves (player_id, epoch) VALUES ('p', 'e')").rowcount


@covers("1/12")
@sqlite_files("files that are missing or damaged")
class StateUnavailable(SynchronousTestCase):
    def broken(self, content: bytes) -> Databases:
        """Return the databases of a folder whose state.db has this content."""
        data = data_folder(self)
        prepare_files(data)
        (data / "state.db").write_bytes(content)
        for left in ("state.db-wal", "state.db-shm"):
            (data / left).unlink(missing_ok=True)
        stores = file_databases(self, data=data)
        self.flushLoggedErrors()
        return stores

    def check(self, stores: Databases) -> None:
        self.assertIs(stores.state._database.unavailable_as, DatabaseUnavailable)
        self.failureResultOf(stores.state.submit(insert_player), DatabaseUnavailable)
        self.failureResultOf(stores.reads.submit(list_players), DatabaseUnavailable)
        self.failureResultOf(stores.blobs.fetch(1), DatabaseUnavailable)
        self.failureResultOf(stores.blobs.discard(1, "ply_a"), DatabaseUnavailable)
        self.failureResultOf(stores.check(), DatabaseUnavailable)
        self.assertEqual(1, self.successResultOf(stores.auth.submit(arrive(1))))
        self.assertEqual([1], self.successResultOf(stores.reads.submit(arrivals)))
        self.successResultOf(stores.close())

    def test_no_database(self) -> None:
        """With a state.db of other bytes, players can sign in, saves are unavailable, and the file stays as it is."""
        stores = self.broken(b"not a database " * 1000)
        self.check(stores)
        path = stores.state._database.path
        assert path is not None
        self.assertEqual(b"not a database " * 1000, path.read_bytes())

    def test_torn(self) -> None:
        """A state.db whose second half is missing is unavailable in the same way."""
        data = data_folder(self)
        prepare_files(data)
        whole = (data / "state.db").read_bytes()
        self.check(self.broken(whole[: len(whole) // 2]))

    def test_unreadable(self) -> None:
        """A state.db that is a folder is unavailable in the same way."""
        data = data_folder(self)
        prepare_files(data)
        (data / "state.db").unlink()
        (data / "state.db").mkdir()
        self.check(file_databases(self, data=data))

    def test_own_mistakes_stay_visible(self) -> None:
        """A query of an unknown table fails with the error of SQLite while both files are open."""
        stores = file_databases(self)
        self.failureResultOf(stores.reads.submit(ask("SELECT * FROM nowhere")), sqlite3.OperationalError)

    @covers("1/13")
    def test_missing_state_is_made(self) -> None:
        """Deleting state.db deletes only saves: the next start creates it again."""
        data = data_folder(self)
        stores = file_databases(self, data=data)
        self.successResultOf(stores.auth.submit(arrive(1)))
        self.successResultOf(stores.state.submit(insert_player))
        self.successResultOf(stores.close())
        (data / "state.db").unlink()
        stores = file_databases(self, data=data)
        self.assertEqual([], self.successResultOf(stores.reads.submit(list_players)))
        self.assertEqual([1], self.successResultOf(stores.reads.submit(arrivals)))

    def test_auth_is_needed(self) -> None:
        """Databases does not open without a readable auth.db."""
        data = data_folder(self)
        prepare_files(data)
        (data / "auth.db").write_bytes(b"not a database " * 1000)
        with self.assertRaises(DatabaseUnavailable):
            open_databases(InlineReactor(), data)
        with self.assertRaises(DatabaseError):
            prepare_files(data)


@sqlite_files("the options of its connections")
class Opened(SynchronousTestCase):
    def test_nothing_runs_before_the_reactor(self) -> None:
        """Opening holds no connection and starts no thread, so the process may still fork."""
        data = data_folder(self)
        prepare_files(data)
        stores = open_databases(InlineReactor(), data)
        for thread in stores.threads:
            self.assertFalse(thread.started)
            self.assertEqual({}, thread.pool.connections)
            self.assertEqual([], thread.pool.threadpool.threads)
        self.assertFalse((data / "auth.db-wal").exists())
        self.successResultOf(stores.close())

    def test_every_connection(self) -> None:
        """Every queue's connection is durable, checks references, waits for locks and never checkpoints in a commit."""
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
        for thread in stores.threads:
            found = self.successResultOf(
                thread.run(lambda c: {name: c.execute(f"PRAGMA {name}").fetchone()[0] for name in expected})
            )
            self.assertEqual(expected, found)

    def test_pages_kept(self) -> None:
        """A write queue has a cache of 16 MiB of pages."""
        stores = file_databases(self)
        for queue in (stores.auth, stores.state):
            self.assertEqual([(-16 * 1024,)], self.successResultOf(queue.submit(ask("PRAGMA cache_size"))))

    def test_reads_cannot_write(self) -> None:
        """The read queue cannot write either file."""
        stores = file_databases(self)
        for transaction in (arrive(1), insert_player):
            self.failureResultOf(stores.reads.submit(transaction), DatabaseError)
        self.assertEqual([], self.successResultOf(stores.reads.submit(arrivals)))

    def test_transaction_that_raises(self) -> None:
        """A transaction that raises an exception changes nothing, and its caller gets the exception."""

        def refuse(connection: sqlite3.Connection) -> None:
            arrive(1)(connection)
            raise KeyError("mine")

        stores = file_databases(self)
        self.failureResultOf(stores.auth.submit(refuse), KeyError)
        self.assertEqual([], self.successResultOf(stores.reads.submit(arrivals)))

    def test_connection_lost_at_first(self) -> None:
        """A connection that cannot be opened is tried again at the next use."""
        data = data_folder(self)
        stores = file_databases(self, data=data)
        (data / "auth.db").rename(data / "away")
        self.failureResultOf(stores.auth.submit(arrive(1)), DatabaseUnavailable)
        (data / "away").rename(data / "auth.db")
        self.assertEqual(1, self.successResultOf(stores.auth.submit(arrive(1))))

    def test_closed(self) -> None:
        """Closed databases accept nothing, and can be closed again."""
        stores = file_databases(self)
        self.successResultOf(stores.close())
        for queue in (stores.auth, stores.state, stores.reads):
            self.failureResultOf(queue.submit(lambda _: 1), DatabaseBusy)
        self.successResultOf(stores.close())


class Health(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = InlineReactor()
        self.clock.advance(100)
        self.stores = memory_databases(self, reactor=self.clock)

    def counted_batches(self) -> list[int]:
        """Return a list that gets an item for each batch of the read queue from now on."""
        batches: list[int] = []
        thread = self.stores.reads.thread
        run = thread.run

        def counted(work: Any) -> Deferred[Any]:
            batches.append(1)
            return run(work)

        thread.run = counted  # type: ignore[method-assign]
        return batches

    def test_at_most_once_a_second(self) -> None:
        """However often check() is called, the databases are read once a second."""
        batches = self.counted_batches()
        for _ in range(50):
            self.successResultOf(self.stores.check())
        self.assertEqual(1, len(batches))
        self.clock.advance(1)
        self.successResultOf(self.stores.check())
        self.assertEqual(2, len(batches))

    def test_many_wait_for_the_first_answer(self) -> None:
        """Calls before the first result wait for it together."""
        batches = self.counted_batches()
        self.stores.reads.pause()
        answers = [self.stores.check() for _ in range(5)]
        self.stores.reads.resume()
        self.successResultOf(gatherResults(answers))
        self.assertEqual(1, len(batches))

    def test_a_busy_queue(self) -> None:
        """While a check waits behind other reads, requests are answered from the last result, up to 5 s old."""
        self.successResultOf(self.stores.check())
        self.stores.reads.pause()
        batches = self.counted_batches()
        for seconds in (1, 2, 1.9):
            self.clock.advance(seconds)
            self.successResultOf(self.stores.check())
        self.clock.advance(0.1)
        late = self.stores.check()
        self.assertNoResult(late)
        self.stores.reads.resume()
        self.successResultOf(late)
        self.assertEqual(1, len(batches))

    def test_no_answer(self) -> None:
        """Without a result a call waits 2 s; the check itself fails after 5 s, and the next one begins."""
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
        """A failed check is a result, too: while the next one runs, calls get the failure at once."""
        self.stores.reads.pause()
        first = self.stores.check()
        self.clock.advance(5)
        self.failureResultOf(first, DatabaseBusy)
        self.failureResultOf(self.stores.check(), DatabaseBusy)
        self.stores.reads.resume()
        self.successResultOf(self.stores.check())

    def test_a_known_problem(self) -> None:
        """A file that stopped accepting writes is reported at once, whatever the last result was."""
        stores = file_databases(self, inline=self.clock)
        self.successResultOf(stores.check())
        stores.auth._database.unavailable_as = DatabaseCorrupt
        self.failureResultOf(stores.check(), DatabaseCorrupt)

    @sqlite_files("a damaged file")
    def test_a_file_is_gone_bad(self) -> None:
        """A check reads both files: one that can no longer be read fails it."""
        stores = file_databases(self, inline=self.clock)
        self.successResultOf(stores.check())
        run = stores.threads[0].run
        self.successResultOf(run(ask("DETACH state")))
        self.clock.advance(1)
        self.failureResultOf(stores.check(), DatabaseUnavailable)
