"""A PlainSession waits for each statement, however long it takes: for schemas, and for the copies of whole tables."""

from collections.abc import Callable, Iterator
from select import POLLIN, POLLOUT
from time import monotonic
from typing import Any

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from gamed.database.connection import Parameters
from gamed.database.postgresql.connecting import await_events, error_of
from gamed.database.postgresql.error_mapping import ABORTED, LOST, PostgresqlError, translate
from gamed.database.postgresql.results import warning_of
from gamed.database.postgresql.statements import convert, encode, load_rows, values_of

WORKING_SECONDS = 0.2
"""How often `working` is called while the server works."""
_BINARY = pq.Format.BINARY
_IN_TRANSACTION = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)


class PlainResult:
    """The result of a statement that has ended."""

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows = iter(rows)
        self.rowcount = rowcount

    def fetchone(self) -> Any:
        """Return the next row as a tuple, or None."""
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        """Return all other rows."""
        return list(self._rows)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the other rows."""
        return self._rows

    def close(self) -> None:
        """Discard all other rows."""
        self._rows = iter(())


class PlainSession:
    """A Connection (gamed/database/connection.py) of one session, whose owner begins and ends transactions."""

    def __init__(self, session: PGconn, working: Callable[[], None] = lambda: None) -> None:
        """Use this session alone; call `working` repeatedly while the server works."""
        self._session = session
        self._working = working
        self._committing = False
        self._warning: PostgresqlError | None = None
        session.notice_handler = self._notice

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        return self._session.transaction_status in _IN_TRANSACTION

    def execute(self, sql: str, parameters: Parameters = (), /) -> PlainResult:
        """Execute one statement; raise PostgresqlError."""
        statement = convert(sql)
        types, values = encode(values_of(statement, parameters))
        formats = [_BINARY] * len(values)
        self._send(self._session.send_query_params, statement.sql, values, types, formats, _BINARY)
        result = self._result()
        return PlainResult(load_rows(result), -1 if result.command_tuples is None else result.command_tuples)

    def rows(self, sql: str, parameters: Parameters = (), /) -> list[Any]:
        """Execute one statement and return all its rows as tuples."""
        return self.execute(sql, parameters).fetchall()

    def found_in(self, database: str, error: BaseException) -> BaseException:
        """Return the translated error."""
        return translate(error)

    def copy_in(self, sql: str, data: Iterator[bytes]) -> None:
        """Execute a COPY FROM STDIN with these data; raise PostgresqlError, and what the iterator raises."""
        self._send(self._session.send_query, sql.encode())
        self._result()
        try:
            for part in data:
                self._put(self._session.put_copy_data, part)
        except BaseException:
            self._put(self._session.put_copy_end, b"the source cannot be read")
            self._drain()
            raise
        self._put(self._session.put_copy_end)
        self._result()

    def copy_out(self, sql: str) -> Iterator[bytes]:
        """Execute a COPY TO STDOUT, and yield what the server sends, row by row; raise PostgresqlError."""
        self._send(self._session.send_query, sql.encode())
        self._result()
        while True:
            size, data = self._call(self._session.get_copy_data, 1)
            if size > 0:
                yield bytes(data)
            elif size == 0:
                self._wait()
            else:
                self._result()
                return

    def commit(self) -> None:
        """Commit the open transaction; raise PostgresqlError if it is not known to be on disk."""
        self._committing, self._warning = True, None
        try:
            self._send(self._session.send_query, b"COMMIT")
            result = self._result()
        finally:
            self._committing = False
        if result.command_status != b"COMMIT":
            raise PostgresqlError(ABORTED, "PostgreSQL has rolled the transaction back")
        if self._warning is not None:
            raise self._warning

    def _notice(self, notice: PGresult) -> None:
        if self._committing:
            self._warning = warning_of(notice) or self._warning

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one, without an error: a lost session has none."""
        if self.in_transaction:
            self.execute("ROLLBACK")

    def close(self) -> None:
        """Close the session."""
        self._session.finish()

    def _send(self, send: Callable[..., None], *arguments: Any) -> None:
        self._call(send, *arguments)
        self._flush()

    def _put(self, put: Callable[..., int], *arguments: Any) -> None:
        while not self._call(put, *arguments):
            self._wait()
        self._flush()

    def _flush(self) -> None:
        while self._call(self._session.flush):
            self._wait()

    def _wait(self) -> None:
        """Wait until the server has sent something or can read; call `working` if that takes long."""
        events = POLLIN | (POLLOUT if self._call(self._session.flush) else 0)
        if await_events(self._session.socket, events, monotonic() + WORKING_SECONDS):
            self._call(self._session.consume_input)
        else:
            self._working()

    def _result(self) -> PGresult:
        """Return the result of the statement, or the one that begins a COPY; raise PostgresqlError."""
        last: PGresult | None = None
        while True:
            while self._session.is_busy():
                self._wait()
            result: PGresult | None = self._call(self._session.get_result)
            if result is None:
                assert last is not None
                return last
            last = result
            if result.status == pq.ExecStatus.FATAL_ERROR:
                error, _ = error_of(result, self._session)
                self._drain()
                raise error
            if result.status in {pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT}:
                return result

    def _drain(self) -> None:
        while self._call(self._session.get_result) is not None:
            pass

    @staticmethod
    def _call(function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except psycopg.Error as e:
            raise PostgresqlError(LOST, str(e)) from e
