"""Both databases are copied from files to PostgreSQL or back, compared, checked, and only then used in the new place.

One transaction fills the target. Until it is committed the source is as it was; from then on a further run only gives
the source another name. The source of a move has no writer: locks keep servers and commands away from both sides.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from gamed import readable
from gamed.cli import keys
from gamed.cli.checks.check import find_in_saves
from gamed.cli.data import restore_journal
from gamed.cli.data.restore import SPARE_BYTES, require_no_log
from gamed.cli.data.restore_journal import RestoreJournal
from gamed.cli.errors import CommandFailed, DatabaseNotFound, SetupError
from gamed.cli.terminal import bar
from gamed.clock import now_ms
from gamed.config.model import PostgresqlAddress
from gamed.config.settings import DATABASE_NOTE, KeySource
from gamed.database.backup_format import BackupError, stamp
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.errors import DatabaseError, MigrationError
from gamed.database.postgresql.connecting import Connector, SessionKind
from gamed.database.postgresql.error_mapping import PostgresqlError
from gamed.database.postgresql.identity import read_store_id
from gamed.database.postgresql.inspection import size_of
from gamed.database.postgresql.migrations import (
    MOVED,
    NONE,
    PREPARING,
    create_schema,
    moved_schemas,
    require_schema,
    schema_folder,
    version_of,
)
from gamed.database.postgresql.migrations import check_schema as check_contents
from gamed.database.postgresql.processes import alone
from gamed.database.postgresql.session import PlainSession
from gamed.database.postgresql.whole_tables import PostgresqlWholeDatabase
from gamed.database.scripts import scripts_in
from gamed.database.security_events import add_command
from gamed.database.sqlite.files import SqliteConnection, connect, file_uri, prepare
from gamed.database.sqlite.migrations import MOVED as MOVED_FILE
from gamed.database.sqlite.migrations import check_schema, moved_name, prepare_file
from gamed.database.sqlite.offline import examine, run_read, run_transaction, write_locked
from gamed.database.sqlite.store import SqliteStore
from gamed.database.sqlite.whole_tables import SqliteWholeDatabase, tables_in, without_triggers
from gamed.database.store import Run
from gamed.database.table_copy import Progress, TableDigest, copy_tables, differing, digest_tables
from gamed.disk import sync_folder
from gamed.players import keyring

DATABASES = (AUTH, STATE)
LOGGED = {"security_event"}
"""The table in which the target has the move itself."""
LOGS = [f"{database}.db{beside}" for database in (AUTH, STATE) for beside in ("-wal", "-shm")]
LOCK_MS = 10_000
KIND = SessionKind("move-store", DATABASES, lock_ms=LOCK_MS, idle_ms=0)
Digests = Mapping[str, TableDigest]


class StoreMove(Struct, frozen=True):
    """The result of a move."""

    digests: Digests
    """The digest of each table; none if an earlier run copied the rows, and this one finished the move."""
    previous: Sequence[str]
    """The new names of the previous files or schemas."""


@contextmanager
def open_session(address: PostgresqlAddress) -> Iterator[PlainSession]:
    """Yield a session that keeps servers and commands away from these databases; raise CommandFailed, DatabaseError."""
    try:
        session = PlainSession(Connector(address, now_ms).open(KIND))
        with closing(session), alone(session):
            try:
                yield session
            finally:
                session.rollback()
    except (PostgresqlError, DatabaseError) as e:
        raise CommandFailed(f"{address.url} cannot be used now: {e.__cause__ or e}") from None
    except MigrationError as e:
        raise SetupError(str(e)) from None


def move_to_postgresql(data: Path, session: PlainSession, where: str, ran_by: str) -> StoreMove:
    """Copy auth.db and state.db into new schemas, and rename the files; raise CommandFailed with nothing moved."""
    if (suffix := _begun_suffix(data, session)) is not None:
        with keys.database_errors(SqliteStore(data=data), STATE), write_locked(data / f"{STATE}.db"):
            return StoreMove({}, _rename(data, [STATE], suffix))
    _refuse_complete(data, session, where, back=False)
    with ExitStack() as locks:
        for database in DATABASES:
            path = _existing(data, database)
            locks.enter_context(keys.database_errors(SqliteStore(data=data), database))
            check_schema(path)
            run_read(path, lambda connection: None)  # it has this version's schema
            locks.enter_context(write_locked(path))
        with ExitStack() as opened:
            files = {each: opened.enter_context(closing(_open(data / f"{each}.db"))) for each in DATABASES}
            _require_master_key(files[AUTH])
            digests = _fill_schemas(files, session, where, ran_by, _size(data))
        return StoreMove(
            digests, _rename(data, DATABASES, _unused_stamp(lambda each: any(data.glob(f"*{MOVED_FILE}{each}"))))
        )


def _begun_suffix(data: Path, session: PlainSession) -> str | None:
    """Return the suffix with which an interrupted run has renamed auth.db, if it has not renamed state.db."""
    moved = moved_name(data / f"{AUTH}.db")
    if moved is None or (data / f"{AUTH}.db").exists() or not (data / f"{STATE}.db").exists():
        return None
    suffix = moved.name.rpartition("-")[2]
    # A move back leaves files with such names, too; auth.db may have been lost since.
    if (data / f"{STATE}.db{MOVED_FILE}{suffix}").exists() or NONE in [version_of(session, each) for each in DATABASES]:
        return None
    with keys.database_errors(SqliteStore(data=data), AUTH), closing(_open(moved)) as auth:
        return suffix if keyring.read_store_id(auth) == read_store_id(session) else None


def _unused_stamp(is_used: Callable[[str], bool]) -> str:
    """Return this second, or the first one after it, that is no part of another name."""
    now = now_ms()
    while is_used(stamp(now)):
        now += 1000
    return stamp(now)


def _existing(data: Path, database: str) -> Path:
    path = data / f"{database}.db"
    if not path.exists():
        raise DatabaseNotFound(SqliteStore(data=data), database)
    return path


def _open(path: Path) -> SqliteConnection:
    connection = connect(file_uri(path, "rw"))
    prepare(connection)
    connection.execute("BEGIN")
    return connection


def _size(data: Path) -> int:
    return sum((data / f"{each}.db").stat().st_size for each in DATABASES)


def _require_master_key(auth: Connection) -> None:
    record = keyring.read_key_record(auth)
    if record is None or record.source is not KeySource.MASTER:
        raise CommandFailed(
            "auth.db is written with the key file, and PostgreSQL needs a master key. Set master_key_env, start the "
            "service once, stop it, and run this again. Nothing was moved."
        )


def _fill_schemas(
    files: Mapping[str, SqliteConnection], session: PlainSession, where: str, ran_by: str, size: int
) -> Digests:
    session.rows("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
    if session.rows(PREPARING) != [(1,)]:
        raise CommandFailed(f"A server is starting on {where}. Stop it first. Nothing was moved.")
    if any(version_of(session, database) != NONE for database in DATABASES):
        _require_same(files, session, where, size)
        return {}
    digests: dict[str, TableDigest] = {}
    with _shown("copying", size) as shown:
        for database, connection in files.items():
            create_schema(session, database, f"schema {database} of {where}")
            source, target = (
                SqliteWholeDatabase(connection=connection),
                PostgresqlWholeDatabase(session=session, schema=database),
            )
            digests |= copy_tables(source, target, tables_in(connection), shown)
            if database == STATE:
                target.set_highest_blob(source.highest_blob())
    _compare(digests, _digests_of_schemas(files, session, "comparing", size))
    session.rows(f"SET LOCAL search_path = {', '.join(DATABASES)}")
    _check(lambda transaction: transaction(session))
    add_command(session, "move-store", None, ran_by, now_ms())
    session.commit()
    return digests


def _require_same(files: Mapping[str, SqliteConnection], session: PlainSession, where: str, size: int) -> None:
    """Raise CommandFailed unless the schemas are the result of an earlier run that was interrupted at its end."""
    same = all(version_of(session, database) != NONE for database in DATABASES)
    if same:
        same = read_store_id(session) == keyring.read_store_id(files[AUTH])
    if same:
        with _shown("comparing the files", size) as shown:
            found = _digests_of_files(files, shown)
        same = not differing(found, _digests_of_schemas(files, session, "comparing", size)) - LOGGED
    if not same:
        raise CommandFailed(
            f"{where} has databases already. Nothing was moved. Name another database, or drop or rename its schemas "
            "auth and state."
        )


def _digests_of_files(files: Mapping[str, SqliteConnection], shown: Progress) -> Digests:
    digests: dict[str, TableDigest] = {}
    for connection in files.values():
        digests |= digest_tables(SqliteWholeDatabase(connection=connection), tables_in(connection), shown)
    return digests


def _digests_of_schemas(files: Mapping[str, SqliteConnection], session: PlainSession, label: str, size: int) -> Digests:
    digests: dict[str, TableDigest] = {}
    with _shown(label, size) as shown:
        for database, connection in files.items():
            target = PostgresqlWholeDatabase(session=session, schema=database)
            digests |= digest_tables(target, tables_in(connection), shown)
    return digests


def _compare(copied: Digests, read: Digests) -> None:
    if wrong := differing(copied, read):
        raise CommandFailed(f"The rows of {min(wrong)} differ after the copy. Nothing was moved.")


def _check(run: Run) -> None:
    if errors := find_in_saves(run):
        listed = "\n".join(errors)
        raise CommandFailed(f"{listed}\nNothing was moved. Repair the saves first: gamed check data --fix")


@contextmanager
def _shown(label: str, size: int) -> Iterator[Progress]:
    """Show a progress bar; yield a function to call with the bytes that were done since its last call."""
    done = 0

    def add(more: int) -> None:
        nonlocal done
        done += more
        show(done)

    with bar(label, size) as show:
        yield add


def _rename(data: Path, databases: Sequence[str], suffix: str) -> list[str]:
    """Give the files their new names, `auth.db` first; delete SQLite's own files beside them, which are empty."""
    names = []
    for database in databases:
        path = data / f"{database}.db"
        names.append(str(path.rename(path.with_name(f"{path.name}{MOVED_FILE}{suffix}"))))
        sync_folder(data)
    for name in LOGS:
        (data / name).unlink(missing_ok=True)
    return names


