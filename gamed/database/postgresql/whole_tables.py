"""Whole tables of a schema are read in the order of their keys, or filled in a new schema."""

from collections.abc import Iterable, Iterator

from gamed.database.postgresql.session import PlainSession
from gamed.database.table_copy import Table
from gamed.structs import Component

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
PART_BYTES = 64 * 1024
"""About as much is sent at once."""


class PostgresqlWholeDatabase(Component, frozen=True, kw_only=True):
    """The WholeDatabase (gamed/database/table_copy.py) of a schema."""

    session: PlainSession
    schema: str

    def encoded_rows(self, table: Table) -> Iterator[bytes]:
        """Return the rows, which PostgreSQL finds by the index of the key: it sorts no table."""
        self._set_planner("off")
        query = f"SELECT {', '.join(table.columns)} FROM {self._name(table)} ORDER BY {', '.join(table.key)}"
        for data in self.session.copy_out(f"COPY ({query}) TO STDOUT (FORMAT binary)"):
            row = data.removeprefix(HEADER)
            if row != TRAILER:
                yield row
        self._set_planner("on")

    def fill(self, table: Table, rows: Iterable[bytes]) -> None:
        """Insert the rows in place of those of the schema's script, and set the sequence of their numbers."""
        name, session = self._name(table), self.session
        session.rows(f"ALTER TABLE {name} DISABLE TRIGGER USER")
        session.rows(f"DELETE FROM {name}")
        session.copy_in(f"COPY {name} ({', '.join(table.columns)}) FROM STDIN (FORMAT binary)", _parts(rows))
        session.rows(f"ALTER TABLE {name} ENABLE TRIGGER USER")
        session.rows(f"ANALYZE {name}")
        for column in table.key:
            [(sequence,)] = session.rows(f"SELECT pg_get_serial_sequence('{name}', '{column}')")
            if sequence is not None:
                session.rows(f"SELECT setval('{sequence}', max({column})) FROM {name}")

    def highest_blob(self) -> int:
        """Return the last number of the sequence."""
        query = f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {self.schema}.blob_number"
        [(number,)] = self.session.rows(query)
        return int(number)

    def set_highest_blob(self, number: int) -> None:
        """Set the sequence."""
        if number:
            self.session.rows(f"SELECT setval('{self.schema}.blob_number', {number})")

    def _set_planner(self, value: str) -> None:
        for name in ("enable_seqscan", "enable_sort"):
            self.session.rows(f"SET LOCAL {name} = {value}")

    def _name(self, table: Table) -> str:
        return f"{self.schema}.{table.name}"


def _parts(rows: Iterable[bytes]) -> Iterator[bytes]:
    """Yield rows together in parts, with what COPY wants before and behind them."""
    parts, size = [HEADER], len(HEADER)
    for row in rows:
        parts.append(row)
        size += len(row)
        if size >= PART_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join([*parts, TRAILER])
