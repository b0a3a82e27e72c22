"""A database queue runs transactions in order in a thread of its own, up to 64 of them in one batch.

A transaction is a function that is called in that thread with the connection, inside a transaction of the engine. It
decides and writes without waiting for anything else and returns values; a conflict is a value, too. It may be called
again if its batch has to start over.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from twisted.enterprise.adbapi import ConnectionPool
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database.connection import Transaction
from gamed.database.engine import Database, Engine, EngineConnection, WriteKeys
from gamed.database.errors import DatabaseBusy, DatabaseFailing, DatabaseLocked, DatabaseReadOnly, DiskFull, new_error
from gamed.database.group_commit import Outcome, corruptions, detached_failure, group_commit, run_reads
from gamed.event_log import EventLog

T = TypeVar("T")

QUEUE_ITEMS = 4096
BATCH_ITEMS = 64
BATCH_BYTES = 4 * 1024 * 1024
GATHERING_TURNS = 4
"""The most turns of the reactor for which a batch waits until it is as large as the one before."""
UNEXPECTED = (LookupError, TypeError, ValueError, AssertionError, AttributeError, ArithmeticError)
"""Exceptions that a transaction raises only for a defect, or for rows that no version of gamed has written."""
EXAMINATIONS = 10
"""How often a queue searches its file for damage after an unexpected error: a defect must not slow each request."""
_log = EventLog(Logger())


class DatabaseThread:
    """A thread with one connection: adbapi's pool of exactly one, without its transactions.

    adbapi's defaults begin transactions in several threads, for sqlite3 where it guesses: two decisions then read the
    same row before either writes, and of 20 increments 3 are left. Here each function begins and ends its own
    transactions. The thread starts when the reactor runs, so after any fork.
    """

    def __init__(self, reactor: Any, engine: Engine) -> None:
        self.reactor = reactor
        self.engine = engine
        self.pool = ConnectionPool("gamed.database.engine", engine, cp_reactor=reactor, cp_min=1, cp_max=1)

    def run(self, work: Callable[[EngineConnection], T]) -> Deferred[T]:
        """Call `work` in the thread with the connection, which is opened if there is none."""
        return self.call(lambda: work(self.pool.connect()))

    def call(self, work: Callable[[], T]) -> Deferred[T]:
        """Call `work` in the thread, without the connection."""
        return deferToThreadPool(self.reactor, self.pool.threadpool, work)

    def reopen(self) -> EngineConnection:
        """Close the connection and return a new one for all later calls; only called in the thread."""
        self.pool.disconnect(self.pool.connect())
        connection: EngineConnection = self.pool.connect()
        return connection

    @property
    def started(self) -> bool:
        """Return whether a function would run now."""
        return bool(self.pool.threadpool.started)

    def close(self) -> None:
        """Join the thread and close the connection; functions that still wait never run."""
        self.pool.close()


class _Queued(Deferred[T]):
    """The result of a transaction in the queue; `batch` is the number of batches that had started when it came."""

    def __init__(
        self,
        transaction: Transaction[T],
        size: int,
        batch: int,
        cancelled: Callable[["Deferred[T]"], None],
        keys: WriteKeys | None,
    ) -> None:
        super().__init__(cancelled)
        self.transaction, self.size, self.batch, self.keys = transaction, size, batch, keys


class DatabaseQueue(ABC):
    """A queue of transactions in front of a thread; the subclass runs a batch there."""

    batch_items = BATCH_ITEMS

    def __init__(self, thread: DatabaseThread, name: str) -> None:
        self.thread = thread
        """The thread that runs the batches."""
        self.name = name
        """The name of the queue in the log; of a write queue, that of its file."""
        self._queue: deque[_Queued[Any]] = deque()
        self._started = 0
        """The number of batches that have started."""
        self._scheduled = False
        """True while a call of _start_batch() is scheduled."""
        self._starting = False
        self._running = False
        self._pauses = 0
        self._changed = False
        """True if the last batch changed something."""
        self._closed = False
        self.batches = [0] * (BATCH_ITEMS.bit_length() + 1)
        """The numbers of batches with 1, up to 2, up to 4, ... transactions; the last: with more than fit."""
        self.transactions = 0
        """The number of transactions in all of them."""
        self._disk_error: type[BaseException] | None = None
        """DiskFull or DatabaseFailing if the last batch met such an error."""
        self._examinations = EXAMINATIONS
        self._pausing: list[Deferred[None]] = []
        self._draining: list[Deferred[None]] = []

    @property
    def waiting(self) -> int:
        """Return the number of transactions that are not in a batch yet."""
        return len(self._queue)

    def submit(self, transaction: Transaction[T], size: int = 0, keys: WriteKeys | None = None) -> Deferred[T]:
        """Queue a transaction that writes about `size` bytes; the Deferred fires with its result after its batch.

        It fails with DatabaseBusy if the queue is full or closed. A transaction that is cancelled while it waits never
        runs; if it is cancelled later, only its result is discarded.
        """
        if self._closed:
            return fail(DatabaseBusy("The server is stopping."))
        if len(self._queue) >= QUEUE_ITEMS:
            return fail(new_error(DatabaseBusy))
        queued = _Queued(transaction, size, self._started, self._cancelled, keys)
        self._queue.append(queued)
        if not (self._running or self._scheduled):
            # At the end of the reactor's turn, so that all transactions of this turn are in one batch. With
            # callLater(0), which does the same, a PUT costs a tenth more.
            self._scheduled = True
            self.thread.reactor.callFromThread(self._start_batch)
        return queued

    def pause(self) -> Deferred[None]:
        """Start no further batch until resume(); fire when the running one is done."""
        self._pauses += 1
        if not self._running:
            return succeed(None)
        self._pausing.append(Deferred())
        return self._pausing[-1]

    def resume(self) -> None:
        """End one pause()."""
        self._pauses -= 1
        self._start_batch()

    def drain(self) -> Deferred[None]:
        """Accept nothing new; fire when all transactions in the queue have their results."""
        self._closed = True
        self._draining.append(drained := Deferred[None]())
        self._wake_drainers()
        return drained

    @abstractmethod
    def _run_batch(self, connection: EngineConnection, transactions: Sequence[Transaction[Any]]) -> list[Outcome]:
        """Run one batch, in the thread."""

    def _inspect(self, outcomes: Sequence[Outcome]) -> None:  # noqa: B027 (a hook)
        """Act on the outcomes before the next batch starts; only called if there is a Failure among them."""

    def _answered(self, batch: Sequence[_Queued[Any]]) -> None:  # noqa: B027 (a hook)
        """Act on a batch that changed something and whose results were delivered."""

    def _waits_for_more(self) -> bool:
        """Return whether the next batch starts a turn of the reactor later."""
        return False

    def _explain(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Report a damaged file as the reason of unexpected errors, if it is; called in the thread, after the batch."""
        unexpected = [place for place, outcome in enumerate(outcomes) if self._is_unexpected(outcome)]
        if unexpected and self._examinations:
            self._examinations -= 1
            with suppress(Exception):  # the search failed, but the batch is committed
                damage = self.thread.engine.find_damage(self.thread.pool.connect())
                if damage is not None:
                    for place in unexpected:
                        outcomes[place] = detached_failure(damage)
        return outcomes

    def _is_unexpected(self, outcome: Outcome) -> bool:
        return isinstance(outcome, Failure) and bool(outcome.check(*self.thread.engine.errors, *UNEXPECTED))

    def _cancelled(self, queued: Deferred[Any]) -> None:
        if queued in self._queue:
            self._queue.remove(cast(_Queued[Any], queued))
            self._wake_drainers()

    def _start_batch(self) -> None:
        self._scheduled = False
        if self._starting:  # _batch_done() was called inside run(), by a thread of the tests: the loop goes on
            return
        self._starting = True
        while self._queue and not self._running and not self._pauses:
            if self._waits_for_more():
                self._starting, self._scheduled = False, True
                self.thread.reactor.callFromThread(self._start_batch)
                return
            batch = self._pop_batch()
            self._started += 1
            self._running = True
            work = partial(self._run_batch, transactions=[queued.transaction for queued in batch])
            done = self.thread.run(work).addErrback(self._fail_each, len(batch))
            done.addCallback(self._batch_done, batch)
        self._starting = False

    def _pop_batch(self) -> list[_Queued[Any]]:
        """Remove the next batch from the queue: in order, at most batch_items and BATCH_BYTES, but at least one."""
        batch = [self._queue.popleft()]
        size = batch[0].size
        # A limit of bytes beside that of items: 64 writes of 256 KiB would be 16 MiB, and all wait for the last one. A
        # smaller write behind one that does not fit waits with it, since transactions run in order.
        while self._queue and len(batch) < self.batch_items and size + self._queue[0].size <= BATCH_BYTES:
            batch.append(self._queue.popleft())
            size += batch[-1].size
        self.batches[(len(batch) - 1).bit_length()] += 1
        self.transactions += len(batch)
        return batch

    def _batch_done(self, outcomes: Sequence[Outcome], batch: Sequence[_Queued[Any]]) -> None:
        self._running, changed = False, self._changed  # before the next batch sets it
        errors = [outcome.value for outcome in outcomes if isinstance(outcome, Failure)]
        self._report_disk(errors)
        if errors:
            self._inspect(outcomes)
        self._start_batch()  # the thread works while the results are delivered
        for queued, outcome in zip(batch, outcomes, strict=True):
            if not queued.called:
                queued.callback(outcome)
        if changed:
            self._answered(batch)
        self._wake_drainers()

    def _report_disk(self, errors: Sequence[BaseException | None]) -> None:
        """Log a disk that is full or fails in one line, and again only after a batch without such an error."""
        error = next((each for each in errors if type(each) in {DatabaseFailing, DiskFull}), None)
        kind = None if error is None else type(error)
        if isinstance(error, DatabaseFailing) and kind is not self._disk_error:
            _log.error("disk_io_error", queue=self.name, code=error.code)
        elif error is not None and kind is not self._disk_error:
            _log.error("disk_full", queue=self.name, detail=error.__cause__ or error)
        self._disk_error = kind

    def _fail_each(self, reason: Failure, items: int) -> list[Outcome]:
        # Each transaction gets its own error: the traceback of one that is raised twice has both ways.
        return [self._detached(reason) for _ in range(items)]

    def _detached(self, reason: Failure) -> Failure:
        assert reason.value is not None
        return detached_failure(self.thread.engine.translate(reason.value))

    def _wake_drainers(self) -> None:
        """Fire the Deferreds of pause() if no batch runs, and those of drain() if the queue is empty, too."""
        if self._running:
            return
        pausing, self._pausing = self._pausing, []
        draining: list[Deferred[None]] = []
        if not self._queue:
            draining, self._draining = self._draining, []
        for waiter in pausing + draining:
            waiter.callback(None)