def move_to_sqlite(data: Path, session: PlainSession, where: str, ran_by: str) -> StoreMove:
    """Copy both schemas into new files, and rename the schemas; raise CommandFailed with nothing moved."""
    if (begun := restore_journal.unfinished(data)) is not None:
        restore_journal.finish(data, begun)
    session.rows("BEGIN ISOLATION LEVEL REPEATABLE READ")
    _refuse_complete(data, session, where, back=True)
    for database in DATABASES:
        require_schema(session, database, f"schema {database} of {where}")
        check_contents(session, database, f"schema {database} of {where}")
        if version_of(session, database).number != len(scripts_in(schema_folder(database))):
            raise CommandFailed(f"{where} has the schema of a newer gamed. Use that version. Nothing was moved.")
    size = sum(size_of(session, database) for database in DATABASES)
    if any((data / f"{each}.db").exists() for each in DATABASES):
        _require_same_files(data, session, where, size)
        digests: Digests = {}
        names = _rename_schemas(session)
    else:
        with _filled(data, session, where, ran_by, size) as digests:
            names = _rename_schemas(session)  # the session may have ended during the copy, and then no files are left
    session.rows("COMMIT")  # even if a standby does not get the new names, the files have everything
    with suppress(OSError):
        (data / DATABASE_NOTE).unlink()  # from now on it would say that the databases are still there
    return StoreMove(digests, names)


