"""`gamed restore`: a backup examined, or put in the place of the stores (SPEC 2.2 rules 2 and 5)."""

from collections.abc import Iterator
from pathlib import Path
from secrets import token_bytes

import click
from msgspec.structs import replace

from gamed.backups import SETTINGS, BackupError
from gamed.cli import backup_folder, exchange, files, keys
from gamed.cli.arguments import json_option
from gamed.cli.backup_folder import Backup
from gamed.cli.harden import harden
from gamed.cli.host import Host, read_with_key
from gamed.cli.lock import Lock
from gamed.cli.people import report
from gamed.cli.places import Places
from gamed.cli.refusal import NotDone, Refusal, ending
from gamed.cli.restore_work import Restored, put_back
from gamed.cli.user import become_owner, ran_by
from gamed.cli.words import counted
from gamed.config.model import Config
from gamed.config.problems import ConfigError
from gamed.config.settings import KeySource
from gamed.storage.auth.keyring import Keyring
from gamed.storage.migrations import MigrationError
from gamed.store import StoreError

FITS, MISFIT, UNKNOWN, NONE = "fits", "does not fit", "unknown", "none"


@click.command(short_help="[key] Put a backup back, while the service does not run.")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--check", is_flag=True, help="Only say what the backup holds, and whether it is whole.")
@json_option
@click.pass_obj
def restore(host: Host, folder: Path, check: bool, as_json: bool) -> None:
    """Put the stores of a backup in the place of the present ones, which are set aside. [key]

    The service must not run. DIR is one folder that `gamed backup` made, or one store that was copied before its
    schema changed. It is examined first, and has to fit the present key. Everybody signs in again; who is blocked now
    stays blocked. The configuration is put back only where it is missing. --check changes nothing, beside the running
    service too, and needs no key.
    """
    harden()
    with ending():
        where, runner = host.places(), ran_by()
        path = folder.absolute()
        if check:
            found = _read(path)
            report(_described(found, where), "\n".join(_told(found, where)), as_json=as_json)
            return
        config = _config(where, path)
        become_owner(where.data)
        files.open_data(where.data)
        lock = Lock.take(where.data)
        if (cut_off := exchange.unfinished(where.data)) is not None:
            done = Restored(tuple(exchange.finish(where.data, cut_off)), 0, 0)
            if cut_off.origin != str(path.resolve()):
                raise NotDone(f"A restore of {cut_off.origin} was cut off, and is finished now; run this one again.")
        else:
            done = _restored(_read(path), where, config, runner)
        lock.release()
        report(_members(path, done), "\n".join(_lines(path, done)), as_json=as_json)


def _read(path: Path) -> Backup:
    try:
        return backup_folder.read(path)
    except BackupError as e:
        if inside := backup_folder.newest(path):
            raise NotDone(f"{path} holds backups; name one of them, such as {inside}. Nothing was changed.") from None
        raise NotDone(f"{path} is no whole backup: {e}. Nothing was changed.") from None


def _config(where: Places, backup: Path) -> Config:
    """Return the configuration that is there, else the backup's own, with the master key that it names."""
    there, copied = where.config.exists(), backup / SETTINGS[0]
    opened = read_with_key(where if there or not copied.exists() else replace(where, config=copied))
    return opened.judged.config


def _restored(backup: Backup, where: Places, config: Config, runner: str) -> Restored:
    if backup.ring is not None:
        try:
            _refuse_misfit(where.data, config, backup.ring)
        except Refusal as e:
            raise Refusal(f"The key at hand does not fit this backup. Nothing was changed. {e}") from None
    try:
        return put_back(backup, where, runner)
    except (StoreError, MigrationError) as e:
        raise NotDone(f"The stores stay as they were: {e.__cause__ or e}") from None


def _refuse_misfit(data: Path, config: Config, ring: Keyring) -> None:
    keys.refuse_misfit(data, config.master_key, ring, token_bytes, config.master_key_origin)


def _key(backup: Backup, where: Places) -> str:
    """Whether the present key opens the backup's auth.db; a key that is not at hand is no flaw of the backup."""
    if backup.ring is None:
        return NONE
    try:
        _refuse_misfit(where.data, _config(where, backup.path), backup.ring)
    except ConfigError:
        return UNKNOWN
    except Refusal:
        return MISFIT
    return FITS


def _described(backup: Backup, where: Places) -> dict[str, object]:
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
        "key": {"fingerprint": backup.ring.fingerprint if backup.ring else None, "present_key": _key(backup, where)},
    }


def _told(backup: Backup, where: Places) -> Iterator[str]:
    yield f"{backup.path} is whole"
    if backup.manifest is not None:
        yield f"made {backup.manifest.made_at} by gamed {backup.manifest.gamed}"
    for each in backup.examined.values():
        yield f"{each.name}.db: {counted(each.rows, 'player' if each.name == 'auth' else 'save')}, schema {each.schema}"
    if backup.settings:
        yield f"with {' and '.join(backup.settings)}"
    if backup.ring is not None:
        kind = "master key" if backup.ring.source is KeySource.MASTER else "key file"
        yield f"written with a {kind}, fingerprint {backup.ring.fingerprint}; the present key: {_key(backup, where)}"


def _members(path: Path, done: Restored) -> dict[str, object]:
    return {
        "backup": str(path),
        "set_aside": [str(aside) for aside in done.aside],
        "sessions_ended": done.sessions,
        "blocked_kept": done.blocked,
        "configuration_restored": [str(file) for file in done.settings],
        "configuration_kept": [str(file) for file in done.kept],
    }


def _lines(path: Path, done: Restored) -> Iterator[str]:
    yield f"The stores are those of {path}."
    for aside in done.aside:
        yield f"What was there before is {aside}; delete it once all is well."
    for file in done.settings:
        yield f"{file} was missing and is the backup's."
    for file in done.kept:
        yield f"{file} is other than the backup's and stays; compare it with {path / file.name}."
    if done.blocked:
        yield f"Blocked here, and stays so: {counted(done.blocked, 'player')}."
    yield "Whoever left for good since it was made is there again; erase them once more: gamed players erase"
    yield "Everybody has to sign in again. Start the service now: gamed serve, or systemctl start gamed"