class ReadQueue(DatabaseQueue):
    """The queue of reads that decide nothing, of both databases: read-only, one snapshot per batch.

    SQLite's two files are two snapshots: read `auth` first and rely on no common instant. A transaction that reads
    `state` marks the damage that it finds there (Connection.found_in).
    """

    def __init__(self, thread: DatabaseThread, databases: Sequence[Database]) -> None:
        """Read these databases, `auth` first."""
        super().__init__(thread, "reads")
        self._databases = databases

    def _run_batch(self, connection: EngineConnection, transactions: Sequence[Transaction[Any]]) -> list[Outcome]:
        return self._explain(run_reads(self.thread.engine, connection, transactions))

    def _inspect(self, outcomes: Sequence[Outcome]) -> None:
        for damage in corruptions(outcomes):
            damaged = [database for database in self._databases if database.name == damage.file]
            (damaged or self._databases)[0].mark_damaged()


def report_locked(database: str, outcome: Outcome) -> None:
    """Log once which process does not finish its write, if a batch failed because of that."""
    error = outcome.value if isinstance(outcome, Failure) else outcome
    if isinstance(error, DatabaseLocked) and error.first:
        _log.error(
            "database_locked",
            database=database,
            process=error.process,
            detail="That process does not finish its write. If it is stopped, continue or end it",
        )


