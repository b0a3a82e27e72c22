"""`gamed move-data` moves configuration, key file, databases and assets to another folder, all of them or nothing."""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import BinaryIO

import click
from msgspec import Struct

from gamed.assets.errors import AssetsBusy
from gamed.assets.store import CHANNELS, FOLDER, TMP, channel_lock, publish_lock
from gamed.cli import paths
from gamed.cli.context import CommandContext, read_address, reports_json
from gamed.cli.data.folder_copy import CopiedFile, Entry, FolderCopy, scan
from gamed.cli.data.move_note import (
    DATA,
    JOURNAL,
    NOTE,
    STAGED,
    MoveJournal,
    moved_to,
    notes,
    parts_of,
    places_in,
    read_journal,
    write_journal,
    write_note,
)
from gamed.cli.data.restore_journal import refuse_unfinished
from gamed.cli.errors import CommandFailed, DatabaseNotFound, SetupError
from gamed.cli.interrupt import may_change
from gamed.cli.keys import database_errors
from gamed.cli.output import counted
from gamed.cli.paths import AUTH_DB, STATE_DB, Paths, command_line, virtual_environment
from gamed.cli.process import harden
from gamed.cli.service.folder_lock import LOCK_FILE, Lock
from gamed.config.authentication import FILE_NAME
from gamed.config.game import FILE_NAME as GAME
from gamed.database.connection import AUTH, STATE
from gamed.database.sqlite.offline import write_locked
from gamed.database.sqlite.store import SqliteStore
from gamed.database.sqlite.write_lock import lock_files
from gamed.disk import sync_folder
from gamed.readable import size

FOLDER_ONLY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
COPIED = ".copied"
"""The suffix of the folders in which configuration files are copied."""
SPARE_BYTES = 1024 * 1024
FULL = (ENOSPC, EDQUOT, EFBIG)
OF_DISK = {"lost+found"}
"""The folder that an empty disk has."""
LOGS = {f"{name}{suffix}" for name in (AUTH_DB, STATE_DB) for suffix in ("-wal", "-shm")}
BESIDE = {*LOGS, *(path.name for path in lock_files(Path()))}
"""Files of SQLite that are empty once the databases are closed, and lock files."""


class MoveResult(Struct, frozen=True):
    """The result of a move; no count if an earlier run copied the files, and this one finished the move."""

    folder: Path
    files: int | None = None
    size: int | None = None


@click.command("move-data")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@reports_json
def move_data(context: CommandContext, folder: Path) -> None:
    """Move the configuration, the key file, both databases and the assets into DIR; the service must not run.

    DIR is an absolute path; it is new or empty, and may be on another disk. Everything is copied there, read again
    and compared, and only then deleted here. If the command is interrupted, run it again. A note stays behind, so
    that a later `serve` names the new place instead of beginning an empty server. Databases on a PostgreSQL server
    stay there.
    """
    harden()
    if not folder.is_absolute():
        raise click.UsageError(f"{folder} is not an absolute path. Give the whole path: {folder.absolute()}")
    may_change()
    done = move(context.places(), folder)
    context.report(_members(done), _lines(done))


def _members(done: MoveResult) -> dict[str, object]:
    new = places_in(done.folder)
    return {"config": str(new.config), "data": str(new.data), "files": done.files, "bytes": done.size}


def _lines(done: MoveResult) -> Iterator[str]:
    new = places_in(done.folder)
    if done.files is None:
        yield f"An earlier move to {done.folder} is finished."
    else:
        copied = size(done.size or 0)
        yield f"Moved {counted(done.files, 'file')}, {copied}, to {done.folder}, and compared the hashes."
    variables = {"GAMED_CONFIG": str(new.config)}
    if os.environ.get("GAMED_DATA") or os.environ.get("STATE_DIRECTORY"):
        variables["GAMED_DATA"] = str(new.data)
    settings = " ".join(f"{name}={value}" for name, value in variables.items())
    yield f"Set {settings} for the service and for every command, or name them: {command_line(new, 'serve')}"


