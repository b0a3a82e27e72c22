"""`gamed restore` checks a backup, or replaces the databases by those of a backup (SPEC 2.2/8 and 2.2/13)."""

import os
import pwd
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from grp import getgrgid
from pathlib import Path
from secrets import token_bytes
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from gamed.account import store as player_store
from gamed.account.store import NO_BLOCKED_PLAYERS, BlockedPlayers
from gamed.cli import keys, paths
from gamed.cli.completing import complete_backups
from gamed.cli.context import CommandContext, read_with_key, reports_json
from gamed.cli.data import backup as cli_backup
from gamed.cli.data import restore_journal
from gamed.cli.data.backup import Backup, hash_file
from gamed.cli.data.restore_journal import RestoreJournal
from gamed.cli.data.restored import finish_auth, finish_state
from gamed.cli.errors import CommandFailed, SetupError, warn
from gamed.cli.interrupt import may_change
from gamed.cli.output import counted
from gamed.cli.paths import AUTH_DB, STATE_DB, Paths, command_line, read_file, write_whole
from gamed.cli.process import harden, ran_by, switch_to_owner
from gamed.cli.service.folder_lock import Lock
from gamed.clock import now_ms
from gamed.config.errors import ConfigError
from gamed.config.model import Config
from gamed.config.settings import KeySource
from gamed.crypto import Keys
from gamed.database import backup_format
from gamed.database.backup_format import DUMP, SETTINGS, BackupError
from gamed.database.connection import AUTH, STATE
from gamed.database.errors import DatabaseError, MigrationError
from gamed.database.sqlite.error_mapping import SQLITE_ERRORS
from gamed.database.sqlite.files import SUFFIXES, connect, file_uri, refuse_folder
from gamed.database.sqlite.migrations import prepare_file
from gamed.database.sqlite.store import SqliteStore
from gamed.database.sqlite.write_lock import lock_writes
from gamed.players.keyring import KeyRecord
from gamed.readable import size
from gamed.stores import open_store

SPARE_BYTES = 16 * 1024 * 1024
FITS, MISFIT, UNKNOWN, NONE = "fits", "does not fit", "unknown", "none"
"""How the present key fits the auth.db of a backup."""


RESTORED_FROM = Path("/var/tmp/gamed-restore")
"""Where root copies a backup that the service's user cannot reach: a folder closed to all others."""


class RestoreResult(Struct, frozen=True):
    """The result of a restore."""

    aside: tuple[Path | str, ...]
    """The previous databases, under their new names: paths, or names of schemas."""
    sessions: int
    """The number of sessions of the backup, which the restore ended."""
    blocked: int
    """The number of players who stay blocked although the backup does not block or know them."""
    settings: tuple[Path, ...] = ()
    """Configuration files that were missing and were copied from the backup."""
    kept: tuple[Path, ...] = ()
    """Configuration files that differ from the backup's, and stay."""


