"""Lanes: a queue in front of one thread. What waits while a batch runs rides the next batch together.

A unit is called with the connection inside a transaction, in the lane's thread. It decides and writes without
waiting for anything else, returns values (conflicts too), and may be called again if its batch had to start over.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database import group_commit
from gamed.database.connection import DatabaseFile, state_attached
from gamed.database.error_mapping import code_of, detached_failure, new_error
from gamed.database.errors import DatabaseBusy, DatabaseFailing, DatabaseUnavailable
from gamed.database.thread import DatabaseThread
from gamed.event_log import EventLog

T = TypeVar("T")
Transaction = Callable[[sqlite3.Connection], T]

QUEUE_ITEMS = 4096
BATCH_ITEMS = 64
BATCH_BYTES = 4 * 1024 * 1024
EXAMINATIONS = 10
"""How often a queue looks for damage after an unforeseen failure: a defect must not make each request slow."""
_log = EventLog(Logger())


class _Queued(Deferred[T]):
    """A unit in the queue, and its answer."""

    def __init__(self, unit: Transaction[T], size: int, turn: int, forget: Callable[["Deferred[T]"], None]) -> None:
        """`turn`: how many batches had begun when it came."""
        super().__init__(forget)
        self.unit, self.size, self.turn = unit, size, turn


class DatabaseQueue(ABC):
    """The queue and its turns; what a batch does in the thread is the subclass's `_work`."""

    batch_items = BATCH_ITEMS

    def __init__(self, worker: DatabaseThread) -> None:
        self._worker = worker
        self._queue: deque[_Queued[Any]] = deque()
        self._turns = 0
        self._running = False
        self._pumping = False
        self._called = False
        """Whether _pump() comes soon."""
        self._holds = 0
        self._closed = False
        self.batches = [0] * (BATCH_ITEMS.bit_length() + 1)
        """How many batches had 1, up to 2, up to 4, ... units; the last: more than there is room for."""
        self.transactions = 0
        """In all of them."""
        self._failing = False
        """Whether the disk reported an I/O error in the last batch."""
        self._examinations = EXAMINATIONS
        self._pausing: list[Deferred[None]] = []
        self._draining: list[Deferred[None]] = []

    @property
    def waiting(self) -> int:
        """Units that no batch has taken yet."""
        return len(self._queue)

    def submit(self, unit: Transaction[T], size: int = 0) -> Deferred[T]:
        """The unit's answer once its batch is done. `size`: bytes it writes, as the batch counts them.

        Fails with DatabaseBusy when too many wait already or the lane is closing. Cancelled while it waits, the unit
        never runs; later, only its answer is dropped.
        """
        if self._closed:
            return fail(DatabaseBusy("The server is stopping."))
        if len(self._queue) >= QUEUE_ITEMS:
            return fail(new_error(DatabaseBusy))
        item = _Queued(unit, size, self._turns, self._forget)
        self._queue.append(item)
        self._call_pump()
        return item

    def pause(self) -> Deferred[None]:
        """Start no further batch until resume(); fires when the one under way is done."""
        self._holds += 1
        if not self._running:
            return succeed(None)
        self._pausing.append(Deferred())
        return self._pausing[-1]

    def resume(self) -> None:
        self._holds -= 1
        self._pump()

    def drain(self) -> Deferred[None]:
        """Take nothing new; fires when everything that waited has been answered."""
        self._closed = True
        self._draining.append(drained := Deferred[None]())
        self._settle()
        return drained

    @abstractmethod
    def _work(self, connection: sqlite3.Connection, units: Sequence[Transaction[Any]]) -> list[group_commit.Outcome]:
        """One batch, in the thread."""

    def _explained(self, outcomes: Sequence[group_commit.Outcome]) -> list[group_commit.Outcome]:
        """In the thread, after the batch: whether a damaged file is the reason for what no unit raises otherwise."""
        if self._examinations == 0 or not group_commit.unforeseen(outcomes):
            return list(outcomes)
        self._examinations -= 1
        try:
            return group_commit.explained(self._worker.connection(), outcomes)
        except Exception:  # what was committed is committed, whatever the examination comes to
            return list(outcomes)

    def _note(self, outcomes: Sequence[group_commit.Outcome]) -> None:  # noqa: B027 (a hook)
        """See the outcomes before the next batch starts."""

    def _landed(self, batch: Sequence[_Queued[Any]]) -> None:  # noqa: B027 (a hook)
        """After the batch was answered."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the queue in the log."""

    def _log_io_errors(self, outcomes: Sequence[group_commit.Outcome]) -> None:
        """Log an I/O error of the disk in one line; log the next one only after a batch without any."""
        failing, self._failing = self._failing, False
        for outcome in outcomes:
            if isinstance(outcome, Failure) and isinstance(outcome.value, DatabaseFailing):
                self._failing = True
                if not failing:
                    _log.error("disk_io_error", queue=self.name, code=code_of(outcome.value))
                return

    def _forget(self, item: Deferred[Any]) -> None:
        """It was cancelled."""
        if item in self._queue:
            self._queue.remove(cast(_Queued[Any], item))
            self._settle()

    def _call_pump(self) -> None:
        """At the end of the reactor's turn: what came in it rides one batch, not the first alone and then the rest."""
        if not (self._running or self._called):
            self._called = True
            self._worker.call_in_reactor(self._pump)

    def _pump(self) -> None:
        self._called = False
        if self._pumping:  # an inline thread lands inside run(): the loop below goes on, depth stays one
            return
        self._pumping = True
        while self._queue and not self._running and not self._holds:
            batch = self._take()
            self._turns += 1
            self._running = True
            hop = self._worker.run(partial(self._work, units=[item.unit for item in batch]))
            hop.addErrback(_for_each, len(batch)).addCallback(self._land, batch)
        self._pumping = False

    def _take(self) -> list[_Queued[Any]]:
        """What rides together: in order, at most batch_items and BATCH_BYTES, but always one."""
        batch = [self._queue.popleft()]
        size = batch[0].size
        while self._queue and len(batch) < self.batch_items and size + self._queue[0].size <= BATCH_BYTES:
            batch.append(self._queue.popleft())
            size += batch[-1].size
        self.batches[(len(batch) - 1).bit_length()] += 1
        self.transactions += len(batch)
        return batch

    def _land(self, outcomes: Sequence[group_commit.Outcome], batch: Sequence[_Queued[Any]]) -> None:
        self._running = False
        self._log_io_errors(outcomes)
        self._note(outcomes)
        self._pump()  # the thread works on while the answers go out
        for item, outcome in zip(batch, outcomes, strict=True):
            if not item.called:
                item.callback(outcome)
        self._landed(batch)
        self._settle()

    def _settle(self) -> None:
        if self._running:
            return
        pausing, self._pausing = self._pausing, []
        draining: list[Deferred[None]] = []
        if not self._queue:
            draining, self._draining = self._draining, []
        for waiter in pausing + draining:
            waiter.callback(None)