def move(source: Paths, folder: Path) -> MoveResult:
    """Move everything from `source` into the folder; raise CommandFailed or SetupError, with nothing moved."""
    folder = folder.resolve()
    noted = moved_to(source)
    if noted is not None and noted != folder:
        raise SetupError(f"The data of {source.data} was already moved to {noted}.")
    if noted is None:
        _check_source(source, folder)
    lock = Lock.acquire(source.data, "gamed move-data")
    try:
        with _target(folder, source) as top:
            if noted is None:
                done = _copy_and_commit(source, folder, top)
            else:
                done = MoveResult(folder)
                if read_journal(folder) is not None:
                    with _staged(folder, top) as staged:
                        if (journal := read_journal(folder, staged)) is not None:
                            _finish(journal, folder, top, staged)
                shutil.rmtree(_path(top) / STAGED, ignore_errors=True)
    finally:
        lock.release()
    return done


def _check_source(source: Paths, folder: Path) -> None:
    if read_address(source) is None and not (source.data / AUTH_DB).exists():
        raise DatabaseNotFound(SqliteStore(data=source.data), AUTH)
    paths.read_config(source)  # it exists and can be read
    refuse_unfinished(source.data)
    if folder.is_relative_to(source.data.resolve()):
        raise CommandFailed(f"{folder} is in the data folder {source.data}. Name a folder outside of it.")
    if (environment := virtual_environment(folder / FILE_NAME)) is not None:
        raise CommandFailed(f"{folder} is in the virtual environment {environment}. Name a folder outside of it.")
    for place in (source.data, source.config.parent):
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            raise CommandFailed(f"This user cannot delete files in {place}. Run the command as its owner, or as root.")


@contextmanager
def _target(folder: Path, source: Paths) -> Iterator[int]:
    """Make the folder if it is missing, hold its lock, and check that nothing but an earlier try is in it.

    Yield its descriptor: root works through it, since the folder's path may lead elsewhere at any time.
    """
    made = not folder.exists()
    try:
        if made:
            folder.mkdir(mode=0o700)
        descriptor = os.open(folder, FOLDER_ONLY)
    except FileNotFoundError:
        raise CommandFailed(f"{folder.parent} does not exist. Make that folder first.") from None
    except OSError as e:
        raise CommandFailed(f"{folder} cannot be used ({e.strerror}). Name another folder.") from None
    try:
        _lock(descriptor, folder)
        _refuse_filled(folder, source)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise CommandFailed(f"This user cannot write to {folder}. Name another folder, or run this as its owner.")
        yield descriptor
    except BaseException:
        if made and moved_to(source) is None:
            with suppress(OSError):
                folder.rmdir()
        raise
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CommandFailed(f"Another move into {folder} is running. Wait until it is finished.") from None
    except OSError as e:
        raise SetupError(f"{folder} cannot be locked ({e.strerror}). Name a folder on a local disk.") from None


def _refuse_filled(folder: Path, source: Paths) -> None:
    """Raise CommandFailed unless the folder is empty, or has an unfinished move of the same data."""
    journal = read_journal(folder)
    if journal is not None and journal.source != source:
        raise CommandFailed(
            f"The move of {journal.data} into {folder} is not finished. Finish that one first, or name another folder."
        )
    if journal is not None and moved_to(source) is not None:
        return  # some files have their names already
    names = sorted(set(os.listdir(folder)) - OF_DISK - {STAGED})
    if names and (moved_to(source) is None):
        raise CommandFailed(f"{folder} is not empty: it has {names[0]}. Name a new or an empty folder.")


def _path(descriptor: int) -> Path:
    """Return a path of an open folder that no other user can make lead elsewhere."""
    return Path(f"/proc/self/fd/{descriptor}")