class BackupPath(click.Path):
    """An existing path; one that this user may not look into is refused with what to do, not as if it did not exist."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        _refuse_closed(Path(value).absolute())
        return super().convert(value, param, ctx)


@click.command()
@click.argument("folder", metavar="DIR", type=BackupPath(exists=True, path_type=Path), shell_complete=complete_backups)
@click.option("--check", is_flag=True, help="Only print what the backup has, and whether it is complete.")
@reports_json
def restore(context: CommandContext, folder: Path, check: bool) -> None:
    """Replace the databases by those of a backup; the present ones are kept under other names. [key]

    The service must not run. DIR is a folder that `gamed backup` made, or one database that was copied before its
    schema changed. The backup is checked first, and the present key has to fit. Every player must sign in again;
    blocked players stay blocked. A configuration file is restored only if it is missing. --check changes nothing,
    needs no key, and works while the service runs.
    """
    harden()
    where, runner = context.places(), ran_by()
    path = folder.absolute()
    if check:
        found = _read(path)
        key = _key(found, where)  # once: reading the master key erases its variable
        context.report(_backup_members(found, key), _backup_lines(found, key))
        return
    config = _config(where, path)
    switch_to_owner(where.data)
    paths.open_data(where.data)
    lock = Lock.acquire(where.data, "gamed restore")
    may_change()
    if (cut_off := restore_journal.unfinished(where.data)) is not None:
        done = RestoreResult(tuple(restore_journal.finish(where.data, cut_off)), 0, 0)
        if cut_off.origin != str(path.resolve()):
            raise CommandFailed(
                f"Finished an interrupted restore of {cut_off.origin}. Run this command again for your backup."
            )
    else:
        done = _restore(_read(path), where, config, runner)
    lock.release()
    context.report(_members(path, done), _lines(path, done, where))


def _read(path: Path) -> Backup:
    _refuse_closed(path)
    try:
        return cli_backup.read(path)
    except BackupError as e:
        if inside := cli_backup.newest(path):
            raise CommandFailed(
                f"{path} is a folder of backups. Name one, such as {inside}. Nothing was changed."
            ) from None
        raise CommandFailed(f"{path} is not a complete backup: {e}. Nothing was changed.") from None


def _refuse_closed(path: Path) -> None:
    """Raise CommandFailed if this user may not read a backup: it may be of another machine, or another user's."""
    for folder in (*reversed(path.parents), path):
        wanted = os.X_OK if folder != path else os.R_OK | (os.X_OK if path.is_dir() else 0)
        if folder.exists() and not os.access(folder, wanted):
            user = _name(pwd.getpwuid, os.geteuid())
            commands = [["chown", "-R", f"{user}:", str(path)]]
            if folder != path:  # it may be /root, which must stay root's
                copy = RESTORED_FROM / path.name
                commands = [
                    ["install", "-d", "-o", user, "-m", "0700", str(RESTORED_FROM)],
                    ["cp", "-R", str(path), str(copy)],
                    ["chown", "-R", f"{user}:", str(copy)],
                ]
            raise CommandFailed(
                f"{folder} is closed to the user {user}. Nothing was changed. Run first, as root: "
                f"{' && '.join(map(shlex.join, commands))}" + (f", and restore {copy}" if folder != path else "")
            )


def _name(find: Callable[[int], tuple[Any, ...]], number: int) -> str:
    """Return the name of a user or a group; its number if it has none, as in a container."""
    try:
        return str(find(number)[0])
    except KeyError:
        return str(number)


def _config(where: Paths, backup: Path) -> Config:
    """Return the present configuration, else the backup's, with the master key that it names."""
    there, copied = where.config.exists(), backup / SETTINGS[0]
    if there or not copied.exists():
        return read_with_key(where).config

    def read_mark(path: str) -> bytes:  # no backup has the picture
        mark = Path(path)
        own = where.config.parent / mark.relative_to(backup) if mark.is_relative_to(backup) else mark
        return paths.read_regular(str(own))

    try:
        return read_with_key(replace(where, config=copied), read_mark=read_mark).config
    except ConfigError as e:
        if all(problem.path != ("look", "mark") for problem in e.problems):
            raise
        raise ConfigError(
            str(copied), e.problems, f"No backup has the picture. Put it beside {where.config}."
        ) from None


def _require_settings(copies: Mapping[str, Path], where: Paths) -> None:
    """Raise CommandFailed if a configuration file is missing and must be brought by root, whose the folder is."""
    commands = [
        ["install", "-m", "0640", "-g", _name(getgrgid, os.getegid()), str(copies[name]), str(target)]
        for name, target in zip(SETTINGS, (where.config, where.game), strict=True)
        if name in copies and not target.exists() and target.parent.exists() and not os.access(target.parent, os.W_OK)
    ]
    if commands:
        raise CommandFailed(
            f"{commands[0][-1]} is missing, and this user may not write it. Nothing was changed. Run first, as root: "
            f"{' && '.join(map(shlex.join, commands))}"
        )


def _restore(backup: Backup, where: Paths, config: Config, runner: str) -> RestoreResult:
    _require_settings(backup.settings, where)
    dumped = DUMP in backup.stores
    if dumped != (config.store is not None):
        kind, other = ("PostgreSQL", "SQLite") if dumped else ("SQLite", "PostgreSQL")
        raise CommandFailed(
            f"This backup is of {kind}, and {where.config} uses {other}. Nothing was changed. Restore it with a "
            f"configuration that uses {kind}, then run: gamed move-store"
        )
    if backup.ring is not None:
        try:
            _refuse_misfit(where.data, config, backup.ring)
        except SetupError as e:
            raise SetupError(f"The key of this server does not fit this backup. Nothing was changed. {e}") from None
    try:
        return (
            _replace_schemas(backup, where, config, runner)
            if config.store
            else replace_databases(backup, where, runner)
        )
    except (DatabaseError, MigrationError) as e:
        raise CommandFailed(f"The databases stay as they were: {e.__cause__ or e}") from None


