"""A backup on disk: written so that nothing ever looks whole that is not, read so that nothing is believed unseen."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from gamed import __version__, backups
from gamed.assets.disk import sync_folder
from gamed.backups import MANIFEST, SETTINGS, STORES, BackupError, Copied, Manifest
from gamed.cli.files import MAX_FILE_BYTES, read_file, write_whole
from gamed.cli.places import Places
from gamed.cli.progress import growing
from gamed.cli.refusal import NotDone
from gamed.instants import rfc3339
from gamed.storage import copying
from gamed.storage.auth import keyring
from gamed.storage.copying import Examined

CHUNK = 1024 * 1024


class Backup(Struct, frozen=True):
    """Copies that were found whole; `stores` and `settings` are where each file is, by its own name."""

    path: Path
    stores: Mapping[str, Path]
    hashes: Mapping[str, str]
    """SHA-256 of each file, in hex."""
    settings: Mapping[str, Path] = field(default_factory=dict)
    manifest: Manifest | None = None
    """None for one store alone."""
    examined: Mapping[str, Examined] = field(default_factory=dict)
    ring: keyring.Keyring | None = None
    """Of auth.db; None when it is not among the copies, or no service ever opened it."""


def write(where: Places, target: Path, now_ms: int) -> Backup:
    """A new backup in a folder of its own below `target`, on disk and examined; StoreError, BackupError or OSError."""
    name = backups.folder_name(now_ms, os.listdir(target))
    part = target / backups.part_name(name)
    part.mkdir(mode=0o700)
    try:
        made = _fill(part, where, now_ms)
        part.rename(target / name)  # every file in it is on disk, and so are their names
        sync_folder(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return _at(made, target / name)


def read(path: Path) -> Backup:
    """Every byte of a backup, or of one copied store, examined; BackupError when it is not whole."""
    try:
        return _folder(path) if path.is_dir() else _file(path)
    except FileNotFoundError as e:
        raise BackupError(f"{Path(str(e.filename)).name} is missing") from None
    except OSError as e:
        raise BackupError(f"{e.filename or path} cannot be read ({e.strerror})") from None


def newest(target: Path) -> Path | None:
    """Of the backups in this folder, whose names have their time."""
    return max((path.parent for path in target.glob(f"gamed-*/{MANIFEST}")), default=None)


def prune(target: Path, made: str, keep: int) -> list[str]:
    """Delete whole backups but for `made` and the newest; which ones. Cut off, it leaves nothing that looks whole."""
    whole = [path.parent.name for path in target.glob(f"*/{MANIFEST}")]
    gone = backups.outlived(whole, made, keep)
    for name in gone:
        part = target / backups.part_name(name)
        (target / name).rename(part)
        sync_folder(target)
        shutil.rmtree(part)
    return gone


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """One backup into a folder at a time; what one left that was cut off is swept. NotDone for a second one."""
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NotDone(f"Another backup is being written to {target}; wait for its end.") from None
        except OSError:  # a share that knows no locks: nothing is swept there
            yield
            return
        for path in [path for path in target.iterdir() if backups.is_part(path.name)]:
            shutil.rmtree(path)
        yield
    finally:
        os.close(descriptor)


def hash_file(path: Path, out: Callable[[bytes], object] = lambda chunk: None) -> Copied:
    """Read once, `out` given every byte."""
    digest, size = sha256(), path.stat().st_size
    done = 0
    with open(path, "rb") as file, growing(f"reading {path.name}", size) as shown:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            out(chunk)
            done += len(chunk)
            shown(done)
    return Copied(done, digest.hexdigest())


def _fill(part: Path, where: Places, now_ms: int) -> Backup:
    """auth.db first: of a player who leaves between both copies no saves are left without their player."""
    for name in STORES:
        _copy(where.data / name, part / name)
    for name, path in zip(SETTINGS, (where.config, where.game), strict=True):
        with suppress(FileNotFoundError):
            write_whole(part / name, read_file(str(path)), 0o600)
    files = {name: hash_file(part / name) for name in (*STORES, *SETTINGS) if (part / name).exists()}
    made = _examined(_backup(part, files))
    manifest = Manifest(
        made_at=rfc3339(now_ms),
        gamed=__version__,
        fingerprint=made.ring.fingerprint if made.ring else None,
        key_source=made.ring.source.value if made.ring else None,
        schemas={each.name: each.schema for each in made.examined.values()},
        players=made.examined[STORES[0]].rows,
        saves=made.examined[STORES[1]].rows,
        files=files,
    )
    write_whole(part / MANIFEST, json.dumps(manifest.members(), indent=2).encode() + b"\n", 0o600)
    return replace(made, manifest=manifest)


def _copy(source: Path, target: Path) -> None:
    with growing(f"copying {source.name}", copying.size_of(source)) as shown:

        def working() -> None:
            with suppress(FileNotFoundError):
                shown(target.stat().st_size)

        copying.copy(source, target, working)


def _folder(path: Path) -> Backup:
    manifest = backups.parse_manifest(_small(path / MANIFEST))
    for name, copied in manifest.files.items():
        if hash_file(path / name) != copied:
            raise BackupError(f"{name} is not as it was when the backup was made")
    return _examined(replace(_backup(path, manifest.files), manifest=manifest))


def _backup(path: Path, files: Mapping[str, Copied]) -> Backup:
    """Not examined yet."""
    stores = {name: path / name for name in STORES}
    settings = {name: path / name for name in SETTINGS if name in files}
    return Backup(path, stores, {name: copied.sha256 for name, copied in files.items()}, settings)


def _file(path: Path) -> Backup:
    """One store: `auth.db` or `state.db`, also as it is called after a copy before a migration, `auth.db.v1`."""
    name = next((name for name in STORES if path.name == name or path.name.startswith(f"{name}.")), None)
    if name is None:
        raise BackupError("it is neither the folder of a backup nor a copy of auth.db or state.db")
    return _examined(Backup(path, {name: path}, {name: hash_file(path).sha256}))


def _examined(backup: Backup) -> Backup:
    found = {name: _examine(path, name) for name, path in backup.stores.items()}
    auth = backup.stores.get(STORES[0])
    ring = None if auth is None else copying.look(auth, keyring.read)
    return replace(backup, examined=found, ring=ring)


def _examine(path: Path, name: str) -> Examined:
    return copying.examine(path, name.removesuffix(".db"))


def _small(path: Path) -> bytes:
    text = read_file(str(path))
    if len(text) > MAX_FILE_BYTES:
        raise BackupError(f"{path.name} is not one of ours")
    return text


def _at(backup: Backup, path: Path) -> Backup:
    stores, settings = ({name: path / name for name in files} for files in (backup.stores, backup.settings))
    return replace(backup, path=path, stores=stores, settings=settings)
