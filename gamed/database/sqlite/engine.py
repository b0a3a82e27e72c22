"""SQLite is an Engine (gamed/database/engine.py): it opens connections, begins and ends transactions, finds damage."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from gamed.database.connection import STATE, Connection
from gamed.database.engine import EngineConnection
from gamed.database.errors import DatabaseCorrupt, DatabaseUnavailable, damaged_row, new_error
from gamed.database.sqlite.error_mapping import SQLITE_ERRORS, translate, translated
from gamed.database.sqlite.files import (
    PAGE_BYTES,
    DatabaseFile,
    SqliteConnection,
    StateConnection,
    attach_state,
    connect,
    prepare,
    prepare_to_write,
    state_attached,
)

EXAMINED_PAGES = 64 * 1024 * 1024 // PAGE_BYTES
"""The largest file that is searched for damage after an unexpected error: the queue waits some tenths of a second."""
FREE_PAGES = 16 * 1024 * 1024 // PAGE_BYTES
"""Free pages that the next writes will use; further ones are given back to the disk."""
RELEASED_PAGES = 100
"""How many pages one transaction gives back, in a few milliseconds."""


class SqliteEngine:
    """The way of one thread to a database file."""

    concurrent_writers = False
    errors = SQLITE_ERRORS
    connection_class: type[SqliteConnection] = SqliteConnection

    def __init__(self, file: DatabaseFile, *, large_cache: bool = False) -> None:
        """Use this file; `large_cache` is for the queue that writes the pages of many players."""
        self.database = self._file = file
        self._large_cache = large_cache
        self._has_turn = False
        """True while this thread holds the file's lock."""

    def open(self) -> SqliteConnection:
        """Return a new connection to the existing file; raise DatabaseError."""
        with translated():
            connection = connect(self._file.uri, self.connection_class)
            try:
                self._set_up(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _set_up(self, connection: SqliteConnection) -> None:
        (prepare_to_write if self._large_cache else prepare)(connection)

    def begin_reading(self, connection: EngineConnection) -> None:
        """Begin a transaction, whose first SELECT takes the snapshot."""
        connection.execute("BEGIN")

    def run_together(
        self, connection: EngineConnection, functions: Sequence[Callable[[], None]], keys: Sequence[Collection[str]]
    ) -> bool:
        """Call one function after the other: SQLite answers at once."""
        for function in functions:
            function()
        return False

    def begin_writing(self, connection: EngineConnection, keys: Collection[str] | None) -> None:
        """Begin a write transaction when the other threads and processes have ended theirs: SQLite has one writer."""
        self._file.lock.acquire()
        self._has_turn = True
        connection.execute("BEGIN IMMEDIATE")

    def commit(self, connection: EngineConnection) -> None:
        """Commit the transaction."""
        connection.execute("COMMIT")

    def end(self, connection: EngineConnection) -> None:
        """Roll back what was not committed and release the file's lock; the next BEGIN reports a failure of this."""
        with suppress(*SQLITE_ERRORS):
            connection.rollback()
        if self._has_turn:
            self._has_turn = False
            self._file.lock.release()

    def translate(self, error: BaseException, connection: EngineConnection | None = None) -> BaseException:
        """Return the DatabaseError for an error of SQLite."""
        return translate(error)

    def release_space(self, connection: Connection) -> bool:
        """Give some free pages back to the disk."""
        return release_pages(connection)

    def find_damage(self, connection: EngineConnection) -> DatabaseCorrupt | None:
        """Check the pages and references of every open file that is not too large."""
        for _, schema, _ in connection.execute("PRAGMA database_list").fetchall():
            if not _is_intact(connection, schema):
                return damaged_row(STATE) if schema == STATE else new_error(DatabaseCorrupt)
        return None


class SqliteStateEngine(SqliteEngine):
    """The way of the thread that writes state.db, in transactions that may read auth.db, too."""

    connection_class = StateConnection

    def __init__(self, state: DatabaseFile, auth: DatabaseFile) -> None:
        super().__init__(state, large_cache=True)
        self._auth = auth

    def _set_up(self, connection: SqliteConnection) -> None:
        super()._set_up(connection)
        assert isinstance(connection, StateConnection)
        connection.auth_uri = self._auth.uri

    def end(self, connection: EngineConnection) -> None:
        """End the snapshot of auth.db, then the transaction as SqliteEngine does."""
        assert isinstance(connection, StateConnection)
        connection.end_snapshot()
        super().end(connection)


class SqliteReadEngine(SqliteEngine):
    """The way of one thread to both files for reading: auth.db, with state.db attached if it can be opened."""

    def __init__(self, auth: DatabaseFile, state: DatabaseFile, *, query_only: bool = True) -> None:
        """Read both files; without `query_only`, checkpoints are possible, too."""
        super().__init__(auth)
        self._state = state
        self._query_only = query_only

    def _set_up(self, connection: SqliteConnection) -> None:
        prepare(connection)
        attach_state(connection, self._state)
        if self._query_only:
            connection.execute("PRAGMA query_only = ON")

    def translate(self, error: BaseException, connection: EngineConnection | None = None) -> BaseException:
        """Return the DatabaseError for an error of SQLite; a missing table is a state.db that could not be opened."""
        if str(error).startswith("no such table") and connection is not None and not state_attached(connection):
            ours = new_error(DatabaseUnavailable)
            ours.__cause__ = error
            return ours
        return translate(error)


def _is_intact(connection: EngineConnection, schema: str) -> bool:
    try:
        [(pages,)] = connection.execute(f"PRAGMA {schema}.page_count").fetchall()
        if pages > EXAMINED_PAGES:
            return True
        errors = connection.execute(f"PRAGMA {schema}.integrity_check(1)").fetchall()
        return errors == [("ok",)] and connection.execute(f"PRAGMA {schema}.foreign_key_check").fetchone() is None
    except SQLITE_ERRORS as e:
        return not isinstance(translate(e), DatabaseCorrupt)


def release_pages(connection: Connection) -> bool:
    """Give some free pages back to the disk; return True while there are more."""
    [(free,)] = connection.rows("PRAGMA freelist_count")
    if free <= FREE_PAGES:
        return False
    for _ in range(RELEASED_PAGES):
        connection.rows("PRAGMA incremental_vacuum(1)")  # sqlite3 makes one step of it, which frees one page
    return True
