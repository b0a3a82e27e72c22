"""Waiting requests wake after another process has changed what they wait for (docs/protocol.md: Collect, Saves).

A ChangeSource reports that rows of a topic may have changed. An ExternalChangeNotifier then compares what its waiters
know with the database, so that a change of one player does not cause a read for each client that waits.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Protocol

from twisted.internet.defer import Deferred

from gamed.database.connection import Connection
from gamed.database.queues import ReadQueue
from gamed.long_poll import LongPollRegistry, Waiter

COMPARED = 500
"""The number of waiters that one read compares: it takes 2 to 3 ms, and other reads come between."""


class Topic(Enum):
    """A kind of rows whose changes end waits."""

    LOGINS = "logins"
    SESSIONS = "sessions"
    """Sessions and the states of their players."""
    SAVES = "saves"


ChangeListener = Callable[[], Awaitable[None]]
"""A function that is called after a change. If it raises a DatabaseError, it is called again a moment later."""


class ChangeSource(Protocol):
    """The reports of changes that other processes have committed, within a second; own writes are not reported.

    It costs nothing while it has no listener. A change between two listeners is reported to the second one.
    """

    def listen(self, topic: Topic, changed: ChangeListener) -> None:
        """Call `changed` when rows of this topic may have changed, never twice at the same time."""

    def unlisten(self, changed: ChangeListener) -> None:
        """Call `changed` no more."""


FindOutdated = Callable[[Connection, Sequence[Waiter]], Collection[Waiter]]
"""A transaction that returns which of these waiters, at most COMPARED, do not know the present state."""


class ExternalChangeNotifier:
    """The comparison of one registry's waiters with the database, after another process's changes of these topics."""

    def __init__(
        self,
        source: ChangeSource,
        reads: ReadQueue,
        registry: LongPollRegistry,
        find_outdated: Mapping[Topic, FindOutdated],
    ) -> None:
        self._source = source
        self._reads = reads
        self._registry = registry
        self._listeners = {topic: partial(self._compare, find) for topic, find in find_outdated.items()}
        registry.on_use_changed = self._listen

    def _listen(self, in_use: bool) -> None:
        """Listen only while there are waiters."""
        for topic, listener in self._listeners.items():
            if in_use:
                self._source.listen(topic, listener)
            else:
                self._source.unlisten(listener)

    async def _compare(self, find_outdated: FindOutdated) -> None:
        """Wake the outdated waiters, and those that read at this moment: their read may be older than the change."""
        waiters = self._registry.waiters()
        for begin in range(0, len(waiters), COMPARED):
            for waiter in await self._find(find_outdated, waiters[begin : begin + COMPARED]):
                self._registry.wake(waiter.key)

    def _find(self, find_outdated: FindOutdated, waiters: Sequence[Waiter]) -> Deferred[Collection[Waiter]]:
        return self._reads.submit(lambda connection: find_outdated(connection, waiters))