def _rename_schemas(session: PlainSession) -> list[str]:
    moved = moved_schemas(session)
    suffix = MOVED + _unused_stamp(lambda each: f"{AUTH}{MOVED}{each.lower()}" in moved).lower()
    for database in DATABASES:
        session.rows(f"ALTER SCHEMA {database} RENAME TO {database}{suffix}")
    return [f"{database}{suffix}" for database in DATABASES]


def _refuse_complete(data: Path, session: PlainSession, where: str, *, back: bool) -> None:
    """Raise CommandFailed if an earlier run has moved everything: the target has both databases, the source none."""
    files = {(data / f"{each}.db").exists() for each in DATABASES}
    schemas = {version_of(session, each) != NONE for each in DATABASES}
    if (files, schemas) == ({back}, {not back}):
        if back:
            text = f"{where} has no databases, and {data} has auth.db and state.db"
            settings = "remove store and store_password_env from the configuration"
        else:
            text, settings = f"{data} has no databases, and {where} has", "write store into the configuration"
        raise CommandFailed(
            f"{text}. If they are this server's, an earlier move is complete: {settings}, and start the service."
        )


def _require_same_files(data: Path, session: PlainSession, where: str, size: int) -> None:
    """Raise CommandFailed unless the files are the result of an earlier run that was interrupted at its end."""
    same = all((data / f"{each}.db").exists() for each in DATABASES)
    if same:
        with keys.database_errors(SqliteStore(data=data), AUTH), ExitStack() as opened:
            files = {each: opened.enter_context(closing(_open(data / f"{each}.db"))) for each in DATABASES}
            with _shown("comparing the files", size) as shown:
                found = _digests_of_files(files, shown)
            same = not differing(found, _digests_of_schemas(files, session, "comparing", size)) - LOGGED
    if not same:
        raise CommandFailed(f"{data} has databases already. Nothing was moved. Move its auth.db and state.db away.")


