"""The stores of a backup made fit to be served, and put in the place of the present ones."""

import os
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from secrets import token_bytes

from msgspec import Struct

from gamed import backups
from gamed.cli import exchange
from gamed.cli.backup_folder import Backup, hash_file
from gamed.cli.exchange import Exchange
from gamed.cli.files import AUTH_DB, STATE_DB, read_file, write_whole
from gamed.cli.places import Places
from gamed.cli.refusal import NotDone, warn
from gamed.clock import now_ms
from gamed.storage.auth import host_actions, restored
from gamed.storage.auth.restored import NOBODY, Blocked
from gamed.storage.command import once
from gamed.storage.files import connect, file_uri
from gamed.storage.migrations import prepare_file
from gamed.storage.state.shelves import forget_pasts

SPARE_BYTES = 16 * 1024 * 1024


class Restored(Struct, frozen=True):
    """What was done."""

    aside: tuple[Path, ...]
    """The stores that were there before."""
    sessions: int
    """That were alive in the backup."""
    blocked: int
    """Players who are kept out though the backup lets them in, or does not know them."""
    settings: tuple[Path, ...] = ()
    """Configuration files that were missing and came out of the backup."""
    kept: tuple[Path, ...] = ()
    """Those that are other than the backup's, and stay."""


def put_back(backup: Backup, where: Places, ran_by: str) -> Restored:
    """Under the folder's lock, with no exchange unfinished; NotDone or StoreError leave the stores as they were."""
    _require_room(backup, where.data)
    out = _blocked(where.data / AUTH_DB) if AUTH_DB in backup.stores else NOBODY
    staged = exchange.begin(where.data)
    try:
        sessions, blocked = _stage(backup, staged, out, ran_by)
        added, kept = _settings(backup.settings, where)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    swap = Exchange(str(backup.path.resolve()), _suffix(where.data), list(backup.stores))
    exchange.commit(where.data, swap)
    return Restored(tuple(exchange.finish(where.data, swap)), sessions, blocked, tuple(added), tuple(kept))


def _stage(backup: Backup, staged: Path, out: Blocked, ran_by: str) -> tuple[int, int]:
    """New files, ready to be served; how many sessions ended, and how many players are kept out."""
    for name, path in backup.stores.items():
        _copy(path, staged / name, backup.hashes[name])
        prepare_file(staged / name, copied=False)
    sessions = blocked = 0
    if AUTH_DB in backup.stores:
        sessions, blocked = once(staged / AUTH_DB, lambda connection: _fit(connection, out, ran_by))
    if STATE_DB in backup.stores:
        once(staged / STATE_DB, lambda connection: forget_pasts(connection, token_bytes))
    for name in backup.stores:
        _settle(staged / name)
    return sessions, blocked


def _fit(connection: sqlite3.Connection, out: Blocked, ran_by: str) -> tuple[int, int]:
    sessions = restored.sign_out_all(connection, now_ms())
    blocked = restored.keep_out(connection, out)
    host_actions.add(connection, "restore", None, ran_by, now_ms())
    return sessions, blocked


def _blocked(present: Path) -> Blocked:
    """Whom the present file keeps out; nobody, with a warning, when it cannot say."""
    if not present.exists():
        return NOBODY
    try:
        with closing(connect(file_uri(present, "rw"))) as connection:  # whatever its schema: most have these rows
            return restored.blocked(connection)
    except sqlite3.Error as e:
        warn(f"whom {present} keeps out cannot be read ({e}); look through: gamed players list")
        return NOBODY


def _require_room(backup: Backup, data: Path) -> None:
    needed = sum(path.stat().st_size for path in backup.stores.values()) + SPARE_BYTES
    if (free := shutil.disk_usage(data).free) < needed:
        raise NotDone(f"{data} has room for {free} bytes, and the restore needs {needed}. Nothing was changed.")


def _copy(source: Path, target: Path, sha256: str) -> None:
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        if hash_file(source, file.write).sha256 != sha256:
            raise NotDone(f"{source} changed while it was read. Nothing was changed here.")


def _settle(path: Path) -> None:
    """On disk, and whole without a log beside it."""
    left = [path.with_name(f"{path.name}{beside}") for beside in exchange.BESIDE if beside]
    if any(beside.exists() for beside in left):
        raise NotDone(f"{path} is in use by another program. Nothing was changed.")
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _settings(copies: Mapping[str, Path], where: Places) -> tuple[list[Path], list[Path]]:
    """A configuration file that is missing comes back; one that is there is the owner's newer word."""
    added, kept = [], []
    for name, target in zip(backups.SETTINGS, (where.config, where.game), strict=True):
        content = read_file(str(copies[name])) if name in copies else None
        if content is not None and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, content, 0o640)
            added.append(target)
        elif content is not None and read_file(str(target)) != content:
            kept.append(target)
    return added, kept


def _suffix(data: Path) -> str:
    """Behind the names of what was there before; no file has it yet."""
    now = now_ms()
    while any(data.glob(f"*{(suffix := f'.before-restore-{backups.stamp(now)}')}*")):
        now += 1000
    return suffix
