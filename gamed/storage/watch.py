"""Writes of other processes, noticed: a command beside the service wakes those who wait (PROTOCOL 4.2)."""

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from gamed.event_log import EventLog
from gamed.storage.lanes import WriteLane
from gamed.storage.ticker import Ticker
from gamed.store import StoreError

LOOK_SECONDS = 0.5
_log = EventLog(Logger())


class Watch:
    """Asks every write lane for its file's data_version twice a second, while anyone watches.

    The write lanes are asked because this process's own writes go through them and stay unnoticed here
    (appended blobs excepted: those wake for nothing). What was seen last is kept while nobody watches, and the
    very first look counts as a change, so nothing falls between a reader's look and its watch.
    """

    def __init__(self, clock: Any, lanes: Sequence[WriteLane]) -> None:
        self._lanes = lanes
        self._seen: dict[WriteLane, int] = {}
        self._watchers: list[tuple[Callable[[], None], str | None]] = []
        self._ticker = Ticker(clock, LOOK_SECONDS, self._look)

    def add(self, changed: Callable[[], None], file: str | None = None) -> None:
        """`file`: only of this one, `auth` or `state`."""
        self._watchers.append((changed, file))
        if len(self._watchers) == 1:
            self._ticker.start(now=True)

    def remove(self, changed: Callable[[], None]) -> None:
        self._watchers = [watcher for watcher in self._watchers if watcher[0] != changed]
        if not self._watchers:
            self._ticker.stop()

    def stop(self) -> None:
        self._watchers.clear()
        self._ticker.stop()

    def _look(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._compare())

    async def _compare(self) -> None:
        moved = {lane.name for lane in self._lanes if await self._moved(lane)}
        for changed, file in tuple(self._watchers):
            if file in moved or (file is None and moved):
                self._tell(changed)

    async def _moved(self, lane: WriteLane) -> bool:
        try:
            version = await lane.data_version()
        except StoreError:  # said to whoever needs that store
            return False
        moved = self._seen.get(lane) != version
        self._seen[lane] = version
        return moved

    def _tell(self, changed: Callable[[], None]) -> None:
        try:
            changed()
        except Exception:
            _log.failure("external_change_callback_failed")
