"""SELECTs of several functions that differ only in the values of their parameters are sent as one statement.

Its result is one row, in which each column is an array: PostgreSQL sends it at once, and one call decodes a column of
all reads. So the thread waits less often, and gives Python's lock away less often, than for a result of each read.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import Any, Protocol

from psycopg.pq.abc import PGresult

from gamed.database.postgresql.error_mapping import PostgresqlError
from gamed.database.postgresql.results import PostgresqlResult
from gamed.database.postgresql.statements import BYTEA, CONVERTED, INT8, TEXT, Statement, Types, convert

LEAST, MOST = 6, 64
"""How many reads a statement has; fewer cost as much alone."""
PARAMETERS = 16
"""A SELECT with more parameters, such as a list of keys, is sent alone."""
ALONE = ("ORDER BY", "blob_part")
"""Words of other SELECTs that are sent alone: the order would be lost, or the values have up to 256 KiB each."""
ARRAYS = {INT8: 1016, TEXT: 1009, BYTEA: 1001}
"""The type of the array for each type of parameters. NULL, which PostgreSQL gives the type it needs, has none."""
Values = Sequence[bytes | None]
_array = Layout("!iiIii")
_length = Layout("!i")


class _Holder(Protocol):
    columns: dict[str, int]
    """How many columns the rows of a SELECT have, after its first result: that is always sent alone."""

    def wait(self) -> None:
        """Wait for the results of all statements that were sent or held."""

    def hold(self, read: "HeldRead") -> None:
        """Send a SELECT at the next wait()."""


class HeldRead(PostgresqlResult):
    """The result of a SELECT that is sent when all functions wait, alone or as a part of a bulk read."""

    __slots__ = ("_rows", "_session", "alone", "sql", "types", "values")

    def __init__(self, session: _Holder, sql: str, types: Types, values: Values) -> None:
        super().__init__(session)
        self._session = session
        self.sql, self.types, self.values = sql, types, values
        self.alone = False
        """True after a value in the result of a bulk read could not be decoded."""
        self._rows: Sequence[Any] | None = None
        """Its rows, if they came with those of others."""

    def receive(self, result: PGresult) -> None:
        """Keep what the server sent for this SELECT alone."""
        super().receive(result)
        self._session.columns[self.sql] = result.nfields

    def share(self, result: PGresult, rows: Sequence[Any]) -> None:
        """Keep its rows of a bulk read's result."""
        self._result, self._rows = result, rows

    def send_alone(self) -> None:
        """Send it once more, without others."""
        self.alone = True
        self._session.hold(self)

    def fetchone(self) -> Any:
        """Return the next row as a tuple, or None."""
        self.wait()
        if self._rows is None:
            return super().fetchone()
        if self._row >= len(self._rows):
            return None
        self._row += 1
        return self._rows[self._row - 1]

    def fetchall(self) -> list[Any]:
        """Return all other rows."""
        self.wait()
        return super().fetchall() if self._rows is None else list(self)


class BulkRead(PostgresqlResult):
    """The result of a statement that reads for several HeldReads."""

    __slots__ = ("_reads",)

    def __init__(self, session: _Holder, reads: Sequence[HeldRead]) -> None:
        super().__init__(session)
        self._reads = reads

    def receive(self, result: PGresult) -> None:
        """Give each read its rows."""
        super().receive(result)
        try:
            numbers, *columns = self.fetchone()
        except Exception:  # the read whose value cannot be decoded raises it again
            for read in self._reads:
                read.send_alone()
            return
        each_rows: list[list[Any]] = [[] for _ in self._reads]
        if numbers is not None:
            for number, row in zip(numbers, zip(*columns, strict=True), strict=True):
                each_rows[number - 1].append(row)
        for read, rows in zip(self._reads, each_rows, strict=True):
            read.share(result, rows)

    def fail(self, error: PostgresqlError) -> None:
        """Raise this error in all reads."""
        for read in self._reads:
            read.fail(error)


Sending = tuple[Statement, Types, Values, PostgresqlResult]
"""A statement, the types and values of its parameters, and what receives its result."""


def in_bulk(session: _Holder, reads: Sequence[HeldRead]) -> Iterator[Sending]:
    """Yield what has to be sent for these reads, in any order."""
    groups: dict[tuple[str, Types, bool], list[HeldRead]] = {}
    for read in reads:
        groups.setdefault((read.sql, read.types, read.alone), []).append(read)
    for (sql, types, alone), group in groups.items():
        for begin in range(0, len(group), MOST):
            part = group[begin : begin + MOST]
            statement = None
            if len(part) >= LEAST and not alone and sql in session.columns:
                statement = bulk_statement(sql, types, session.columns[sql])
            if statement is None:
                yield from ((convert(sql), types, read.values, read) for read in part)
            else:
                parameters = zip(*(read.values for read in part), strict=True)
                arrays = [_encode_array(each, values) for each, values in zip(types, parameters, strict=True)]
                yield statement, tuple(ARRAYS[each] for each in types), arrays, BulkRead(session, part)


@lru_cache(CONVERTED)
def bulk_statement(sql: str, types: Types, columns: int) -> Statement | None:
    """Return the statement for arrays of parameters, or None if the SELECT has to be sent alone.

    Its first column has the number of the read for each row. OFFSET 0 makes PostgreSQL plan the SELECT as it would be
    planned alone: it looks up each read by the index, and never searches the whole table for all of them. An array from
    a SELECT has no length that PostgreSQL could plan for, so it keeps one plan.
    """
    known = ARRAYS.keys() >= set(types) and 0 < len(types) <= PARAMETERS
    if not known or any(word in sql for word in ALONE):
        return None
    numbers = range(1, len(types) + 1)
    arrays, names = ", ".join(f"(SELECT ${n})" for n in numbers), ", ".join(f"p{n}" for n in numbers)
    found = [f"c{n}" for n in range(columns)]
    text = (
        f"SELECT array_agg(read.number), {', '.join(f'array_agg(found.{name})' for name in found)}"
        f" FROM unnest({arrays}) WITH ORDINALITY AS read ({names}, number),"
        f" LATERAL ({convert(sql, 'read.p').sql.decode()} OFFSET 0) AS found ({', '.join(found)})"
    )
    return Statement(text.encode(), (), changes=False, controls=False)


def _encode_array(kind: int, values: Values) -> bytes:
    """Return an array of one dimension in PostgreSQL's binary form."""
    parts = [_array.pack(1, 0, kind, len(values), 1)]
    for value in values:
        assert value is not None
        parts += (_length.pack(len(value)), value)
    return b"".join(parts)
