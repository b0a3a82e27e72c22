"""SQLite's Store is a data folder with two files."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gamed.database.connection import AUTH, STATE, Connection, Transaction
from gamed.database.sqlite import migrations, offline
from gamed.database.sqlite.error_mapping import SQLITE_ERRORS
from gamed.database.sqlite.files import SQLITE_VERSION, SUFFIXES
from gamed.database.sqlite.write_lock import lock_files, lock_path
from gamed.database.store import DamageCheck, Run
from gamed.structs import Component

if TYPE_CHECKING:
    from gamed.database.sqlite.backend import SqliteBackend

T = TypeVar("T")
RESTORE = "Restore the file from a backup."


class SqliteStore(Component, frozen=True, kw_only=True):
    """The Store (gamed/database/store.py) of auth.db and state.db in a data folder."""

    data: Path
    external_checkpoints: bool = False
    """Whether another program makes the checkpoints of a service, such as Litestream."""
    engine = "SQLite"
    version = SQLITE_VERSION
    errors = SQLITE_ERRORS

    def describe(self, database: str) -> str:
        """Return the path of the file."""
        return str(self._path(database))

    def name(self, database: str) -> str:
        """Return the name of the file."""
        return f"{database}.db"

    def check_owner(self, database: str) -> str:
        """Return the advice about the owner of the file."""
        return f"Check the owner of {self.describe(database)}."

    def set_aside(self, database: str) -> str:
        """Return the advice to move the file."""
        return f"move {self.name(database)} away"

    def not_found(self, database: str) -> str:
        """Return the message for a data folder that no service has made, or that is not the one that is meant."""
        return (
            f"There is no {self.name(database)} in {self.data} yet. If the server keeps its data elsewhere, name that "
            "folder with --data DIR or GAMED_DATA (gamedctl knows it from systemd's unit). If this is a new server, "
            "start the service once: gamed serve"
        )

    def place(self) -> str:
        """Return what is not the place of a server: the files are in the data folder."""
        return self.engine

    def connect(self) -> None:
        """Do nothing: there is no server."""

    def exists(self, database: str) -> bool:
        """Return whether the file exists."""
        return self._path(database).exists()

    def run_transaction(self, database: str, transaction: Transaction[T]) -> T:
        """Run a write transaction; wait up to five seconds for other writers."""
        return offline.run_transaction(self._path(database), transaction)

    def run_read(self, database: str, transaction: Transaction[T]) -> T:
        """Run a transaction that only reads."""
        return offline.run_read(self._path(database), transaction)

    def read_unchanged(self, database: str, transaction: Transaction[T]) -> T | None:
        """Run a transaction that only reads, without creating files beside the file."""
        return offline.read_unchanged(self._path(database), transaction)

    def open_reader(self, database: str) -> AbstractContextManager[Run]:
        """Return a function that runs transactions that only read."""
        return offline.open_reader(self._path(database))

    def schema_version(self, connection: Connection, database: str) -> int:
        """Return the number of the last script that ran."""
        return migrations.version_of(connection)

    def check_schema(self, database: str) -> None:
        """Compare the file with what its scripts make."""
        migrations.check_schema(self._path(database))

    def prepare(
        self, database: str, progress: Callable[[str], None], working: Callable[[], None], *, migrate: bool
    ) -> None:
        """Create or migrate the file, which no other process uses; skip a state.db that cannot be opened."""
        if database == STATE:
            migrations.prepare_state(self.data, progress, working)
        else:
            migrations.prepare_file(self._path(database), progress, working)

    def refuse_restored(self) -> None:
        """Do nothing: a copy of a file does not differ from the file."""

    def check_restored(self) -> None:
        """Do nothing."""

    def accept_restored(self, connection: Connection, database: str, now_ms: int) -> None:
        """Do nothing."""

    def alone(self) -> AbstractContextManager[None]:
        """Do nothing: the lock of the data folder keeps all servers away."""
        return nullcontext()

    def backend(self, reactor: Any, instance_id: str, give_up: Callable[[], None]) -> "SqliteBackend":
        """Return the files as the service uses them."""
        from gamed.database.sqlite.backend import SqliteBackend  # late: commands need no Twisted

        return SqliteBackend.open(reactor, self.data, instance_id, external_checkpoints=self.external_checkpoints)

    def is_living(self, instance_id: str) -> bool:
        """Return whether a process holds the lock of this name in the data folder."""
        from gamed.database.sqlite.processes import is_living  # late: it imports Twisted

        return is_living(self.data, instance_id)

    def damage_checks(self, connection: Connection, database: str) -> Sequence[DamageCheck]:
        """Return a check of each table with its indexes, and one of all references."""
        name = self.name(database)
        query = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
        tables = [table for (table,) in connection.rows(query)]
        checks = [DamageCheck(table, partial(_find_in_table, name=name, table=table), RESTORE) for table in tables]
        return [*checks, DamageCheck("references", partial(_find_dangling, name=name), RESTORE)]

    def unchecked(self, connection: Connection) -> None:
        """Return nothing: SQLite checks all of it."""

    def quick_check(self, connection: Connection, database: str) -> list[str]:
        """Read every page without comparing indexes."""
        return [str(line) for (line,) in connection.rows("PRAGMA quick_check(1)") if line != "ok"]

    def allocated(self, connection: Connection) -> tuple[int, int]:
        """Return the size of the file, and of its free pages."""
        names = ("page_size", "page_count", "freelist_count")
        page, pages, free = (connection.rows(f"PRAGMA {name}")[0][0] for name in names)
        return page * pages, page * free

    def sizes(self) -> Mapping[str, int]:
        """Return the size of each file with its write-ahead log."""
        return {self.name(database): self._size(self._path(database)) for database in (AUTH, STATE)}

    def set_aside_names(self) -> Sequence[str]:
        """Return nothing: the data folder has them."""
        return ()

    def server_facts(self) -> None:
        """Return nothing: there is no server."""

    @property
    def files(self) -> Sequence[Path]:
        return [self._path(database) for database in (AUTH, STATE)]

    @property
    def lock_files(self) -> Sequence[Path]:
        return lock_files(self.data)

    def new_files(self) -> Sequence[Path]:
        """Return the files of databases that do not exist: those beside an existing database belong to it."""
        made: list[Path] = []
        for path in (self._path(STATE), self._path(AUTH)):
            if not path.exists():
                made += [*(path.with_name(f"{path.name}{suffix}") for suffix in SUFFIXES[::-1]), lock_path(path)]
        return made

    def close(self) -> None:
        """Do nothing: each transaction closes its connection."""

    def _path(self, database: str) -> Path:
        return self.data / f"{database}.db"

    @staticmethod
    def _size(path: Path) -> int:
        files = [path, path.with_name(f"{path.name}-wal")]
        return sum(file.stat().st_size for file in files if file.exists())


def _find_in_table(connection: Connection, name: str, table: str) -> list[str]:
    """Read every page of a table and its indexes; return a line for each error."""
    lines = [line for (line,) in connection.rows(f"PRAGMA integrity_check({table})")]
    return [f"{name}: {line}. {RESTORE}" for line in lines if line != "ok"]


def _find_dangling(connection: Connection, name: str) -> list[str]:
    rows = connection.rows("PRAGMA foreign_key_check")
    return [f"{name}: row {number} of {table} refers to a missing row" for table, number, *_ in rows]
