"""`gamed backup` copies the databases and the configuration while the service runs (SPEC 2.2/8).

A backup gets its name only once every file is on disk and was checked, and is checked again when it is read.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import click
from msgspec import Struct, field
from msgspec.structs import replace

from gamed import __version__
from gamed.cli.context import CommandContext, OfflineDatabases, reports_json
from gamed.cli.data.restore_journal import JOURNAL
from gamed.cli.errors import CommandFailed, SetupError, warn
from gamed.cli.interrupt import may_change
from gamed.cli.output import counted
from gamed.cli.paths import MAX_FILE_BYTES, Paths, read_file, write_whole
from gamed.cli.terminal import bar
from gamed.clock import now_ms
from gamed.config.model import Config
from gamed.config.settings import KEY_FILE, KeySource
from gamed.database import backup_format
from gamed.database.backup_format import (
    DUMP,
    MANIFEST,
    SETTINGS,
    STORES,
    BackupError,
    BackupFile,
    BackupKey,
    BackupManifest,
    BackupProgress,
    BackupStore,
    DumpContents,
    IntegrityResult,
    SchemaDiffers,
)
from gamed.database.connection import AUTH, STATE
from gamed.database.errors import DatabaseError, DiskFull, MigrationError
from gamed.database.last_backup import LastBackup, write_last_backup
from gamed.database.sqlite import offline
from gamed.database.store import Store
from gamed.disk import sync_folder
from gamed.players import keyring
from gamed.readable import size
from gamed.stores import open_store
from gamed.timestamps import rfc3339

CHUNK = 1024 * 1024
SPARE_BYTES = 1024 * 1024


class Backup(Struct, frozen=True):
    """A backup whose files were checked; `stores` and `settings` map file names to paths."""

    path: Path
    stores: Mapping[str, Path]
    hashes: Mapping[str, str]
    """SHA-256 of each file, in hex."""
    settings: Mapping[str, Path] = field(default_factory=dict)
    manifest: BackupManifest | None = None
    """None for a single database."""
    examined: Mapping[str, IntegrityResult] = field(default_factory=dict)
    ring: keyring.KeyRecord | None = None
    """The key record of auth.db; None if it is not in the backup, or was never opened by a service.

    That of a dump has no check value, but the fingerprint of the key.
    """
    store_id: str | None = None


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Then delete all but the newest N backups in DIR.")
@reports_json
def backup(context: CommandContext, folder: Path, keep: int | None) -> None:
    """Copy both databases and the configuration into a new folder below DIR, while the service runs.

    The folder gets its name, gamed-YYYYMMDDTHHMMSSZ, only once every file in it was read again and checked. The
    server's key is not in it: without that key the backup is worthless. Keep the key in another safe place.
    """
    where = context.places()
    files = context.open_keyless()
    try:
        target = _target(folder, where.data)
        may_change()
        with exclusive(target):
            made = _made(files.store, where, target)
            pruned = [] if keep is None else prune(target, made.path.name, keep)
    except PermissionError as e:  # root has become that user
        raise CommandFailed(f"{e.filename} cannot be used by uid {os.geteuid()}. Let that user write there.") from None
    _remember(files, made)
    manifest = made.manifest.members() if made.manifest else {}
    context.report({"backup": str(made.path), **manifest, "pruned": pruned}, _lines(made, where, pruned))


def back_up(config: Config, where: Paths, folder: Path) -> str | None:
    """Make a backup as the command does, for the running service, in a thread; return why there is none.

    The folder is not made: on a disk that is not mounted the backup would be on the wrong one.
    """
    try:
        if not folder.is_dir():
            return f"There is no folder {folder}. Make it, or mount its disk."
        files = OfflineDatabases(open_store(config, where.data), where.data, "")
        try:
            target = _target(folder, where.data)
            with exclusive(target):
                made = _made(files.store, where, target)
            _remember(files, made)
        finally:
            files.store.close()
    except PermissionError as e:
        return f"{e.filename} cannot be used by the service (uid {os.geteuid()}). Let that user write there."
    except OSError as e:
        return f"{folder} cannot be used ({e.strerror or e})."
    except (CommandFailed, SetupError, DatabaseError, MigrationError) as e:
        return str(getattr(e, "message", "") or e)
    return None


def read_progress(config: Config, where: Paths, folder: Path) -> BackupProgress | None:
    """Return how much is copied of the backup that a process makes in this folder, None if there is none.

    Raise OSError or DatabaseError. What the files of a dump will have is known to nobody before its end.
    """
    part = next((path for path in folder.iterdir() if backup_format.is_part(path.name)), None)
    if part is None:
        return None
    copied = sum((part / name).stat().st_size for name in os.listdir(part) if name in (*STORES, DUMP))
    with closing(open_store(config, where.data)) as store:
        return BackupProgress(copied, _largest(store) if store.files else None)


def _remember(files: OfflineDatabases, made: Backup) -> None:
    """Record the backup for the owner's page; the backup is complete, so only warn if that fails."""
    copied = made.manifest.files.values() if made.manifest else ()
    last = LastBackup(now_ms(), sum(file.bytes for file in copied))
    try:
        files.write_auth(lambda connection: write_last_backup(connection, last))
    except (CommandFailed, SetupError, DatabaseError) as e:
        warn(f"the backup is complete, but {files.store.name(AUTH)} could not record it: {e}")