def _refuse_misfit(data: Path, config: Config, ring: KeyRecord) -> None:
    if not ring.check_value and config.master_key is not None:  # of a dump
        own = Keys.of(config.master_key, token_bytes)
        ring = replace(ring, check_value=own.check if own.fingerprint == ring.fingerprint else b"another")
    keys.refuse_misfit(data, config.master_key, ring, token_bytes, config.master_key_origin)


def _replace_schemas(backup: Backup, where: Paths, config: Config, ran_by: str) -> RestoreResult:
    from gamed.cli.data.store_dump import replace_schemas  # late: the files of SQLite need no other programs

    assert backup.manifest is not None
    written_by = backup.manifest.store.postgresql
    assert written_by is not None
    store = open_store(config, where.data)
    try:
        with keys.database_errors(store, AUTH), closing(store):
            if not where.config.exists() and any(store.exists(database) for database in (AUTH, STATE)):
                # A try in an empty folder would replace what the server uses.
                raise CommandFailed(
                    f"{where.config} is missing, and {store.describe(AUTH)}, which the backup names, exists. Nothing "
                    f"was changed. Copy {backup.settings[SETTINGS[0]]} there. To try the restore, name another "
                    "database in its store."
                )
            instant = backup_format.stamp(now_ms()).lower()
            done = replace_schemas(store, backup.stores[DUMP], written_by, instant, ran_by)
    except BackupError as e:
        raise CommandFailed(f"The databases stay as they were: {e}") from None
    added, kept = _settings(backup.settings, where)
    aside = tuple(f"schema {name}" for name in done.aside)
    return RestoreResult(aside, done.sessions, done.blocked, tuple(added), tuple(kept))


def _key(backup: Backup, where: Paths) -> str:
    """Compare the present key with that of the backup's auth.db; return UNKNOWN without a key."""
    if backup.ring is None:
        return NONE
    try:
        _refuse_misfit(where.data, _config(where, backup.path), backup.ring)
    except ConfigError:
        return UNKNOWN
    except SetupError:
        return MISFIT
    return FITS


def _backup_members(backup: Backup, key: str) -> dict[str, object]:
    counts = {"players" if each.name == "auth" else "saves": each.rows for each in backup.examined.values()}
    schemas = {each.name: each.schema for each in backup.examined.values()}
    return {
        "backup": str(backup.path),
        "whole": True,
        "made_at": backup.manifest.made_at if backup.manifest else None,
        "gamed": backup.manifest.gamed if backup.manifest else None,
        "schemas": schemas,
        **counts,
        "files": sorted([*backup.stores, *backup.settings]),
        "key": {"fingerprint": backup.ring.fingerprint if backup.ring else None, "present_key": key},
    }


def _backup_lines(backup: Backup, key: str) -> Iterator[str]:
    yield f"{backup.path} is complete and undamaged"
    if backup.manifest is not None:
        yield f"made {backup.manifest.made_at} by gamed {backup.manifest.gamed}"
    for each in backup.examined.values():
        name = f"schema {each.name}" if DUMP in backup.stores else f"{each.name}.db"
        yield f"{name}: {counted(each.rows, 'player' if each.name == 'auth' else 'save')}, schema {each.schema}"
    if backup.settings:
        yield f"with {' and '.join(backup.settings)}"
    if backup.ring is not None:
        kind = "master key" if backup.ring.source is KeySource.MASTER else "key file"
        yield f"written with a {kind}, fingerprint {backup.ring.fingerprint}; the present key: {key}"


def _members(path: Path, done: RestoreResult) -> dict[str, object]:
    return {
        "backup": str(path),
        "set_aside": [str(aside) for aside in done.aside],
        "sessions_ended": done.sessions,
        "blocked_kept": done.blocked,
        "configuration_restored": [str(file) for file in done.settings],
        "configuration_kept": [str(file) for file in done.kept],
    }


def _lines(path: Path, done: RestoreResult, where: Paths) -> Iterator[str]:
    restored = "the database" if path.is_file() else "both databases"
    yield f"Restored {restored} from {path}."
    for aside in done.aside:
        yield f"The previous one is {aside}. Delete it when the server works."
    for file in done.settings:
        yield f"{file} was missing, and was copied from the backup."
    for file in done.kept:
        yield f"{file} differs from the one in the backup and was left as it is. Compare it with {path / file.name}."
    if done.blocked:
        yield f"Still blocked, as before the restore: {counted(done.blocked, 'player')}."
    yield "Players who were erased after the backup was made exist again. Erase them again: gamed players erase"
    yield "Every player must sign in again."
    yield f"Start the service now, with systemctl start gamed or with: {command_line(where, 'serve')}"


