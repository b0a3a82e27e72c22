"""Whole tables of a database file are read in the order of their keys, or filled in a new file."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gamed.database.sqlite.files import SqliteConnection
from gamed.database.sqlite.migrations import OTHERS
from gamed.database.table_copy import BYTES, INTEGER, TEXT, Table, decode_row, encode_row
from gamed.structs import Component

DELETED = "deleted_blob"
"""A table in place of which PostgreSQL has a sequence."""
TYPES = {"INTEGER": INTEGER, "TEXT": TEXT, "BLOB": BYTES}


def tables_in(connection: SqliteConnection) -> list[Table]:
    """Return the tables that both engines have, in the order in which they were made: referred ones come first."""
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid"
    names = (name for (name,) in connection.execute(query).fetchall())
    return [_table(connection, name) for name in names if name != DELETED and not name.startswith(OTHERS)]


def _table(connection: SqliteConnection, name: str) -> Table:
    columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
    key = sorted((place, column) for _, column, *_, place in columns if place)
    return Table(
        name, [column for _, column, *_ in columns], [TYPES[kind] for _, _, kind, *_ in columns], [c for _, c in key]
    )


@contextmanager
def without_triggers(connection: SqliteConnection) -> Iterator[None]:
    """Delete all triggers, and make them again at the end, in the same transaction."""
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    yield
    for _, sql in triggers:
        connection.execute(sql)


class SqliteWholeDatabase(Component, frozen=True, kw_only=True):
    """The WholeDatabase (gamed/database/table_copy.py) of a file; without_triggers() is for a file that is filled."""

    connection: SqliteConnection

    def encoded_rows(self, table: Table) -> Iterator[bytes]:
        """Return the rows, which SQLite finds one by one."""
        query = f"SELECT {', '.join(table.columns)} FROM {table.name} ORDER BY {', '.join(table.key)}"
        return map(encode_row, self.connection.execute(query))

    def fill(self, table: Table, rows: Iterable[bytes]) -> None:
        """Insert the rows in place of those of the schema's script."""
        self.connection.execute(f"DELETE FROM {table.name}")
        places = ", ".join("?" * len(table.columns))
        query = f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({places})"
        self.connection.executemany(query, (decode_row(row, table.types) for row in rows))

    def highest_blob(self) -> int:
        """Return the highest number of all blobs and deleted blobs."""
        query = "SELECT max(coalesce((SELECT max(blob_id) FROM blob), 0), highest) FROM deleted_blob"
        [(number,)] = self.connection.execute(query).fetchall()
        return int(number)

    def set_highest_blob(self, number: int) -> None:
        """Note the number of a deleted blob."""
        self.connection.execute("UPDATE deleted_blob SET highest = ?", (number,))
