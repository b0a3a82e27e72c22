"""PostgreSQL's Store is a database with the schemas `auth` and `state`, which processes on several machines may use."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.logger import Logger

from gamed.config.model import PostgresqlAddress
from gamed.database.connection import AUTH, STATE, Connection, Transaction
from gamed.database.engine import Database, EngineConnection, NeedsSavepoints
from gamed.database.errors import (
    DatabaseCorrupt,
    DatabaseError,
    DatabaseUnavailable,
    DatabaseUnreachable,
    MigrationError,
)
from gamed.database.postgresql import heartbeat, identity, inspection, migrations, processes
from gamed.database.postgresql.connecting import Connector, SessionKind
from gamed.database.postgresql.connection import PostgresqlConnection
from gamed.database.postgresql.engine import PostgresqlEngine
from gamed.database.postgresql.error_mapping import QUEUE_FULL, PostgresqlError, translate
from gamed.database.postgresql.session import PlainSession
from gamed.database.store import DamageCheck, Run, ServerFacts
from gamed.event_log import EventLog
from gamed.timestamps import Now

if TYPE_CHECKING:
    from gamed.database.postgresql.backend import PostgresqlBackend

T = TypeVar("T")
NAME = "gamed command"
"""The application_name of the sessions of commands; those of a service have the name of its process."""
IDLE_MS = 10_000
ANSWER_SECONDS = 3600.0
"""A check reads whole tables, and a restore changes a row of each player in one transaction."""
LOOK = SessionKind(NAME, read_only=True, answer_seconds=5.0)
TEXTS = {
    "55P03": "other writers keep it locked. Try again in a moment.",
    QUEUE_FULL: (
        "PostgreSQL's NOTIFY queue is full, because a session that has executed LISTEN keeps a transaction open. End "
        "that one."
    ),
}
_log = EventLog(Logger())


class PostgresqlStore:
    """The Store (gamed/database/store.py) of a PostgreSQL database.

    Its connections are for one thread at a time, and stay open until close().
    """

    engine = "PostgreSQL"
    errors = (PostgresqlError,)
    files: Sequence[Path] = ()
    lock_files: Sequence[Path] = ()

    def __init__(self, address: PostgresqlAddress, data: Path, now_ms: Now) -> None:
        """Use the database at this address; the data folder has what is not in it."""
        self.address = address
        self._data = data
        self._now_ms = now_ms
        self._connector = Connector(address, now_ms)
        self._databases = {name: Database(name) for name in (AUTH, STATE)}
        self._opened: dict[tuple[str, bool], tuple[PostgresqlEngine, PostgresqlConnection]] = {}
        """The connections by database, and by whether they write."""
        self._found: set[str] = set()
        """The schemas that exist in this version."""
        self._alone = False

    @property
    def version(self) -> str:
        """Return the version of the server; raise DatabaseError."""
        return self.server_facts().version

    def describe(self, database: str) -> str:
        """Return the schema and the address, without user and password."""
        return f"{self.name(database)} of {self.address.url}"

    def name(self, database: str) -> str:
        """Return the name of the schema."""
        return f"schema {database}"

    def check_owner(self, database: str) -> str:
        """Return the advice about the owner of the schema."""
        return f"Check that the user in store owns the schema {database}, and read the log of the database server."

    def set_aside(self, database: str) -> str:
        """Return the advice to rename the schema."""
        return f"rename that schema (ALTER SCHEMA {database} RENAME TO {database}_aside)"

    def not_found(self, database: str) -> str:
        """Return the message for a database that no service has used, or that is not the one that is meant."""
        return (
            f"There is no {self.describe(database)} yet. If the server keeps its data elsewhere, name that database in "
            f"authentication.json. {self._how_to_begin()}"
        )

    def _how_to_begin(self) -> str:
        if (self._data / "auth.db").exists():
            return f"To move the data of {self._data / 'auth.db'} there, stop the server and run gamed move-store."
        return "If this is a new server, start the service once: gamed serve"

    def place(self) -> str | None:
        """Return the ids of the server, the database and the store."""
        return self.read_unchanged(AUTH, identity.read_place)

    def connect(self) -> None:
        """Connect to the server; raise DatabaseUnreachable or DatabaseBusy if a later attempt may succeed."""
        with self._connected(AUTH, writing=True) as (_, connection):
            connection.rows("SELECT 1")

    def exists(self, database: str) -> bool:
        """Return whether the schema exists and has tables of gamed."""
        return database in self._found or self._read(
            database, lambda connection: migrations.version_of(connection, database) != migrations.NONE
        )

    def run_transaction(self, database: str, transaction: Transaction[T]) -> T:
        """Run a write transaction; wait up to four seconds for other writers, all of which wait for this one."""
        with self._connected(database, writing=True) as (engine, connection):
            engine.begin_writing(connection, None)
            try:
                self._require(connection, database)
                value = transaction(connection)
                engine.commit(connection)
            except NeedsSavepoints as e:
                raise e.__cause__ or e from None
            finally:
                engine.end(connection)
            return value

    def run_read(self, database: str, transaction: Transaction[T]) -> T:
        """Run a transaction that only reads."""

        def read(connection: Connection) -> T:
            self._require(connection, database)
            return transaction(connection)

        return self._read(database, read)

    def read_unchanged(self, database: str, transaction: Transaction[T]) -> T | None:
        """Run a transaction that only reads a schema of any version."""

        def read(connection: Connection) -> T | None:
            missing = migrations.version_of(connection, database) == migrations.NONE
            return None if missing else transaction(connection)

        return self._read(database, read)

    @contextmanager
    def open_reader(self, database: str) -> Iterator[Run]:
        """Return a function that runs transactions that only read; each may take long."""
        yield lambda transaction: self.run_read(database, transaction)

    def schema_version(self, connection: Connection, database: str) -> int:
        """Return the number of the last script that ran."""
        return migrations.version_of(connection, database).number

    def check_schema(self, database: str) -> None:
        """Compare the schema with what its scripts made; raise MigrationError if the data are elsewhere.

        A `state` that cannot be read is left to prepare().
        """
        where = self.describe(database)
        with suppress(DatabaseUnavailable, DatabaseCorrupt) if database == STATE else nullcontext():
            self._read(database, lambda connection: migrations.check_schema(connection, database, where))
        if database == AUTH and not self.exists(database) and (self._data / "auth.db").exists():
            raise MigrationError(
                f"{where} is empty, and {self._data / 'auth.db'} has the players of this server. Move them with gamed "
                "move-store, or move that file out of the folder to begin with an empty store."
            )

    def prepare(
        self, database: str, progress: Callable[[str], None], working: Callable[[], None], *, migrate: bool
    ) -> None:
        """Create the schema, or change an older one if `migrate` is true; skip a `state` that cannot be used."""
        where = self.describe(database)
        with self._without_state(database), self._explained():
            if not self._alone:
                self._leave()  # connect() has joined the servers, which a script may have to run without
            kind = SessionKind(NAME, idle_ms=0, answer_seconds=ANSWER_SECONDS)
            with closing(PlainSession(self._connector.open(kind), working)) as session:
                migrations.prepare_schema(session, database, where, progress, working, migrate=migrate)

    def refuse_restored(self) -> None:
        """Raise DatabaseRestored if a schema is a copy, or older than when this machine last served it."""
        self.run_transaction(AUTH, partial(identity.refuse_copy, database=AUTH))
        with suppress(DatabaseUnavailable):  # without saves, players can still sign in
            self.run_transaction(STATE, partial(identity.refuse_copy, database=STATE))
        self.run_read(AUTH, partial(heartbeat.refuse_older, folder=self._data))

    def accept_restored(self, connection: Connection, database: str, now_ms: int) -> None:
        """Declare a restored schema the one to be served."""
        identity.write_identity(connection, database)
        if database == AUTH:
            heartbeat.begin_generation(connection, now_ms)

    def check_restored(self) -> None:
        """Raise DatabaseRestored as refuse_restored() does, for schemas of any version; change nothing."""
        for database in (AUTH, STATE):
            with suppress(DatabaseUnavailable, DatabaseCorrupt) if database == STATE else nullcontext():
                self.read_unchanged(database, partial(identity.check_origin, database=database))
        self.read_unchanged(AUTH, partial(heartbeat.refuse_older, folder=self._data))

    def backend(self, reactor: Any, instance_id: str, give_up: Callable[[], None]) -> "PostgresqlBackend":
        """Return the database as the service uses it."""
        from gamed.database.postgresql.backend import PostgresqlBackend

        return PostgresqlBackend(reactor, self._connector, instance_id, self._data, give_up)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep all processes on all machines from writing; raise DatabaseBusy while one uses the databases."""
        with self._explained():
            self._leave()
        self._alone = True  # before the connection is opened: the locks of a server would count as another one
        try:
            with self._connected(AUTH, writing=True) as (_, connection), processes.alone(connection):
                yield
        finally:
            self._alone = False
            self.close()

    def is_living(self, instance_id: str) -> bool:
        """Return whether a process of this name is connected."""
        return self._read(AUTH, lambda connection: processes.is_living(connection, instance_id))

    def damage_checks(self, connection: Connection, database: str) -> Sequence[DamageCheck]:
        """Return a check of each table, of each reference, and of the indexes."""
        return inspection.damage_checks(connection, database, self.name(database))

    def unchecked(self, connection: Connection) -> str | None:
        """Return what is not checked without the extension amcheck."""
        if connection.rows(inspection.AMCHECK):
            return None
        return (
            "The contents of indexes were not checked: that needs PostgreSQL's extension amcheck, and the permission "
            "to use its function bt_index_check."
        )

    def quick_check(self, connection: Connection, database: str) -> list[str]:
        """Return a line for each index that is not valid."""
        return inspection.find_invalid_indexes(connection, database, self.name(database))

    def allocated(self, connection: Connection) -> tuple[int, int | None]:
        """Return the size of the schema `state`; how much of it is free is not known."""
        return inspection.size_of(connection, STATE), None

    def sizes(self) -> Mapping[str, int]:
        """Return the size of each schema."""

        def read(connection: Connection) -> Mapping[str, int]:
            return {self.name(each): inspection.size_of(connection, each) for each in (AUTH, STATE)}

        return self._look(read)

    def set_aside_names(self) -> Sequence[str]:
        """Return the names that both schemas were given when they were moved away or replaced."""
        return self._look(migrations.schemas_aside)

    def server_facts(self) -> ServerFacts:
        """Return what the server reports about itself."""
        return self._look(lambda connection: inspection.read_facts(connection, self._now_ms))

    def new_files(self) -> Sequence[Path]:
        """Return nothing: the server has the databases."""
        return ()

    def close(self) -> None:
        """Close the connections; the next transaction opens new ones."""
        for _, connection in self._opened.values():
            connection.close()
        self._opened.clear()

    def _leave(self) -> None:
        """Close the connections after the server has released their locks: it notices their end some time later."""
        for (_, writing), (_, connection) in self._opened.items():
            if writing:
                processes.leave(connection)
        self.close()

    def _require(self, connection: Connection, database: str) -> None:
        """Raise MigrationError or DatabaseUnavailable unless this gamed works with the schema."""
        if database not in self._found:
            migrations.require_schema(connection, database, self.describe(database))
            self._found.add(database)

    def _read(self, database: str, transaction: Transaction[T]) -> T:
        with self._connected(database, writing=False) as (engine, connection):
            return _read_with(engine, connection, transaction)

    def _look(self, transaction: Transaction[T]) -> T:
        """Run a transaction that reads little, on a connection of its own: a service does so in any thread."""
        with self._explained():
            engine = PostgresqlEngine(self._connector, self._databases[AUTH], LOOK)
            with closing(engine.open()) as connection:
                return _read_with(engine, connection, transaction)

    @contextmanager
    def _connected(self, database: str, *, writing: bool) -> Iterator[tuple[PostgresqlEngine, EngineConnection]]:
        """Yield the connection for this purpose; raise a DatabaseError with the reason that PostgreSQL gave."""
        with self._explained():
            key = (database, writing)
            if key not in self._opened:
                idle_ms = IDLE_MS if writing else 0
                kind = SessionKind(
                    NAME, (database,), read_only=not writing, idle_ms=idle_ms, answer_seconds=ANSWER_SECONDS
                )
                engine = PostgresqlEngine(self._connector, self._databases[database], kind, *[self._join] * writing)
                self._opened[key] = engine, engine.open()
            yield self._opened[key]

    def _join(self, connection: PostgresqlConnection) -> None:
        if self._alone:
            return
        processes.use(connection)
        try:
            heartbeat.refuse_older(connection, self._data)  # before a command writes to a former primary
        except PostgresqlError as e:
            if e.code not in heartbeat.NOT_READABLE:
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise a DatabaseError with PostgreSQL's own text for its errors: an operator reads it."""
        try:
            yield
        except (PostgresqlError, DatabaseError) as e:
            ours = translate(e)
            if not isinstance(ours, DatabaseError) or not isinstance(ours.__cause__, PostgresqlError):
                raise
            cause = str(ours.__cause__).splitlines()[0]
            raise type(ours)(TEXTS.get(ours.__cause__.code, cause)) from ours.__cause__

    @contextmanager
    def _without_state(self, database: str) -> Iterator[None]:
        """Let players sign in without a `state` that cannot be used."""
        try:
            yield
        except (DatabaseUnavailable, DatabaseCorrupt) as e:
            if database != STATE or isinstance(e, DatabaseUnreachable):
                raise
            _log.error("database_unavailable", database=STATE, path=self.address.url, detail=e)


def _read_with(engine: PostgresqlEngine, connection: EngineConnection, transaction: Transaction[T]) -> T:
    engine.begin_reading(connection)
    try:
        value = transaction(connection)
        engine.commit(connection)
    finally:
        engine.end(connection)
    return value
