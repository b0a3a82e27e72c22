"""PolledChanges asks the engine twice a second, while there are listeners, whether another process has committed."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from gamed.database.changes import ChangeListener, Topic
from gamed.database.engine import EngineConnection
from gamed.database.errors import DatabaseError
from gamed.database.periodic import PeriodicTask
from gamed.database.queues import WriteQueue
from gamed.event_log import EventLog

CHECK_SECONDS = 0.5
Version = tuple[object, object]
"""A connection, and a value that changes with commits; values of two connections do not compare."""
_log = EventLog(Logger())


class PolledChanges:
    """The source of changes by other processes; each topic is in the database of one write queue.

    The write queues' connections read the version. With SQLite this process's own writes do not count there; appended
    blobs do, and cause a needless comparison. A thread that waits for its turn to write does not delay the check of the
    other database. The last version is kept while there is no listener, and the first check counts as a change, so that
    no change is lost between a client's read and its wait.
    """

    def __init__(
        self, clock: Any, queues: Mapping[Topic, WriteQueue], version: Callable[[EngineConnection], Version]
    ) -> None:
        self._queues = queues
        self._version = version
        self._versions: dict[WriteQueue, Version] = {}
        self._listeners: dict[ChangeListener, Topic] = {}
        self._postponed: set[ChangeListener] = set()
        """Listeners that could not read the database after the last change."""
        self._tasks = {
            queue: PeriodicTask(clock, CHECK_SECONDS, partial(self._check, queue), f"changes_of_{topic.value}")
            for topic, queue in queues.items()
        }

    def listen(self, topic: Topic, changed: ChangeListener) -> None:
        """Call `changed` when rows of this topic may have changed, never twice at the same time."""
        self._listeners[changed] = topic
        self._tasks[self._queues[topic]].start()

    def unlisten(self, changed: ChangeListener) -> None:
        """Call `changed` no more."""
        self._postponed.discard(changed)
        topic = self._listeners.pop(changed, None)
        if topic is not None and not self._listeners_of(self._queues[topic]):
            self._tasks[self._queues[topic]].stop()

    def stop(self) -> None:
        """Remove all listeners."""
        self._listeners.clear()
        for task in self._tasks.values():
            task.stop()

    def _listeners_of(self, queue: WriteQueue) -> list[ChangeListener]:
        return [listener for listener, topic in self._listeners.items() if self._queues[topic] is queue]

    async def _check(self, queue: WriteQueue) -> None:
        changed = await self._has_changed(queue)
        called = [each for each in self._listeners_of(queue) if changed or each in self._postponed]
        await gatherResults([Deferred.fromCoroutine(self._call(listener)) for listener in called])

    async def _call(self, listener: ChangeListener) -> None:
        self._postponed.discard(listener)
        try:
            await listener()
        except DatabaseError:  # the requests that need this database report it
            if listener in self._listeners:
                self._postponed.add(listener)
        except Exception:
            _log.failure("external_change_check_failed")

    async def _has_changed(self, queue: WriteQueue) -> bool:
        try:
            version = await queue.between_batches(self._version)
        except DatabaseError:
            return False
        changed = self._versions.get(queue) != version
        self._versions[queue] = version
        return changed
