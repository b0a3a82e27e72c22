"""The tests run over SQLite, or over PostgreSQL if GAMED_TEST_STORE is `postgresql`."""

import gc
import os
import sqlite3
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast
from weakref import finalize

import msgspec
import psycopg

from gamed.config.model import PostgresqlAddress
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.engine import EngineConnection
from gamed.database.postgresql.connecting import Connector, SessionKind
from gamed.database.postgresql.connection import PostgresqlConnection
from gamed.database.postgresql.engine import QUEUES
from gamed.database.postgresql.migrations import prepare_schema
from gamed.database.postgresql.session import PlainSession
from gamed.database.postgresql.store import PostgresqlStore
from gamed.database.sqlite.files import SqliteConnection
from gamed.database.sqlite.files import connect as sqlite_connect
from gamed.database.sqlite.migrations import migrate, schema_folder
from gamed.database.sqlite.store import SqliteStore
from gamed.database.store import Store
from tests.support import row_guard
from tests.support.kept_sessions import KeptConnection, KeptSessions
from tests.support.postgresql import SUPERUSER, Address, cluster

T = TypeVar("T")
POSTGRESQL = os.environ.get("GAMED_TEST_STORE", "sqlite") == "postgresql"
BYTES = "bytea" if POSTGRESQL else "BLOB"
"""The type of bytes in SQL."""
MASTER_KEY = b64encode(bytes(range(32))).decode()
LIVE_DATABASES = 40
"""So many databases are in use at most before those that a test has forgotten are searched for."""


def sqlite_files(reason: str) -> Callable[[T], T]:
    """Mark a test, or a class of tests, that is about SQLite's own files; with PostgreSQL it is skipped.

    The reason names what PostgreSQL does not have, or where its counterpart is tested.
    """

    def mark(tested: T) -> T:
        if POSTGRESQL:
            cast("Any", tested).skip = f"SQLite only: {reason}"
        return tested

    return mark


def now_ms() -> int:
    """Return the time of this machine, to which PostgreSQL's is compared."""
    return time.time_ns() // 1_000_000


def connector(address: Address) -> Connector:
    """Return the way to a database, as the service has it."""
    return Connector(PostgresqlAddress(address.keywords), now_ms)


@cache
def kept_sessions(address: Address) -> KeptSessions:
    """Return the way to a database for one thread, whose sessions outlive tests."""
    return KeptSessions(PostgresqlAddress(address.keywords), now_ms)


def address_of(data: Path) -> Address:
    """Return the address of a data folder's database, which is beside the folder, for other processes, too."""
    file = data.with_name(f"{data.name}.store")
    if not file.exists():
        file.write_bytes(msgspec.json.encode(pool().take()))
    return msgspec.json.decode(file.read_bytes(), type=Address)


def store_of(data: Path) -> Store:
    """Return the store of a data folder."""
    if not POSTGRESQL:
        return SqliteStore(data=data)
    return PostgresqlStore(PostgresqlAddress(address_of(data).keywords), data, now_ms)


def forget_store(data: Path) -> None:
    """Let others have the database of a data folder, if there is one; all its processes have ended."""
    file = data.with_name(f"{data.name}.store")
    if file.exists():
        pool().give_back(address_of(data))
        file.unlink()


def with_store(config: Mapping[str, Any], data: Path) -> dict[str, Any]:
    """Return a configuration whose databases are those of the folder's store; PostgreSQL needs a master key."""
    if not POSTGRESQL:
        return dict(config)
    members = {"master_key_env": "GAMED_MASTER_KEY", **config}
    return members if "store" in config else {**members, "store": address_of(data).url}


def open_database(name: str) -> EngineConnection:
    """Return a connection, outside of any transaction, to an empty `auth` or `state` that nothing else uses."""
    if not POSTGRESQL:
        connection = sqlite3.connect(":memory:", isolation_level=None, factory=SqliteConnection)
        empty_sqlite(name).backup(connection)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection
    address = pool().take()
    return _OnlyConnection(kept_sessions(address), SessionKind("test", (name,), idle_ms=0), address)


@cache
def empty_sqlite(name: str) -> SqliteConnection:
    """Return an empty `auth` or `state` to copy, because its scripts take twenty times as long."""
    connection = sqlite_connect(":memory:")
    migrate(connection, schema_folder(name))
    return connection


def connect(data: Path, database: str) -> EngineConnection:
    """Return a connection to a database of a data folder, as another process has it."""
    if not POSTGRESQL:
        return sqlite3.connect(data / f"{database}.db", isolation_level=None, factory=SqliteConnection)
    return PostgresqlConnection(connector(address_of(data)), SessionKind("test", (database,), idle_ms=0))


