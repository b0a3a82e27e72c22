"""A thread listens on a connection of its own for what other processes commit, and wakes the reactor.

libpq may close its socket and open another one; so the reactor never watches it. A change elsewhere is reported within
milliseconds. While the thread is not connected, or notifications do not arrive, PolledChanges takes its place.
"""

import os
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from secrets import token_hex
from select import POLLIN, poll
from threading import Lock, Thread
from time import monotonic
from typing import Any

from psycopg import Notify, OperationalError
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from gamed.database.changes import ChangeListener, ChangeSource, Topic
from gamed.database.errors import DatabaseError
from gamed.database.polled_changes import CHECK_SECONDS
from gamed.database.postgresql.connecting import DriverConnection
from gamed.database.postgresql.error_mapping import PostgresqlError
from gamed.database.postgresql.processes import is_own, join
from gamed.database.postgresql.session import PlainSession
from gamed.event_log import EventLog

CHANNELS = {f"gamed_{topic.value}": topic for topic in Topic}
"""The triggers of the schema notify these channels; the payload is the name of the connection that wrote."""
RETRY_SECONDS = 0.5
"""The pause before the next attempt to connect, and before a listener is called that could not read the database."""
IDLE_SECONDS = 5
"""After this time without a notification the thread checks that the server still answers."""
ANSWER_SECONDS = 5
CLOSE_SECONDS = 0.5
ECHO_SECONDS = 2
"""How long the thread waits for its own notification after it has connected."""
SETTLED_SECONDS = 10
"""Other processes need less time to connect again, once this one is."""
SHARE = 4
"""The comparisons of a listener take at most one part in 1 + SHARE of the time."""
MOST_PAUSE_SECONDS = 0.5
_log = EventLog(Logger())


class NotifiedChanges:
    """The ChangeSource of PostgreSQL: notifications while they arrive, polling at other times."""

    def __init__(self, clock: Any, polled: ChangeSource) -> None:
        self._clock = clock
        self._polled = polled
        self._calls: dict[ChangeListener, _Calls] = {}
        self._ending: dict[ChangeListener, _Calls] = {}
        """Listeners that were removed during a call."""
        self.notified = False
        """True while notifications arrive."""
        self._missed = set(Topic)
        """Topics that may have changed while they had no listener."""

        def poller(topic: Topic) -> ChangeListener:
            async def changed() -> None:
                self.report([topic])

            return changed

        self._pollers = {topic: poller(topic) for topic in Topic}

    def listen(self, topic: Topic, changed: ChangeListener) -> None:
        """Call `changed` when rows of this topic may have changed, never twice at the same time."""
        if changed in self._calls:
            return
        ending = self._ending.pop(changed, None)
        calls = _Calls(self._clock, topic, changed) if ending is None else ending
        calls.stopped, self._calls[changed] = False, calls
        if not self.notified:
            self._polled.listen(topic, self._pollers[topic])
        elif topic in self._missed:
            self._missed.discard(topic)
            calls.request()

    def unlisten(self, changed: ChangeListener) -> None:
        """Call `changed` no more."""
        calls = self._calls.pop(changed, None)
        if calls is not None:
            calls.stop()
            self._ending[changed] = calls
            self._ending = {changed: calls for changed, calls in self._ending.items() if calls.running}
            if not self._has_listener(calls.topic):
                self._polled.unlisten(self._pollers[calls.topic])

    def report(self, topics: Collection[Topic]) -> None:
        """Call the listeners of these topics; the next one of a topic that has none."""
        for calls in list(self._calls.values()):
            if calls.topic in topics:
                calls.request()
        self._missed.update(topic for topic in topics if not self._has_listener(topic))

    def begin(self) -> None:
        """Rely on notifications from now on; all topics may have changed before."""
        self.notified = True
        for poller in self._pollers.values():
            self._polled.unlisten(poller)
        self.report(list(Topic))

    def end(self) -> None:
        """Poll until notifications arrive again."""
        self.notified = False
        for topic in {calls.topic for calls in self._calls.values()}:
            self._polled.listen(topic, self._pollers[topic])

    def stop(self) -> None:
        """Remove all listeners."""
        for changed in list(self._calls):
            self.unlisten(changed)

    def _has_listener(self, topic: Topic) -> bool:
        return any(calls.topic is topic for calls in self._calls.values())


class _Calls:
    """The calls of one listener: one at a time, and after each a pause that is SHARE times as long.

    20,000 waiters are compared in about 120 ms: while others commit all the time, that must not occupy the read queue.
    """

    def __init__(self, clock: Any, topic: Topic, changed: ChangeListener) -> None:
        self.topic = topic
        self._clock = clock
        self._changed = changed
        self._earliest = 0.0
        self.running = False
        self._again = False
        """True if the topic changed during a call."""
        self._call: IDelayedCall | None = None
        self.stopped = False

    def request(self) -> None:
        """Call the listener as soon as it may be called."""
        if self.running:
            self._again = True
        elif self._call is None and not self.stopped:
            self._call = self._clock.callLater(max(0.0, self._earliest - self._clock.seconds()), self._start)

    def stop(self) -> None:
        """Make no further call."""
        self.stopped = True
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _start(self) -> None:
        self._call, self.running, self._again = None, True, False
        Deferred.fromCoroutine(self._run())

    async def _run(self) -> None:
        began, pause = self._clock.seconds(), 0.0
        try:
            await self._changed()
        except DatabaseError:  # the requests that need this database report it
            self._again, pause = True, RETRY_SECONDS
        except Exception:
            _log.failure("external_change_check_failed")
        now = self._clock.seconds()
        self._earliest = now + max(pause, min(MOST_PAUSE_SECONDS, SHARE * (now - began)))
        self.running = False
        if self._again:
            self.request()


