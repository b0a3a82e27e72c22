"""Numbered scripts make the schemas auth and state, each the counterpart of SQLite's script of the same number.

The table `schema_version` of each schema has a row for each script that ran there. Processes of two versions may use
one schema while an operator replaces them one by one: a script names with `-- oldest: 1` the oldest schema whose gamed
works with what the script makes. Without that line, only a gamed that has the script does.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from json import dumps, loads
from pathlib import Path
from time import monotonic, sleep

from msgspec import Struct

from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.errors import DatabaseUnavailable, MigrationError
from gamed.database.postgresql.error_mapping import PostgresqlError, kind_of
from gamed.database.postgresql.processes import IN_USE, STORE
from gamed.database.postgresql.session import PlainSession
from gamed.database.scripts import read_script, scripts_in

SCHEMAS = Path(__file__).parent / "schema"
OLDEST = "-- oldest: "
MOVED, REPLACED = "_moved_", "_before_restore_"
"""They follow the name of a schema that was moved to files, or replaced by a backup; the time comes after them."""
PREPARING = "SELECT CASE WHEN pg_try_advisory_xact_lock(3, 0) THEN 1 ELSE 0 END"
"""Lock all other processes out that prepare a schema of this database, until the transaction ends."""
UNUSED = f"""
    SELECT CASE WHEN pg_try_advisory_xact_lock({STORE}, {IN_USE}) OR NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_locks
        WHERE locktype = 'advisory' AND objsubid = 2 AND classid = {STORE} AND objid = {IN_USE} AND mode = 'ShareLock'
            AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    ) THEN 1 ELSE 0 END
"""
"""Return 1 if no server uses the database, and none begins before the transaction ends; a command may have it alone."""
PREPARING_SECONDS = 0.1
UNUSED_SECONDS = 2.0
"""How long a script waits until nothing uses the database: PostgreSQL notices the end of a process some milliseconds
later, and another machine that starts uses the database for a moment before it waits for this one."""
LOCK_MS = 2_000
"""How long a migration waits for other transactions; theirs wait as long behind it."""
LOCK_TRIES = 60
RETRY_SECONDS = 1.0
LOCK_NOT_AVAILABLE, NOT_ALLOWED = "55P03", "42501"
OF_SCRIPTS = ("0A", "3F", "42")
"""How the codes of errors begin that a statement of a script may cause; others of PostgreSQL's are the server's."""
ENDS = {"ABORT", "BEGIN", "COMMIT", "END", "PREPARE", "ROLLBACK", "START"}
"""How a statement begins that no script may have: it could stop half-way."""
CONTENTS = """
    WITH relation AS (
        SELECT c.* FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = :database
    )
    SELECT CASE relkind WHEN 'r' THEN 'table ' WHEN 'v' THEN 'view ' ELSE 'sequence ' END || relname, '' FROM relation
    WHERE relkind IN ('r', 'v', 'S')
    UNION ALL
    SELECT 'column ' || r.relname || '.' || a.attname, concat_ws(' ', pg_catalog.format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attnotnull THEN 'NOT NULL' END, l.collname, a.attstorage)
    FROM relation r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid
    LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
    WHERE r.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT 'index ' || r.relname, concat_ws(' ', i.indnatts, CASE WHEN i.indisunique THEN 'UNIQUE' END,
        CASE WHEN i.indpred IS NOT NULL THEN 'WHERE' END, CASE WHEN NOT i.indisvalid THEN 'INVALID' END)
    FROM relation r JOIN pg_catalog.pg_index i ON i.indexrelid = r.oid
    UNION ALL
    SELECT 'trigger ' || r.relname || '.' || t.tgname, concat_ws(' ', t.tgtype, t.tgenabled)
    FROM relation r JOIN pg_catalog.pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
    UNION ALL
    SELECT 'constraint ' || r.relname || '.' || k.conname, concat_ws(' ', k.contype, k.convalidated)
    FROM relation r JOIN pg_catalog.pg_constraint k ON k.conrelid = r.oid WHERE k.contype IN ('c', 'f', 'p', 'u')
    UNION ALL
    SELECT 'function ' || p.proname, pg_catalog.md5(p.prosrc)
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = :database
"""
"""The contents of a schema, by name; only what every version of PostgreSQL reports with the same words."""


class SchemaVersion(Struct, frozen=True):
    """The version of a schema: the number of its last script, and the oldest version that works with it."""

    number: int
    oldest: int


NONE = SchemaVersion(0, 0)


def schema_folder(database: str) -> Path:
    """Return the folder with the scripts of `auth` or `state`."""
    return SCHEMAS / database


def version_of(connection: Connection, database: str) -> SchemaVersion:
    """Return the version of a schema; NONE if it does not exist or is empty. Raise MigrationError for another's."""
    query = """
        SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = :database AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
    """
    found = {str(name) for (name,) in connection.rows(query, {"database": database})}
    if not found:
        return NONE
    if "schema_version" not in found:
        raise MigrationError(
            f"The schema {database} has the table {min(found)}, but is not gamed's. Name another database for gamed."
        )
    query = f"SELECT number, oldest FROM {database}.schema_version ORDER BY number DESC LIMIT 1"
    [(number, oldest)] = connection.rows(query) or [(0, 0)]
    return SchemaVersion(int(number), int(oldest))