def _target(folder: Path, data: Path) -> Path:
    """Return the folder for backups, made if it is missing; raise CommandFailed if it is inside the data folder."""
    target = folder.absolute()
    if (inside := target.resolve()).is_relative_to(data.resolve()):
        raise CommandFailed(f"{inside} is in the data folder. Name a folder on another disk.")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    return target


def _made(store: Store, where: Paths, target: Path) -> Backup:
    if not where.config.exists():
        raise CommandFailed(f"There is no {where.config} to copy. Name the configuration: gamed --config FILE backup")
    try:
        needed = _largest(store) + SPARE_BYTES
        if (free := shutil.disk_usage(target).free) < needed:
            raise CommandFailed(
                f"{target} has {size(free)} free, and a backup may need {size(needed)}. Nothing was copied."
            )
        return write(store, where, target, now_ms())
    except DiskFull as e:
        raise CommandFailed(f"{target} is full, or a disk fails ({e.__cause__}). No backup was made.") from None
    except SchemaDiffers as e:
        raise CommandFailed(f"No backup was made: {e}. Start that version, or restore an earlier backup.") from None
    except (DatabaseError, BackupError) as e:
        reason = f"the copy is damaged: {e}" if isinstance(e, BackupError) and store.files else str(e.__cause__ or e)
        advice = " To find the damage, run: gamed check data" if store.files else ""
        raise CommandFailed(f"No backup was made: {reason.removesuffix('.')}.{advice}") from None


def _largest(store: Store) -> int:
    """Return the greatest size that a copy may have; how much of it is needed is known only afterwards."""
    return sum(map(offline.size_of, store.files)) if store.files else sum(store.sizes().values())


def _lines(made: Backup, where: Paths, pruned: Sequence[str]) -> Iterator[str]:
    yield str(made.path)
    if made.manifest is not None:
        copied = size(sum(file.bytes for file in made.manifest.files.values()))
        kept = f"{counted(made.manifest.players, 'player')}, {counted(made.manifest.saves, 'save')}"
        yield f"{kept}, {copied}, read again and undamaged"
    if made.ring is not None:
        yield f"The key is not in it: without the key the backup is worthless (fingerprint {made.ring.fingerprint})."
        kept = "your master key" if made.ring.source is KeySource.MASTER else f"a copy of {where.data / KEY_FILE}"
        yield f"Keep {kept} safe, in another place. The client secrets of providers are not in the backup either."
    for name in pruned:
        yield f"deleted {name}"