def _translated(reason: Failure) -> Failure:
    assert reason.value is not None
    return detached_failure(reason.value)


def _for_each(reason: Failure, items: int) -> list[group_commit.Outcome]:
    """The connection could not be opened, or the batch could not be run at all."""
    return [_translated(reason) for _ in range(items)]


class ReadQueue(DatabaseQueue):
    """Reads that decide nothing: auth.db, state.db beside it, nothing writable, one snapshot per batch.

    The two files are two snapshots: read auth.db first and rely on no common instant. A unit that reads state.db says
    so of the damage that it meets there (errors.found_in).
    """

    name = "reads"

    def __init__(self, worker: DatabaseThread, files: Sequence[DatabaseFile]) -> None:
        """`files`: auth.db first."""
        super().__init__(worker)
        self._files = files

    def _note(self, outcomes: Sequence[group_commit.Outcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, Failure) and (damage := group_commit.corruption_in(outcome)) is not None:
                damaged = [file for file in self._files if file.name == damage.file]
                (damaged or self._files)[0].mark_damaged()

    def _work(self, connection: sqlite3.Connection, units: Sequence[Transaction[Any]]) -> list[group_commit.Outcome]:
        outcomes = self._explained(group_commit.run_reads(connection, units))
        if any(map(_lacks_table, outcomes)) and not state_attached(connection):
            return [
                detached_failure(new_error(DatabaseUnavailable)) if _lacks_table(outcome) else outcome
                for outcome in outcomes
            ]
        return outcomes


def _lacks_table(outcome: group_commit.Outcome) -> bool:
    return isinstance(outcome, Failure) and str(outcome.value).startswith("no such table")


def write_batch(
    worker: DatabaseThread, file: DatabaseFile, connection: sqlite3.Connection, units: Sequence[Transaction[Any]]
) -> list[group_commit.Outcome]:
    """Run a group commit in the worker's thread, once more on a new connection if this one can only read.

    SQLite opens a file for reading when it cannot be written at that moment, and a connection stays as it was opened.
    """
    with file.lock:
        outcomes = group_commit.group_commit(connection, units)
        return group_commit.group_commit(worker.reopen(), units) if group_commit.read_only(outcomes) else outcomes


class WriteQueue(DatabaseQueue):
    """The only writer of its file in this process, the blob lane's parts apart: group commit."""

    def __init__(self, worker: DatabaseThread, file: DatabaseFile, wrote: Callable[[DatabaseFile, int], None]) -> None:
        super().__init__(worker)
        self._file = file
        self._wrote = wrote

    @property
    def name(self) -> str:
        """Of the file: `auth` or `state`."""
        return self._file.name

    def submit(self, unit: Transaction[T], size: int = 0) -> Deferred[T]:
        if self._file.unavailable_as is not None:
            return fail(new_error(self._file.unavailable_as))
        return super().submit(unit, size)

    def data_version(self) -> Deferred[int]:
        """Return a number that changes when another connection commits to this file; DatabaseError.

        It is read between two batches, outside a write transaction: nothing is locked, and nothing counts as written.
        """
        if self._closed or self._file.unavailable_as is not None:
            return fail(new_error(self._file.unavailable_as or DatabaseBusy))
        return self._worker.run(_data_version).addErrback(_translated)

    def _work(self, connection: sqlite3.Connection, units: Sequence[Transaction[Any]]) -> list[group_commit.Outcome]:
        if self._file.unavailable_as is not None:
            return [detached_failure(new_error(self._file.unavailable_as)) for _ in units]
        return self._explained(write_batch(self._worker, self._file, connection, units))

    def _note(self, outcomes: Sequence[group_commit.Outcome]) -> None:
        if any(map(group_commit.corruption_in, outcomes)):
            self._file.mark_damaged()
        if all(isinstance(outcome, Failure) and outcome.check(DatabaseBusy) for outcome in outcomes):
            self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        """Another process held the file for as long as a batch waits: who waited as long waits no longer."""
        while self._queue and self._queue[0].turn < self._turns:
            self._queue.popleft().errback(detached_failure(new_error(DatabaseBusy)))

    def _landed(self, batch: Sequence[_Queued[Any]]) -> None:
        self._wrote(self._file, sum(item.size for item in batch))


def _data_version(connection: sqlite3.Connection) -> int:
    [(version,)] = connection.execute("PRAGMA data_version").fetchall()
    return int(version)
