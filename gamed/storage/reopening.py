"""A state.db that could not be opened is opened once it can be, without a restart."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from gamed.event_log import EventLog
from gamed.storage.errors import translated
from gamed.storage.files import StoreFile, unusable
from gamed.storage.migrations import MigrationError, check_schema, prepare_file
from gamed.storage.ticker import Ticker
from gamed.storage.worker import Worker
from gamed.store import StoreError, StoreUnavailable

RETRY_SECONDS = 10
_log = EventLog(Logger())


class Reopening:
    """Tries every ten seconds, while state.db is unavailable and a file of that name is there.

    A missing file is made by the next start only: the owner who moved it away may be about to put another in its place.
    """

    def __init__(self, clock: Any, state: StoreFile, worker: Worker, readers: Sequence[Worker]) -> None:
        """`worker`: a thread for the work; `readers`: the connections that have state.db beside auth.db."""
        self._state = state
        self._worker = worker
        self._readers = readers
        self._ticker = Ticker(clock, RETRY_SECONDS, self._retry)
        self._ticker.start()

    def stop(self) -> None:
        self._ticker.stop()

    def _retry(self) -> Deferred[None]:
        path = self._state.path
        if self._state.refusal is not StoreUnavailable or path is None or not path.is_file():
            return succeed(None)
        return Deferred.fromCoroutine(self._reopen())

    async def _reopen(self) -> None:
        try:
            await self._worker.call(self._prepare)
            self._state.refusal = None
            for reader in self._readers:
                await reader.call(partial(_reopen, reader))
        except (StoreError, MigrationError):
            self._state.refusal = StoreUnavailable
        if self._state.refusal is None:
            _log.info("database_available", database=self._state.name)

    def _prepare(self) -> None:
        """As at the start, in the thread: the file is this version's or becomes it."""
        path = self._state.path
        assert path is not None
        check_schema(path)
        prepare_file(path)
        if (problem := unusable(self._state)) is not None:
            raise problem


def _reopen(reader: Worker) -> None:
    with translated():
        reader.reopen()