def require_schema(connection: Connection, database: str, where: str) -> None:
    """Raise MigrationError unless this gamed works with the schema, and DatabaseUnavailable if there is none."""
    version, known = version_of(connection, database), len(scripts_in(schema_folder(database)))
    if version == NONE:
        raise DatabaseUnavailable(f"{where} does not exist; start the service once to make it.")
    _refuse_newer(version, known, where)
    if version.number < known:
        raise MigrationError(f"{where} has schema {version.number}, this gamed works with {known}: {_migrate(where)}")


def _refuse_newer(version: SchemaVersion, known: int, where: str) -> None:
    if version.number > known and version.oldest > known:
        raise MigrationError(f"schema {version.number} of {where} is newer than this gamed; run the newer one")


def _migrate(where: str) -> str:
    return f"back up {where}, then run `gamed serve --migrate` once, with this version"


def prepare_schema(
    session: PlainSession,
    database: str,
    where: str,
    progress: Callable[[str], None],
    working: Callable[[], None],
    *,
    migrate: bool,
) -> None:
    """Create the schema `auth` or `state`, or bring it to the newest version if `migrate` is true.

    Several processes may do that at once. `where` names the schema in messages, `progress` is called with a text before
    a long wait, `working` repeatedly during it; while a script runs, the session calls it. Raise MigrationError;
    PostgresqlError is not translated.
    """
    tries = 0
    while True:
        try:
            with _preparing(session, where, progress, working):
                if _step(session, database, where, progress, working, migrate=migrate):
                    return
        except PostgresqlError as e:
            if e.code != LOCK_NOT_AVAILABLE:
                raise
            tries += 1
            if tries == LOCK_TRIES:
                raise MigrationError(f"{where} stays in use by other transactions. Its schema was not changed.") from e
            progress(f"{where} is in use; the change of its schema is tried again")
            _rest(RETRY_SECONDS, working)