def write(store: Store, where: Paths, target: Path, now_ms: int) -> Backup:
    """Make and check a new backup in a folder below `target`; raise DatabaseError, BackupError or OSError."""
    name = backup_format.folder_name(now_ms, os.listdir(target))
    part = target / backup_format.part_name(name)
    part.mkdir(mode=0o700)
    try:
        made = _fill(part, store, where, now_ms)
        part.rename(target / name)  # every file in it is on disk, and so are their names
        sync_folder(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    whole = target / name
    stores, settings = ({name: whole / name for name in files} for files in (made.stores, made.settings))
    return replace(made, path=whole, stores=stores, settings=settings)


def read(path: Path) -> Backup:
    """Read and check every byte of a backup, or of one copied database; raise BackupError if it is incomplete."""
    try:
        return _folder(path) if path.is_dir() else _file(path)
    except FileNotFoundError as e:
        raise BackupError(f"{Path(str(e.filename)).name} is missing") from None
    except OSError as e:
        raise BackupError(f"{e.filename or path} cannot be read ({e.strerror})") from None


def newest(target: Path) -> Path | None:
    """Return the newest backup in this folder; the names have their time."""
    return max((path.parent for path in target.glob(f"gamed-*/{MANIFEST}")), default=None)


def prune(target: Path, made: str, keep: int) -> list[str]:
    """Delete backups except `made` and the newest ones; return their names.

    A folder is renamed first, so that an interruption leaves nothing that has the name of a backup.
    """
    whole = [path.parent.name for path in target.glob(f"*/{MANIFEST}")]
    gone = backup_format.expired_backups(whole, made, keep)
    for name in gone:
        part = target / backup_format.part_name(name)
        (target / name).rename(part)
        sync_folder(target)
        shutil.rmtree(part)
    return gone


@contextmanager
def exclusive(target: Path) -> Iterator[None]:
    """Allow one backup into a folder at a time, else raise CommandFailed; delete what interrupted backups left."""
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandFailed(f"Another backup is being written to {target}. Wait until it is finished.") from None
        except OSError:  # a network share without locks: nothing is deleted there
            yield
            return
        for path in [path for path in target.iterdir() if backup_format.is_part(path.name)]:
            shutil.rmtree(path)
        yield
    finally:
        os.close(descriptor)


def hash_file(path: Path, out: Callable[[bytes], object] = lambda chunk: None) -> BackupFile:
    """Return size and hash of a file; pass every byte to `out`."""
    digest, size = sha256(), path.stat().st_size
    done = 0
    with open(path, "rb") as file, bar(f"reading {path.name}", size) as shown:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            out(chunk)
            done += len(chunk)
            shown(done)
    return BackupFile(done, digest.hexdigest())


def _fill(part: Path, store: Store, where: Paths, now_ms: int) -> Backup:
    """Copy all files. auth.db is first: a player who is erased between both copies leaves no saves without a player."""
    before = _inodes(where.data) if store.files else {}
    for path in store.files:
        _copy(path, part / path.name)
    if before and (JOURNAL in before or _inodes(where.data) != before):
        # The copies may be one from before a restore and one from after it.
        raise CommandFailed("No backup was made: a restore or a move replaced the databases meanwhile. Try again.")
    dumped = None if store.files else _dump(store, part / DUMP)
    for name, path in zip(SETTINGS, (where.config, where.game), strict=True):
        with suppress(FileNotFoundError):
            write_whole(part / name, read_file(str(path)), 0o600)
    files = {name: hash_file(part / name) for name in (*STORES, DUMP, *SETTINGS) if (part / name).exists()}
    made = _backup(part, files)
    made = _examined(made) if dumped is None else _dumped(made, *dumped)
    auth, state = made.examined.values()
    manifest = BackupManifest(
        made_at=rfc3339(now_ms),
        gamed=__version__,
        key=BackupKey(made.ring.fingerprint, made.ring.source.value) if made.ring else BackupKey(None, None),
        store=BackupStore(made.store_id, None if dumped is None else dumped[1].written_by),
        schemas={auth.name: auth.schema, state.name: state.schema},
        players=auth.rows,
        saves=state.rows,
        files=files,
    )
    write_whole(part / MANIFEST, json.dumps(manifest.members(), indent=2).encode() + b"\n", 0o600)
    return replace(made, manifest=manifest)


def _inodes(data: Path) -> dict[str, int]:
    """Return the inodes of the databases, and of the journal while a restore replaces them."""
    with os.scandir(data) as entries:
        return {entry.name: entry.inode() for entry in entries if entry.name in (*STORES, JOURNAL)}


def _dump(store: Store, target: Path) -> tuple[keyring.KeyRecord | None, DumpContents]:
    """Dump a PostgreSQL store, and read the dump again."""
    from gamed.cli.data import store_dump  # late: the files of SQLite need no other programs

    return store_dump.write_dump(store, target)


def _dumped(backup: Backup, ring: keyring.KeyRecord | None, contents: DumpContents) -> Backup:
    rows = {AUTH: contents.players, STATE: contents.saves}
    found = {name: IntegrityResult(name, contents.schemas[name], rows[name]) for name in (AUTH, STATE)}
    return replace(backup, examined=found, ring=ring, store_id=contents.store_id)


def _copy(source: Path, target: Path) -> None:
    with bar(f"copying {source.name}", offline.size_of(source)) as shown:

        def working() -> None:
            with suppress(FileNotFoundError):
                shown(target.stat().st_size)

        offline.copy(source, target, working)


def _folder(path: Path) -> Backup:
    text = read_file(str(path / MANIFEST))
    if len(text) > MAX_FILE_BYTES:
        raise BackupError(f"{MANIFEST} is larger than {MAX_FILE_BYTES} bytes")
    manifest = backup_format.parse_manifest(text)
    for name, copied in manifest.files.items():
        if hash_file(path / name) != copied:
            raise BackupError(f"{name} changed after the backup was made")
    found = replace(_backup(path, manifest.files), manifest=manifest)
    written_by = manifest.store.postgresql
    return _examined(found) if written_by is None else _read_dump(found, manifest, written_by)


def _read_dump(backup: Backup, manifest: BackupManifest, written_by: int) -> Backup:
    from gamed.database.postgresql import dump  # late: the files of SQLite need no other programs

    contents = DumpContents(manifest.schemas, manifest.players, manifest.saves, written_by, manifest.store.id)
    dump.verify(backup.stores[DUMP], contents)
    ring = None
    if manifest.key.fingerprint is not None:
        ring = keyring.KeyRecord(b"", manifest.key.fingerprint, KeySource.MASTER)  # which PostgreSQL always needs
    return _dumped(backup, ring, contents)


def _backup(path: Path, files: Mapping[str, BackupFile]) -> Backup:
    """Return the backup in this folder, not checked yet."""
    stores = {name: path / name for name in (*STORES, DUMP) if name in files}
    settings = {name: path / name for name in SETTINGS if name in files}
    return Backup(path, stores, {name: copied.sha256 for name, copied in files.items()}, settings)


def _file(path: Path) -> Backup:
    """Read one database, `auth.db` or `state.db`, or a copy from before a migration, such as `auth.db.v1`."""
    name = next((name for name in STORES if path.name == name or path.name.startswith(f"{name}.")), None)
    if name is None:
        raise BackupError("not the folder of a backup, and not a copy of auth.db or state.db")
    return _examined(Backup(path, {name: path}, {name: hash_file(path).sha256}))


def _examined(backup: Backup) -> Backup:
    found = {name: offline.examine(path, name.removesuffix(".db")) for name, path in backup.stores.items()}
    auth = backup.stores.get(STORES[0])
    if auth is None or (ring := offline.examine_copy(auth, keyring.read_key_record)) is None:
        return replace(backup, examined=found)
    return replace(backup, examined=found, ring=ring, store_id=offline.examine_copy(auth, keyring.read_store_id))
