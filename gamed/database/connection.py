"""A transaction gets a Connection, whatever engine the databases have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
AUTH, STATE = "auth", "state"
"""The two databases: players and sessions; saves (SPEC 1/12)."""
Parameters = Sequence[Any] | Mapping[str, Any]


class StatementResult(Protocol):
    """The rows of a statement that was executed; they are read before the next statement is."""

    @property
    def rowcount(self) -> int:
        """Return how many rows the statement inserted, updated or deleted."""

    def fetchone(self) -> Any:
        """Return the next row as a tuple, or None."""

    def close(self) -> None:
        """Discard all other rows."""

    def fetchall(self) -> list[Any]:
        """Return all other rows."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the other rows."""


class Connection(Protocol):
    """A connection inside a transaction, which its queue begins and ends."""

    def execute(self, sql: str, parameters: Parameters = (), /) -> StatementResult:
        """Execute one statement; a mapping gives the values of its `:name` parameters."""

    def rows(self, sql: str, parameters: Parameters = (), /) -> list[Any]:
        """Execute one statement and return all its rows as tuples."""

    @property
    def fatal_error(self) -> Exception | None:
        """Return the error after which no transaction of the batch can succeed; None while one can."""

    @property
    def clocks_ms(self) -> int:
        """Return how far the clocks of those who write here may be apart: CLOCKS_MS, or 0 on one machine."""

    @property
    def ahead_ms(self) -> int:
        """Return how far this machine's clock is ahead of the database's; 0 if it is right, negative if it is behind.

        Requests delete nothing that has expired by a wrong clock alone.
        """

    @property
    def auth(self) -> "Connection":
        """Return the connection that reads `auth` in this transaction; it may be another one with errors of its own.

        Its snapshot is not older than the beginning of the transaction.
        """

    def found_in(self, database: str, error: BaseException) -> BaseException:
        """Return the DatabaseError for an error of a statement on `auth` or `state`, to which damage is attributed.

        Other errors are returned unchanged.
        """


Transaction = Callable[[Connection], T]
"""A function that reads, decides and writes without waiting; it may be called again if its batch starts over."""


def is_storable(text: str) -> bool:
    """Return whether a text from outside can be searched: PostgreSQL refuses one with a NUL, which no row has."""
    return "\0" not in text


KEYS = 100
_PLACES = f"({', '.join(['?'] * KEYS)})"


def rows_in(connection: Connection, query: str, keys: Sequence[Any]) -> list[Any]:
    """Return the rows of a query that ends with `IN`, for any number of keys.

    Each execution has KEYS of them, the last one repeated, so that there is one statement to prepare.
    """
    found = []
    for begin in range(0, len(keys), KEYS):
        portion = [*keys[begin : begin + KEYS]]
        found += connection.rows(query + _PLACES, portion + [portion[-1]] * (KEYS - len(portion)))
    return found


def attributed(database: str, transaction: Transaction[T]) -> Transaction[T]:
    """Return a transaction for the read queue whose damage is attributed to `auth` or `state`."""

    def read(connection: Connection) -> T:
        try:
            return transaction(connection)
        except Exception as e:
            raise connection.found_in(database, e)  # noqa: B904  its cause is set

    return read