def write_batch(
    thread: DatabaseThread,
    connection: EngineConnection,
    transactions: Sequence[Transaction[Any]],
    keys: Collection[str] | None = None,
    each_keys: Sequence[WriteKeys] | None = None,
) -> list[Outcome]:
    """Run a group commit in its thread, and again on a new connection if this one can only read.

    SQLite opens a file for reading when it cannot be written at that moment, and a connection stays as it was opened.
    """
    outcomes = group_commit(thread.engine, connection, transactions, keys, each_keys)
    # Nothing was written if all have failed so, and the transactions can run again.
    if all(isinstance(outcome, Failure) and outcome.check(DatabaseReadOnly) for outcome in outcomes):
        return group_commit(thread.engine, thread.reopen(), transactions, keys, each_keys)
    return outcomes


class WriteQueue(DatabaseQueue):
    """The queue of writes to one database, in group commits; only the blob store writes to the same one beside it."""

    def __init__(self, thread: DatabaseThread, wrote: Callable[[Database, int], None]) -> None:
        self._database = thread.engine.database
        super().__init__(thread, self._database.name)
        self._wrote = wrote
        self._keys: Collection[str] | None = None
        """The keys of the batch that runs."""
        self._each_keys: Sequence[WriteKeys] | None = None
        """The same for each of its transactions."""
        self._first: Transaction[None] | None = None
        self._last = 0
        """The transactions of the last batch."""
        self._turns = 0
        """How many turns the next one has waited for as many."""

    def submit(self, transaction: Transaction[T], size: int = 0, keys: WriteKeys | None = None) -> Deferred[T]:
        """Queue a transaction as in DatabaseQueue.submit(); fail at once if the database cannot be written.

        With `keys` it writes no other rows than theirs, and decides by no others that a keyed transaction writes. It
        may run before a transaction without keys that was submitted earlier, or after a later one, but transactions
        with keys run in order.
        """
        if self._database.unavailable_as is not None:
            return fail(new_error(self._database.unavailable_as))
        return super().submit(transaction, size, keys)

    @property
    def uses_keys(self) -> bool:
        """Return whether it is worth a read to find the keys of a transaction."""
        return self.thread.engine.concurrent_writers

    def between_batches(self, work: Callable[[EngineConnection], T]) -> Deferred[T]:
        """Call `work` with the connection that writes, between two batches and outside a transaction; DatabaseError.

        Nothing is locked, and nothing counts as written.
        """
        if self._closed or self._database.unavailable_as is not None:
            return fail(new_error(self._database.unavailable_as or DatabaseBusy))
        return self.thread.run(work).addErrback(self._detached)

    def release_space(self) -> Deferred[bool]:
        """Give some free space back to the disk; fire with True while there is more."""
        return self.submit(self.thread.engine.release_space, keys=())

    def begin_with(self, transaction: Transaction[None]) -> None:
        """Commit this transaction before all others; as long as it fails, all fail with its error.

        It is called again before the first write on a database server that has taken the place of another one.
        """
        self._first = self._database.beginning = transaction

    def _run_batch(self, connection: EngineConnection, transactions: Sequence[Transaction[Any]]) -> list[Outcome]:
        if self._database.unavailable_as is not None:
            return [detached_failure(new_error(self._database.unavailable_as)) for _ in transactions]
        if self._first is not None:
            [outcome] = self._explain(write_batch(self.thread, connection, [self._first], None, None))
            if isinstance(outcome, Failure):
                assert outcome.value is not None
                return [detached_failure(outcome.value) for _ in transactions]
            self._first, connection = None, self.thread.pool.connect()  # a new one if that could only read
        before, engine = connection.total_changes, self.thread.engine
        outcomes = write_batch(self.thread, connection, transactions, self._keys, self._each_keys)
        # Free pages are no rows, which total_changes counts.
        self._changed = self.thread.pool.connect().total_changes != before or engine.release_space in transactions
        return self._explain(outcomes)

    def _pop_batch(self) -> list[_Queued[Any]]:
        """Remove the next batch; where keys have an effect, all its transactions have some, or none has.

        It begins with the transaction that has waited longest. So no transaction waits for one that came later, and
        those without keys, which keep other writers out, share few batches.
        """
        if not self.thread.engine.concurrent_writers:
            return super()._pop_batch()
        # One transaction without keys needs the exclusive lock of the queue, so a batch that has one keeps out all
        # other processes, also for its transactions with keys.
        waiting, keyed = self._queue, self._queue[0].keys is not None
        self._queue = deque(queued for queued in waiting if (queued.keys is not None) is keyed)
        batch = super()._pop_batch()
        taken = set(batch)
        # Both kinds again in the order in which they came: the oldest one decides the kind of the next batch.
        self._queue = deque(queued for queued in waiting if queued not in taken)
        self._keys = keys = {key for queued in batch for key in queued.keys or ()} if keyed else None
        # One without a key writes nothing, but may read all rows: it runs beside no other one.
        self._each_keys = None if keys is None else [queued.keys or tuple(keys) for queued in batch]
        return batch

    def _waits_for_more(self) -> bool:
        # The clients of the last batch send their next writes one after the other, in the microseconds after it. A
        # batch of the first of them would let all others wait for its COMMIT: 16 clients would get batches of 1 and 15.
        if len(self._queue) < self._last and self._turns < GATHERING_TURNS:
            self._turns += 1
            return True
        self._last, self._turns = min(len(self._queue), self.batch_items), 0
        return False

    def _inspect(self, outcomes: Sequence[Outcome]) -> None:
        if corruptions(outcomes):
            self._database.mark_damaged()
        report_locked(self._database.name, outcomes[0])
        if all(isinstance(outcome, Failure) and outcome.check(DatabaseBusy) for outcome in outcomes):
            # Another process holds the file. What waited as long as this batch does not wait once more: with 4096 in
            # the queue, the last one would otherwise wait 64 times five seconds.
            while self._queue and self._queue[0].batch < self._started:
                self._queue.popleft().errback(detached_failure(new_error(DatabaseBusy)))

    def _answered(self, batch: Sequence[_Queued[Any]]) -> None:
        self._wrote(self._database, sum(queued.size for queued in batch))
