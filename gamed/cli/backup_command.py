"""`gamed backup`: both stores and the configuration copied while the service runs (SPEC 2.2 rule 2)."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from gamed.backups import STORES, BackupError
from gamed.cli import backup_folder
from gamed.cli.arguments import json_option
from gamed.cli.backup_folder import Backup
from gamed.cli.host import Host
from gamed.cli.key_file import FILE_NAME as KEY_FILE
from gamed.cli.people import report
from gamed.cli.places import Places
from gamed.cli.refusal import NotDone, ending
from gamed.cli.words import counted
from gamed.clock import now_ms
from gamed.config.settings import KeySource
from gamed.storage import copying
from gamed.store import StoreError, StoreFull

SPARE_BYTES = 1024 * 1024


@click.command(short_help="Copy both stores and the configuration, while the service runs.")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Then delete all but the newest N backups in DIR.")
@json_option
@click.pass_obj
def backup(host: Host, folder: Path, keep: int | None, as_json: bool) -> None:
    """Copy both stores and the configuration into a new folder below DIR, while the service runs.

    The folder is there under its name, gamed-YYYYMMDDTHHMMSSZ, only once every file in it was read again and found
    whole. The key of auth.db is not in it: without that key the backup is worthless. Keep it safe, somewhere else.
    """
    with ending():
        where = host.places()
        host.open_keyless()
        try:
            target = _target(folder, where.data)
            with backup_folder.alone(target):
                made = _made(where, target)
                pruned = [] if keep is None else backup_folder.prune(target, made.path.name, keep)
        except PermissionError as e:  # root has become that user
            raise NotDone(
                f"{e.filename} is closed to uid {os.geteuid()}, who makes the backup; open it to them."
            ) from None
        report(_members(made, pruned), "\n".join(_lines(made, where, pruned)), as_json=as_json)


def _target(folder: Path, data: Path) -> Path:
    """Where backups go, made if it is not there; NotDone for a place that is lost together with the stores."""
    target = folder.absolute()
    if (inside := target.resolve()).is_relative_to(data.resolve()):
        raise NotDone(f"{inside} is in the data folder, and lost with it; name a folder on another disk.")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    return target


def _made(where: Places, target: Path) -> Backup:
    if not where.config.exists():
        raise NotDone(f"There is no {where.config} to copy along; name the configuration: gamed --config FILE backup")
    try:
        needed = sum(copying.size_of(where.data / name) for name in STORES) + SPARE_BYTES
        if (free := shutil.disk_usage(target).free) < needed:
            raise NotDone(f"{target} has room for {free} bytes, and a backup may need {needed}; nothing was copied.")
        return backup_folder.write(where, target, now_ms())
    except StoreFull as e:
        raise NotDone(f"{target} has no room any more, or a disk fails ({e.__cause__}); no backup was made.") from None
    except StoreError as e:
        raise NotDone(f"No backup was made: {e.__cause__ or e}. To find the damage, run: gamed check data") from None
    except BackupError as e:
        raise NotDone(
            f"No backup was made: the copy is damaged: {e}. To find the damage, run: gamed check data"
        ) from None


def _members(made: Backup, pruned: Sequence[str]) -> dict[str, object]:
    manifest = made.manifest.members() if made.manifest else {}
    return {"backup": str(made.path), **manifest, "pruned": list(pruned)}


def _lines(made: Backup, where: Places, pruned: Sequence[str]) -> Iterator[str]:
    yield str(made.path)
    if made.manifest is not None:
        size = sum(file.bytes for file in made.manifest.files.values())
        kept = f"{counted(made.manifest.players, 'player')}, {counted(made.manifest.saves, 'save')}"
        yield f"{kept}, {size} bytes, read again and whole"
    if made.ring is not None:
        yield f"The key is not in it, and without the key it is worthless (fingerprint {made.ring.fingerprint})."
        kept = "your master key" if made.ring.source is KeySource.MASTER else f"a copy of {where.data / KEY_FILE}"
        yield f"Keep {kept} safe, and not where this backup is; the client secrets of providers are not in it either."
    for name in pruned:
        yield f"deleted {name}"