@contextmanager
def _preparing(
    session: PlainSession, where: str, progress: Callable[[str], None], working: Callable[[], None]
) -> Iterator[None]:
    """Hold a transaction in which no other process prepares a schema; commit it at the end."""
    waited = False
    try:
        while True:
            # Tried repeatedly: lock_timeout would end a wait after four seconds, and scripts may run for minutes.
            session.rows("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            if session.rows(PREPARING) == [(1,)]:
                break
            session.rollback()
            if not waited:
                progress(f"another process prepares {where}; waiting for it")
            waited = True
            _rest(PREPARING_SECONDS, working)
        yield
        session.commit()
    finally:
        session.rollback()


def _rest(seconds: float, working: Callable[[], None]) -> None:
    working()
    sleep(seconds)


def _step(
    session: PlainSession,
    database: str,
    where: str,
    progress: Callable[[str], None],
    working: Callable[[], None],
    *,
    migrate: bool,
) -> bool:
    """Run all scripts of a new schema, or the next one of an older schema; return whether that was the last one."""
    scripts, version = scripts_in(schema_folder(database)), version_of(session, database)
    _refuse_newer(version, len(scripts), where)
    if version.number >= len(scripts):
        return True
    if version == NONE:
        create_schema(session, database, where)
        return True
    if not migrate:
        raise MigrationError(
            f"{where} has schema {version.number}, and this gamed makes {len(scripts)}: {_migrate(where)}"
        )
    script = scripts[version.number]
    if _oldest(read_script(script), version.number + 1) > version.number and not _await_unused(session, working):
        raise MigrationError(
            f"{where} is used by servers or commands that do not work with schema {version.number + 1}. Stop all of "
            "them, on every machine, and start this one again. Nothing was changed."
        )
    progress(f"{where}: {script.name} changes its schema")
    session.rows(f"SET LOCAL lock_timeout = {LOCK_MS}")
    _run_script(session, database, version.number + 1, script)
    return version.number + 1 == len(scripts)


def create_schema(session: PlainSession, database: str, where: str) -> None:
    """Create the schema `auth` or `state` with every script, in the transaction of the caller; raise MigrationError."""
    try:
        session.rows(f"CREATE SCHEMA IF NOT EXISTS {database}")
    except PostgresqlError as e:
        if e.code != NOT_ALLOWED:
            raise
        raise MigrationError(
            f"{where} cannot be made: {e}. Let this user create schemas: GRANT CREATE ON DATABASE ... TO ..."
        ) from e
    session.rows(f"""
        CREATE TABLE {database}.schema_version (
            number bigint PRIMARY KEY, oldest bigint NOT NULL, script text NOT NULL, contents text NOT NULL
        )
    """)
    for number, script in enumerate(scripts_in(schema_folder(database)), 1):
        _run_script(session, database, number, script)


def _await_unused(session: PlainSession, working: Callable[[], None]) -> bool:
    """Return whether no server uses the database, at the latest after UNUSED_SECONDS."""
    deadline = monotonic() + UNUSED_SECONDS
    while session.rows(UNUSED) != [(1,)]:
        if monotonic() > deadline:
            return False
        _rest(PREPARING_SECONDS, working)
    return True


def _run_script(session: PlainSession, database: str, number: int, script: Path) -> None:
    """Run a script and note its number; raise MigrationError if it fails."""
    text = read_script(script)
    try:
        session.rows(f"SET LOCAL search_path = {database}")
        for statement in statements(text):
            if statement.split()[0].upper() in ENDS:
                raise MigrationError(f"schema {database}: {script.name} ends its transaction")
            session.rows(statement)
        query = f"""
            INSERT INTO {database}.schema_version (number, oldest, script, contents)
            VALUES (:number, :oldest, :script, :contents)
        """
        values = {"number": number, "oldest": _oldest(text, number), "script": _hash(text)}
        contents = dumps(contents_of(session, database))
        session.rows(query, {**values, "contents": contents})
    except PostgresqlError as e:
        if kind_of(e.code) is not None and not e.code.startswith(OF_SCRIPTS):
            raise
        raise MigrationError(f"schema {database}: {script.name}: {e}") from e


def statements(script: str) -> list[str]:
    """Return the statements of a script. Each ends with a line that ends with `;`, outside a function's text."""
    found, lines, inside = [], list[str](), False
    for line in script.splitlines():
        code = line.partition("--")[0].rstrip()
        if not code:
            continue
        lines.append(code)
        inside ^= code.count("$$") % 2 == 1
        if code.endswith(";") and not inside:
            found.append("\n".join(lines).removesuffix(";"))
            lines = []
    return [*found, "\n".join(lines)] if lines else found


def _oldest(script: str, number: int) -> int:
    lines = [line for line in script.splitlines() if line.startswith(OLDEST)]
    return int(lines[0].removeprefix(OLDEST)) if lines else number


def _hash(script: str) -> str:
    return sha256("".join("".join(each.split()) for each in statements(script)).encode()).hexdigest()


def contents_of(connection: Connection, database: str) -> dict[str, str]:
    """Return the tables, columns, indexes, triggers and so on of a schema by name, with their main properties."""
    return {str(name): str(value) for name, value in connection.rows(CONTENTS, {"database": database})}


def moved_schemas(connection: Connection) -> list[str]:
    """Return the names that `auth` was given when it was moved away, in the order of time."""
    return _beginning_with(connection, f"{AUTH}{MOVED}")


def schemas_aside(connection: Connection) -> list[str]:
    """Return the names that both schemas were given when they were moved away, or replaced by a backup."""
    beginnings = [f"{database}{why}" for database in (AUTH, STATE) for why in (REPLACED, MOVED)]
    return [name for each in beginnings for name in _beginning_with(connection, each)]


def _beginning_with(connection: Connection, begin: str) -> list[str]:
    query = "SELECT nspname FROM pg_catalog.pg_namespace WHERE starts_with(nspname, :begin) ORDER BY 1"
    return [str(name) for (name,) in connection.rows(query, {"begin": begin})]


def check_schema(connection: Connection, database: str, where: str) -> None:
    """Raise MigrationError unless the schema has what its scripts made; further indexes and tables do not matter.

    This only reads, in a few milliseconds. A missing schema, and a version that this gamed does not work with, are left
    to prepare_schema(); but raise MigrationError, too, if the schema was moved away.
    """
    if version_of(connection, database) == NONE:
        if database == AUTH and (moved := moved_schemas(connection)):
            raise MigrationError(
                f"{where} was moved to SQLite, and is {moved[-1]} now. Remove store from the configuration; to begin "
                "with empty databases here, drop or rename that schema first."
            )
        return
    query = f"SELECT number, script, contents FROM {database}.schema_version ORDER BY number"
    made = connection.rows(query)
    for script, (_, hashed, _) in zip(scripts_in(schema_folder(database)), made, strict=False):
        if hashed != _hash(read_script(script)):
            raise _other(where, f"script {script.name}")
    wanted: Mapping[str, str] = loads(made[-1][2])
    found = contents_of(connection, database)
    for name, value in wanted.items():
        if found.get(name) == f"{value} INVALID".strip():
            index = name.removeprefix("index ")
            raise MigrationError(f"{where}: the index {index} is not valid. Run: REINDEX INDEX {database}.{index}")
        if found.get(name) != value:
            raise _other(where, name)


def _other(where: str, which: str) -> MigrationError:
    return MigrationError(
        f"{where} was made by another version of gamed: its {which} is missing or differs. Start that version, restore "
        "a backup, or rename the schemas to begin with empty ones; nothing was changed."
    )
