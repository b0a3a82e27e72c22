"""A database queue: batches, rejected and cancelled transactions, drain."""

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.database.databases import Databases
from gamed.database.errors import DatabaseBusy, DatabaseCorrupt
from gamed.database.queues import BATCH_BYTES, BATCH_ITEMS, GATHERING_TURNS, QUEUE_ITEMS, DatabaseQueue, Transaction
from gamed.database.sqlite.files import PAGE_BYTES, connect, file_uri
from tests.database.test_group_commit import spoil
from tests.support.databases import InlineReactor, ask, data_folder, file_databases, memory_databases
from tests.support.stores import sqlite_files


def arrive(at_ms: int) -> Callable[[sqlite3.Connection], int]:
    """Return a transaction that inserts one row of limit_bucket."""

    def transaction(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO limit_bucket VALUES (:index, :at)", {"index": b"%d" % at_ms, "at": at_ms})
        return at_ms

    return transaction


def arrivals(connection: sqlite3.Connection) -> list[int]:
    return [at for (at,) in connection.execute("SELECT arrival_ms FROM limit_bucket ORDER BY arrival_ms").fetchall()]


def increment(connection: sqlite3.Connection) -> int:
    """Read, decide, write."""
    found = connection.execute("SELECT arrival_ms FROM limit_bucket WHERE bucket_index = ?", (b"0",)).fetchone()
    after = 1 if found is None else int(found[0]) + 1
    connection.execute(
        "INSERT INTO limit_bucket VALUES (:index, :after)"
        " ON CONFLICT (bucket_index) DO UPDATE SET arrival_ms = excluded.arrival_ms",
        {"index": b"0", "after": after},
    )
    return after


def claim(name: str) -> Callable[[sqlite3.Connection], bool]:
    """Return a transaction that inserts a row unless there is one; it returns whether it did."""

    def transaction(connection: sqlite3.Connection) -> bool:
        if arrivals(connection):
            return False
        connection.execute("INSERT INTO limit_bucket VALUES (:name, 1)", {"name": name.encode()})
        return True

    return transaction


class QueueCase(SynchronousTestCase):
    """A queue on which transactions wait together while it is paused."""

    def setUp(self) -> None:
        self.stores = memory_databases(self)

    def together(self, queue: DatabaseQueue, *transactions: Transaction[Any], size: int = 0) -> list[Deferred[Any]]:
        self.successResultOf(queue.pause())
        answers = [queue.submit(transaction, size) for transaction in transactions]
        for answer in answers:
            self.assertNoResult(answer)
        queue.resume()
        return answers

    def batches(self, queue: DatabaseQueue) -> list[int]:
        """Return a list that gets the size of each batch from now on."""
        sizes: list[int] = []
        run = queue.thread.run

        def counted(work: Callable[[sqlite3.Connection], Any]) -> Deferred[Any]:
            sizes.append(len(work.keywords["transactions"]))  # type: ignore[attr-defined]
            return run(work)

        queue.thread.run = counted  # type: ignore[method-assign, assignment]
        return sizes


class BeginTests(QueueCase):
    def test_before_all(self) -> None:
        """The first transaction is committed before all others, and once."""
        queue = self.stores.auth
        queue.begin_with(arrive(1))
        [found] = self.together(queue, arrivals)
        self.assertEqual(self.successResultOf(found), [1])
        self.successResultOf(queue.submit(arrive(2)))
        self.assertEqual(self.successResultOf(queue.submit(arrivals)), [1, 2])

    def test_fails(self) -> None:
        """While it fails, nothing else is written; then it is tried again."""
        failing = [True]

        def first(connection: sqlite3.Connection) -> None:
            arrive(1)(connection)
            if failing:
                raise ZeroDivisionError

        queue = self.stores.auth
        queue.begin_with(first)
        for written in self.together(queue, arrive(2), arrive(3)):
            self.failureResultOf(written, ZeroDivisionError)
        failing.clear()
        self.assertEqual(self.successResultOf(queue.submit(arrivals)), [1])


class Batches(QueueCase):
    def test_reads_share_a_batch(self) -> None:
        """Up to 64 waiting reads are one batch, the rest the next; all get their results in order."""
        sizes = self.batches(self.stores.reads)
        answers = self.together(self.stores.reads, *(lambda _, n=n: n for n in range(100)))
        self.assertEqual(list(range(100)), [self.successResultOf(answer) for answer in answers])
        self.assertEqual([BATCH_ITEMS, 100 - BATCH_ITEMS], sizes)

    def test_writes_share_a_commit(self) -> None:
        """Up to 64 waiting writes are one transaction of SQLite."""
        sizes = self.batches(self.stores.auth)
        self.together(self.stores.auth, *map(arrive, range(65)))
        self.assertEqual([64, 1], sizes)
        self.assertEqual(list(range(65)), self.successResultOf(self.stores.reads.submit(arrivals)))

    def test_bytes_limit_a_batch(self) -> None:
        """A batch has at most 4 MiB as announced by its transactions, but a larger one is a batch alone."""
        sizes = self.batches(self.stores.auth)
        self.together(self.stores.auth, *map(arrive, range(6)), size=BATCH_BYTES // 2)
        self.together(self.stores.auth, *map(arrive, range(6, 9)), size=BATCH_BYTES + 1)
        self.assertEqual([2, 2, 2, 1, 1, 1], sizes)

    def test_read_after_write(self) -> None:
        """A read that is submitted after the result of a write sees the write, in both databases."""
        self.successResultOf(self.stores.auth.submit(arrive(1)))
        self.assertEqual([1], self.successResultOf(self.stores.reads.submit(arrivals)))
        insert, select = (
            "INSERT INTO player_saves (player_id, epoch) VALUES ('p', 'e')",
            "SELECT player_id FROM player_saves",
        )
        self.successResultOf(self.stores.state.submit(ask(insert)))
        self.assertEqual([("p",)], self.successResultOf(self.stores.reads.submit(ask(select))))

    def test_submitted_while_answering(self) -> None:
        """Transactions that a callback submits are in a later batch; none is lost or nested."""
        seen: list[int] = []

        async def chain(start: int) -> None:
            for n in range(start, start + 5):
                seen.append(await self.stores.auth.submit(arrive(n)))

        self.successResultOf(self.stores.auth.pause())
        chains = [Deferred.fromCoroutine(chain(start)) for start in (0, 10, 20)]
        self.stores.auth.resume()
        self.successResultOf(gatherResults(chains))
        self.assertEqual(sorted(seen), self.successResultOf(self.stores.reads.submit(arrivals)))
        self.assertEqual([0, 10, 20], seen[:3])


class TurningReactor(InlineReactor):
    """A reactor whose callFromThread() calls in its next turn."""

    def __init__(self) -> None:
        super().__init__()
        self.due: list[Callable[[], object]] = []

    def callFromThread(self, work: Callable[..., Any], *args: Any, **kw: Any) -> None:
        self.due.append(partial(work, *args, **kw))

    def turn(self) -> None:
        due, self.due = self.due, []
        for work in due:
            work()


class Gathering(QueueCase):
    """The writes of many clients, which come one after the other once the last batch was answered."""

    def setUp(self) -> None:
        self.turning = TurningReactor()
        self.stores = memory_databases(self, reactor=self.turning)
        self.sizes = self.batches(self.stores.state)

    def write(self, count: int) -> None:
        """Submit writes in this turn of the reactor, which then ends."""
        for _ in range(count):
            self.stores.state.submit(ask("SELECT 1"))
        self.turn()

    def turn(self, count: int = 1) -> None:
        for _ in range(count):
            self.turning.turn()

    def settle(self) -> None:
        while self.turning.due:
            self.turning.turn()

    def test_waits_for_as_many(self) -> None:
        """A batch waits some turns until it is as large as the last one."""
        self.write(3)
        self.settle()
        for _ in range(3):
            self.write(1)
        self.settle()
        self.assertEqual(self.sizes, [3, 3])

    def test_not_for_long(self) -> None:
        """It waits no longer than that; then it is the measure of the next one."""
        self.write(3)
        self.settle()
        self.write(1)
        self.turn(GATHERING_TURNS - 1)
        self.assertEqual(self.sizes, [3])
        self.settle()
        self.assertEqual(self.sizes, [3, 1])
        self.write(1)
        self.assertEqual(self.sizes, [3, 1, 1])

    def test_reads_wait_for_none(self) -> None:
        """A read starts at the end of the turn, whatever was read before."""
        sizes = self.batches(self.stores.reads)
        for count in (3, 1):
            for _ in range(count):
                self.stores.reads.submit(ask("SELECT 1"))
            self.turn()
        self.assertEqual(sizes, [3, 1])


class Rejections(QueueCase):
    def test_queue_is_bounded(self) -> None:
        """The 4,097th waiting transaction gets DatabaseBusy at once; the 4,096 before it get their results."""
        queue = self.stores.reads
        self.successResultOf(queue.pause())
        answers = [queue.submit(lambda _: None) for _ in range(QUEUE_ITEMS)]
        self.failureResultOf(queue.submit(lambda _: None), DatabaseBusy)
        queue.resume()
        for answer in answers:
            self.assertIsNone(self.successResultOf(answer))

    def test_cancelled_while_waiting(self) -> None:
        """A transaction that is cancelled while it waits never runs and leaves the queue."""
        queue = self.stores.auth
        self.successResultOf(queue.pause())
        kept, dropped = queue.submit(arrive(1)), queue.submit(arrive(2))
        dropped.cancel()
        queue.resume()
        self.assertEqual(1, self.successResultOf(kept))
        self.failureResultOf(dropped, CancelledError)
        self.assertEqual([1], self.successResultOf(self.stores.reads.submit(arrivals)))

    def test_drain(self) -> None:
        """A draining queue runs all that waits, then fires its Deferred; later transactions get DatabaseBusy."""
        queue = self.stores.auth
        self.successResultOf(queue.pause())
        waiting = [queue.submit(arrive(n)) for n in range(130)]
        answered: list[int] = []
        for answer in waiting:
            answer.addCallback(answered.append)
        drained = queue.drain().addCallback(lambda _: len(answered))
        self.failureResultOf(queue.submit(arrive(1000)), DatabaseBusy)
        self.assertNoResult(drained)
        queue.resume()
        self.assertEqual(130, self.successResultOf(drained))

    def test_drain_after_the_last_was_cancelled(self) -> None:
        """A drain does not wait for cancelled transactions."""
        queue = self.stores.auth
        self.successResultOf(queue.pause())
        waiting = queue.submit(arrive(1))
        drained = queue.drain()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.successResultOf(drained)

    def test_pauses_nest(self) -> None:
        """A queue that was paused twice goes on after two resumes."""
        queue = self.stores.reads
        queue.pause()
        queue.pause()
        answer = queue.submit(lambda _: 1)
        queue.resume()
        self.assertNoResult(answer)
        queue.resume()
        self.assertEqual(1, self.successResultOf(answer))


@sqlite_files("its lock files and its error")
class Locked(QueueCase):
    """A queue whose file another process has locked."""

    def setUp(self) -> None:
        self.stores = file_databases(self)
        self.successResultOf(self.stores.auth.submit(ask("PRAGMA busy_timeout = 0")))
        path = self.stores.auth._database.path
        assert path is not None
        self.other = connect(file_uri(path, "rw"))
        self.addCleanup(self.other.close)
        self.other.execute("BEGIN IMMEDIATE")

    def test_none_waits_twice(self) -> None:
        """Give DatabaseBusy to all transactions that waited beside a batch that failed so, without a batch of their
        own.
        """
        queue = self.stores.auth
        sizes = self.batches(queue)
        answers = self.together(queue, *map(arrive, range(3 * BATCH_ITEMS)))
        for answer in answers:
            self.failureResultOf(answer, DatabaseBusy)
        self.assertEqual([BATCH_ITEMS], sizes)
        self.other.execute("ROLLBACK")
        self.assertEqual(7, self.successResultOf(queue.submit(arrive(7))))

    def test_later_ones_are_tried(self) -> None:
        """Transactions that were submitted while that batch waited are tried in a batch of their own."""
        queue, later = self.stores.auth, list[Deferred[int]]()
        run = queue.thread.run

        def submitting(work: Callable[[sqlite3.Connection], Any]) -> Deferred[Any]:
            if not later:
                later.append(queue.submit(arrive(1000)))
                done = run(work)
                self.other.execute("ROLLBACK")
                return done
            return run(work)

        queue.thread.run = submitting  # type: ignore[method-assign, assignment]
        for answer in self.together(queue, *map(arrive, range(BATCH_ITEMS + 1))):
            self.failureResultOf(answer, DatabaseBusy)
        self.assertEqual(1000, self.successResultOf(later[0]))
        self.assertEqual([1000], self.successResultOf(self.stores.reads.submit(arrivals)))


@sqlite_files("a damaged file")
class Damaged(SynchronousTestCase):
    def test_writing_stops_reading_goes_on(self) -> None:
        """Once SQLite reports damage, writes to that file fail; its readable rows and the other file work."""
        stores = file_databases(self)
        self.successResultOf(stores.state.submit(fill_players))
        self.successResultOf(stores.close())
        path = stores.state._database.path
        assert path is not None
        pages = spoil_players(path)
        stores = file_databases(self, data=path.parent)
        self.failureResultOf(stores.state.submit(ask("DELETE FROM player_saves")), DatabaseCorrupt)
        self.failureResultOf(
            stores.state.submit(ask("INSERT INTO save VALUES ('p', 'a', 1, 1, 1, NULL)")), DatabaseCorrupt
        )
        self.failureResultOf(stores.blobs.discard(1, "ply_a"), DatabaseCorrupt)
        self.assertEqual([(0,)], self.successResultOf(stores.reads.submit(ask("SELECT count(*) FROM save"))))
        self.assertEqual(1, self.successResultOf(stores.auth.submit(arrive(1))))
        self.failureResultOf(stores.check(), DatabaseCorrupt)
        self.assertIs(stores.state._database.unavailable_as, DatabaseCorrupt)
        self.assertGreater(pages, 1)


def fill_players(connection: sqlite3.Connection) -> None:
    for n in range(3000):
        connection.execute("INSERT INTO player_saves (player_id, epoch) VALUES (:id, 'e')", {"id": f"ply_{n:022}"})


def spoil_players(path: Any) -> int:
    """Damage the last pages, which have the players; return the first of them."""
    size = path.stat().st_size
    first = int(size // PAGE_BYTES) - 5
    spoil(path, first)
    return first


class Threads(TestCase):
    """Queues with real threads on real files."""

    def setUp(self) -> None:
        self.data = data_folder(self)
        self.stores: Databases = file_databases(self, reactor, data=self.data)

    async def test_one_winner(self) -> None:
        """Let one of 20 concurrent transactions on one row succeed; the others return that they did not."""
        won = await gatherResults([self.stores.auth.submit(claim(str(n))) for n in range(20)])
        self.assertEqual(1, sum(won))
        self.assertEqual([1], await self.stores.reads.submit(arrivals))

    async def test_no_lost_update(self) -> None:
        """20 read-then-write increments leave 20, each seen once."""
        counted = await gatherResults([self.stores.auth.submit(increment) for _ in range(20)])
        self.assertEqual(list(range(1, 21)), sorted(counted))
        self.assertEqual([20], await self.stores.reads.submit(arrivals))

    async def test_no_lost_update_between_two(self) -> None:
        """Two Databases on the same files, like a command beside the service, lose no update either."""
        second = file_databases(self, reactor, data=self.data)
        queues = [self.stores.auth, second.auth] * 30
        counted = await gatherResults([queue.submit(increment) for queue in queues])
        self.assertEqual(list(range(1, 61)), sorted(counted))

    async def test_answers_with_many_queues(self) -> None:
        """Writes to both databases and reads at the same time all get their own results."""
        writes = [self.stores.auth.submit(arrive(n)) for n in range(300)]
        state = [self.stores.state.submit(lambda _, n=n: n) for n in range(300)]
        reads = [self.stores.reads.submit(lambda _, n=n: n) for n in range(300)]
        for answers in (writes, state, reads):
            self.assertEqual(list(range(300)), await gatherResults(answers))

    async def test_cancelled_under_way(self) -> None:
        """A transaction that is cancelled in its thread is carried out; only its result is discarded."""
        answer = self.stores.auth.submit(arrive(1))
        await deferLater(reactor, 0, lambda: None)  # a batch begins at the end of the reactor's turn
        answer.cancel()
        with self.assertRaises(CancelledError):
            await answer
        await self.stores.auth.submit(lambda _: None)
        self.assertEqual([1], await self.stores.reads.submit(arrivals))

    async def test_close_runs_what_waits(self) -> None:
        """close() runs all that was submitted; all of it is on disk, and the log is empty."""
        answers = [self.stores.auth.submit(arrive(n)) for n in range(500)]
        await self.stores.close()
        self.assertEqual(list(range(500)), await gatherResults(answers))
        again = file_databases(self, reactor, data=self.data)
        self.assertEqual(list(range(500)), await again.reads.submit(arrivals))
