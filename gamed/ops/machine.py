"""The state of this machine: one list of steps, which `gamed doctor`, `gamed check data` and the owner's page read.

A reader takes what it has the time for. The owner's page looks once a minute and takes what a file's entry shows;
doctor also has the databases checked, in seconds; check data reads all of them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from gamed.config.model import Config
from gamed.database.connection import AUTH, STATE
from gamed.database.errors import DatabaseCorrupt, DatabaseError, DatabaseRestored, MigrationError, SchemaOlder
from gamed.database.store import DamageCheck, Run, Store
from gamed.ops import machine_checks as checks
from gamed.ops.findings import Finding, Level, problem, skipped, warning

Step = Callable[[], list[Finding]]


class Machine(Struct, frozen=True, kw_only=True):
    """The facts of this machine that the steps read."""

    data: Path
    store: Store
    config_path: Path | None = None
    config: Config | None = None
    """None if it cannot be used: the steps that need it are left out."""
    complete: bool = True
    """Whether every variable that the configuration names is set: only then it is called valid."""
    min_free_bytes: int = 0


def quick_steps(machine: Machine) -> list[Step]:
    """Return the steps that read entries of files and limits, in milliseconds unless a disk does not respond."""
    files: list[Step] = [partial(checks.check_files, machine.data, machine.store)]
    config, path = machine.config, machine.config_path
    if path is not None:
        files.insert(0, partial(_configuration, path, complete=machine.complete))
    if config is None:
        return files
    return [
        *files,
        lambda: checks.check_checkpoints(config, machine.store),
        lambda: [checks.check_free(machine.data, machine.min_free_bytes)],
        lambda: [checks.check_limit(config)],
    ]


def database_steps(store: Store) -> list[Step]:
    """Return the steps that open the databases and read every page once."""
    return [partial(_server, store), *(partial(_database, store, name) for name in (AUTH, STATE))]


def damage_steps(store: Store, database: str, run: Run) -> list[Step]:
    """Return the steps that compare every structure of a database; raise DatabaseError."""
    found: Sequence[DamageCheck] = run(partial(store.damage_checks, database=database))
    return [partial(_damage, run, store.name(database), check) for check in found]


def _configuration(path: Path, *, complete: bool) -> list[Finding]:
    try:
        found = checks.facts(path)
    except OSError:  # doctor read it before root became the service's user, who may have no access
        return []
    finding = None if found is None else checks.check_config_file(str(path), found)
    return [finding] if finding is not None and (complete or finding.level is not Level.OK) else []


def _server(store: Store) -> list[Finding]:
    """Check the server of the databases, and whether they were restored; return no finding for files as they were."""
    try:
        facts = store.server_facts()
    except DatabaseError as e:
        advice = "Check the server, its log, and store in authentication.json."
        return [problem("store", f"cannot be used: {e}", advice)]
    findings = [] if facts is None else checks.check_database_server(facts)
    try:
        store.check_restored()
    except DatabaseRestored as e:
        return [*findings, problem("store", str(e), "Until then gamed serve refuses to start.")]
    except (DatabaseError, MigrationError):  # the steps of the databases report it
        pass
    return findings


def _database(store: Store, database: str) -> list[Finding]:
    name = store.name(database)
    try:
        store.check_schema(database)  # as a start does: an older copy, or one that was changed, may pass all else
        if not store.exists(database):
            return [skipped(name, f"there is no {store.describe(database)}", "Start the service once: gamed serve")]
        with store.open_reader(database) as run:
            version = run(partial(store.schema_version, database=database))
            return [checks.check_store(name, version, run(partial(store.quick_check, database=database)))]
    except SchemaOlder as e:
        return [warning(name, str(e), "Make a backup first, or keep enough free space for the copy.")]
    except MigrationError as e:
        return [problem(name, f"serve refuses it: {e}", "")]
    except DatabaseError as e:
        advice = f"{store.check_owner(database)} Run gamed check data, and if it is damaged restore a backup."
        return [problem(name, f"cannot be used: {e}", advice)]


def _damage(run: Run, name: str, check: DamageCheck) -> list[Finding]:
    try:
        lines: list[str] = run(check.find_errors)
    except DatabaseCorrupt as e:
        lines = [f"{name}: {check.name}: {e} {check.advice}"]
    return [problem(name, line, "") for line in lines]
