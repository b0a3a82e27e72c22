"""Batches of transactions on PostgreSQL keep the promises of group commit and of one snapshot for all reads."""

import contextlib
import gc
import os
import signal
from collections.abc import Callable
from threading import Thread
from time import monotonic, sleep
from weakref import ref

from twisted.python.failure import Failure

from gamed.database.connection import Connection
from gamed.database.engine import NeedsSavepoints
from gamed.database.errors import DatabaseBusy, DatabaseUnavailable, DatabaseUnreachable
from gamed.database.group_commit import Outcome, group_commit, run_reads
from gamed.database.postgresql.engine import stripe
from gamed.database.postgresql.error_mapping import PostgresqlError
from tests.database.postgresql.engines import EngineCase, RelayedCase

PLAYER = "p1"


class Refused(Exception):
    """An exception of a transaction."""


def put(n: int) -> Callable[[Connection], int]:
    """Return a transaction that inserts row n without waiting for the result."""

    def transaction(connection: Connection) -> int:
        connection.execute("INSERT INTO kept (n) VALUES (:n)", {"n": n})
        return n

    return transaction


def count(connection: Connection) -> int:
    """Return the number of rows, as a transaction."""
    [(found,)] = connection.rows("SELECT count(*) FROM kept")
    return int(found)


def missing(connection: Connection) -> object:
    """Read a table that does not exist, as a transaction."""
    return connection.rows("SELECT n FROM player_saves")


def kinds(outcomes: list[Outcome]) -> list[object]:
    """Return the outcomes, the class of the exception in place of a failure."""
    return [outcome.type if isinstance(outcome, Failure) else outcome for outcome in outcomes]


class WriteTest(EngineCase):
    def write(
        self, *transactions: Callable[[Connection], object], players: tuple[str, ...] | None = (PLAYER,)
    ) -> object:
        return kinds(group_commit(self.engine, self.connection, transactions, players))

    def test_all(self) -> None:
        """Commit all transactions of a batch, each of which sees the ones before it."""
        self.assertEqual(self.write(put(1), count, put(2), count), [1, 1, 2, 2])
        self.assertEqual(self.stored(), [1, 2])

    def test_failed_statement(self) -> None:
        """Give the error of a statement to its own transaction, even if no other one waited for its result."""
        self.assertEqual(self.write(put(1), put(1), put(2)), [1, PostgresqlError, 2])
        self.assertEqual(self.stored(), [1, 2])

    def test_refused(self) -> None:
        """Leave out what a transaction wrote before it raised an exception."""

        def refuse(connection: Connection) -> None:
            put(7)(connection)
            raise Refused

        self.assertEqual(self.write(put(1), refuse, count), [1, Refused, 1])
        self.assertEqual(self.stored(), [1])

    def test_swallowed(self) -> None:
        """Report a failed statement even if the transaction caught its error and went on."""

        def swallow(connection: Connection) -> int:
            with contextlib.suppress(PostgresqlError):
                connection.rows("SELECT 1 / 0")
            return 5

        self.assertEqual(self.write(put(1), swallow, put(2)), [1, PostgresqlError, 2])
        self.assertEqual(self.stored(), [1, 2])
        self.assertEqual(self.write(put(3), swallow), [3, PostgresqlError])

    def test_rowcount(self) -> None:
        """Count the rows that a statement changed."""
        self.write(put(1), put(2))
        changed: list[int] = []
        self.write(lambda connection: changed.append(connection.execute("UPDATE kept SET text = 'x'").rowcount))
        self.assertEqual(changed, [2])

    def test_deferred_constraint(self) -> None:
        """Fail all transactions of a batch if PostgreSQL refuses its COMMIT."""
        sql = "ALTER TABLE state.kept ADD UNIQUE (text) DEFERRABLE INITIALLY DEFERRED"
        self.cluster.execute(sql, self.place.database)

        def same(n: int) -> Callable[[Connection], object]:
            return lambda connection: connection.rows("INSERT INTO kept (n, text) VALUES (?, 'same') RETURNING n", (n,))

        self.assertEqual(self.write(same(1), same(2)), [PostgresqlError, PostgresqlError])
        self.assertEqual((self.stored(), self.write(put(3))), ([], [3]))

    def test_commit_after_failure(self) -> None:
        """Commit nothing if a statement has failed whose result was not awaited."""
        self.engine.begin_writing(self.connection, None)
        put(1)(self.connection)
        put(1)(self.connection)
        self.assertRaises(NeedsSavepoints, self.engine.commit, self.connection)
        self.engine.end(self.connection)
        self.assertEqual((self.stored(), self.connection.in_transaction), ([], False))

    def test_missing_schema(self) -> None:
        """Report a database that does not exist, and use it once it does."""
        self.cluster.execute("ALTER SCHEMA state RENAME TO away", self.place.database)
        self.assertEqual(self.write(put(1), count), [DatabaseUnavailable, DatabaseUnavailable])
        self.cluster.execute("ALTER SCHEMA away RENAME TO state", self.place.database)
        self.assertEqual(self.write(put(1), count), [1, 1])


