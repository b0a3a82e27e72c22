"""Numbered scripts make the schema of each database, for new files too; each one runs in one transaction."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from shlex import quote

from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.errors import DatabaseCorrupt, DatabaseError, DatabaseUnavailable, MigrationError, SchemaOlder
from gamed.database.scripts import read_script, scripts_in
from gamed.database.sqlite.error_mapping import SQLITE_ERRORS, translate, translated
from gamed.database.sqlite.files import (
    APPLICATION_ID,
    PAGE_BYTES,
    SqliteConnection,
    connect,
    copy_into,
    file_uri,
    prepare,
    reading_uri,
    refuse_folder,
)
from gamed.database.sqlite.write_lock import lock_writes
from gamed.event_log import EventLog

SCHEMAS = Path(__file__).parent / "schema"
OTHERS = ("sqlite_", "_litestream_")
"""The first characters of the names of tables that are not ours."""
OTHER_VERSION = "was made by another version of gamed"
MOVED = ".moved-"
"""Follows the name of a file that `gamed move-store` has moved to PostgreSQL; the time comes after it."""
STEPS = 1_000
"""Steps of SQLite's virtual machine between two calls of `working`: a few dozen MiB at most."""


def no_progress(*_text: str) -> None:
    """Ignore the progress."""


def schema_folder(name: str) -> Path:
    """Return the folder with the scripts of `auth` or `state`."""
    return SCHEMAS / name


def prepare_state(
    data: Path, progress: Callable[[str], None] = no_progress, working: Callable[[], None] = no_progress
) -> None:
    """Create or migrate state.db; skip it if it cannot be opened, so that players can still sign in."""
    try:
        prepare_file(data / f"{STATE}.db", progress, working)
    except (DatabaseUnavailable, DatabaseCorrupt) as e:
        from twisted.logger import Logger  # late: commands log nothing, and need no Twisted

        events = EventLog(Logger())
        events.error("database_unavailable", database=STATE, path=data / f"{STATE}.db", detail=e.__cause__ or e)


def prepare_file(
    path: Path,
    progress: Callable[[str], None] = no_progress,
    working: Callable[[], None] = no_progress,
    *,
    copied: bool = True,
) -> None:
    """Create a file, or migrate it to the newest schema; with `copied`, copy it first if it has an older one.

    The caller holds the folder's lock. `progress` is called with a text before long work, `working` repeatedly during
    it. Raise MigrationError if the file is not for this version, DatabaseError if SQLite cannot use it.
    """
    folder = schema_folder(path.stem)
    refuse_folder(path)
    with lock_writes(path), translated(), closing(connect(file_uri(path, "rwc"))) as connection:
        connection.set_progress_handler(working, STEPS)
        prepare(connection)
        _begin(connection, path)
        if copied and 0 < version_of(connection) < len(scripts_in(folder)):
            progress(f"copying {path.name} before its schema changes")
            copy = _copy(connection, path)
            progress(
                f"{path.name} as it was is {copy}; to go back, install the version of gamed from before, then run: "
                f"gamed --data {quote(str(path.parent))} restore {quote(str(copy))}"
            )
        migrate(connection, folder)


def moved_name(path: Path) -> Path | None:
    """Return the name that a file was given when it was moved to PostgreSQL; the latest, or None."""
    return max(path.parent.glob(f"{path.name}{MOVED}*"), default=None)


def check_schema(path: Path) -> None:
    """Raise MigrationError unless the file has the tables, indexes and triggers that its numbered scripts make.

    This only reads, in a few milliseconds, beside a service, too. A file that is missing, empty, newer or damaged is
    left to prepare_file(); but raise MigrationError, too, if auth.db was moved away, or is another program's file.
    """
    if not path.exists():
        if path.stem == AUTH and (moved := moved_name(path)) is not None:
            raise MigrationError(
                f"{path} was moved to PostgreSQL, and is {moved} now. Name that store in the configuration; to begin "
                "with empty databases here, move that file out of the folder first."
            )
        return
    try:
        with closing(connect(reading_uri(path))) as connection:
            _require_ours(connection, path)
            which = schema_difference(connection, path.stem)
    except SQLITE_ERRORS:
        return
    if which is not None:
        raise MigrationError(
            f"{path} {OTHER_VERSION}: its {which} is missing or differs. Start that version, restore a backup, or move "
            "the stores out of the folder to begin with empty ones; nothing was changed."
        )