@contextmanager
def held(data: Path, database: str) -> Iterator[None]:
    """Hold all writes to a database of a data folder, as another process does that keeps its transaction open."""
    if POSTGRESQL:
        with psycopg.connect(address_of(data).conninfo) as other:
            other.execute("SELECT pg_advisory_xact_lock(%s, 0)", (QUEUES[database],))
            yield
        return
    with closing(connect(data, database)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


class _OnlyConnection(KeptConnection):
    """The only connection to a database, which others may have once this is closed, or forgotten."""

    def __init__(self, connector: KeptSessions, kind: SessionKind, address: Address) -> None:
        super().__init__(connector, kind)
        self._give_back = finalize(self, pool().give_back, address)

    def close(self) -> None:
        super().close()
        self._give_back()


def literal(value: bytes) -> str:
    """Return bytes as a literal of SQL."""
    return f"CAST('\\x{value.hex()}' AS bytea)" if POSTGRESQL else f"x'{value.hex()}'"


def read_only(connection: Connection) -> None:
    """Refuse all writes of a connection from now on."""
    connection.execute("SET default_transaction_read_only = on" if POSTGRESQL else "PRAGMA query_only = ON")


def refuse_to_wait(connection: Connection) -> None:
    """Let all waits of a connection for another writer fail from now on, at once or nearly."""
    connection.execute("SET lock_timeout = 10" if POSTGRESQL else "PRAGMA busy_timeout = 0").close()


def fill_disk(connection: EngineConnection, error: str = "disk_full") -> Callable[[], None]:
    """Let PostgreSQL refuse all writes to the connection's schema, as on a full disk; return what ends that.

    `error` is its name for the error of the disk.
    """
    connection.rows(f"""
        CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'the disk refuses' USING ERRCODE = '{error}'; END $$
    """)
    for table in tables(connection):
        events = "BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE"
        connection.rows(f"CREATE TRIGGER disk_full {events} ON {table} EXECUTE FUNCTION disk_full()")

    def writable() -> None:
        connection.rows("DROP FUNCTION disk_full CASCADE")
        connection.close()

    return writable


def tables(connection: Connection, schema: str = "main") -> list[str]:
    """Return the names of the tables of a connection to one database."""
    if POSTGRESQL:
        query = """
            SELECT tablename FROM pg_tables
            WHERE schemaname = ANY (current_schemas(false)) AND tablename <> 'schema_version' ORDER BY tablename
        """
    else:
        query = f"SELECT name FROM {schema}.sqlite_schema WHERE type = 'table' ORDER BY name"
    return [str(name) for (name,) in connection.execute(query).fetchall()]


def contents(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all tables, in the order of their columns."""
    found = {}
    for table in tables(connection):
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
        found[table] = sorted(rows, key=repr)
    return found


def dump(connection: Connection) -> str:
    """Return a line for each row of all tables, with bytes in hexadecimal, to search for what must not be there."""
    lines = []
    for table, rows in contents(connection).items():
        for row in rows:
            values = (value.hex().upper() if isinstance(value, bytes) else str(value) for value in row)
            lines.append(f"{table}: {', '.join(values)}")
    return "\n".join(lines)


class Pool:
    """Databases with both schemas and no players, each used by one test at a time."""

    def __init__(self) -> None:
        self._template = cluster().database()
        session = PlainSession(connector(self._template).open(SessionKind("test", idle_ms=0)))
        for name in (AUTH, STATE):
            prepare_schema(session, name, name, lambda text: None, lambda: None, migrate=False)
        row_guard.install(session.rows)
        session.close()
        with self._connect(self._template) as connection:
            self._clear = _clearing(connection)
            self._relations = _relations(connection)
        self._cleaners: dict[str, psycopg.Connection[Any]] = {}
        """A connection to each database, since a new one needs 10 ms until it knows all tables."""
        self._live, self._most = 0, LIVE_DATABASES
        self._returned: list[Address] = []

    def take(self) -> Address:
        """Return a database like a new one."""
        if self._live >= self._most and not self._returned:
            gc.collect()
            self._most = max(LIVE_DATABASES, 2 * self._live)
        while self._returned:
            address = self._returned.pop()
            if self._is_clean(address):
                self._live += 1
                return address
            self._cleaners.pop(address.database).close()
            kept_sessions(address).close()
            cluster().drop(address.database)
        self._live += 1
        address = cluster().database(self._template.database)
        self._cleaners[address.database] = self._connect(address)
        return address

    def give_back(self, address: Address) -> None:
        """Take a database that is no longer used; its connections are closed, or end with their objects."""
        self._live -= 1
        self._returned.append(address)

    def _is_clean(self, address: Address) -> bool:
        """Delete all rows; return False if that is not possible, or if a test has changed the schema."""
        connection = self._cleaners[address.database]
        try:
            connection.execute(self._clear.encode())
        except psycopg.Error:
            return False
        return _relations(connection) == self._relations

    @staticmethod
    def _connect(address: Address) -> "psycopg.Connection[Any]":
        place = cluster().address(address.database, user=SUPERUSER)
        return psycopg.connect(place.conninfo, autocommit=True)


def _clearing(connection: "psycopg.Connection[Any]") -> str:
    """Return the statements that delete all rows but those that a new schema has, whatever triggers there are."""
    lines, again = ["SET session_replication_role = replica", "SET lock_timeout = 2000", "BEGIN"], []
    query = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('auth', 'state') ORDER BY 1, 2"
    connection.execute("CREATE SCHEMA pristine")
    for schema, table in connection.execute(query).fetchall():
        if table == "schema_version":
            continue
        lines.append(f"DELETE FROM {schema}.{table}")
        if connection.execute(f"SELECT 1 FROM {schema}.{table} LIMIT 1".encode()).fetchone():
            connection.execute(f"CREATE TABLE pristine.{schema}_{table} AS SELECT * FROM {schema}.{table}".encode())
            again.append(f"INSERT INTO {schema}.{table} SELECT * FROM pristine.{schema}_{table}")
    sequences = connection.execute("SELECT schemaname, sequencename FROM pg_sequences").fetchall()
    again += [f"SELECT setval('{schema}.{name}', 1, false)" for schema, name in sequences]
    return ";".join([*lines, *again, "COMMIT"])


def _relations(connection: "psycopg.Connection[Any]") -> int:
    query = """
        SELECT (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname !~ '^pg_')
             + (SELECT count(*) FROM pg_trigger) + (SELECT count(*) FROM pg_constraint)
    """
    [(found,)] = connection.execute(query).fetchall()
    return int(found)


@cache
def pool() -> Pool:
    """Return the databases of this process's cluster."""
    return Pool()
