"""The rows of whole tables have one form for both engines: the bytes of PostgreSQL's COPY in binary.

Tables with the same rows have the same bytes, and so the same hash, since every table is read in the order of its key.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from struct import Struct as Layout
from typing import Any, Protocol

from msgspec import Struct

INTEGER, TEXT, BYTES = "bigint", "text", "bytea"
"""The types of columns."""
SHOWN_BYTES = 1024 * 1024
_COUNT, _SIZE, _INTEGER = Layout("!h"), Layout("!i"), Layout("!iq")
_NULL = _SIZE.pack(-1)
_INTEGER_BYTES = 8


class Table(Struct, frozen=True):
    """A table that both engines have."""

    name: str
    columns: Sequence[str]
    types: Sequence[str]
    key: Sequence[str]
    """The columns of its primary key."""


class TableDigest(Struct, frozen=True):
    """The number of a table's rows, and the size and SHA-256 of all of them."""

    rows: int
    size: int
    sha256: str


class WholeDatabase(Protocol):
    """One of the two databases, whose tables are read or filled whole in one transaction of its owner."""

    def encoded_rows(self, table: Table) -> Iterable[bytes]:
        """Return all rows of a table in the order of their keys; few of them are in memory."""

    def fill(self, table: Table, rows: Iterable[bytes]) -> None:
        """Replace the rows of a table, as they are: nothing counts or numbers them."""

    def highest_blob(self) -> int:
        """Return the highest number that a blob of `state` has had."""

    def set_highest_blob(self, number: int) -> None:
        """Give later blobs of `state` higher numbers."""


Progress = Callable[[int], None]
"""A function that is called with the bytes that were read since its last call."""


def copy_tables(
    source: WholeDatabase, target: WholeDatabase, tables: Iterable[Table], progress: Progress
) -> dict[str, TableDigest]:
    """Copy the rows of these tables; return what was read."""
    found = {}
    for table in tables:
        rows = _DigestedRows(source.encoded_rows(table), progress)
        target.fill(table, rows)
        found[table.name] = rows.digest()
    return found


def digest_tables(database: WholeDatabase, tables: Iterable[Table], progress: Progress) -> dict[str, TableDigest]:
    """Read these tables whole."""
    found = {}
    for table in tables:
        rows = _DigestedRows(database.encoded_rows(table), progress)
        for _ in rows:
            pass
        found[table.name] = rows.digest()
    return found


def differing(one: Mapping[str, TableDigest], other: Mapping[str, TableDigest]) -> set[str]:
    """Return the names of the tables whose rows differ."""
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


class _DigestedRows:
    """The encoded rows of a table, which are counted and hashed as they are read."""

    def __init__(self, rows: Iterable[bytes], progress: Progress) -> None:
        self._rows = rows
        self._progress = progress
        self._hash = sha256()
        self._count = self._size = 0

    def __iter__(self) -> Iterator[bytes]:
        shown = 0
        for row in self._rows:
            self._hash.update(row)
            self._count += 1
            self._size += len(row)
            yield row
            if self._size - shown >= SHOWN_BYTES:
                self._progress(self._size - shown)
                shown = self._size
        self._progress(self._size - shown)

    def digest(self) -> TableDigest:
        return TableDigest(self._count, self._size, self._hash.hexdigest())


def encode_row(row: Sequence[Any]) -> bytes:
    """Return a row of integers, texts, bytes and None."""
    parts = [_COUNT.pack(len(row))]
    for value in row:
        if value is None:
            parts.append(_NULL)
        elif isinstance(value, int):
            parts.append(_INTEGER.pack(_INTEGER_BYTES, value))
        else:
            data = value.encode() if isinstance(value, str) else value
            parts += (_SIZE.pack(len(data)), data)
    return b"".join(parts)


def decode_row(data: bytes, types: Sequence[str]) -> list[Any]:
    """Return the values of an encoded row."""
    values: list[Any] = []
    place = _COUNT.size
    for kind in types:
        [size] = _SIZE.unpack_from(data, place)
        place += _SIZE.size
        if size < 0:
            values.append(None)
            continue
        value = data[place : place + size]
        place += size
        if kind == INTEGER:
            values.append(int.from_bytes(value, "big", signed=True))
        else:
            values.append(value.decode() if kind == TEXT else value)
    return values
