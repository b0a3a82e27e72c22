"""Group commit and shared snapshots, on one connection without threads."""

import contextlib
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from twisted.internet.defer import succeed
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from gamed.database import group_commit
from gamed.database.errors import DatabaseBusy, DatabaseCorrupt, DiskFull
from gamed.database.group_commit import TransactionMisuse
from gamed.database.sqlite.engine import SqliteEngine
from gamed.database.sqlite.files import PAGE_BYTES as PAGE
from gamed.database.sqlite.files import DatabaseFile, connect, file_uri, prepare
from tests.support.databases import data_folder
from tests.support.stores import sqlite_files


class Refused(Exception):
    """An exception of a transaction."""


def put(n: int, size: int = 10) -> Callable[[sqlite3.Connection], int]:
    """Return a transaction that inserts row n and returns n."""

    def transaction(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO kept (n, data) VALUES (:n, zeroblob(:size))", {"n": n, "size": size})
        return n

    return transaction


def counted(runs: list[int], transaction: Callable[[sqlite3.Connection], int]) -> Callable[[sqlite3.Connection], int]:
    """Return the same transaction; each result is appended to `runs`."""

    def again(connection: sqlite3.Connection) -> int:
        runs.append(transaction(connection))
        return runs[-1]

    return again


def refuse(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO kept (n, data) VALUES (99, x'00')")
    raise Refused("after it wrote")


@sqlite_files("its engine; tests.database.postgresql.test_transactions has PostgreSQL's")
class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = data_folder(self) / "kept.db"
        self.engine = SqliteEngine(DatabaseFile("kept", file_uri(self.path, "rw"), None))
        self.connection = self.open()
        self.connection.executescript(
            f"PRAGMA page_size = {PAGE}; PRAGMA journal_mode = WAL;"
            "CREATE TABLE kept (n INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;"
            "CREATE TABLE child (n INTEGER NOT NULL REFERENCES kept DEFERRABLE INITIALLY DEFERRED) STRICT;"
            "CREATE TABLE alone (n INTEGER NOT NULL) STRICT;"
        )

    def open(self) -> sqlite3.Connection:
        connection = connect(file_uri(self.path, "rwc"))
        self.addCleanup(connection.close)
        prepare(connection)
        return connection

    def rows(self) -> list[int]:
        """Return the committed rows, as another connection sees them."""
        with closing(connect(file_uri(self.path, "ro"))) as other:
            return [n for (n,) in other.execute("SELECT n FROM kept ORDER BY n").fetchall()]

    def write(self, *transactions: Any) -> list[Any]:
        outcomes = group_commit.group_commit(self.engine, self.connection, transactions)
        self.assertFalse(self.connection.in_transaction)
        return outcomes

    def assertFailure_(self, outcome: Any, kind: type[Exception]) -> None:
        self.assertIsInstance(outcome, Failure)
        self.assertIsInstance(outcome.value, kind)


class GroupCommit(Case):
    def test_answers_in_order(self) -> None:
        """Every transaction gets its own result, in order, and all is on disk."""
        self.assertEqual([7, 3, 5], self.write(put(7), put(3), put(5)))
        self.assertEqual([3, 5, 7], self.rows())

    def test_one_commit(self) -> None:
        """A batch of 64 is one transaction: another connection sees all of it or nothing."""
        seen = []

        def look(connection: sqlite3.Connection) -> None:
            seen.append(self.rows())

        self.write(*map(put, range(32)), look, *map(put, range(32, 64)))
        self.assertEqual([[]], seen)
        self.assertEqual(list(range(64)), self.rows())

    def test_later_units_see_earlier_ones(self) -> None:
        """A transaction in a batch sees what those before it wrote."""
        self.assertEqual([1, 1, 2, 2], self.write(put(1), count, put(2), count))

    def test_transaction_that_raises_changes_nothing(self) -> None:
        """A transaction that raises an exception loses its writes; the others keep theirs."""
        before, refused, after = self.write(put(1), refuse, put(2))
        self.assertFailure_(refused, Refused)
        self.assertEqual((1, 2), (before, after))
        self.assertEqual([1, 2], self.rows())

    def test_transaction_that_raises_before_it_wrote(self) -> None:
        """After an exception before any write the others do not run again."""
        runs: list[int] = []

        def refuse_at_once(connection: sqlite3.Connection) -> None:
            raise Refused("before it wrote")

        one, refused, two = self.write(counted(runs, put(1)), refuse_at_once, counted(runs, put(2)))
        self.assertFailure_(refused, Refused)
        self.assertEqual(((1, 2), [1, 2], [1, 2]), ((one, two), runs, self.rows()))

    def test_several_that_raise(self) -> None:
        """Each transaction that fails after it wrote fails alone; the others run again once, not for each failure."""
        runs: list[int] = []
        outcomes = self.write(*(refuse if n % 3 == 2 else counted(runs, put(n)) for n in range(9)))
        for outcome in outcomes[2::3]:
            self.assertFailure_(outcome, Refused)
        stored = [0, 1, 3, 4, 6, 7]
        self.assertEqual(([0, 1, *stored], stored), (runs, self.rows()))

    def test_constraint_stays_what_it_is(self) -> None:
        """A violated constraint reaches the caller as sqlite3's exception; the others are stored."""
        _, twice, _ = self.write(put(1), put(1), put(2))
        self.assertFailure_(twice, sqlite3.IntegrityError)
        self.assertEqual([1, 2], self.rows())

    def test_nested_savepoint_left_open(self) -> None:
        """A savepoint that a transaction leaves open is closed with it."""

        def careless(connection: sqlite3.Connection) -> None:
            connection.execute("SAVEPOINT mine")
            put(5)(connection)

        self.write(careless, refuse, put(6))
        self.assertEqual([5, 6], self.rows())

    def test_cursor_is_no_answer(self) -> None:
        """A transaction that returns rows that it has not read fails, and loses its writes."""
        outcome, _ = self.write(lambda c: c.execute("INSERT INTO kept VALUES (8, x'00') RETURNING n"), put(1))
        self.assertFailure_(outcome, TransactionMisuse)
        self.assertEqual([1], self.rows())

    def test_deferred_is_no_answer(self) -> None:
        """A transaction that returns a Deferred fails."""
        outcome, stored = self.write(lambda _: succeed(None), put(1))
        self.assertFailure_(outcome, TransactionMisuse)
        self.assertEqual(1, stored)


class DeadBatch(Case):
    def fill(self, spare_pages: int) -> None:
        [(pages,)] = self.connection.execute("PRAGMA page_count").fetchall()
        self.connection.execute(f"PRAGMA max_page_count = {pages + spare_pages}")

    def test_full_in_the_middle(self) -> None:
        """Give the fifth of ten transactions DiskFull if it does not fit, and store exactly the other nine."""
        self.fill(spare_pages=20)
        transactions = [put(n, size=100) for n in range(10)]
        transactions[4] = put(4, size=100 * PAGE)
        outcomes = self.write(*transactions)
        self.assertFailure_(outcomes[4], DiskFull)
        self.assertIsInstance(outcomes[4].value.__cause__, sqlite3.Error)
        nine = [n for n in range(10) if n != 4]
        self.assertEqual(nine, [outcome for outcome in outcomes if not isinstance(outcome, Failure)])
        self.assertEqual(nine, self.rows())

    def test_full_really_ends_the_transaction(self) -> None:
        """SQLITE_FULL ends the whole transaction, and ROLLBACK TO then fails, as the batch expects."""
        self.fill(spare_pages=2)
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("SAVEPOINT unit")
        with self.assertRaises(sqlite3.OperationalError) as caught:
            put(1, size=100 * PAGE)(self.connection)
        self.assertEqual(sqlite3.SQLITE_FULL, caught.exception.sqlite_errorcode)
        self.assertFalse(self.connection.in_transaction)
        with self.assertRaises(sqlite3.OperationalError):
            self.connection.execute("ROLLBACK TO unit")

    def test_several_too_large(self) -> None:
        """Each transaction that does not fit fails alone, however many there are."""
        self.fill(spare_pages=20)
        outcomes = self.write(*(put(n, size=100 * PAGE if n % 3 == 0 else 100) for n in range(10)))
        self.assertEqual([0, 3, 6, 9], [n for n in range(10) if isinstance(outcomes[n], Failure)])
        self.assertEqual([1, 2, 4, 5, 7, 8], self.rows())

    def test_own_error_before_the_death(self) -> None:
        """A transaction that fails in a batch that starts over fails again, and gets one error."""
        self.fill(spare_pages=20)
        refused, stored, large = self.write(refuse, put(1), put(2, size=100 * PAGE))
        self.assertFailure_(refused, Refused)
        self.assertEqual(1, stored)
        self.assertFailure_(large, DiskFull)
        self.assertEqual([1], self.rows())

    def test_swallowed_death(self) -> None:
        """A transaction that hides the error that ended SQLite's transaction fails; the others run again."""

        def hides(connection: sqlite3.Connection) -> str:
            with contextlib.suppress(sqlite3.Error):
                put(2, size=100 * PAGE)(connection)
            return "fine"

        self.fill(spare_pages=20)
        one, hidden, three = self.write(put(1), hides, put(3))
        self.assertFailure_(hidden, TransactionMisuse)
        self.assertEqual((1, 3), (one, three))
        self.assertEqual([1, 3], self.rows())

    def test_transaction_that_rolls_back(self) -> None:
        """A transaction that ends the batch's transaction fails alone."""
        one, rolled, three = self.write(put(1), lambda c: c.rollback(), put(3))
        self.assertFailure_(rolled, TransactionMisuse)
        self.assertEqual((1, 3), (one, three))
        self.assertEqual([1, 3], self.rows())


class FailedCommit(Case):
    def test_acknowledges_nobody(self) -> None:
        """When COMMIT fails, every transaction of the batch fails and nothing is stored; the next batch is unharmed."""

        def orphan(connection: sqlite3.Connection) -> str:
            connection.execute("INSERT INTO child (n) VALUES (1234)")
            return "looks fine until COMMIT"

        outcomes = self.write(put(1), orphan, put(2))
        for outcome in outcomes:
            self.assertFailure_(outcome, sqlite3.IntegrityError)
        self.assertEqual([], self.rows())
        self.assertEqual([1], self.write(put(1)))

    def test_disk_that_refuses(self) -> None:
        """When the log cannot grow, the whole batch fails; once there is space again, writes go on."""
        self.write(put(1, size=4_000_000))
        with file_size_limit(self.path.with_name("kept.db-wal").stat().st_size):
            outcomes = self.write(put(2), put(3))
        for outcome in outcomes:
            self.assertFailure_(outcome, DiskFull)
        self.assertIsNot(outcomes[0].value, outcomes[1].value)
        self.assertEqual([1], self.rows())
        self.assertEqual([2, 3], self.write(put(2), put(3)))
        self.assertEqual([1, 2, 3], self.rows())

    def test_another_process_holds_the_file(self) -> None:
        """Without the write lock, every transaction gets DatabaseBusy and nothing changes."""
        other = self.open()
        other.execute("BEGIN IMMEDIATE")
        self.connection.execute("PRAGMA busy_timeout = 1")
        for outcome in self.write(put(1), put(2)):
            self.assertFailure_(outcome, DatabaseBusy)
        other.execute("ROLLBACK")
        self.assertEqual([1], self.write(put(1)))


class Damage(Case):
    def test_damaged_page(self) -> None:
        """When SQLite reports damage, the whole batch fails: the other writes cannot be trusted."""
        self.write(*(put(n, size=3 * PAGE) for n in range(40)))
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.connection.close()
        spoil(self.path, first_page=5)
        self.connection = self.open()
        outcomes = self.write(beside, read_all, beside)
        for outcome in outcomes:
            self.assertFailure_(outcome, DatabaseCorrupt)
        self.assertTrue(group_commit.corruptions(outcomes[1:2]))
        self.assertEqual([(0,)], self.connection.execute("SELECT count(*) FROM alone").fetchall())


def beside(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO alone (n) VALUES (1)")


def read_all(connection: sqlite3.Connection) -> int:
    return sum(len(data) for (data,) in connection.execute("SELECT data FROM kept"))


class SharedSnapshot(Case):
    def test_one_snapshot(self) -> None:
        """Reads of a batch see one snapshot although another connection writes; the next batch sees the write."""
        self.write(put(1))
        reader = self.open()
        reader.execute("PRAGMA query_only = ON")

        def interrupted(connection: sqlite3.Connection) -> int:
            counted = count(connection)
            self.write(put(2))
            return counted

        self.assertEqual([1, 1], group_commit.run_reads(self.engine, reader, [interrupted, count]))
        self.assertEqual([2], group_commit.run_reads(self.engine, reader, [count]))
        self.assertFalse(reader.in_transaction)

    def test_error_is_ones_own(self) -> None:
        """After a read that raises an exception, the others keep their snapshot."""

        def fails(connection: sqlite3.Connection) -> None:
            raise Refused

        first, failed, last = group_commit.run_reads(self.engine, self.connection, [count, fails, count])
        self.assertEqual((0, 0), (first, last))
        self.assertFailure_(failed, Refused)

    def test_nothing_is_written(self) -> None:
        """A read queue's connection cannot write."""
        self.connection.execute("PRAGMA query_only = ON")
        [outcome] = group_commit.run_reads(self.engine, self.connection, [put(1)])
        self.assertIsInstance(outcome, Failure)
        self.assertEqual([], self.rows())

    def test_half_read_select_holds_no_snapshot(self) -> None:
        """A failed read with a half-read SELECT, whose Failure is kept, does not make the next batch stale."""
        self.write(put(1), put(2), put(3))

        def gives_up(connection: sqlite3.Connection) -> None:
            rows = connection.execute("SELECT n FROM kept ORDER BY n")
            rows.fetchone()
            raise Refused("with two rows to go")

        held = group_commit.run_reads(self.engine, self.connection, [gives_up])
        other = self.open()
        group_commit.group_commit(self.engine, other, [put(4)])
        self.assertEqual([4], group_commit.run_reads(self.engine, self.connection, [count]))
        self.assertFailure_(held[0], Refused)

    def test_half_read_select_behind_a_cause(self) -> None:
        """A Failure whose exception has a cause does not make the next batch stale either."""
        self.write(put(1), put(2), put(3))

        def inner(connection: sqlite3.Connection) -> None:
            rows = connection.execute("SELECT n FROM kept ORDER BY n")
            raise KeyError(rows.fetchone())

        def outer(connection: sqlite3.Connection) -> None:
            try:
                inner(connection)
            except KeyError as e:
                raise Refused from e

        held = group_commit.run_reads(self.engine, self.connection, [outer])
        group_commit.group_commit(self.engine, self.open(), [put(4)])
        self.assertEqual([4], group_commit.run_reads(self.engine, self.connection, [count]))
        self.assertFailure_(held[0], Refused)


def count(connection: sqlite3.Connection) -> int:
    [(found,)] = connection.execute("SELECT count(*) FROM kept").fetchall()
    return int(found)


def spoil(path: Path, first_page: int) -> None:
    """Overwrite everything from this page on."""
    with path.open("r+b") as file:
        file.seek((first_page - 1) * PAGE)
        file.write(b"\xa5" * (path.stat().st_size - file.tell()))


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Limit the files of this process to `size` bytes: writing fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
