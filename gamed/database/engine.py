"""The queues use a database through an Engine, which does what SQLite and other databases do differently.

A writer has *keys*: the ids of the players whose rows it may write, and names of rows that belong to no player. Where
several writers can work at the same time, two of them never have the same key. A writer without keys, None, may write
all rows, so it is alone: a forgotten key makes a write slow, but never wrong.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from gamed.database.connection import Connection, Transaction
from gamed.database.errors import DatabaseCorrupt, DatabaseError
from gamed.event_log import EventLog

WriteKeys = tuple[str, ...]
"""The keys of one transaction; not any collection, because a text is a collection of texts."""


class Database:
    """One of the two databases, and what all its queues know about it."""

    def __init__(self, name: str) -> None:
        self.name = name
        """`auth` or `state`."""
        self.title = f"schema {name}"
        """The name for messages to operators."""
        self.originals = "the files of the database server"
        """The files that an operator copies before a repair, for messages."""
        self.unavailable_as: type[DatabaseError] | None = None
        """The error for all writes, once the database can no longer be written."""
        self.beginning: Transaction[None] | None = None
        """Committed before all other writes, and again where a standby has taken over, which may be behind."""

    def mark_damaged(self) -> None:
        """Stop all writes to this database and log that once. Reads go on."""
        if self.unavailable_as is None:
            from twisted.logger import Logger  # late: commands log nothing, and need no Twisted

            self.unavailable_as = DatabaseCorrupt
            events = EventLog(Logger())
            events.error(
                "database_damaged",
                database=self.name,
                detail=f"Nothing is written to it any more. Stop the service, copy {self.originals} as they are, then"
                " restore a backup",
            )


class NeedsSavepoints(Exception):
    """A transaction that failed after it wrote, so that its writes have to be rolled back alone."""


class EngineConnection(Connection, Protocol):
    """A connection as a queue uses it, outside and around the transactions."""

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""

    @property
    def total_changes(self) -> int:
        """Return a number that grows with every row that a statement changes, or that only a savepoint can undo."""

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one."""

    def close(self) -> None:
        """Close the connection."""


class Engine(Protocol):
    """The way of one thread to one database. Every method is called in that thread."""

    @property
    def database(self) -> Database:
        """Return the database that the thread writes; of a thread that reads both, `auth`."""

    @property
    def concurrent_writers(self) -> bool:
        """Return whether writers with other keys work at the same time; if not, keys have no effect."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the classes of exceptions that a statement may raise, besides DatabaseError."""

    def open(self) -> EngineConnection:
        """Return a new connection that is ready to be used; raise DatabaseError."""

    def begin_reading(self, connection: EngineConnection) -> None:
        """Begin a transaction that only reads, in one snapshot."""

    def run_together(
        self, connection: EngineConnection, functions: Sequence[Callable[[], None]], keys: Sequence[Collection[str]]
    ) -> bool:
        """Call functions that raise nothing; one may begin while others wait for the database.

        It begins when those before it have ended that share one of its keys. While one runs, total_changes counts only
        what it changes. Return True if a statement failed whose error was raised in other functions, too.
        """

    def begin_writing(self, connection: EngineConnection, keys: Collection[str] | None) -> None:
        """Begin a transaction as soon as no other thread or process has one of these keys.

        With None the transaction may write all rows, so that there is no other writer; without any key it writes none.
        SQLite has one writer at a time.
        """

    def commit(self, connection: EngineConnection) -> None:
        """Commit the transaction: what it wrote is on disk when this returns.

        Raise NeedsSavepoints if a statement has failed since, and it is not known in which transaction.
        """

    def end(self, connection: EngineConnection) -> None:
        """Roll back a transaction that was not committed, and let the next writer begin; raise nothing."""

    def translate(self, error: BaseException, connection: EngineConnection | None = None) -> BaseException:
        """Return the DatabaseError for an error of the engine, which is its cause; return other errors unchanged."""

    def release_space(self, connection: Connection) -> bool:
        """Give some free space back to the disk, in a transaction; return True while there is more."""

    def find_damage(self, connection: EngineConnection) -> DatabaseCorrupt | None:
        """Search the database for damage after an unexpected error; return None if it is large, or undamaged."""


def connect(engine: Engine) -> EngineConnection:
    """Return a new connection; adbapi calls the function of this name."""
    return engine.open()