class TurnTest(EngineCase):
    def hold(self, players: tuple[str, ...] | None) -> None:
        """Let another connection begin to write for these players."""
        other = self.open(self.engine)
        self.engine.begin_writing(other, players)
        other.rows("SELECT 1")
        self.addCleanup(self.engine.end, other)

    def seconds_to_write(self, players: tuple[str, ...] | None) -> float | None:
        """Return how long a write took; None if it did not get its turn."""
        engine = self.make_engine(lock_ms=300)
        began = monotonic()
        outcomes = kinds(group_commit(engine, self.open(engine), [put(1), put(2), put(3)], players))
        if outcomes == [1, 2, 3]:
            return monotonic() - began
        self.assertEqual(outcomes, [DatabaseBusy] * 3)
        self.assertLess(monotonic() - began, 0.9)  # the batch waited once, not once for each transaction
        return None

    def test_other_player(self) -> None:
        """Write at once while another process writes for another player."""
        self.assertNotEqual(stripe("p1"), stripe("p2"))
        self.hold(("p1",))
        self.assertIsNotNone(self.seconds_to_write(("p2",)))

    def test_same_player(self) -> None:
        """Wait for the turn of the same player, and report at last that the database is busy."""
        self.hold(("p1", "p2"))
        self.assertIsNone(self.seconds_to_write(("p2", "p3")))

    def test_all_players(self) -> None:
        """Wait for all others with a transaction that may write all rows, and let them wait for it."""
        self.hold(("p1",))
        self.assertIsNone(self.seconds_to_write(None))

    def test_alone(self) -> None:
        """Let the writers of single players wait for one that may write all rows."""
        self.hold(None)
        self.assertIsNone(self.seconds_to_write(("p1",)))

    def test_sees_what_it_waited_for(self) -> None:
        """Read what the other process wrote during the wait."""
        other = self.open(self.engine)
        self.engine.begin_writing(other, (PLAYER,))
        put(1)(other)
        other.rows("SELECT 1")

        def finish() -> None:
            sleep(0.2)
            self.engine.commit(other)

        thread = Thread(target=finish)
        thread.start()
        self.assertEqual(kinds(group_commit(self.engine, self.connection, [count], (PLAYER,))), [1])
        thread.join()


