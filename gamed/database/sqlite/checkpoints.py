"""Checkpoints keep the write-ahead logs small, without a commit that waits for them.

A PASSIVE checkpoint follows every 16 MiB that transactions announced, and five seconds after a write. Small saves put
about five times as much into the log, whole pages: their log reaches the limit first, and is copied in fewer and larger
steps, which costs less. Under full load no checkpoint catches up. Over 64 MiB, the file's writes pause for one more
checkpoint and its reads for a RESTART, after which the log begins anew. After an erasure it is truncated in the same
way, as a quiet server would keep the bytes in it.

A tool that copies the log, such as Litestream, makes all checkpoints itself, so that none happens before its copy. It
checkpoints after about 4 MiB, and at the latest near 500 MiB.
"""

import sqlite3
from collections.abc import Sequence
from time import monotonic, sleep
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from gamed.database.connection import AUTH
from gamed.database.engine import Database, EngineConnection
from gamed.database.errors import DatabaseLocked, DatabaseReadOnly
from gamed.database.queues import DatabaseQueue, DatabaseThread, report_locked
from gamed.database.sqlite.error_mapping import translate
from gamed.database.sqlite.files import EXTERNAL_LIMIT_BYTES, WAL_LIMIT_BYTES, DatabaseFile
from gamed.event_log import EventLog

PASSIVE_BYTES = 16 * 1024 * 1024
PASSIVE_SECONDS = 5
COMMIT_BYTES = 32 * 1024
"""Counted for a batch, besides the bytes that its transactions announced."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1, 30
TRY_SECONDS, PAUSE_SECONDS = 0.1, 0.0005
"""How long a restart may wait for other processes' snapshots, and the pause between two tries: reads end within ms."""
CHECK_SECONDS = 10
_log = EventLog(Logger())


class _WalState(Struct, eq=False):
    """The write-ahead log of one file, and the queues that use the file."""

    file: DatabaseFile
    writers: Sequence[DatabaseQueue]
    readers: Sequence[DatabaseQueue]
    """The queues that only read the file, in the order in which they pause; that of state.db reads auth.db, too."""
    written: int = 0
    timer: IDelayedCall | None = None
    not_before: float = 0.0
    pause_seconds: int = FIRST_PAUSE_SECONDS
    clearing: bool = False
    """The log may hold what was erased, and is not truncated yet."""


