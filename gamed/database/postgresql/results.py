"""The results of statements that were sent; one is read when a transaction needs it."""

from collections.abc import Callable, Iterator
from sys import maxsize
from typing import Any

from psycopg import pq
from psycopg.abc import Transformer
from psycopg.errors import Diagnostic
from psycopg.pq.abc import PGresult
from twisted.logger import Logger

from gamed.database.postgresql.error_mapping import NOT_REPLICATED, PostgresqlError
from gamed.database.postgresql.statements import Statement, row_loader
from gamed.event_log import EventLog

BINARY = int(pq.Format.BINARY)
QUEUE_FILLS = "asyncQueueFillWarning"
"""The function of PostgreSQL that warns in a COMMIT, before it is written, when the NOTIFY queue is half full."""
_log = EventLog(Logger())


class PreparedStatement:
    """A statement of one session, for parameters of certain types."""

    __slots__ = ("formats", "loader", "name", "statement")

    def __init__(self, name: bytes, statement: Statement, parameters: int) -> None:
        self.name, self.statement = name, statement
        self.formats: list[int] = [BINARY] * parameters
        self.loader: Transformer | None = None
        """The loader of its rows, after the first result."""


class PostgresqlResult:
    """The result of a statement that was sent; its methods wait for it."""

    __slots__ = ("_result", "_row", "_wait", "error", "prepared")

    prepared: PreparedStatement
    """The statement, which is known when it is sent."""

    def __init__(self, wait: Callable[[], None]) -> None:
        """Call `wait` to wait for the results of all statements that were sent."""
        self._wait = wait
        self._result: PGresult | None = None
        self._row = 0
        self.error: PostgresqlError | None = None

    def receive(self, result: PGresult) -> None:
        """Keep what the server sent."""
        self._result = result

    def fail(self, error: PostgresqlError) -> None:
        """Raise this error to all who wait."""
        self.error = error

    @property
    def controls(self) -> bool:
        """Return whether the statement ends a transaction or a savepoint."""
        return self.prepared.statement.controls

    def wait(self) -> PGresult:
        """Return the result; raise PostgresqlError."""
        while self._result is None and self.error is None:
            self._wait()
        if self.error is not None:
            raise self.error
        assert self._result is not None
        return self._result

    @property
    def rowcount(self) -> int:
        """Return how many rows the statement inserted, updated or deleted."""
        rows = self.wait().command_tuples
        return -1 if rows is None else rows

    def fetchone(self) -> Any:
        """Return the next row as a tuple, or None."""
        result = self.wait()
        row = self._row
        if row >= result.ntuples:
            return None
        self._row += 1
        return self._loader(result).load_row(row, tuple)

    def fetchall(self) -> list[Any]:
        """Return all other rows."""
        result = self.wait()
        begin, self._row = min(self._row, result.ntuples), result.ntuples
        return self._loader(result).load_rows(begin, result.ntuples, tuple)

    def close(self) -> None:
        """Discard all other rows."""
        self._row = maxsize

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the other rows."""
        while (row := self.fetchone()) is not None:
            yield row

    def _loader(self, result: PGresult) -> Transformer:
        loader = self.prepared.loader
        if loader is None:
            loader = self.prepared.loader = row_loader(result)
        loader.set_pgresult(result, set_loaders=False)
        return loader


class Preparation(PostgresqlResult):
    """The result of preparing a statement."""

    __slots__ = ("_forget",)

    def __init__(self, wait: Callable[[], None], forget: Callable[[], object]) -> None:
        super().__init__(wait)
        self._forget = forget

    def fail(self, error: PostgresqlError) -> None:
        """Prepare the statement again the next time."""
        super().fail(error)
        self._forget()


def warning_of(notice: Diagnostic) -> PostgresqlError | None:
    """Return the error for a notice about a COMMIT, which may not be replicated; None if that is not in doubt.

    Only the function that sent it distinguishes warnings: most have the code 01000, and the text depends on the
    server's language.
    """
    if notice.severity_nonlocalized != "WARNING":
        return None
    if notice.source_function == QUEUE_FILLS:
        _log.warn("notify_queue_filling", detail=f"{notice.message_primary}. {notice.message_detail or ''}")
        return None
    return PostgresqlError(NOT_REPLICATED, notice.message_primary or "")