def _shown(error: OSError, folder: Path) -> str:
    """Return the path of an error for people: a path through a descriptor becomes the usual one."""
    name = error.filename or folder
    return os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))


@contextmanager
def _staged(folder: Path, top: int) -> Iterator[int]:
    """Yield a descriptor of STAGED, which is closed to every other user; raise CommandFailed if it is not."""
    try:
        descriptor = os.open(STAGED, FOLDER_ONLY, dir_fd=top)
    except OSError as e:
        raise CommandFailed(f"{folder / STAGED} cannot be used ({e.strerror}). Nothing was changed.") from None
    try:
        state = os.fstat(descriptor)
        if state.st_uid != os.geteuid() or state.st_mode & 0o077:
            raise CommandFailed(f"{folder / STAGED} is another user's. Finish the move as the user who began it.")
        yield descriptor
    finally:
        os.close(descriptor)


def _refuse_replaced(folder: Path, top: int, staged: int) -> None:
    """Raise CommandFailed if the paths lead elsewhere by now."""
    try:
        same = os.path.samestat(folder.lstat(), os.fstat(top)) and os.path.samestat(
            os.stat(STAGED, dir_fd=top, follow_symlinks=False), os.fstat(staged)
        )
    except OSError:
        same = False
    if not same:
        raise CommandFailed(f"{folder / STAGED} was replaced during the copy. Nothing was moved.")


def _copy_and_commit(source: Paths, folder: Path, top: int) -> MoveResult:
    shutil.rmtree(_path(top) / STAGED, ignore_errors=True)  # of an earlier try, which was interrupted before its end
    try:
        with _unchanging(source.data) as databases, ExitStack() as stack:
            with _copy_errors(folder):
                os.mkdir(STAGED, mode=0o700, dir_fd=top)
                staged = stack.enter_context(_staged(folder, top))
                copied, journal = _copy(source, folder, staged, databases)
                if os.geteuid() == 0:
                    _give_to_owner(top, staged, source.data.stat())
                sync_folder(_path(staged))
                sync_folder(_path(top))
                _refuse_replaced(folder, top, staged)
                write_note(source.data / NOTE, folder)  # from here on the move can only be finished
            for file in databases.values():
                file.truncate(0)  # a command that waits for the lock then fails, instead of writing to a deleted file
            _finish(journal, folder, top, staged)
    except BaseException:
        if moved_to(source) is None:
            shutil.rmtree(_path(top) / STAGED, ignore_errors=True)
        raise
    return MoveResult(folder, len(copied), sum(each.size for each in copied))


@contextmanager
def _unchanging(data: Path) -> Iterator[Mapping[Path, BinaryIO]]:
    """Hold off every command that would write; yield the databases, whose files have everything."""
    opened: dict[Path, BinaryIO] = {}
    assets = data / FOLDER
    with ExitStack() as stack:
        try:
            if (assets / TMP).is_dir():
                stack.enter_context(publish_lock(assets))
            if (assets / CHANNELS).is_dir():
                stack.enter_context(channel_lock(assets))
        except AssetsBusy as e:
            raise CommandFailed(f"Nothing was moved: {e}.") from None
        store = SqliteStore(data=data)
        for database, name in ((AUTH, AUTH_DB), (STATE, STATE_DB)):
            if store.exists(database):
                stack.enter_context(database_errors(store, database))
                opened[Path(name)] = stack.enter_context(write_locked(data / name))
        yield opened


@contextmanager
def _copy_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        if e.errno in FULL:
            raise CommandFailed(f"{folder} is full. Nothing was moved. Make room, or name another folder.") from None
        raise CommandFailed(f"{_shown(e, folder)} cannot be copied ({e.strerror}). Nothing was moved.") from None


