"""A PostgresqlConnection sends statements without waiting, and reads their results when a transaction needs one.

The statements and their results are those of libpq's pipeline mode: one that fails makes the server skip all others up
to the next point of synchronization, which is where results are read.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import count
from select import POLLIN, POLLOUT, poll
from time import monotonic
from typing import Any

import psycopg
from greenlet import getcurrent, greenlet
from psycopg import pq
from psycopg.errors import Diagnostic
from psycopg.pq.abc import PGconn, PGresult
from twisted.logger import Logger

from gamed.database.connection import Connection, Parameters
from gamed.database.engine import NeedsSavepoints
from gamed.database.errors import DatabaseCorrupt, DatabaseError
from gamed.database.postgresql.connecting import Connector, DriverConnection, SessionKind
from gamed.database.postgresql.error_mapping import (
    ABORTED,
    LIMIT_EXCEEDED,
    LOST,
    QUEUE_FULL,
    STALE,
    PostgresqlError,
    ends_batch,
    error_of,
    translate,
)
from gamed.database.postgresql.results import BINARY, PostgresqlResult, Preparation, PreparedStatement, warning_of
from gamed.database.postgresql.statements import Statement, Types, convert, encode, values_of
from gamed.event_log import EventLog
from gamed.timestamps import CLOCKS_MS

PREPARED = 500
"""How many statements a session keeps prepared; then it forgets all of them."""
READS = 3
"""How often a session that was not used is read: the reason of its end comes before the end."""
ADVICE = "A session that has executed LISTEN keeps a transaction open: see xact_start in pg_stat_activity. End it"
_SYNC, _ERROR = pq.ExecStatus.PIPELINE_SYNC, pq.ExecStatus.FATAL_ERROR
_FAILED = (_ERROR, pq.ExecStatus.PIPELINE_ABORTED)
_COMMIT = convert("COMMIT")
_ROLLBACK = convert("ROLLBACK")
_log = EventLog(Logger())


class _Function:
    """A function of run_together()."""

    __slots__ = ("changes", "ended", "greenlet", "keys", "work")

    def __init__(self, work: Callable[[], object], keys: Collection[str]) -> None:
        self.work = work
        self.keys = frozenset(keys)
        self.changes = 0
        self.greenlet: greenlet | None = None
        """The one that runs it, after it has begun."""
        self.ended = False


class PostgresqlConnection:
    """An EngineConnection (gamed/database/engine.py) that gets a new session after one was lost."""

    clocks_ms = CLOCKS_MS

    def __init__(
        self,
        connector: Connector,
        kind: SessionKind,
        joined: Callable[["PostgresqlConnection"], object] = lambda connection: None,
    ) -> None:
        """Connect; raise DatabaseError. `joined` is called with each new session, outside a transaction."""
        self._connector = connector
        self._kind = kind
        self._joined = joined
        self.in_transaction = False
        self._running = _Function(lambda: None, ())
        """The function that runs; this one outside run_together()."""
        self.fatal_error: Exception | None = None
        """The error after which no transaction of the batch can succeed."""
        self._reading = False
        self._in_batch = False
        """True from begin() to rollback() or commit()."""
        self._pending: deque[PostgresqlResult] = deque()
        """The results that were not read yet, in the order of their statements."""
        self._awaited = 0
        """The points of synchronization that the server has not confirmed."""
        self._sent = 0
        """The statements that were sent since the last one."""
        self._names = count(1)
        self._hub: greenlet | None = None
        """The greenlet of run_together() while one of its functions runs."""
        self._resting: list[greenlet] = []
        """Greenlets without a function: a new one maps memory for its frames, and unmaps it at its end."""
        self._failure: PostgresqlError | None = None
        """The first error of the transaction."""
        self._failures = 0
        """How many errors there were."""
        self._committing: PostgresqlResult | None = None
        """The result of the last COMMIT."""
        self._warning: PostgresqlError | None = None
        """The warning that the server sent with that COMMIT."""
        self._queue_full = False
        """True after a commit that the full NOTIFY queue refused, until one succeeds."""
        self._opened: DriverConnection
        """psycopg's object for the session, which has to live as long."""
        self._session: PGconn | None = None
        self._connect()

    @property
    def ahead_ms(self) -> int:
        """Return how far this machine's clock is ahead of the server's, as the service knows that."""
        return self._connector.ahead_ms()

    def _connect(self) -> None:
        try:
            self._opened = self._connector.open(self._kind)
        except DatabaseError as e:
            self.fatal_error = e
            raise
        session = self._opened.pgconn
        session.notice_handler = self._notice
        session.enter_pipeline_mode()
        self._prepared: dict[tuple[bytes, Types], PreparedStatement] = {}
        self._poll = poll()
        self._poll.register(session.socket, POLLIN)
        self._session, self._failure = session, None
        try:
            self._joined(self)
        except BaseException as e:
            self.close()
            raise translate(e)  # noqa: B904  its cause is set

    def _notice(self, notice: PGresult) -> None:
        if self._pending and self._pending[0] is self._committing:
            self._warning = warning_of(Diagnostic(notice)) or self._warning

    def begin(self, statements: Sequence[tuple[str, Parameters]], *, reading: bool = False) -> None:
        """Begin a transaction with these statements, which are sent before its first one; raise DatabaseError.

        A transaction that is `reading` ends with its first error.
        """
        self._in_batch = False
        if not self._is_living():
            self._connect()
        self.fatal_error, self._reading, self._in_batch, self.in_transaction = None, reading, True, True
        if not self._pending:
            self._failure = None
        for sql, parameters in statements:
            self.execute(sql, parameters)

    def _is_living(self) -> bool:
        session = self._session
        if session is None:
            return False
        if self._connector.restored is not None:
            self.close()
            return False
        try:
            # Reading without a poll() before it: that would release Python's lock, once more for each batch.
            for _ in range(READS):
                session.consume_input()
        except psycopg.Error as e:
            self._lose(_lost(e))
            return False
        return True

    def execute(self, sql: str, parameters: Parameters = (), /) -> PostgresqlResult:
        """Send one statement; its errors are raised by the first method of a result that waits.

        Outside a batch it is a transaction of its own.
        """
        statement = convert(sql)
        if not self._in_batch and not self._is_living():
            self._connect()
        types, values = encode(values_of(statement, parameters))
        result = self._send(statement, types, values)
        if statement.changes:
            self._running.changes += 1
            if statement.controls:
                result.wait()
        return result

    def rows(self, sql: str, parameters: Parameters = (), /) -> list[Any]:
        """Execute one statement and return all its rows as tuples."""
        return self.execute(sql, parameters).fetchall()

    @property
    def auth(self) -> Connection:
        """Return this connection, which reads both schemas."""
        return self

    def found_in(self, database: str, error: BaseException) -> BaseException:
        """Return the translated error; attribute damage to `auth` or `state`."""
        ours = translate(error)
        if isinstance(ours, DatabaseCorrupt):
            ours.file = database
        return ours

    def commit(self) -> None:
        """Commit the transaction; return only when it is known to be on disk, else raise PostgresqlError.

        If the server does not answer, the outcome is unknown and counts as a failure. If an earlier statement failed,
        the transaction is still open; if its error was caught, raise NeedsSavepoints, and the transaction has ended.
        """
        self._warning, failure = None, self._failure
        self._committing = self._send(_COMMIT)
        try:
            result = self._committing.wait()
        except PostgresqlError as e:
            if e.code == LIMIT_EXCEEDED and not self.in_transaction:  # the error of the COMMIT itself
                e.code = QUEUE_FULL
                if not self._queue_full:
                    _log.error("notify_queue_full", detail=ADVICE)
                self._queue_full = True
            raise
        self.in_transaction = self._in_batch = self._queue_full = False
        if result.command_status != b"COMMIT":
            error = failure or PostgresqlError(ABORTED, "PostgreSQL has rolled the transaction back")
            raise NeedsSavepoints from error
        if self._warning is not None:
            raise self._warning

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one, without waiting for that; end the batch."""
        self._roll_back()
        self._in_batch = False

    def _roll_back(self) -> None:
        session = self._session
        if self.in_transaction and session is not None:
            try:
                if self._sent:  # the server skips all until it is synchronized if one of them fails, the ROLLBACK, too
                    self._synchronize(session)
                self._send(_ROLLBACK)
                self._synchronize(session)
            except psycopg.Error as e:
                self._lose(_lost(e))
            except PostgresqlError:
                pass  # the session is lost
        self.in_transaction = False

    def close(self) -> None:
        """Close the connection."""
        self._resting.clear()
        self._lose(PostgresqlError(LOST, "The connection was closed"))

    def _send(self, statement: Statement, types: Types = (), values: Sequence[bytes | None] = ()) -> PostgresqlResult:
        session = self._session
        if session is None or (self._in_batch and not self.in_transaction):
            raise self._failure or PostgresqlError(LOST, "The transaction has ended")
        try:
            prepared = self._prepared.get((statement.sql, types)) or self._prepare(session, statement, types)
            session.send_query_prepared(prepared.name, values, prepared.formats, BINARY)
        except psycopg.Error as e:
            self._lose(lost := _lost(e))
            raise lost from e
        self._sent += 1
        return self._expect(PostgresqlResult(self.wait), prepared)

    def _prepare(self, session: PGconn, statement: Statement, types: Types) -> PreparedStatement:
        prepared = PreparedStatement(b"s%d" % next(self._names), statement, len(types))
        if len(self._prepared) >= PREPARED:
            self._prepared.clear()
            session.send_query_params(b"DEALLOCATE ALL", None)
            self._expect(PostgresqlResult(self.wait), prepared)
        session.send_prepare(prepared.name, statement.sql, types)
        key = statement.sql, types
        self._prepared[key] = prepared
        self._expect(Preparation(self.wait, partial(self._prepared.pop, key, None)), prepared)
        return prepared

    def _expect(self, result: PostgresqlResult, prepared: PreparedStatement) -> PostgresqlResult:
        result.prepared = prepared
        self._pending.append(result)
        return result

    @property
    def total_changes(self) -> int:
        """Return how many statements may have changed rows; inside run_together() those of the function that runs."""
        return self._running.changes

    def run_together(self, functions: Sequence[Callable[[], object]], keys: Sequence[Collection[str]]) -> bool:
        """Call functions that raise nothing; while they wait for results, the others run.

        So the statements of all of them are sent together. Each function has a greenlet to itself; it begins when
        those before it that share one of its keys have ended. Return True if a statement failed: its error was raised
        in all functions that waited.
        """
        failures, outside, hub = self._failures, self._running, getcurrent()
        left = [_Function(work, each) for work, each in zip(functions, keys, strict=True)]
        try:
            while left:
                self._hub, taken, waiting = hub, set[str](), []
                for function in left:
                    if taken.isdisjoint(function.keys):
                        self._resume(function)
                    if not function.ended:
                        waiting.append(function)
                        taken |= function.keys
                self._hub, left = None, waiting
                if left:
                    self.wait()
        finally:
            self._hub, self._running = None, outside
        return self._failures != failures

    def _resume(self, function: _Function) -> None:
        self._running = function
        if function.greenlet is None:
            function.greenlet = self._resting.pop() if self._resting else greenlet(self._run_functions)
        function.greenlet.switch()

    def _run_functions(self) -> None:
        """Run one function after another in a greenlet, which keeps nothing of them."""
        while self._hub is not None:
            self._run_function(self._running)
            self._hub.switch()

    def _run_function(self, function: _Function) -> None:
        function.work()
        function.ended = True
        self._resting.append(getcurrent())

    def wait(self) -> None:
        """Wait for the results of all statements that were sent."""
        if self._hub is not None:
            self._hub.switch()
            return
        session = self._session
        if session is None:
            return
        try:
            self._synchronize(session)
            self._read(session, monotonic() + self._kind.answer_seconds)
        except psycopg.Error as e:
            self._lose(_lost(e))
        except PostgresqlError as e:
            self._lose(e)
        else:
            if self._failure is not None:
                self._act_on(self._failure, session)

    def _synchronize(self, session: PGconn) -> None:
        session.pipeline_sync()
        self._awaited += 1
        self._sent = 0

    def _read(self, session: PGconn, deadline: float) -> None:
        """Read until the server has confirmed the last point of synchronization; raise if the session has ended."""
        while self._awaited:
            # Once for each statement, not before each get_result(): psycopg releases Python's lock for every is_busy().
            while session.is_busy():
                self._await_input(session, deadline)
            while (result := session.get_result()) is not None:  # after a result this waits for nothing
                status = result.status
                if status == _SYNC:
                    self._awaited -= 1
                    break
                if status in _FAILED:
                    self._receive_failure(result, session)
                    continue
                received = self._pending.popleft()
                received.receive(result)
                if received.controls:
                    self._failure = None

    def _await_input(self, session: PGconn, deadline: float) -> None:
        unsent = session.flush()
        if unsent:
            self._poll.modify(session.socket, POLLIN | POLLOUT)
        ready = self._poll.poll(max(0.0, deadline - monotonic()) * 1000)
        if unsent:
            self._poll.modify(session.socket, POLLIN)
        if not ready:
            raise PostgresqlError(LOST, "PostgreSQL does not answer")
        session.consume_input()

    def _receive_failure(self, result: PGresult, session: PGconn) -> None:
        if result.status == _ERROR:
            lost = session.status == pq.ConnStatus.BAD
            error, ended = error_of(Diagnostic(result), result.get_error_message(), lost=lost)
            if self._failure is None or error.code != ABORTED:
                self._failure = error
            if ended:
                raise error
        assert self._failure is not None
        self._pending.popleft().fail(self._failure)

    def _act_on(self, failure: PostgresqlError, session: PGconn) -> None:
        # PostgreSQL refuses every statement after a failed one, which only a savepoint undoes. Counted as a change, it
        # makes the group commit use savepoints, even if the transaction has written nothing.
        self._running.changes += 1
        self._failures += 1
        # Without a lock or without a server the next transaction fails, too: each of 64 would wait for four seconds.
        if ends_batch(failure.code):
            self.fatal_error = failure
        if session.transaction_status == pq.TransactionStatus.IDLE:  # a COMMIT that failed has ended it
            self.in_transaction = False
        elif self._reading:  # reads have nothing to keep: the next one begins a new transaction, without a savepoint
            self._roll_back()
        if failure.code in STALE:
            self._lose(failure)

    def _lose(self, error: PostgresqlError) -> None:
        """Close the session; all that waits fails. The next transaction gets a new one."""
        if self._session is not None:
            self._session.finish()
            self._session = None
        self.fatal_error, self.in_transaction, self._failure = error, False, error
        self._running.changes += 1
        self._failures += 1
        self._awaited = self._sent = 0
        while self._pending:
            self._pending.popleft().fail(error)


def _lost(error: psycopg.Error) -> PostgresqlError:
    lost = PostgresqlError(LOST, str(error))
    lost.__cause__ = error
    return lost
