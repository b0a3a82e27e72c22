"""PostgreSQL is an Engine (gamed/database/engine.py): several processes write, each the rows of certain keys.

Writers take turns by locks that end with their transaction: all hold lock 0 of their queue together, and one lock for
each of their keys, by a number from 1 to 64. A transaction that may write all rows holds lock 0 alone.
"""

from collections.abc import Callable, Collection, Sequence
from zlib import crc32

from gamed.database.connection import Connection
from gamed.database.engine import Database, EngineConnection, NeedsSavepoints
from gamed.database.errors import DatabaseCorrupt
from gamed.database.postgresql.connecting import Connector, SessionKind
from gamed.database.postgresql.connection import PostgresqlConnection
from gamed.database.postgresql.error_mapping import PostgresqlError, translate

STRIPES = 64
"""Not a lock for each player: all locks of a server share a table, by default with 64 places for each connection."""
QUEUES = {"auth": 1, "state": 2}
"""The first number of all locks of a queue's writers."""
_READ = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())
WRITE = ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", ())
_SHARED = "SELECT pg_advisory_xact_lock_shared(CAST(? AS int4), 0)"
_ALONE = "SELECT pg_advisory_xact_lock(CAST(? AS int4), 0)"
_KEYS = "SELECT pg_advisory_xact_lock(CAST(? AS int4), stripe) FROM unnest(CAST(? AS int4[])) AS stripe"


class PostgresqlEngine:
    """The way of one thread to the database."""

    concurrent_writers = True
    errors = (PostgresqlError,)

    def __init__(
        self,
        connector: Connector,
        database: Database,
        kind: SessionKind,
        joined: Callable[[PostgresqlConnection], object] = lambda connection: None,
    ) -> None:
        """Use sessions of this kind; the locks are those of `database`. `joined` is called with each new session."""
        self.database = database
        self._connector = connector
        self._kind = kind
        self._joined = joined
        self._queue = QUEUES[database.name]

    def open(self) -> PostgresqlConnection:
        """Return a new connection; raise DatabaseError."""
        return PostgresqlConnection(self._connector, self._kind, self._joined)

    def begin_reading(self, connection: EngineConnection) -> None:
        """Begin a transaction, whose first SELECT takes the snapshot."""
        _ours(connection).begin([_READ], reading=True)

    def run_together(
        self, connection: EngineConnection, functions: Sequence[Callable[[], None]], keys: Sequence[Collection[str]]
    ) -> bool:
        """Call the functions, and send their statements together."""
        if len(functions) > 1:
            return _ours(connection).run_together(functions, keys)
        for function in functions:
            function()
        return False

    def begin_writing(self, connection: EngineConnection, keys: Collection[str] | None) -> None:
        """Begin a transaction; its first statement waits for the locks, and takes its snapshot when it has them."""
        if keys is None:
            _ours(connection).begin([WRITE, (_ALONE, (self._queue,))])
            return
        # PostgreSQL takes them in this order: sorted, so that no two batches wait for each other's locks for ever.
        stripes = ",".join(map(str, sorted({stripe(key) for key in keys})))
        locks = [(_SHARED, (self._queue,)), (_KEYS, (self._queue, f"{{{stripes}}}"))]
        _ours(connection).begin([WRITE, *locks])

    def commit(self, connection: EngineConnection) -> None:
        """Commit the transaction."""
        try:
            _ours(connection).commit()
        except PostgresqlError as e:
            if connection.in_transaction and connection.fatal_error is None:
                raise NeedsSavepoints from e
            raise

    def end(self, connection: EngineConnection) -> None:
        """Roll back what was not committed, which also releases the locks."""
        connection.rollback()

    def translate(self, error: BaseException, connection: EngineConnection | None = None) -> BaseException:
        """Return the DatabaseError for an error of PostgreSQL."""
        return translate(error)

    def release_space(self, connection: Connection) -> bool:
        """Leave that to autovacuum."""
        return False

    def find_damage(self, connection: EngineConnection) -> DatabaseCorrupt | None:
        """Leave that to the server, which reports the pages that it cannot read."""
        return None


def stripe(key: str) -> int:
    """Return the number of a key's lock."""
    return crc32(key.encode()) % STRIPES + 1


def _ours(connection: EngineConnection) -> PostgresqlConnection:
    assert isinstance(connection, PostgresqlConnection)
    return connection