def _copy(
    source: Paths, folder: Path, staged: int, databases: Mapping[Path, BinaryIO]
) -> tuple[list[CopiedFile], MoveJournal]:
    """Copy everything into STAGED, and compare it; what is there is on disk when this returns."""
    left = {part.name for part in parts_of(source.data / NOTE)}
    entries = scan(source.data, without={LOCK_FILE, NOTE, *BESIDE, *left})
    states = {entry.path: entry.state for entry in entries}
    for path, file in databases.items():
        if path not in states or not os.path.samestat(states[path], os.fstat(file.fileno())):
            raise CommandFailed(f"{source.data / path} is a link. Nothing was moved. Put the file itself there first.")
    needed = sum(entry.size for entry in entries) + SPARE_BYTES
    if (free := shutil.disk_usage(folder).free) < needed:
        raise CommandFailed(f"{folder} has {size(free)} free, and the move needs {size(needed)}. Nothing was moved.")
    names = sorted({entry.path.parts[0] for entry in entries})
    journal = MoveJournal(str(source.config), str(source.data), names)
    write_journal(_path(staged), journal)
    copied = []
    files = FolderCopy(source.data, _path(staged) / DATA, databases)
    for copy, found in ((files, entries), *_settings(source, _path(staged))):
        copied += (made := copy.copy(found))
        copy.compare(made)
    return copied, journal


def _give_to_owner(top: int, staged: int, before: os.stat_result) -> None:
    """Let the folder stay its user's, with all that was the old user's or root's: the service runs as that user.

    A folder of root, such as the root of a disk, becomes the old user's. STAGED itself stays root's, so that no other
    user can put anything in the way here.
    """
    owner = os.fstat(top)
    if owner.st_uid == 0:
        owner = before
        os.fchown(top, owner.st_uid, owner.st_gid)
    for _, folders, files, inside in os.fwalk(".", topdown=False, follow_symlinks=False, dir_fd=staged):
        for name in (*folders, *files):
            if os.stat(name, dir_fd=inside, follow_symlinks=False).st_uid in (0, before.st_uid):
                os.chown(name, owner.st_uid, owner.st_gid, dir_fd=inside, follow_symlinks=False)


def _settings(source: Paths, staged: Path) -> Iterator[tuple[FolderCopy, list[Entry]]]:
    """Yield the copy of each configuration file; a link is followed, but not to a file of another user."""
    for name, path in ((FILE_NAME, source.config), (GAME, source.game)):
        if path.exists():
            file, link = path.resolve(), path.lstat()
            state = file.lstat()
            if link.st_uid not in (0, state.st_uid):
                raise CommandFailed(f"{path} is a link to the file of another user. Nothing was moved.")
            yield FolderCopy(file.parent, staged / f"{name}{COPIED}"), [Entry(Path(file.name), state)]


def _finish(journal: MoveJournal, folder: Path, top: int, staged: int) -> None:
    """Give the copies their names and delete the originals; each step is skipped if an earlier run did it."""
    within, inside, source, new = _path(staged), _path(top), journal.source, places_in(folder)
    try:
        for name in (FILE_NAME, GAME):
            for file in (within / f"{name}{COPIED}").glob("*"):
                file.rename(inside / name)
        if (within / DATA).exists():
            (within / DATA).rename(inside / DATA)
        sync_folder(inside)
        if AUTH_DB in journal.names and not (new.data / AUTH_DB).exists():
            raise SetupError(f"{new.data} has no auth.db. Nothing was deleted in {source.data}.")
        for note in notes(source):
            write_note(note, folder)
        for path in (*(source.data / name for name in (*journal.names, *BESIDE)), source.game, source.config):
            _delete(path)
        sync_folder(source.data)
        sync_folder(source.config.parent)
        (within / JOURNAL).unlink(missing_ok=True)
        shutil.rmtree(inside / STAGED)
    except OSError as e:
        raise CommandFailed(
            f"Everything is in {folder}, but {_shown(e, folder)} cannot be changed ({e.strerror}). Correct that, then "
            "run this again."
        ) from None


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
