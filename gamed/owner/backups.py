"""Backups on the owner's page: which there are, and one that the service makes itself, in a thread.

The copies stay on the host: no route sends one, and the page names no path that a browser could ask for.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeVar

from msgspec import Struct
from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.database.backup_format import MANIFEST, BackupError, BackupProgress, is_backup, parse_manifest
from gamed.database.connection import Connection
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseError
from gamed.event_log import EventLog
from gamed.owner import tables
from gamed.owner.acts import Act, ActStore, record_act, require_owner
from gamed.owner.looks import SharedLooks
from gamed.owner.model import BackupRun, BackupRuns, BackupState, KeptBackup, NoBackupFolder
from gamed.players.owner_tables import read_switch
from gamed.sessions.credentials import AuthenticatedSession
from gamed.timestamps import Now, parse_rfc3339

SHOWN: Final = 50
MANIFEST_BYTES: Final = 64 * 1024
FOLDER_SECONDS: Final = 3
"""How long a page waits for the folder; a share that does not respond must not hold up the rest of the page."""
PROBLEM_CHARACTERS: Final = 500
FAILED = "The backup failed. The log of the server has the reason."
InThread = Callable[[Callable[[], Any]], Deferred[Any]]
T = TypeVar("T")
_log = EventLog(Logger())


class BackupMaker(Struct, frozen=True):
    """The functions of `gamed backup` for the service; both block."""

    make: Callable[[Path], str | None]
    """Makes a backup in a folder; returns why there is none."""
    progress: Callable[[Path], BackupProgress | None]
    """Returns the progress of the backup that any process makes in a folder; raises OSError or DatabaseError."""


class OwnerBackups:
    """The backups of the page. One process makes one at a time; the row of the run shows it to the others."""

    def __init__(  # noqa: PLR0917
        self,
        reactor: Any,
        databases: Databases,
        store: ActStore,
        maker: BackupMaker,
        now_ms: Now,
        instance_id: str,
        in_thread: InThread | None = None,
    ) -> None:
        """Run what blocks by `in_thread`, by default in a thread for which a stopping process does not wait."""
        self._in_thread = in_thread or partial(call_in_daemon, reactor)
        self._databases = databases
        self._store = store
        self._maker = maker
        self._now_ms = now_ms
        self._instance_id = instance_id
        self._looks = SharedLooks(reactor, FOLDER_SECONDS)
        self._running = False

    async def state(self) -> BackupState:
        """Return the folder's backups, the newest first, and the last run; raise DatabaseError."""
        switch, run = await self._databases.reads.submit(_read)
        alive = run is not None and run.ended_ms is None and await self._is_alive(run)
        if switch is None or switch.backup_folder is None:
            return BackupState(None, None, run=run, running=alive)
        folder = Path(switch.backup_folder)
        kept = await self._look("list", folder, list_backups)
        progress = await self._look("progress", folder, self._maker.progress) if alive else None
        shown, more = (None, 0) if kept is None else (kept[:SHOWN], max(0, len(kept) - SHOWN))
        return BackupState(switch.backup_folder, shown, more, run, alive, progress)

    async def begin(self, caller: AuthenticatedSession) -> None:
        """Begin a backup; raise NoBackupFolder, BackupRuns, NotTheOwner or DatabaseError."""
        act = Act(caller, "backup", self._now_ms())
        await self._store.check(act)
        _, run = await self._databases.reads.submit(_read)
        if self._running or (run is not None and run.ended_ms is None and await self._is_alive(run)):
            raise BackupRuns
        begin = partial(_begin, before=run, instance_id=self._instance_id, act=act)
        folder = await self._databases.auth.submit(begin)
        self._running = True
        Deferred.fromCoroutine(self._run(folder))

    async def _run(self, folder: Path) -> None:
        try:
            problem = await self._in_thread(partial(self._maker.make, folder))
        except Exception as e:  # the row must not stay behind as a backup that is being made
            _log.error("backup_failed", error=type(e).__name__)
            problem = FAILED
        shown = None if problem is None else problem[:PROBLEM_CHARACTERS]
        end = partial(tables.end_run, instance_id=self._instance_id, now_ms=self._now_ms(), problem=shown)
        try:
            await self._databases.auth.submit(end)
        except DatabaseError as e:
            _log.error("backup_failed", error=type(e).__name__)
        finally:
            self._running = False

    async def _is_alive(self, run: BackupRun) -> bool:
        """Return whether the process of a run has not ended; while that cannot be known, it counts as alive."""
        if run.instance_id == self._instance_id:
            return self._running
        return run.instance_id not in await self._databases.ended_processes([run.instance_id])

    async def _look(self, name: str, folder: Path, work: Callable[[Path], T]) -> T | None:
        """Return what the work finds in the folder; None while that does not respond, or cannot be read."""
        try:
            found: T = await self._looks.join(f"{name} {folder}", lambda: self._in_thread(partial(work, folder)))
        except (OSError, DatabaseError, defer.TimeoutError):
            return None
        return found


def call_in_daemon(reactor: Any, work: Callable[[], T]) -> Deferred[T]:
    """Call `work` in a thread of its own, which ends with the process: a copy of gigabytes must not delay a stop.

    The folder that it was writing has another name than a backup, and the next backup deletes it.
    """
    done: Deferred[T] = Deferred()

    def call() -> None:
        try:
            result: Any = work()
        except Exception as e:
            result = Failure(e)
        with suppress(RuntimeError):  # the reactor has ended
            reactor.callFromThread(done.callback, result)

    Thread(target=call, name="gamed owner's page", daemon=True).start()
    return done


def list_backups(folder: Path) -> list[KeptBackup]:
    """Return the complete backups in a folder, the newest first; only of the SHOWN newest is the manifest read.

    Folders with names of others are left out. This may block; raise OSError.
    """
    found_names = (path.parent.name for path in folder.glob(f"gamed-*Z/{MANIFEST}"))
    names = sorted(filter(is_backup, found_names), reverse=True)
    found = [_kept(folder / name) for name in names[:SHOWN]]
    return [*found, *(KeptBackup(name, 0, 0) for name in names[SHOWN:])]


def _kept(path: Path) -> KeptBackup:
    """Return what the manifest says; nothing, if it is damaged."""
    try:
        with open(path / MANIFEST, "rb") as file:
            manifest = parse_manifest(file.read(MANIFEST_BYTES))
    except (BackupError, OSError):
        return KeptBackup(path.name, 0, 0)
    size = sum(each.bytes for each in manifest.files.values())
    return KeptBackup(path.name, parse_rfc3339(manifest.made_at) or 0, size)


def _read(connection: Connection) -> tuple[Any, BackupRun | None]:
    return read_switch(connection), tables.read_run(connection)


def _begin(connection: Connection, before: BackupRun | None, instance_id: str, act: Act) -> Path:
    """Take the row, if it is as it was before: of two processes one begins. Return the folder that is named now."""
    require_owner(connection, act)
    switch = read_switch(connection)
    if switch is None or switch.backup_folder is None:
        raise NoBackupFolder
    if tables.read_run(connection) != before:
        raise BackupRuns
    tables.begin_run(connection, instance_id, act.now_ms)
    record_act(connection, act, None)
    return Path(switch.backup_folder)