class Checkpointer:
    """The checkpoints of all files, one at a time, in a thread of their own."""

    def __init__(self, clock: Any, thread: DatabaseThread) -> None:
        self._clock = clock
        self._thread = thread
        self._logs: dict[Database, _WalState] = {}
        self._working = False
        self._stopped = False
        self._clear_timer: IDelayedCall | None = None
        self._clear_pause = FIRST_PAUSE_SECONDS

    def register(
        self, file: DatabaseFile, *, writers: Sequence[DatabaseQueue], readers: Sequence[DatabaseQueue]
    ) -> None:
        """Begin to checkpoint this file, which these queues write, and which those only read."""
        self._logs[file] = _WalState(file, writers, readers)

    def wrote(self, file: Database, size: int) -> None:
        """Count a batch of about `size` bytes that was committed; start a checkpoint if one is due."""
        log = self._logs[file]
        if self._stopped or not _in_use(log.file):
            return
        # Announced bytes, not the file's size: that stays as it is while SQLite overwrites the log from its start.
        log.written += size + COMMIT_BYTES
        if log.timer is None:
            log.timer = self._clock.callLater(PASSIVE_SECONDS, self._checkpoint_later, log)
        if log.written > PASSIVE_BYTES or self._too_long(log):
            self._start(log)

    def clear(self) -> None:
        """Truncate the logs soon, as they may hold what was erased; try again until that has succeeded."""
        for log in self._logs.values():
            log.clearing = True
        self._clear_later(0)

    async def stop(self) -> None:
        """Write the logs into their files and truncate them, after every queue was drained."""
        self._stopped = True
        if self._clear_timer is not None:
            self._clear_timer.cancel()
            self._clear_timer = None
        for log in self._logs.values():
            self._cancel_timer(log)
            if self._thread.started and _in_use(log.file):
                # An empty log, so that a copy of the file alone is complete, and the next start has nothing to recover.
                try:
                    await self._run(log.file, "TRUNCATE", alone=True)
                except DatabaseLocked as e:  # the other process or the next start copies the log
                    report_locked(log.file.name, e)
                except Exception as e:
                    _log_failed(log.file, e)

    def _checkpoint_later(self, log: _WalState) -> None:
        log.timer = None
        if self._working:
            log.timer = self._clock.callLater(PASSIVE_SECONDS, self._checkpoint_later, log)
        else:
            self._start(log)

    def _too_long(self, log: _WalState) -> bool:
        return self._clock.seconds() >= log.not_before and wal_bytes(log.file) > WAL_LIMIT_BYTES

    def _cancel_timer(self, log: _WalState) -> None:
        if log.timer is not None:
            log.timer.cancel()
            log.timer = None

    def _start(self, log: _WalState) -> None:
        if not self._working:
            self._working = True
            self._cancel_timer(log)
            log.written = 0
            Deferred.fromCoroutine(self._checkpoint(log)).addBoth(self._done)

    def _done(self, result: Any) -> None:
        self._working = False

    async def _checkpoint(self, log: _WalState) -> None:
        try:
            # PASSIVE waits for no reader and stops no queue. If a snapshot keeps it from the end of the log, a restart,
            # which stops the queues, would fail, too.
            done = await self._run(log.file, "PASSIVE")
            if done and self._too_long(log) and not self._stopped:
                self._set_pause(log, await self._restart(log))
        except Exception as e:
            _log_failed(log.file, e)
            self._set_pause(log, False)

    def _set_pause(self, log: _WalState, restarted: bool) -> None:
        """Allow the next restart at once after a success, else after a growing pause: each one stops the queues."""
        if restarted:
            log.pause_seconds = FIRST_PAUSE_SECONDS
        else:
            log.not_before = self._clock.seconds() + log.pause_seconds
            log.pause_seconds = min(2 * log.pause_seconds, LONGEST_PAUSE_SECONDS)

    def _clear_later(self, seconds: int) -> None:
        if self._clear_timer is None and not self._stopped:
            self._clear_timer = self._clock.callLater(seconds, self._begin_clearing)

    def _begin_clearing(self) -> None:
        self._clear_timer = None
        if self._working:
            self._clear_later(FIRST_PAUSE_SECONDS)
        else:
            self._working = True
            Deferred.fromCoroutine(self._clear()).addBoth(self._done)

    async def _clear(self) -> None:
        for log in [each for each in self._logs.values() if each.clearing and not self._stopped]:
            log.clearing = False  # an erasure during the checkpoint asks for another one
            try:
                cleared = _in_use(log.file) and await self._restart(log, "TRUNCATE")
            except Exception as e:
                _log_failed(log.file, e)
                cleared = False
            log.clearing = log.clearing or not cleared
        waiting = any(log.clearing for log in self._logs.values())
        if waiting:
            self._clear_later(self._clear_pause)
        self._clear_pause = min(2 * self._clear_pause, LONGEST_PAUSE_SECONDS) if waiting else FIRST_PAUSE_SECONDS

    async def _restart(self, log: _WalState, last: str = "RESTART") -> bool:
        """Let the next write begin the log anew; return False while another process holds a snapshot.

        First only the writes pause, while the rest of the log is copied. Then the reads pause, too, when almost nothing
        is left to copy.
        """
        paused: list[DatabaseQueue] = []
        try:
            # In two steps, because copying 64 MiB takes longer than a read may wait: most is copied before reads pause.
            # A RESTART needs both pauses: it is complete only while no snapshot and no writer uses the log.
            paused += log.writers
            await gatherResults([queue.pause() for queue in log.writers])
            await self._run(log.file, "PASSIVE", alone=True)
            # One after the other: a batch of writes may wait five seconds for its turn, and reads must not wait for it.
            for queue in log.readers:
                paused.append(queue)
                await queue.pause()
            return await self._run(log.file, last, alone=True)
        except DatabaseLocked as e:
            report_locked(log.file.name, e)
            return False
        finally:
            for queue in paused:
                queue.resume()

    def _run(self, file: DatabaseFile, mode: str, *, alone: bool = False) -> Deferred[bool]:
        """Make a checkpoint, with `alone` while no process writes; fire with False if it is not complete."""
        schema = "main" if file.name == AUTH else file.name

        def checkpoint(connection: EngineConnection) -> bool:
            try:
                return _checkpoint(connection, schema, mode)
            except sqlite3.OperationalError as e:
                if not isinstance(translate(e), DatabaseReadOnly):
                    raise
            # The file could only be read when the connection was opened, and a connection stays as it was opened.
            return _checkpoint(self._thread.reopen(), schema, mode)

        def checkpoint_alone(connection: EngineConnection) -> bool:
            with file.lock:
                return checkpoint(connection)

        return self._thread.run(checkpoint_alone if alone else checkpoint)


