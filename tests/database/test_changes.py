"""The source reports changes by other processes, and the notifier wakes outdated waiters."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.database.changes import COMPARED, ChangeListener, ExternalChangeNotifier, Topic
from gamed.database.connection import KEYS, Connection, rows_in
from gamed.database.errors import DatabaseBusy
from gamed.database.sqlite.files import connect, file_uri
from gamed.long_poll import LongPollRegistry, Waiter, WakeReason
from tests.database.test_databases import insert_player
from tests.database.test_queues import arrive
from tests.support.databases import InlineReactor, LateThreads, data_folder, file_databases
from tests.support.stores import sqlite_files

OUTSIDER = """
import sys
from pathlib import Path
from gamed.database.sqlite.offline import run_transaction
run_transaction(Path(sys.argv[1]), lambda c: c.execute(sys.argv[2]).rowcount)
"""
BUCKET = "INSERT INTO limit_bucket VALUES (randomblob(8), 1)"
SAVES = "INSERT INTO player_saves (player_id, epoch) VALUES (hex(randomblob(8)), 'e')"


def from_outside(path: Path, sql: str) -> None:
    """Write from another process."""
    subprocess.run([sys.executable, "-c", OUTSIDER, str(path), sql], check=True, cwd=Path(__file__).parents[2])


class ChangeCase(SynchronousTestCase):
    """A test of databases on files, whose reports are counted."""

    def setUp(self) -> None:
        self.clock = InlineReactor()
        self.data = data_folder(self)
        self.stores = file_databases(self, data=self.data, inline=self.clock)
        self.called: list[Topic] = []

    def listen(self, topic: Topic) -> ChangeListener:
        async def changed() -> None:
            self.called.append(topic)

        self.stores.changes.listen(topic, changed)
        return changed

    def settle(self) -> None:
        """Let the first check pass, which counts as a change."""
        self.clock.pump([0.5] * 2)
        self.called.clear()

    def elsewhere(self, file: str, sql: str) -> None:
        """Write on a connection of the test, as another process would."""
        with closing(connect(file_uri(self.data / f"{file}.db", "rw"))) as other:
            other.execute(sql)


@sqlite_files("its data_version; tests.database.postgresql.test_listener has PostgreSQL's")
class Source(ChangeCase):
    def test_another_process(self) -> None:
        """A write of another process to either file is reported within half a second, once for each of its topics."""
        for topic in Topic:
            self.listen(topic)
        self.settle()
        for name, sql, topics in (
            ("auth.db", BUCKET, [Topic.LOGINS, Topic.SESSIONS]),
            ("state.db", SAVES, [Topic.SAVES]),
        ):
            from_outside(self.data / name, sql)
            self.assertEqual([], self.called)
            self.clock.pump([0.5] * 5)
            self.assertEqual(topics, self.called)
            self.called.clear()

    def test_own_writes(self) -> None:
        """This process's own writes are not reported."""
        for topic in Topic:
            self.listen(topic)
        self.settle()
        self.successResultOf(self.stores.auth.submit(arrive(1)))
        self.successResultOf(self.stores.state.submit(insert_player))
        self.clock.pump([0.5] * 5)
        self.assertEqual([], self.called)

    def test_own_write_after_another(self) -> None:
        """An own write that follows another process's write does not hide it."""
        self.listen(Topic.LOGINS)
        self.settle()
        self.elsewhere("auth", BUCKET)
        self.successResultOf(self.stores.auth.submit(arrive(1)))
        self.clock.pump([0.5] * 5)
        self.assertEqual([Topic.LOGINS], self.called)

    def test_reopened(self) -> None:
        """A write before this process opens a file anew is reported: the versions of two connections do not compare."""
        self.listen(Topic.LOGINS)
        self.settle()
        self.elsewhere("auth", BUCKET)
        self.stores.auth.thread.reopen()
        self.clock.pump([0.5] * 2)
        self.assertEqual([Topic.LOGINS], self.called)

    def test_idle(self) -> None:
        """While nothing changes, nothing is read or written and no checkpoint is scheduled."""
        self.listen(Topic.SAVES)
        self.settle()
        planned = len(self.clock.getDelayedCalls())
        queues = self.stores.queues.values()
        before = [queue.transactions for queue in queues]
        self.clock.pump([0.5] * 20)
        self.assertEqual([queue.transactions for queue in queues], before)
        self.assertEqual(len(self.clock.getDelayedCalls()), planned)

    def test_no_listener(self) -> None:
        """Without a listener no check is scheduled, and a listener that was removed is not called."""
        planned = len(self.clock.getDelayedCalls())
        listeners = [self.listen(topic) for topic in Topic]
        self.settle()
        for listener in listeners:
            self.stores.changes.unlisten(listener)
        self.assertEqual(len(self.clock.getDelayedCalls()), planned)
        self.elsewhere("auth", BUCKET)
        self.clock.pump([0.5] * 5)
        self.assertEqual([], self.called)

    def test_change_between_listeners(self) -> None:
        """A write while there is no listener is reported to the next one."""
        listener = self.listen(Topic.LOGINS)
        self.settle()
        self.stores.changes.unlisten(listener)
        self.elsewhere("auth", BUCKET)
        self.clock.pump([0.5] * 5)
        self.listen(Topic.LOGINS)
        self.clock.advance(0.5)
        self.assertEqual([Topic.LOGINS], self.called)

    def test_first_check_counts(self) -> None:
        """The first listener of all is called, as earlier changes are unknown."""
        self.listen(Topic.SAVES)
        self.clock.advance(0.5)
        self.assertEqual([Topic.SAVES], self.called)

    def test_another_writer(self) -> None:
        """A check of the files does not wait for a writer of another process."""
        self.listen(Topic.LOGINS)
        self.settle()
        with closing(connect(file_uri(self.data / "auth.db", "rw"))) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute(BUCKET)
            self.clock.pump([0.5] * 2)
            self.assertEqual([], self.called)
            other.execute("COMMIT")
        self.clock.pump([0.5] * 2)
        self.assertEqual([Topic.LOGINS], self.called)

    def test_blocked_file(self) -> None:
        """While the thread of one file is blocked, changes of the other one are reported."""
        for topic in Topic:
            self.listen(topic)
        self.settle()
        self.stores.auth.thread.pool.threadpool = late = LateThreads()
        self.elsewhere("auth", BUCKET)
        self.elsewhere("state", SAVES)
        self.clock.pump([0.5] * 3)
        self.assertEqual([Topic.SAVES], self.called)
        late.run()
        self.assertEqual([Topic.SAVES, Topic.LOGINS, Topic.SESSIONS], self.called)

    def test_lost_file(self) -> None:
        """A file that cannot be opened counts as unchanged, and a later check detects its changes."""
        (self.data / "auth.db").rename(self.data / "away")
        self.listen(Topic.LOGINS)
        self.clock.pump([0.5] * 3)
        self.assertEqual(([], []), (self.called, self.flushLoggedErrors()))
        (self.data / "away").rename(self.data / "auth.db")
        self.clock.pump([0.5] * 3)
        self.assertEqual([Topic.LOGINS], self.called)

    def test_listener_that_fails(self) -> None:
        """An unexpected exception of a listener is logged, and the other listeners are called."""

        async def fails() -> None:
            raise ZeroDivisionError

        self.stores.changes.listen(Topic.LOGINS, fails)
        self.listen(Topic.LOGINS)
        self.settle()
        self.elsewhere("auth", BUCKET)
        self.clock.pump([0.5] * 3)
        self.assertEqual([Topic.LOGINS], self.called)
        self.assertEqual(2, len(self.flushLoggedErrors(ZeroDivisionError)))

    def test_busy_listener(self) -> None:
        """A listener that could not read the database is called again, until it could."""
        failures = [DatabaseBusy("full"), DatabaseBusy("full")]

        async def busy() -> None:
            self.called.append(Topic.SAVES)
            if failures:
                raise failures.pop()

        self.stores.changes.listen(Topic.SAVES, busy)
        self.clock.pump([0.5] * 6)
        self.assertEqual([Topic.SAVES] * 3, self.called)

    def test_closed(self) -> None:
        """Closed databases check nothing."""
        self.listen(Topic.LOGINS)
        self.successResultOf(self.stores.close())
        self.assertEqual([], self.clock.getDelayedCalls())


