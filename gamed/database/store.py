"""A Store is where both databases are: the start and the commands use them there without the queues of the service."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from gamed.database.connection import Connection, Transaction

if TYPE_CHECKING:
    from gamed.database.databases import Backend

T = TypeVar("T")
Run = Callable[[Transaction[Any]], Any]
"""A function that runs transactions that only read, each in a snapshot of its own."""


class DamageCheck(Struct, frozen=True):
    """One of the transactions that search a database for damage of the engine's own structures."""

    name: str
    find_errors: Transaction[list[str]]
    """Return a line for each error; raise DatabaseCorrupt for one that prevents further reads."""
    advice: str
    """A sentence about what to do after that."""


class ServerFacts(Struct, frozen=True):
    """The report of a database server about itself."""

    version: str
    encrypted: bool
    """Whether the connection to it is."""
    connections: int
    max_connections: int
    standbys: int
    synchronous: bool
    """Whether each commit waits for a standby."""
    checksums: bool
    """Whether it recognizes damaged pages."""
    autovacuum: bool
    skew_ms: int
    """The difference between its clock and this machine's."""


class Store(Protocol):
    """The place of both databases; a `database` is `auth` or `state`."""

    @property
    def engine(self) -> str:
        """Return the name of the engine."""

    @property
    def version(self) -> str:
        """Return the version of the engine; raise DatabaseError."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the classes of exceptions that a statement may raise, besides DatabaseError."""

    def describe(self, database: str) -> str:
        """Return where the database is, for messages."""

    def name(self, database: str) -> str:
        """Return the short name of the database, for messages."""

    def check_owner(self, database: str) -> str:
        """Return the advice to compare the owner of the database with the user of this process, as a sentence."""

    def set_aside(self, database: str) -> str:
        """Return how the operator keeps the database elsewhere to begin a new one, as an imperative for messages."""

    def not_found(self, database: str) -> str:
        """Return the message for an operator whose command found no such database."""

    def place(self) -> str | None:
        """Return a text that differs from those of all other databases that servers of this data folder may use.

        Return None if these have never been served; raise DatabaseError.
        """

    def connect(self) -> None:
        """Connect to the server, if there is one, as a process that writes.

        Raise DatabaseUnreachable while it does not answer, and DatabaseBusy while a command needs the databases alone.
        """

    def exists(self, database: str) -> bool:
        """Return whether the database exists."""

    def run_transaction(self, database: str, transaction: Transaction[T]) -> T:
        """Run a write transaction; it should take less than 20 ms, as the service waits for it.

        Raise DatabaseError as the queues do, and MigrationError if the database does not have this version's schema. A
        transaction that raises an exception changes nothing.
        """

    def run_read(self, database: str, transaction: Transaction[T]) -> T:
        """Run a transaction that only reads, in one snapshot; the service does not wait for it. Raise as above."""

    def read_unchanged(self, database: str, transaction: Transaction[T]) -> T | None:
        """Run a transaction that only reads a database of any schema; return None if there is no schema yet.

        Nothing is created, and no service may write to the database now.
        """

    def open_reader(self, database: str) -> AbstractContextManager[Run]:
        """Return a function that runs transactions that only read, each in a snapshot of its own."""

    def schema_version(self, connection: Connection, database: str) -> int:
        """Return the number of the last script that made the schema of the database; 0 if there is none."""

    def check_schema(self, database: str) -> None:
        """Raise MigrationError unless the database has what its scripts make; leave a missing one to prepare()."""

    def prepare(
        self, database: str, progress: Callable[[str], None], working: Callable[[], None], *, migrate: bool
    ) -> None:
        """Create a database, or migrate it; call `progress` with a text before long work, `working` during it.

        The caller holds the lock of the data folder. Without `migrate`, an older database that other machines may use
        is not changed. Raise MigrationError, or DatabaseError; a `state` that cannot be opened is skipped, so that
        players can still sign in.
        """

    def refuse_restored(self) -> None:
        """Raise DatabaseRestored if the databases were restored without gamed since they were last served.

        Not every store notices that. The databases are prepared, and the caller holds the lock of the data folder.
        """

    def check_restored(self) -> None:
        """Raise DatabaseRestored as refuse_restored() does, for databases of any version; change nothing."""

    def accept_restored(self, connection: Connection, database: str, now_ms: int) -> None:
        """Declare a restored database the one to be served, in a transaction that also finishes the restore."""

    def alone(self) -> AbstractContextManager[None]:
        """Keep the servers of other machines away; raise DatabaseBusy while one uses the databases."""

    def backend(self, reactor: Any, instance_id: str, give_up: Callable[[], None]) -> "Backend":
        """Return what is behind the queues of a service; raise DatabaseUnavailable if `auth` cannot be opened.

        `instance_id` names this process for the others that use these databases. `give_up` ends the process; it is
        called in the reactor's thread if the databases went back to an older state.
        """

    def is_living(self, instance_id: str) -> bool:
        """Return whether a process of this name serves these databases now; the name may come from anywhere."""

    def damage_checks(self, connection: Connection, database: str) -> Sequence[DamageCheck]:
        """Return the checks of every structure of the database; together they read all of it."""

    def unchecked(self, connection: Connection) -> str | None:
        """Return a sentence about what these checks leave out on this server; None if there is nothing."""

    def quick_check(self, connection: Connection, database: str) -> list[str]:
        """Return lines for errors that a faster check finds."""

    def allocated(self, connection: Connection) -> tuple[int, int | None]:
        """Return the size of `state` in bytes, and how much of it the next writes use first, if that is known."""

    def sizes(self) -> Mapping[str, int]:
        """Return the size of each database in bytes by its short name; raise DatabaseError or OSError."""

    def set_aside_names(self) -> Sequence[str]:
        """Return the schemas that restores and moves left beside those in use, each with its instant at the end.

        Files are in the data folder. Raise DatabaseError.
        """

    def server_facts(self) -> ServerFacts | None:
        """Return what the server reports about itself; None without a server. Raise DatabaseError."""

    @property
    def files(self) -> Sequence[Path]:
        """Return the paths of the databases in the data folder, if they are files."""

    @property
    def lock_files(self) -> Sequence[Path]:
        """Return the paths of the files with which processes lock the databases."""

    def new_files(self) -> Sequence[Path]:
        """Return the files that a first start makes, in the order in which a failed one may remove them."""

    def close(self) -> None:
        """Close what is open; the next transaction opens it again."""