class ExternalCheckpoints:
    """The logs of all files while another program makes the checkpoints; gamed only warns if it misses them."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._logs: dict[Database, _WatchedLog] = {}

    def register(
        self, file: DatabaseFile, *, writers: Sequence[DatabaseQueue], readers: Sequence[DatabaseQueue]
    ) -> None:
        """Begin to watch the log of this file."""
        self._logs[file] = _WatchedLog(file)

    def wrote(self, file: Database, size: int) -> None:
        """Warn if the log is too large: once, and again each time when it has doubled."""
        log, now = self._logs[file], self._clock.seconds()
        if now < log.not_before:
            return
        log.not_before = now + CHECK_SECONDS
        log_bytes = wal_bytes(log.file)
        if log_bytes <= EXTERNAL_LIMIT_BYTES:
            log.warn_above = EXTERNAL_LIMIT_BYTES
        elif log_bytes > log.warn_above:
            log.warn_above = 2 * log_bytes
            _log.warn("checkpoints_missing", database=log.file.name, bytes=log_bytes)

    def clear(self) -> None:
        """Leave the logs as they are: the other program has not copied them yet."""

    async def stop(self) -> None:
        """Leave the logs as they are."""


class _WatchedLog(Struct, eq=False):
    """The write-ahead log of one file that another program checkpoints."""

    file: DatabaseFile
    warn_above: int = EXTERNAL_LIMIT_BYTES
    not_before: float = 0.0


def wal_bytes(file: DatabaseFile) -> int:
    """Return the size of the write-ahead log. Only SQLite may open a database file: close() drops its locks."""
    try:
        return 0 if file.path is None else file.path.with_name(f"{file.path.name}-wal").stat().st_size
    except OSError:
        return 0


def _in_use(file: DatabaseFile) -> bool:
    return file.path is not None and file.unavailable_as is None


def _checkpoint(connection: EngineConnection, schema: str, mode: str) -> bool:
    # With a timeout SQLite would wait in sleeps of up to 100 ms, while all queues of the file pause.
    connection.execute("PRAGMA busy_timeout = 0")
    ends = monotonic() + TRY_SECONDS
    while True:
        [(busy, _, _)] = connection.execute(f"PRAGMA {schema}.wal_checkpoint({mode})").fetchall()
        if not busy or mode == "PASSIVE" or monotonic() >= ends:
            return not busy
        sleep(PAUSE_SECONDS)


def _log_failed(file: DatabaseFile, error: Exception) -> None:
    """Log an error of SQLite in one line, and any other with its traceback."""
    if isinstance(error, sqlite3.Error):
        _log.warn("checkpoint_failed", database=file.name, code=getattr(error, "sqlite_errorname", "unknown"))
    else:
        _log.failure("checkpoint_crashed", database=file.name)