@sqlite_files("its data_version; tests.database.postgresql.test_listener has PostgreSQL's")
class Notified(ChangeCase):
    """Waiters of one registry; each knows that its key has this number of buckets."""

    def setUp(self) -> None:
        super().setUp()
        self.waiters = LongPollRegistry(Clock())
        ExternalChangeNotifier(self.stores.changes, self.stores.reads, self.waiters, {Topic.LOGINS: self.outdated})
        self.compared: list[int] = []

    def outdated(self, connection: Connection, waiters: Sequence[Waiter]) -> list[Waiter]:
        """Return the waiters whose key has a bucket now."""
        self.compared.append(len(waiters))
        found = {key for (key,) in connection.execute("SELECT bucket_index FROM limit_bucket")}
        return [waiter for waiter in waiters if (waiter.key in found) is not waiter.known]

    def open(self, key: bytes) -> Waiter:
        waiter = self.waiters.open(key)
        waiter.known = False
        return waiter

    def insert(self, key: bytes) -> None:
        self.elsewhere("auth", f"INSERT INTO limit_bucket VALUES (x'{key.hex()}', 1)")

    def test_only_the_outdated(self) -> None:
        """Another process's change wakes the waiters that it concerns, and no others."""
        one, two = self.open(b"1").wait(9), self.open(b"2").wait(9)
        self.settle()
        self.insert(b"2")
        self.clock.advance(0.5)
        self.assertIs(self.successResultOf(two), WakeReason.CHANGED)
        self.assertNoResult(one)

    def test_portions(self) -> None:
        """Many waiters are compared in several short reads."""
        waits = [self.open(n.to_bytes(2, "big")).wait(9) for n in range(2 * COMPARED + 1)]
        self.settle()
        self.compared.clear()
        before = self.stores.reads.transactions
        self.insert((2 * COMPARED).to_bytes(2, "big"))
        self.clock.advance(0.5)
        self.assertEqual((self.compared, self.stores.reads.transactions - before), ([COMPARED, COMPARED, 1], 3))
        self.assertIs(self.successResultOf(waits[-1]), WakeReason.CHANGED)
        self.assertNoResult(waits[0])

    def test_reading_waiter(self) -> None:
        """A waiter that has not waited yet when another process writes does not wait for its next write."""
        waiter = self.waiters.open(b"1")
        self.settle()
        self.insert(b"2")
        self.clock.advance(0.5)
        self.assertIs(self.successResultOf(waiter.wait(9)), WakeReason.CHANGED)

    def test_no_waiter(self) -> None:
        """After the last waiter has left, nothing is compared and no check is scheduled."""
        planned = len(self.clock.getDelayedCalls())
        with self.open(b"1"), self.open(b"2"):
            self.settle()
        self.compared.clear()
        self.assertEqual(len(self.clock.getDelayedCalls()), planned)
        self.insert(b"1")
        self.clock.pump([0.5] * 3)
        self.assertEqual([], self.compared)


