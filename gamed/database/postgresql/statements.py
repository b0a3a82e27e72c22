"""Statements, parameters and values between the form of SQLite's module and that of libpq.

Parameters and results are binary: 8-byte integers, text in UTF-8, and bytes as they are.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import Any, NamedTuple

from psycopg import adapters
from psycopg.abc import Buffer, Transformer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.adapt import Transformer as RowLoader
from psycopg.pq import Format
from psycopg.pq.abc import PGresult
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrBinaryDumper

from gamed.database.connection import Parameters

INT8, TEXT, BYTEA, FLOAT8, UNKNOWN = 20, 25, 17, 701, 0
"""The numbers of PostgreSQL's types, as in its catalog."""
CONVERTED = 2048
"""How many texts are converted once only: the statements of the features, and their variants."""
CONTROL = frozenset({"COMMIT", "RELEASE", "ROLLBACK"})
"""Statements whose success has to be known before the next one is sent."""
_PLACE = re.compile(r"('[^']*'?)|::|:(\w+)|\?")
_NUMERIC_BASE = 10_000

Encode = Callable[[Any], bytes | None]
Types = tuple[int, ...]
"""The types of a statement's parameters."""


class Statement(NamedTuple):
    """A statement with `$n` for each parameter, as PostgreSQL wants it."""

    sql: bytes
    names: tuple[str, ...]
    """The names of its parameters in their order; empty if it has places only."""
    changes: bool
    """True if it may change rows."""
    controls: bool
    """True if it ends a transaction or a savepoint."""


@lru_cache(CONVERTED)
def convert(sql: str, place: str = "$") -> Statement:
    """Return the statement for a text with `?` or `:name`; the same name is the same parameter.

    `place` comes before the number of each parameter.
    """
    names: list[str] = []
    places = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal places
        if match[0] == "?":
            places += 1
            return f"{place}{places}"
        name = match[2]
        if name is None:
            return match[0]
        if name not in names:
            names.append(name)
        return f"{place}{names.index(name) + 1}"

    converted = _PLACE.sub(replaced, sql)
    verb = sql.split(maxsplit=1)[0]
    return Statement(converted.encode(), tuple(names), verb != "SELECT", verb in CONTROL)


def values_of(statement: Statement, parameters: Parameters) -> Sequence[Any]:
    """Return the values of the parameters in their order."""
    if isinstance(parameters, Mapping):
        return [parameters[name] for name in statement.names]
    return parameters


_int8 = Layout("!q")
_float8 = Layout("!d")
_numeric = Layout("!hhHH")
ENCODERS: dict[type, tuple[int, Encode]] = {
    int: (INT8, _int8.pack),
    bool: (INT8, _int8.pack),
    str: (TEXT, str.encode),
    bytes: (BYTEA, bytes),
    bytearray: (BYTEA, bytes),
    memoryview: (BYTEA, bytes),
    float: (FLOAT8, _float8.pack),
    type(None): (UNKNOWN, lambda none: None),
}


def _encoder(kind: type) -> tuple[int, Encode]:
    """Return PostgreSQL's type for values of this class, or of one of its bases, and the function that encodes them."""
    for base in kind.__mro__:
        if base in ENCODERS:
            return ENCODERS[base]
    raise TypeError(f"{kind.__name__} is not a type of the database")


@lru_cache(CONVERTED)
def _encoders(kinds: tuple[type, ...]) -> tuple[Types, tuple[Encode, ...]]:
    chosen = [_encoder(kind) for kind in kinds]
    return tuple(number for number, _ in chosen), tuple(encode for _, encode in chosen)


def encode(values: Sequence[Any]) -> tuple[Types, list[bytes | None]]:
    """Return the types and the bytes of parameters."""
    types, encoders = _encoders(tuple(map(type, values)))
    return types, [each(value) for each, value in zip(encoders, values, strict=True)]


class _WholeNumber(Loader):
    """The loader of `numeric`, such as the sum() of integers."""

    format = Format.BINARY

    def load(self, data: Buffer) -> int:
        """Return the number; raise ValueError if it is not whole."""
        count, weight, sign, _scale = _numeric.unpack_from(data)
        if sign not in (0, 0x4000) or count > weight + 1:
            raise ValueError("The database returned a number that is not whole")
        number: int = 0
        for digit in Layout(f"!{count}h").unpack_from(data, _numeric.size):
            number = number * _NUMERIC_BASE + digit
        number *= _NUMERIC_BASE ** (weight + 1 - count)
        return -number if sign else number


class _Truth(Loader):
    """The loader of `boolean`: 0 and 1, as in SQLite."""

    format = Format.BINARY

    def load(self, data: Buffer) -> int:
        return bytes(data)[0]


ADAPTERS = AdaptersMap(adapters)
ADAPTERS.register_loader("numeric", _WholeNumber)
ADAPTERS.register_loader("bool", _Truth)
# The types that encode() gives: psycopg would send small integers as 2 bytes, with which PostgreSQL calculates.
ADAPTERS.register_dumper(int, Int8BinaryDumper)
ADAPTERS.register_dumper(bool, Int8BinaryDumper)
ADAPTERS.register_dumper(str, StrBinaryDumper)


def row_loader(result: PGresult) -> Transformer:
    """Return what loads the rows of a statement with such results, after set_pgresult()."""
    transformer: Transformer = RowLoader(ADAPTERS)
    transformer.set_loader_types([result.ftype(column) for column in range(result.nfields)], Format.BINARY)
    return transformer