class NotificationListener:
    """The thread that listens for notifications, and whose connection shows the others that this process lives."""

    def __init__(
        self, reactor: Any, connect: Callable[[], DriverConnection], instance_id: str, changes: NotifiedChanges
    ) -> None:
        """Use new connections from `connect`, which may take its time and raises DatabaseError."""
        self._reactor = reactor
        self._connect = connect
        self._instance_id = instance_id
        self._changes = changes
        self._thread = Thread(target=self._run, name="listener", daemon=True)
        self._wake_end, self._wake_begin = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._closing = False
        self._lock = Lock()
        self._topics: frozenset[Topic] = frozenset()
        """Topics that the reactor is about to report; with the lock."""
        self._lost = False
        """True after a connection was lost or refused, until the next one is made."""
        self._settled_at = 0.0

    def start(self) -> None:
        """Start the thread when the reactor runs."""
        self._reactor.callWhenRunning(self._thread.start)

    @property
    def settled(self) -> bool:
        """Return whether other living processes are connected, too: not right after the server was away."""
        return not self._lost and monotonic() >= self._settled_at

    def close(self) -> None:
        """End the thread; one that waits for the server ends a moment later, or with the process."""
        if self._closing:
            return
        self._closing = True
        os.write(self._wake_begin, b"-")
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            os.close(self._wake_begin)
            os.close(self._wake_end)

    def _run(self) -> None:
        while not self._closing:
            problem: Exception | None = None
            try:
                with closing(self._connect()) as connection:
                    self._serve(connection)
            except (DatabaseError, PostgresqlError, OperationalError) as e:
                problem = e
            except Exception:
                _log.failure("external_change_check_failed")
            if not self._closing:
                self._end(problem)
                await_any([self._wake_end], RETRY_SECONDS)

    def _end(self, problem: Exception | None) -> None:
        """Let the changes be polled; log the first of several failures in a row."""
        if not self._lost:
            self._lost = True
            self._reactor.callFromThread(self._changes.end)
            _log.warn("notifications_lost", detail=str(problem).partition("\n")[0])

    def _serve(self, connection: DriverConnection) -> None:
        """Listen until the connection is lost or close() is called."""
        session = PlainSession(connection, answer_seconds=ANSWER_SECONDS)
        join(session, self._instance_id)
        arriving = self._listen(connection, session)
        if self._lost:
            self._lost, self._settled_at = False, monotonic() + SETTLED_SECONDS
            _log.info("notifications_restored")
        if arriving:
            self._reactor.callFromThread(self._changes.begin)
        else:
            _log.warn("notifications_polled", seconds=CHECK_SECONDS)
        while not self._closing:
            self._report(connection.notifies(timeout=0))
            if not self._await_input(connection, IDLE_SECONDS) and not self._closing:
                session.rows("SELECT 1")

    def _listen(self, connection: DriverConnection, session: PlainSession) -> bool:
        """Listen on all channels; return whether notifications arrive: some servers and proxies do not send them."""
        [(process,)] = session.rows("SELECT pg_backend_pid()")
        if process != connection.info.backend_pid:
            return False  # a pooler, which may give the server's session to another client after each transaction
        echo = f"gamed_echo_{process}_{token_hex(4)}"
        for channel in (*CHANNELS, echo):
            session.rows(f"LISTEN {channel}")
        session.rows(f"NOTIFY {echo}")
        deadline = monotonic() + ECHO_SECONDS
        while not self._closing:
            notifications = list(connection.notifies(timeout=0))
            self._report(notifications)
            if any(each.channel == echo for each in notifications):
                session.rows(f"UNLISTEN {echo}")
                return True
            if not self._await_input(connection, deadline - monotonic()):
                return False
        return False

    def _await_input(self, connection: DriverConnection, seconds: float) -> bool:
        # Not notifies(timeout=IDLE_SECONDS): close() could not wake that, and psycopg's waits end ten times a second.
        return await_any([connection.fileno(), self._wake_end], seconds) and not self._closing

    def _report(self, notifications: Iterable[Notify]) -> None:
        """Report to the reactor which topics others have changed."""
        topics = {
            CHANNELS[each.channel]
            for each in notifications
            if each.channel in CHANNELS and not is_own(each.payload, self._instance_id)
        }
        with self._lock:
            scheduled, self._topics = bool(self._topics), self._topics | topics
        if topics and not scheduled:
            self._reactor.callFromThread(self._deliver)

    def _deliver(self) -> None:
        """Report the topics, in the reactor's thread."""
        with self._lock:
            topics, self._topics = self._topics, frozenset()
        self._changes.report(topics)


def await_any(descriptors: Iterable[int], seconds: float) -> bool:
    """Return whether one of these can be read, at the latest after this time."""
    poller = poll()
    for descriptor in descriptors:
        poller.register(descriptor, POLLIN)
    return bool(poller.poll(max(0.0, seconds) * 1000))