def schema_difference(connection: SqliteConnection, database: str) -> str | None:
    """Return a table, index or trigger of `auth` or `state` that is not what the scripts up to its number make.

    Return None if there is none, and for a file that is empty or newer. Raise an error of SQLite.
    """
    version, found = version_of(connection), _schema_of(connection)
    scripts = scripts_in(schema_folder(database))
    if not 0 < version <= len(scripts):
        return None
    text = "".join(_plain(line) for script in scripts[:version] for line in read_script(script).splitlines())
    # SQLite keeps each CREATE as it was written, so that this needs no second schema in memory. After an ALTER TABLE
    # or a DROP that is not so: a file that has missed it would look right.
    created = "ALTER" not in text and "DROP" not in text and text.count("CREATE") == len(found)
    if created and all(f"{sql};" in text for sql in found.values()):
        return None
    with closing(connect(":memory:")) as model:
        for script in scripts[:version]:
            model.executescript(read_script(script))
        wanted = _schema_of(model)
    differing = (name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    return min(differing, default=None)


def refuse_other_number(version: int, path: Path) -> None:
    """Raise MigrationError unless this gamed works with a file of this number as it is."""
    known = len(scripts_in(schema_folder(path.stem)))
    if version > known:
        raise MigrationError(f"schema {version} of {path} is newer than this gamed; run the newer one")
    if version < known:
        raise SchemaOlder(
            f"{path} has schema {version}, and this gamed works with {known}. Start the service once: it copies the "
            "file, then changes its schema."
        )


def _schema_of(connection: SqliteConnection) -> dict[str, str]:
    """Return the text of each table, index and trigger by its name, without comments, blanks and quotes.

    SQLite adds quotes when it renames a table, and tables of its own. So does Litestream, which copies databases.
    """
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql NOT NULL").fetchall()
    ours = [row for row in rows if not row[1].startswith(OTHERS)]
    return {f"{kind} {name}": "".join(map(_plain, sql.splitlines())) for kind, name, sql in ours}


def _plain(line: str) -> str:
    return line.partition("--")[0].replace(" ", "").replace('"', "")


def version_of(connection: Connection) -> int:
    """Return the number of the last script that ran; 0 for a new file."""
    [(version,)] = connection.execute("PRAGMA user_version").fetchall()
    return int(version)


def migrate(connection: SqliteConnection, folder: Path) -> None:
    """Run every script that has not run on this file, each in one transaction with its version number."""
    scripts = scripts_in(folder)
    version = version_of(connection)
    if version > len(scripts):
        raise MigrationError(f"schema {version} of {folder.name}.db is newer than this gamed; run the newer one")
    connection.execute("PRAGMA foreign_keys = OFF")  # a script may rebuild a table that others refer to
    for number, script in enumerate(scripts[version:], version + 1):
        try:
            _run(connection, read_script(script), number)
        except sqlite3.Error as e:
            if isinstance(translate(e), DatabaseError):  # an error of the file or its disk, not of the script
                raise
            raise MigrationError(f"{folder.name}.db: {script.name}: {e}") from e
        finally:
            connection.rollback()
    connection.execute("PRAGMA foreign_keys = ON")


def _run(connection: SqliteConnection, script: str, number: int) -> None:
    connection.executescript(f"BEGIN IMMEDIATE;\n{script}\n;PRAGMA user_version = {number};")
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise sqlite3.IntegrityError("rows that refer to nothing")
    connection.execute("COMMIT")  # fails if the script ended the transaction itself


def _begin(connection: SqliteConnection, path: Path) -> None:
    """Set up a new file before its first table; raise MigrationError for a file of another program."""
    if _is_empty(connection):
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID[path.stem]}")
    _require_ours(connection, path)
    [(journal,)] = connection.execute("PRAGMA journal_mode = WAL").fetchall()
    if journal != "wal":
        raise MigrationError(f"{path}: the file system cannot hold a write-ahead log")


def _require_ours(connection: SqliteConnection, path: Path) -> None:
    """Raise MigrationError for a file of another program, or the other database."""
    [(identity,)] = connection.execute("PRAGMA application_id").fetchall()
    if identity != APPLICATION_ID[path.stem] and not _is_empty(connection):
        raise MigrationError(f"{path} is not gamed's {path.name}; was another file put in its place?")


def _is_empty(connection: SqliteConnection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None


def _copy(connection: SqliteConnection, path: Path) -> Path:
    """Copy the file to `auth.db.v1` beside it, or `.v2` and so on; the name exists only when the copy is complete."""
    copy = path.with_name(f"{path.name}.v{version_of(connection)}")
    part = copy.with_name(f"{copy.name}.part")
    part.unlink(missing_ok=True)
    try:
        copy_into(connection, part)
        part.replace(copy)
    finally:
        part.unlink(missing_ok=True)
    return copy
