"""Both stores and their lanes, from open to close (SPEC 1.6)."""

import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from gamed.event_log import EventLog
from gamed.instants import Now
from gamed.storage.blobs import KEPT_MS, BlobLane
from gamed.storage.files import AUTH, STATE, StoreFile, attach_state, prepare, prepare_to_write, unusable
from gamed.storage.health import Health, silent
from gamed.storage.lanes import Lane, ReadLane, WriteLane
from gamed.storage.pulse import Pulse
from gamed.storage.reopening import Reopening
from gamed.storage.ticker import Ticker
from gamed.storage.wal import WalKeeper
from gamed.storage.watch import Watch
from gamed.storage.worker import Worker
from gamed.store import StoreUnavailable

SWEEP_SECONDS = 3600
_log = EventLog(Logger())


class Stores:
    """auth.db and state.db behind their lanes. Opens no file and starts no thread before the reactor runs.

    `staged_ms`: how long bytes live that wait for a commit (PROTOCOL 4.4).
    """

    def __init__(
        self, reactor: Any, auth: StoreFile, state: StoreFile, folder: Path, now_ms: Now, *, staged_ms: int = KEPT_MS
    ) -> None:
        def reading(connection: sqlite3.Connection) -> None:
            prepare(connection)
            attach_state(connection, state)
            connection.execute("PRAGMA query_only = ON")

        def tending(connection: sqlite3.Connection) -> None:
            prepare(connection)
            attach_state(connection, state)

        self._state = state
        self._files = (auth, state)
        self._clock = reactor
        self.workers = tuple(
            Worker(reactor, file, setup)
            for file, setup in (
                (auth, reading),
                (auth, prepare_to_write),
                (state, prepare_to_write),
                (state, prepare),
                (auth, tending),
            )
        )
        reads, auth_writes, state_writes, blobs, tends = self.workers
        self._wal = WalKeeper(reactor, tends)
        self.reads = ReadLane(reads, self._files)
        self.auth = WriteLane(auth_writes, auth, self._wal.wrote)
        self.state = WriteLane(state_writes, state, self._wal.wrote)
        self.blobs = BlobLane(blobs, state, folder, now_ms, self._wal.wrote, staged_ms=staged_ms)
        self._wal.keep(auth, (self.reads, self.auth))
        self._wal.keep(state, (self.reads, self.state, self.blobs.lane))
        self._watch = Watch(reactor, (self.auth, self.state))
        self._health = Health(reactor, self.reads, (auth, state))
        self._open_pulse = partial(Pulse, reactor, auth, state)
        self._reopening = Reopening(reactor, state, blobs, (reads, tends))
        self._sweep = Ticker(reactor, SWEEP_SECONDS, self._swept)
        self._sweep.start()
        self._closing: Deferred[None] | None = None

    @classmethod
    def open(cls, reactor: Any, data: Path, now_ms: Now, staged_ms: int = KEPT_MS) -> "Stores":
        """The stores of a data folder whose files were prepared; StoreUnavailable when auth.db cannot be read.

        A state.db that cannot be read leaves everything working that does not need it, and is tried again.
        """
        auth, state = StoreFile.at(data, AUTH), StoreFile.at(data, STATE)
        if (problem := unusable(auth)) is not None:
            raise StoreUnavailable(f"{auth.path} cannot be opened") from problem
        if (problem := unusable(state)) is not None:
            state.refusal = StoreUnavailable
            _log.error("database_unavailable", database=STATE, path=state.path, detail=problem)
        folder = data / "tmp"
        folder.mkdir(mode=0o700, exist_ok=True)
        return cls(reactor, auth, state, folder, now_ms, staged_ms=staged_ms)

    def _swept(self) -> Deferred[int]:
        return self.blobs.sweep() if self._state.refusal is None else succeed(0)

    @property
    def state_available(self) -> bool:
        """Whether saves can be read."""
        return self._state.refusal is not StoreUnavailable

    def state_damaged(self) -> None:
        """Note damage of state.db that a unit met and could leave out."""
        self._state.found_damaged()

    def watch(self, changed: Callable[[], None], file: str | None = None) -> None:
        """Call `changed` within a second of a change that another process made to either file, or to this one."""
        self._watch.add(changed, file)

    def unwatch(self, changed: Callable[[], None]) -> None:
        self._watch.remove(changed)

    def check(self) -> Deferred[None]:
        """Fire with the result of a check that is at most 5 s old, or wait 2 s for one; fail with a StoreError."""
        return self._health.check()

    @property
    def lanes(self) -> Mapping[str, Lane]:
        """By name."""
        return {"read": self.reads, "auth": self.auth, "state": self.state, "blob": self.blobs.lane}

    def wal_bytes(self) -> Mapping[str, int]:
        """Size of each store's write-ahead log."""
        return {file.name: file.wal_bytes() for file in self._files}

    def silent(self) -> Deferred[list[str]]:
        """Fires with a sentence for each store that does not answer now."""
        return Deferred.fromCoroutine(silent(self.reads, self._files, self._clock))

    def pulse(self) -> Pulse:
        """One more way to ask whether both stores answer, past every lane; whoever asks closes it."""
        return self._open_pulse()

    def close(self) -> Deferred[None]:
        """Take nothing new, answer what waits, empty the write-ahead logs, close; asked again, waits for the same."""
        if self._closing is None:
            self._closing = Deferred.fromCoroutine(self._close())
        self._closing.addBoth(_tell, closed := Deferred[None]())
        return closed

    async def _close(self) -> None:
        self._sweep.stop()
        self._reopening.stop()
        self._watch.stop()
        await gatherResults([lane.drain() for lane in (self.reads, self.auth, self.state, self.blobs)])
        await self._wal.stop()
        for worker in self.workers:
            worker.close()


def _tell(result: Failure | None, waiter: Deferred[None]) -> None:
    waiter.callback(result)