@contextmanager
def _filled(data: Path, session: PlainSession, where: str, ran_by: str, size: int) -> Iterator[Digests]:
    """Yield once the new files are whole, and then give them their names; an error deletes them."""
    if (free := shutil.disk_usage(data).free) < size + SPARE_BYTES:
        needed = readable.size(size + SPARE_BYTES)
        raise CommandFailed(f"{data} has {readable.size(free)} free, and the move needs {needed}. Nothing was moved.")
    staged = restore_journal.begin(data)
    try:
        with keys.database_errors(SqliteStore(data=staged), AUTH), _shown("copying", size) as shown:
            digests = {
                name: each
                for database in DATABASES
                for name, each in _fill_file(staged / f"{database}.db", session, shown).items()
            }
            _compare_files(staged, digests, size)
            entry = partial(add_command, command="move-store", player_id=None, ran_by=ran_by, now_ms=now_ms())
            run_transaction(staged / f"{AUTH}.db", entry)
        for database in DATABASES:
            require_no_log(staged / f"{database}.db")
        yield digests
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    journal = RestoreJournal(where, f".before-move-{stamp(now_ms())}", [f"{each}.db" for each in DATABASES])
    restore_journal.commit(data, journal)
    restore_journal.finish(data, journal)


def _fill_file(path: Path, session: PlainSession, shown: Progress) -> Digests:
    """Make a new file with the rows of its schema."""
    prepare_file(path, copied=False)
    with closing(connect(file_uri(path, "rw"))) as connection:
        connection.executescript("PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;")
        connection.execute("BEGIN EXCLUSIVE")
        source, target = (
            PostgresqlWholeDatabase(session=session, schema=path.stem),
            SqliteWholeDatabase(connection=connection),
        )
        with without_triggers(connection):
            digests = copy_tables(source, target, tables_in(connection), shown)
        if path.stem == STATE:
            target.set_highest_blob(source.highest_blob())
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL").close()
    return digests


def _compare_files(staged: Path, digests: Digests, size: int) -> None:
    """Read the new files again; raise CommandFailed if they are not what was copied."""
    with ExitStack() as opened:
        files = {each: opened.enter_context(closing(_open(staged / f"{each}.db"))) for each in DATABASES}
        with _shown("comparing", size) as shown:
            _compare(digests, _digests_of_files(files, shown))
        _check(lambda transaction: transaction(files[STATE]))
    for database in DATABASES:
        try:
            examine(staged / f"{database}.db", database)
        except BackupError as e:
            raise CommandFailed(f"The copy is damaged: {e}. Nothing was moved.") from None