def replace_databases(backup: Backup, where: Paths, ran_by: str) -> RestoreResult:
    """Replace the databases by the backup's, under the folder's lock and with no restore unfinished.

    Commands cannot write meanwhile: their writes would go to the previous files. CommandFailed and DatabaseError leave
    the databases as they were.
    """
    with ExitStack() as locks:
        for name in backup.stores:
            locks.enter_context(lock_writes(where.data / name))
        return _replace(backup, where, ran_by)


def _replace(backup: Backup, where: Paths, ran_by: str) -> RestoreResult:
    _require_space(backup, where.data)
    blocked_now = _blocked(where.data / AUTH_DB) if AUTH_DB in backup.stores else NO_BLOCKED_PLAYERS
    staged = restore_journal.begin(where.data)
    try:
        sessions, blocked = _stage(backup, staged, blocked_now, ran_by)
        added, kept = _settings(backup.settings, where)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    journal = RestoreJournal(str(backup.path.resolve()), _suffix(where.data), list(backup.stores))
    restore_journal.commit(where.data, journal)
    return RestoreResult(
        tuple(restore_journal.finish(where.data, journal)), sessions, blocked, tuple(added), tuple(kept)
    )


def _stage(backup: Backup, staged: Path, blocked_now: BlockedPlayers, ran_by: str) -> tuple[int, int]:
    """Make new files that are ready to be served; return the numbers of ended sessions and of blocked players."""
    for name, path in backup.stores.items():
        _copy(path, staged / name, backup.hashes[name])
        prepare_file(staged / name, copied=False)
    sessions = blocked = 0
    store = SqliteStore(data=staged)
    if AUTH_DB in backup.stores:
        sessions, blocked = store.run_transaction(
            AUTH, lambda connection: finish_auth(store, connection, blocked_now, "restore", ran_by)
        )
    if STATE_DB in backup.stores:
        store.run_transaction(STATE, lambda connection: finish_state(store, connection))
    for name in backup.stores:
        require_no_log(staged / name)
    return sessions, blocked


def _blocked(present: Path) -> BlockedPlayers:
    """Return the players whom the present file blocks; none, with a warning, if it cannot be read."""
    if not present.exists():
        return NO_BLOCKED_PLAYERS
    try:
        refuse_folder(present)
        with closing(connect(file_uri(present, "rw"))) as connection:  # whatever its schema: most have these rows
            return player_store.blocked_players(connection)
    except (*SQLITE_ERRORS, DatabaseError) as e:
        warn(f"the blocked players of {present} cannot be read ({e}). Block them again; see: gamed players list")
        return NO_BLOCKED_PLAYERS


def _require_space(backup: Backup, data: Path) -> None:
    needed = sum(path.stat().st_size for path in backup.stores.values()) + SPARE_BYTES
    if (free := shutil.disk_usage(data).free) < needed:
        raise CommandFailed(f"{data} has {size(free)} free, and the restore needs {size(needed)}. Nothing was changed.")


def _copy(source: Path, target: Path, sha256: str) -> None:
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        if hash_file(source, file.write).sha256 != sha256:
            raise CommandFailed(f"{source} changed while it was read. Nothing was changed here.")


def require_no_log(path: Path) -> None:
    """Check that SQLite left no log beside the file, and write it to disk."""
    left = [path.with_name(f"{path.name}{beside}") for beside in SUFFIXES if beside]
    if any(beside.exists() for beside in left):
        raise CommandFailed(f"{path} is in use by another program. Nothing was changed.")
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _settings(copies: Mapping[str, Path], where: Paths) -> tuple[list[Path], list[Path]]:
    """Copy configuration files that are missing; keep an existing file, which the operator may have changed since."""
    added, kept = [], []
    for name, target in zip(backup_format.SETTINGS, (where.config, where.game), strict=True):
        content = read_file(str(copies[name])) if name in copies else None
        if content is not None and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, content, 0o640)
            added.append(target)
        elif content is not None and read_file(str(target)) != content:
            kept.append(target)
    return added, kept


def _suffix(data: Path) -> str:
    """Return a suffix for the previous files' names that no file has yet."""
    now = now_ms()
    while any(data.glob(f"*{(suffix := f'.before-restore-{backup_format.stamp(now)}')}*")):
        now += 1000
    return suffix