@sqlite_files("a writer beside the service")
class RowsIn(ChangeCase):
    def test_any_number_of_keys(self) -> None:
        """A query is executed for as many keys as there are, and finds each row once."""
        for n in range(2 * KEYS + 1):
            self.elsewhere("auth", f"INSERT INTO limit_bucket VALUES (x'{n:04x}', {n})")
        for count in (0, 1, KEYS, KEYS + 1, 2 * KEYS + 1):
            keys = [n.to_bytes(2, "big") for n in range(count)]
            query = partial(rows_in, query="SELECT arrival_ms FROM limit_bucket WHERE bucket_index IN ", keys=keys)
            found = self.successResultOf(self.stores.reads.submit(query))
            self.assertEqual(sorted(found), [(n,) for n in range(count)])


@sqlite_files("a writer beside the service; tests.processes has PostgreSQL's")
class InService(TestCase):
    async def test_noticed_in_time(self) -> None:
        """With the real reactor, too, another process's write is reported."""
        data = data_folder(self)
        stores = file_databases(self, reactor, data=data)
        calls: list[Deferred[None]] = [Deferred(), Deferred()]
        waiting = iter(calls)

        async def changed() -> None:
            next(waiting).callback(None)

        stores.changes.listen(Topic.SESSIONS, changed)
        await calls[0]
        with closing(connect(file_uri(data / "auth.db", "rw"))) as other:
            other.execute(BUCKET)
        await calls[1]
