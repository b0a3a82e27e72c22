"""The write-ahead logs kept small, without a commit ever paying for it.

A PASSIVE checkpoint follows every 16 MiB that units announced, and five seconds after a write. Small saves put some
five times as much into the log, whole pages: theirs reaches the limit first, and is copied in fewer and larger steps,
which costs less. Under full load no checkpoint catches up; then, over 64 MiB, the file's writes pause for one more and
its reads for one RESTART, after which the log begins anew.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from gamed.database.connection import AUTH, WAL_LIMIT_BYTES, DatabaseFile
from gamed.database.error_mapping import translate
from gamed.database.errors import DatabaseReadOnly
from gamed.database.queues import DatabaseQueue, ReadQueue
from gamed.database.thread import DatabaseThread
from gamed.event_log import EventLog

PASSIVE_BYTES = 16 * 1024 * 1024
PASSIVE_SECONDS = 5
COMMIT_BYTES = 32 * 1024
"""Counted for a batch besides what its units announced."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1, 30
BUSY_MS = 250
"""How long the lanes may stand still for another process's snapshot, a backup's for instance."""
_log = EventLog(Logger())


class _WalState(Struct, eq=False):
    file: DatabaseFile
    lanes: Sequence[DatabaseQueue]
    written: int = 0
    timer: IDelayedCall | None = None
    not_before: float = 0.0
    pause_seconds: int = FIRST_PAUSE_SECONDS


class Checkpointer:
    """Checkpoints, on a connection and thread of its own, one at a time."""

    def __init__(self, clock: Any, worker: DatabaseThread) -> None:
        self._clock = clock
        self._worker = worker
        self._kept: dict[DatabaseFile, _WalState] = {}
        self._working = False
        self._stopped = False

    def keep(self, file: DatabaseFile, lanes: Sequence[DatabaseQueue]) -> None:
        """Look after this file; `lanes` are all that read or write it."""
        self._kept[file] = _WalState(file, lanes)

    def wrote(self, file: DatabaseFile, size: int) -> None:
        """A batch of about so many bytes was committed."""
        kept = self._kept[file]
        if self._stopped or not self._in_use(file):
            return
        kept.written += size + COMMIT_BYTES
        if kept.timer is None:
            kept.timer = self._clock.callLater(PASSIVE_SECONDS, self._later, kept)
        if kept.written > PASSIVE_BYTES or self._too_long(kept):
            self._tend(kept)

    async def stop(self) -> None:
        """Empty the logs into their files, once every lane is drained."""
        self._stopped = True
        for kept in self._kept.values():
            self._cancel(kept)
            if self._worker.started and self._in_use(kept.file):
                try:
                    await self._checkpoint(kept.file, "TRUNCATE")
                except Exception as e:  # the next start replays the log
                    _log_failed(kept.file, e)

    def _in_use(self, file: DatabaseFile) -> bool:
        return file.path is not None and file.unavailable_as is None

    def _later(self, kept: _WalState) -> None:
        kept.timer = None
        if self._working:
            kept.timer = self._clock.callLater(PASSIVE_SECONDS, self._later, kept)
        else:
            self._tend(kept)

    def _too_long(self, kept: _WalState) -> bool:
        return self._clock.seconds() >= kept.not_before and kept.file.wal_bytes() > WAL_LIMIT_BYTES

    def _cancel(self, kept: _WalState) -> None:
        if kept.timer is not None:
            kept.timer.cancel()
            kept.timer = None

    def _tend(self, kept: _WalState) -> None:
        if not self._working:
            self._working = True
            self._cancel(kept)
            kept.written = 0
            Deferred.fromCoroutine(self._tending(kept)).addBoth(self._tended)

    def _tended(self, result: Any) -> None:
        self._working = False

    async def _tending(self, kept: _WalState) -> None:
        try:
            await self._checkpoint(kept.file, "PASSIVE")
            if self._too_long(kept) and not self._stopped:
                self._judge(kept, await self._restart(kept))
        except Exception as e:
            _log_failed(kept.file, e)
            self._judge(kept, False)

    def _judge(self, kept: _WalState, done: bool) -> None:
        """Try again at once when it helped, else ever more seldom: each try stops the lanes."""
        if done:
            kept.pause_seconds = FIRST_PAUSE_SECONDS
        else:
            kept.not_before = self._clock.seconds() + kept.pause_seconds
            kept.pause_seconds = min(2 * kept.pause_seconds, LONGEST_PAUSE_SECONDS)

    async def _restart(self, kept: _WalState) -> bool:
        """Whether the next write begins the log anew; False while another process holds a snapshot.

        First only writes stand still, while the rest of the log is copied; reads stand still for what is left then,
        which is no copying any more.
        """
        paused: list[DatabaseQueue] = []
        try:
            for reading, mode in ((False, "PASSIVE"), (True, "RESTART")):
                lanes = [lane for lane in kept.lanes if isinstance(lane, ReadQueue) is reading]
                paused += lanes
                await gatherResults([lane.pause() for lane in lanes])
                done = await self._checkpoint(kept.file, mode)
            return done
        finally:
            for lane in paused:
                lane.resume()

    def _checkpoint(self, file: DatabaseFile, mode: str) -> Deferred[bool]:
        schema = "main" if file.name == AUTH else file.name

        def checkpoint(connection: sqlite3.Connection) -> bool:
            try:
                return _checkpoint(connection, schema, mode)
            except sqlite3.OperationalError as e:
                if not isinstance(translate(e), DatabaseReadOnly):
                    raise
            return _checkpoint(self._worker.reopen(), schema, mode)

        return self._worker.run(checkpoint)


def _checkpoint(connection: sqlite3.Connection, schema: str, mode: str) -> bool:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    [(busy, _, _)] = connection.execute(f"PRAGMA {schema}.wal_checkpoint({mode})").fetchall()
    return not busy


def _log_failed(file: DatabaseFile, error: Exception) -> None:
    """Log an error of SQLite in one line, and any other with its traceback."""
    if isinstance(error, sqlite3.Error):
        _log.warn("checkpoint_failed", database=file.name, code=getattr(error, "sqlite_errorname", "unknown"))
    else:
        _log.failure("checkpoint_crashed", database=file.name)