class ReadTest(EngineCase):
    def read(self, *transactions: Callable[[Connection], object]) -> list[object]:
        return kinds(run_reads(self.engine, self.connection, transactions))

    def test_one_snapshot(self) -> None:
        """Read one state of the database in all transactions of a batch."""

        def count_around_write(connection: Connection) -> object:
            before = count(connection)
            self.cluster.execute("INSERT INTO state.kept (n) VALUES (1)", self.place.database)
            return before, count(connection)

        self.assertEqual(self.read(count, count_around_write, count), [0, (0, 0), 0])
        self.assertEqual(self.read(count), [1])

    def test_together(self) -> None:
        """Send the statements of all transactions together, each as soon as the one before it has its result."""
        order: list[int] = []

        def walk(connection: Connection) -> int:
            number = order.count(0)
            for step in range(3):
                order.append(step)
                [(number,)] = connection.rows("SELECT CAST(:number AS bigint) + 10", {"number": number})
            return number

        self.assertEqual(self.read(walk, walk, walk), [30, 31, 32])
        self.assertEqual(order, [0, 0, 0, 1, 1, 1, 2, 2, 2])

    def test_together_with_own_errors(self) -> None:
        """Keep the exception of a transaction that found nothing wrong with the database, and run it once."""
        runs: list[int] = []

        def refuse(connection: Connection) -> None:
            runs.append(count(connection))
            raise Refused

        self.assertEqual(self.read(count, refuse, count), [0, Refused, 0])
        self.assertEqual(len(runs), 1)

    def test_failed_read(self) -> None:
        """Go on with the next read after one that failed."""
        outcomes = self.read(count, lambda connection: connection.rows("SELECT 1 / 0"), count)
        self.assertEqual(outcomes, [0, PostgresqlError, 0])

    def test_missing_table(self) -> None:
        """Report a table that does not exist as unavailable to the transactions that read it, and to no others."""
        outcomes = self.read(count, missing, count)
        self.assertEqual(outcomes, [0, DatabaseUnavailable, 0])

    def test_writes_nothing(self) -> None:
        """Refuse a write among reads."""
        self.assertEqual(len(self.read(lambda connection: put(1)(connection) and count(connection))), 1)
        self.assertEqual(self.stored(), [])

    def test_rows(self) -> None:
        """Return the rows of a result one by one, all others, or none."""

        def walk(connection: Connection) -> object:
            result = connection.execute("SELECT n FROM (VALUES (1), (2), (3), (4)) AS v (n) ORDER BY n")
            found = [result.fetchone(), next(iter(result)), result.fetchall(), result.fetchone()]
            closed = connection.execute("SELECT 1")
            closed.close()
            return [*found, closed.fetchone()]

        self.assertEqual(self.read(walk), [[(1,), (2,), [(3,), (4,)], None, None]])


