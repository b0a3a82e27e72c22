"""A PlainSession waits for each statement, however long it takes: for schemas, and for the copies of whole tables."""

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

from psycopg import Cursor, pq
from psycopg.copy import LibpqWriter
from psycopg.errors import Diagnostic

from gamed.database.connection import Connection, Parameters
from gamed.database.postgresql.connecting import DriverConnection
from gamed.database.postgresql.error_mapping import ABORTED, PostgresqlError, reported, translate
from gamed.database.postgresql.results import warning_of
from gamed.database.postgresql.statements import convert, values_of
from gamed.timestamps import CLOCKS_MS

_IN_TRANSACTION = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)


class _Writer(LibpqWriter):
    def finish(self, exc: BaseException | None = None) -> None:
        # psycopg would send the exception's text to the server, which logs it; that of SQLite may quote a row.
        super().finish(None if exc is None else ValueError("the source cannot be read"))


class PlainSession:
    """A Connection (gamed/database/connection.py) of one session, whose owner begins and ends transactions."""

    fatal_error = None
    clocks_ms = CLOCKS_MS
    ahead_ms = 0  # right when it was opened, and requests of a service have other sessions

    def __init__(
        self,
        connection: DriverConnection,
        working: Callable[[], None] = lambda: None,
        answer_seconds: float = inf,
    ) -> None:
        """Use this connection alone; call `working` repeatedly while the server works."""
        self._connection = connection
        connection.working, connection.answer_seconds = working, answer_seconds

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        return self._connection.pgconn.transaction_status in _IN_TRANSACTION

    def execute(self, sql: str, parameters: Parameters = (), /) -> "Cursor[Any]":
        """Execute one statement; raise PostgresqlError."""
        statement = convert(sql)
        with reported():
            return self._connection.execute(statement.sql, values_of(statement, parameters), binary=True)

    def rows(self, sql: str, parameters: Parameters = (), /) -> list[Any]:
        """Execute one statement and return all its rows as tuples."""
        result = self.execute(sql, parameters)
        return result.fetchall() if result.description else []

    @property
    def auth(self) -> Connection:
        """Return this connection, which reads both schemas."""
        return self

    def found_in(self, database: str, error: BaseException) -> BaseException:
        """Return the translated error."""
        return translate(error)

    def copy_in(self, sql: str, data: Iterator[bytes]) -> None:
        """Execute a COPY FROM STDIN with these data; raise PostgresqlError, and what the iterator raises."""
        cursor = self._connection.cursor()
        with reported(), cursor.copy(sql.encode(), writer=_Writer(cursor)) as copy:
            for part in data:
                copy.write(part)

    def copy_out(self, sql: str) -> Iterator[bytes]:
        """Execute a COPY TO STDOUT, and yield what the server sends, row by row; raise PostgresqlError."""
        with reported(), self._connection.cursor().copy(sql.encode()) as copy:
            yield from map(bytes, copy)

    def commit(self) -> None:
        """Commit the open transaction; raise PostgresqlError if it is not known to be on disk."""
        warnings: list[PostgresqlError | None] = []

        def notice(found: Diagnostic) -> None:
            warnings.append(warning_of(found))

        self._connection.add_notice_handler(notice)
        try:
            result = self.execute("COMMIT")
        finally:
            self._connection.remove_notice_handler(notice)
        if result.statusmessage != "COMMIT":
            raise PostgresqlError(ABORTED, "PostgreSQL has rolled the transaction back")
        for warning in filter(None, warnings):
            raise warning

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one, without an error: a lost session has none."""
        if self.in_transaction:
            self.execute("ROLLBACK")

    def close(self) -> None:
        """Close the session."""
        self._connection.close()