class LostConnectionTest(EngineCase):
    def lose(self, connection: Connection) -> int:
        """Lose the connection inside a transaction, at the third of its statements."""
        for _ in range(2):
            with contextlib.suppress(PostgresqlError):
                connection.rows("SELECT 1")
        self.cluster.end_backends(self.place.database)
        return count(connection)

    def test_missing_table_and_lost(self) -> None:
        """Report the lost connection to all that it concerns, though one of the batch missed a table before."""
        outcomes = run_reads(self.engine, self.connection, [missing, count, self.lose, count])
        self.assertEqual(kinds(outcomes), [DatabaseUnavailable, 0, DatabaseUnreachable, DatabaseUnreachable])
        for each_keys, second in ((None, DatabaseUnavailable), ("1234", DatabaseUnreachable)):
            writes = [put(1), missing, self.lose, count]
            outcomes = group_commit(self.engine, self.connection, writes, "1234", each_keys)
            self.assertEqual(kinds(outcomes), [DatabaseUnreachable, second, DatabaseUnreachable, DatabaseUnreachable])
        self.assertEqual(self.stored(), [])

    def test_swallowed(self) -> None:
        """Report a lost connection as such to all of a batch whose transaction caught the error and went on."""

        def swallow(connection: Connection) -> int:
            with contextlib.suppress(PostgresqlError):
                self.lose(connection)
            return 5

        for each_keys in (None, "ab"):
            outcomes = group_commit(self.engine, self.connection, [put(1), swallow], "ab", each_keys)
            self.assertEqual(kinds(outcomes), [DatabaseUnreachable] * 2)

    def test_between_batches(self) -> None:
        """Connect again before a batch if the server ended the connection since the last one."""
        self.cluster.end_backends(self.place.database)
        self.assertEqual(kinds(group_commit(self.engine, self.connection, [put(1)], (PLAYER,))), [1])
        self.cluster.end_backends(self.place.database)
        self.assertEqual(kinds(run_reads(self.engine, self.connection, [count])), [1])

    def test_in_a_write(self) -> None:
        """Fail the whole batch if the connection is lost inside it, and write again in the next one."""
        runs: list[int] = []

        def lose(connection: Connection) -> int:
            runs.append(1)
            self.cluster.end_backends(self.place.database)
            return count(connection)

        outcomes = group_commit(self.engine, self.connection, [put(1), lose, put(2)], (PLAYER,))
        self.assertEqual(kinds(outcomes), [DatabaseUnreachable] * 3)
        self.assertEqual((len(runs), self.stored()), (1, []))
        self.assertEqual(kinds(group_commit(self.engine, self.connection, [put(2)], (PLAYER,))), [2])

    def test_before_commit(self) -> None:
        """Fail the whole batch if the connection is lost before the COMMIT."""

        def lose(connection: Connection) -> None:
            self.cluster.end_backends(self.place.database)

        outcomes = group_commit(self.engine, self.connection, [put(1), lose], (PLAYER,))
        self.assertEqual(kinds(outcomes), [DatabaseUnreachable] * 2)
        self.assertEqual(self.stored(), [])

    def test_in_a_read(self) -> None:
        """Fail the reads of a batch whose connection is lost, without connecting once for each."""

        def lose(connection: Connection) -> int:
            self.cluster.end_backends(self.place.database)
            return count(connection)

        self.assertEqual(
            kinds(run_reads(self.engine, self.connection, [count, lose, count, count]))[1:], [DatabaseUnreachable] * 3
        )
        self.assertEqual(kinds(run_reads(self.engine, self.connection, [count])), [0])

    def test_no_answer(self) -> None:
        """Give up waiting for a server that does not answer, in a statement as in a COMMIT."""
        engine = self.make_engine(answer_seconds=0.3)
        connection = self.open(engine)
        for statement in (count, lambda connection: None):

            def stop(each: Connection) -> None:
                [(pid,)] = each.rows("SELECT pg_backend_pid()")
                os.kill(pid, signal.SIGSTOP)
                self.addCleanup(os.kill, pid, signal.SIGCONT)

            began = monotonic()
            outcomes = group_commit(engine, connection, [put(1), stop, statement, put(2)], (PLAYER,))
            self.assertEqual(kinds(outcomes), [DatabaseUnreachable] * 4)
            self.assertLess(monotonic() - began, 2)

    def test_idle(self) -> None:
        """Let the server end a transaction in which nothing happens, so that others get their turn."""
        engine = self.make_engine(idle_ms=100)
        outcomes = group_commit(engine, self.open(engine), [count, lambda connection: sleep(0.5), put(1)], (PLAYER,))
        self.assertEqual(kinds(outcomes), [DatabaseUnreachable] * 3)
        self.assertEqual(kinds(group_commit(self.engine, self.connection, [put(1)], (PLAYER,))), [1])

    def test_outside_batches(self) -> None:
        """Connect again for a statement outside a batch."""
        for _ in range(2):
            self.cluster.end_backends(self.place.database)
            self.assertEqual(self.connection.rows("SELECT 1"), [(1,)])

    def test_after_a_failed_read(self) -> None:
        """Execute nothing more for a transaction that reads, after one of its statements failed."""

        def write_at_last(connection: Connection) -> int:
            with contextlib.suppress(PostgresqlError):
                connection.rows("SELECT 1 / 0")
            return put(1)(connection)

        self.assertEqual(kinds(run_reads(self.engine, self.connection, [write_at_last])), [PostgresqlError])
        self.assertEqual(self.stored(), [])

    def test_joins(self) -> None:
        """Call a function with each new session, before anything else; connect again after it failed."""
        joined: list[object] = []

        def join(connection: Connection) -> None:
            joined.append(connection.rows("SELECT 1"))
            if len(joined) == 2:
                raise DatabaseBusy

        engine = self.make_engine(joined=join)
        connection = self.open(engine)
        for outcome in ([DatabaseBusy], [0]):
            self.cluster.end_backends(self.place.database)
            self.assertEqual(kinds(group_commit(engine, connection, [count], (PLAYER,))), outcome)
        self.assertEqual(joined, [[(1,)]] * 3)


class UnknownEndTest(RelayedCase):
    """A server that ends sessions with a code that gamed does not know."""

    def test_in_a_write(self) -> None:
        """Fail the whole batch as with every lost connection, and write again in the next one."""

        def lose(connection: Connection) -> int:
            self.relay.change = lambda data: data.replace(b"C57P01", b"C25P04")
            self.cluster.end_backends(self.place.database)
            return count(connection)

        outcomes = group_commit(self.engine, self.connection, [put(1), lose], (PLAYER,))
        self.assertEqual(kinds(outcomes), [DatabaseUnreachable] * 2)
        self.assertEqual(kinds(group_commit(self.engine, self.connection, [put(2)], (PLAYER,))), [2])
        self.assertEqual(self.stored(), [2])


class TogetherTest(EngineCase):
    """Transactions of one batch whose keys are known."""

    def write(self, *each: tuple[str, Callable[[Connection], object]]) -> list[object]:
        keys = [tuple(key) for key, _ in each]
        transactions = [transaction for _, transaction in each]
        used = {key for own in keys for key in own}
        return kinds(group_commit(self.engine, self.connection, transactions, used, keys))

    def test_order(self) -> None:
        """Run transactions of different keys at the same time, and those that share one in their order."""
        order: list[str] = []

        def step(name: str) -> Callable[[Connection], str]:
            def transaction(connection: Connection) -> str:
                for number in range(2):
                    order.append(f"{name}{number}")
                    connection.rows("SELECT 1")
                return name

            return transaction

        outcomes = self.write(("a", step("a")), ("b", step("b")), ("ac", step("c")), ("c", step("d")), ("e", step("e")))
        self.assertEqual(outcomes, ["a", "b", "c", "d", "e"])
        self.assertEqual(" ".join(order), "a0 b0 e0 a1 b1 e1 c0 c1 d0 d1")

    def test_many_batches(self) -> None:
        """Run the transactions of the next batches as those of the first one, and keep nothing of those that ran."""
        for begin in (0, 10):
            transactions = [(str(n), put(n)) for n in range(begin, begin + 5)]
            gone = [ref(transaction) for _, transaction in transactions]
            self.assertEqual(self.write(*transactions, ("x", count)), [*range(begin, begin + 5), 5 + begin // 2])
            del transactions
            gc.collect()
            self.assertEqual([each() for each in gone], [None] * 5)

    def test_sees_the_one_before(self) -> None:
        """Show a transaction what one with the same key wrote before it."""
        outcomes = self.write(("a", put(1)), ("b", put(2)), ("a", put(3)), ("ab", count))
        self.assertEqual((outcomes, self.stored()), ([1, 2, 3, 3], [1, 2, 3]))

    def test_failed_statement(self) -> None:
        """Give the error of a statement to its own transaction, and commit the others."""
        outcomes = self.write(("a", put(1)), ("b", put(1)), ("c", put(2)), ("d", count))
        self.assertEqual(outcomes, [1, PostgresqlError, 2, 2])
        self.assertEqual(self.stored(), [1, 2])

    def test_refused(self) -> None:
        """Leave out what a transaction wrote before it raised an exception, and only that."""

        def refuse(connection: Connection) -> None:
            connection.rows("SELECT 1")
            put(7)(connection)
            connection.rows("SELECT 1")
            raise Refused

        outcomes = self.write(("a", put(1)), ("b", refuse), ("c", put(2)))
        self.assertEqual((outcomes, self.stored()), ([1, Refused, 2], [1, 2]))

    def test_refused_before_it_wrote(self) -> None:
        """Run no transaction twice if one raised an exception before it wrote, while others wrote."""
        runs: list[int] = []

        def refuse(connection: Connection) -> None:
            runs.append(1)
            connection.rows("SELECT 1")
            raise Refused

        outcomes = self.write(("a", put(1)), ("b", refuse), ("c", put(2)))
        self.assertEqual((outcomes, self.stored(), runs), ([1, Refused, 2], [1, 2], [1]))

    def test_lost(self) -> None:
        """Fail all transactions if the connection is lost, and commit nothing."""

        def lose(connection: Connection) -> None:
            self.cluster.end_backends(self.place.database)

        outcomes = self.write(("a", put(1)), ("b", lose), ("c", count))
        self.assertEqual((outcomes, self.stored()), ([DatabaseUnreachable] * 3, []))
        self.assertEqual(self.write(("a", put(1)), ("b", put(2))), [1, 2])

    def test_no_turn(self) -> None:
        """Fail the whole batch once if another process keeps its turn."""
        other = self.open(self.engine)
        self.engine.begin_writing(other, ("a",))
        other.rows("SELECT 1")
        self.addCleanup(self.engine.end, other)
        self.engine = self.make_engine(lock_ms=300)
        self.connection = self.open(self.engine)
        began = monotonic()
        self.assertEqual(self.write(("a", put(1)), ("b", put(2)), ("c", put(3))), [DatabaseBusy] * 3)
        self.assertLess(monotonic() - began, 0.9)
