"""Notifications of PostgreSQL end waits at once, and polling takes their place while they do not arrive."""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psycopg
from psycopg import RawCursor
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, deferLater
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.config.model import PostgresqlAddress
from gamed.crypto import Secret
from gamed.database.changes import ChangeListener, Topic
from gamed.database.errors import DatabaseBusy, DatabaseUnavailable, new_error
from gamed.database.postgresql import listener as listener_module
from gamed.database.postgresql.connecting import Connector, DriverConnection, SessionKind
from gamed.database.postgresql.listener import CHANNELS, NotificationListener, NotifiedChanges
from gamed.database.postgresql.processes import application_name, is_living
from tests.database.postgresql.engines import address_of, wall_ms
from tests.database.postgresql.test_processes import Session
from tests.support.postgresql import PASSWORD, Address, Cluster, cluster
from tests.support.relay import Relay

PATIENCE_SECONDS = 20


class Poller:
    """A ChangeSource that reports when the test does."""

    def __init__(self) -> None:
        self.listeners: dict[ChangeListener, Topic] = {}

    def listen(self, topic: Topic, changed: ChangeListener) -> None:
        self.listeners[changed] = topic

    def unlisten(self, changed: ChangeListener) -> None:
        self.listeners.pop(changed, None)

    def report(self, topic: Topic) -> None:
        for changed in [changed for changed, of in self.listeners.items() if of is topic]:
            Deferred.fromCoroutine(changed())  # type: ignore[arg-type]


class Called:
    """A listener that counts its calls, and waits or fails if the test wants it to."""

    def __init__(self) -> None:
        self.count = 0
        self.failures: list[Exception] = []
        self.ends: list[Deferred[None]] = []

    async def __call__(self) -> None:
        self.count += 1
        if self.failures:
            raise self.failures.pop()
        if self.ends:
            await self.ends.pop()


class Changes(SynchronousTestCase):
    """The reports in the reactor's thread."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.poller = Poller()
        self.changes = NotifiedChanges(self.clock, self.poller)

    def listener(self, topic: Topic = Topic.SAVES) -> Called:
        called = Called()
        self.changes.listen(topic, called)
        return called

    def notified(self, *topics: Topic) -> None:
        self.changes.report(topics)
        self.clock.advance(0)

    def begin(self) -> None:
        self.changes.begin()
        self.clock.advance(0)

    def settled(self, topic: Topic = Topic.SAVES) -> Called:
        """Return a listener that was called after the notifications had begun, as earlier changes are unknown."""
        if not self.changes.notified:
            self.begin()
        called = self.listener(topic)
        self.clock.advance(0)
        called.count = 0
        return called

    def test_its_topic(self) -> None:
        """A notification calls the listeners of its topic once each, and no others."""
        saves, others = self.settled(), self.settled(Topic.LOGINS)
        self.notified(Topic.SAVES)
        self.assertEqual((saves.count, others.count), (1, 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_between_listeners(self) -> None:
        """A notification while there is no listener is reported to the next one of its topic."""
        self.changes.unlisten(self.settled())
        self.notified(Topic.SAVES)
        logins, saves = self.settled(Topic.LOGINS), self.listener()
        self.clock.advance(0)
        self.assertEqual((saves.count, logins.count), (1, 0))
        self.changes.unlisten(saves)
        unneeded = self.listener()
        self.clock.advance(0)
        self.assertEqual(unneeded.count, 0)

    def test_one_at_a_time(self) -> None:
        """Notifications during a call cause one more call after it, and none at the same time."""
        called = self.settled()
        called.ends = [end := Deferred[None]()]
        for _ in range(3):
            self.notified(Topic.SAVES)
        self.assertEqual(called.count, 1)
        end.callback(None)
        self.clock.advance(0)
        self.assertEqual(called.count, 2)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_pause(self) -> None:
        """After a call that took long, the next one waits four times as long, but at most half a second."""
        called = self.settled()
        for took, pause in ((0.05, 0.2), (3.0, 0.5)):
            called.ends, called.count = [end := Deferred[None]()], 0
            self.notified(Topic.SAVES)
            self.clock.advance(took)
            end.callback(None)
            self.notified(Topic.SAVES)
            self.clock.advance(pause * 0.9)
            self.assertEqual(called.count, 1)
            self.clock.advance(pause * 0.2)
            self.assertEqual(called.count, 2)

    def test_busy(self) -> None:
        """A listener that could not read the database is called again a moment later, until it could."""
        called = self.settled()
        called.failures = [DatabaseBusy("full"), DatabaseBusy("full")]
        self.notified(Topic.SAVES)
        for expected in (1, 2, 3, 3):
            self.assertEqual(called.count, expected)
            self.clock.advance(0.5)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_defect(self) -> None:
        """An unexpected exception of a listener is logged, and it and the others are called the next time."""
        called, other = self.settled(), self.settled()
        called.failures = [ZeroDivisionError()]
        self.notified(Topic.SAVES)
        self.notified(Topic.SAVES)
        self.assertEqual((called.count, other.count), (2, 2))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_removed(self) -> None:
        """A listener that was removed is not called again, nor is anything scheduled for it."""
        called = self.settled()
        self.changes.report([Topic.SAVES])
        self.changes.unlisten(called)
        self.clock.advance(1)
        self.assertEqual(called.count, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_removed_during_a_call(self) -> None:
        """A listener that is removed during its call is not called again, also if that fails."""
        called = self.settled()
        called.ends = [end := Deferred[None]()]
        self.notified(Topic.SAVES)
        self.notified(Topic.SAVES)
        self.changes.unlisten(called)
        end.errback(DatabaseBusy("full"))
        self.clock.advance(1)
        self.assertEqual(called.count, 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_removed_and_back(self) -> None:
        """A listener that is removed during its call and comes back is called after that call, not during it."""
        called = self.settled()
        called.ends = [end := Deferred[None]()]
        self.notified(Topic.SAVES)
        self.changes.unlisten(called)
        self.notified(Topic.SAVES)
        self.changes.listen(Topic.SAVES, called)
        self.clock.advance(0)
        self.assertEqual(called.count, 1)
        end.callback(None)
        self.clock.advance(0)
        self.assertEqual(called.count, 2)
        self.changes.unlisten(called)
        self.notified(Topic.SAVES)
        self.assertEqual(called.count, 2)

    def test_polled(self) -> None:
        """Until notifications arrive, and after their end, changes are polled."""
        called = self.listener()
        for _ in range(2):
            called.count = 0
            self.poller.report(Topic.SAVES)
            self.clock.advance(0)
            self.assertEqual(called.count, 1)
            self.begin()
            self.assertEqual(called.count, 2)
            self.assertEqual(self.poller.listeners, {})
            self.changes.end()

    def test_polls_for_listeners_only(self) -> None:
        """Nothing is polled without a listener, and one topic once."""
        first, second = self.listener(), self.listener()
        self.assertEqual(list(self.poller.listeners.values()), [Topic.SAVES])
        self.changes.unlisten(first)
        self.assertEqual(list(self.poller.listeners.values()), [Topic.SAVES])
        self.changes.unlisten(second)
        self.assertEqual(self.poller.listeners, {})
        self.begin()
        self.changes.end()
        self.assertEqual(self.poller.listeners, {})

    def test_stopped(self) -> None:
        """After the end there is no listener and nothing is scheduled."""
        called = self.listener()
        self.poller.report(Topic.SAVES)
        self.changes.stop()
        self.assertEqual((self.poller.listeners, self.clock.getDelayedCalls()), ({}, []))
        self.begin()
        self.assertEqual(called.count, 0)


class ListenerCase(TestCase):
    """A listener's thread with a real server."""

    def setUp(self) -> None:
        self.poller = Poller()
        self.changes = NotifiedChanges(reactor, self.poller)
        self.calls = Counter[Topic]()
        self.use(cluster())
        for topic in Topic:
            self.changes.listen(topic, self.counter(topic))

    def use(self, used: Cluster, **options: Any) -> None:
        self.cluster = used
        self.address = used.database(**options)
        self.addCleanup(used.drop, self.address.database)

    def counter(self, topic: Topic) -> ChangeListener:
        async def changed() -> None:
            self.calls[topic] += 1

        return changed

    def connect(self) -> DriverConnection:
        """Return a session of the listener, as the connector does."""
        return connect(self.address, application_name("me", "listener"))

    def start(self, connect: Callable[[], DriverConnection] | None = None) -> NotificationListener:
        listener = NotificationListener(reactor, connect or self.connect, "me", self.changes)
        listener.start()
        self.addCleanup(listener.close)
        self.addCleanup(self.changes.stop)
        return listener

    def notify(self, channel: str, name: str = "gamed other state") -> None:
        with psycopg.connect(self.address.conninfo, autocommit=True, application_name=name) as connection:
            connection.execute("SELECT pg_notify(%s, current_setting('application_name'))", [channel])

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = reactor.seconds() + PATIENCE_SECONDS
        while not condition():
            self.assertLess(reactor.seconds(), deadline)
            await deferLater(reactor, 0.002)

    async def started(self) -> NotificationListener:
        """Return a listener that has reported all topics once after it had connected."""
        listener = self.start()
        await self.until(lambda: self.calls.total() == len(Topic))
        self.calls.clear()
        return listener


def connect(address: Address, name: str) -> DriverConnection:
    return DriverConnection.connect(address.conninfo, application_name=name, autocommit=True, cursor_factory=RawCursor)


class Notifications(ListenerCase):
    async def test_each_channel(self) -> None:
        """Another process's notification is reported to the listeners of its topic."""
        await self.started()
        for channel, topic in CHANNELS.items():
            self.notify(channel)
            await self.until(self.calls.total)
            self.assertEqual(self.calls, {topic: 1})
            self.calls.clear()

    async def test_own(self) -> None:
        """Commits of this process are not reported."""
        await self.started()
        self.notify("gamed_saves", application_name("me", "state"))
        self.notify("gamed_logins")
        await self.until(self.calls.total)
        self.assertEqual(self.calls, {Topic.LOGINS: 1})

    async def test_other_names(self) -> None:
        """A change by any other program is reported, whatever its name."""
        await self.started()
        for count, name in enumerate(("", "psql", "gamed me2 state", "gämed"), 1):
            self.notify("gamed_saves", name)
            await self.until(lambda count=count: self.calls[Topic.SAVES] == count)

    async def test_living(self) -> None:
        """The process lives for others while it listens, and no longer once it is closed."""
        listener = await self.started()
        other = Session(self.address.conninfo)
        self.addCleanup(other.close)
        self.assertTrue(is_living(other, "me"))
        listener.close()
        await self.until(lambda: not is_living(other, "me"))

    async def test_lost_connection(self) -> None:
        """After its connection was lost, each listener is called once, and later notifications are reported."""
        listener = await self.started()
        self.assertTrue(listener.settled)
        self.cluster.end_backends(self.address.database)
        await self.until(lambda: self.calls.total() >= len(Topic))
        self.assertEqual(self.calls, dict.fromkeys(Topic, 1))
        self.assertFalse(listener.settled)
        self.notify("gamed_saves")
        await self.until(lambda: self.calls[Topic.SAVES] == 2)

    async def test_polls_while_it_is_not_connected(self) -> None:
        """While the server refuses connections changes are polled; then notifications are used again."""
        refused = [new_error(DatabaseUnavailable)]
        self.patch(listener_module, "RETRY_SECONDS", 0.02)

        def connect() -> DriverConnection:
            if refused:
                raise refused[0]
            return self.connect()

        listener = self.start(connect)
        await self.until(lambda: not listener.settled)
        self.poller.report(Topic.SAVES)
        await self.until(lambda: self.calls[Topic.SAVES])
        refused.clear()
        await self.until(lambda: self.calls.total() == 1 + len(Topic))
        self.assertEqual(self.poller.listeners, {})


class Deaf(ListenerCase):
    """Sessions whose notifications do not arrive."""

    async def test_without_echo(self) -> None:
        """Where the listener's own notification does not arrive, changes are polled."""
        self.patch(listener_module, "ECHO_SECONDS", 0.05)
        await self.polled(lambda: _Changed(self.connect(), notifies=lambda timeout: []))

    async def test_pooler(self) -> None:
        """Behind a pooler, which numbers the sessions itself, changes are polled."""
        await self.polled(lambda: _Changed(self.connect(), info=SimpleNamespace(backend_pid=1)))

    async def polled(self, connect: Callable[[], Any]) -> None:
        self.start(connect)
        other = Session(self.address.conninfo)
        self.addCleanup(other.close)
        await self.until(lambda: is_living(other, "me"))
        await deferLater(reactor, 0.2)
        self.assertEqual(set(self.poller.listeners.values()), set(Topic))
        self.assertEqual(self.calls, {})
        self.poller.report(Topic.LOGINS)
        await self.until(self.calls.total)
        self.assertEqual(self.calls, {Topic.LOGINS: 1})


class SilentNetwork(ListenerCase):
    """A server behind a network that may lose everything."""

    def setUp(self) -> None:
        self.own = Cluster(tcp=True)
        self.addCleanup(self.own.close)
        self.relay = Relay(self.own.port)
        self.addCleanup(self.relay.close)
        super().setUp()

    def use(self, used: Cluster) -> None:
        super().use(self.own)

    def connect(self) -> DriverConnection:
        address = address_of(Address("127.0.0.1", self.relay.port, self.address.database))
        address = PostgresqlAddress(address.conninfo, Secret(PASSWORD.encode()))
        return Connector(address, wall_ms).open(SessionKind("me listener", read_only=True, idle_ms=0))

    async def test_noticed(self) -> None:
        """A server that does not answer any more is noticed though nothing was to be sent, and found again later."""
        self.patch(listener_module, "IDLE_SECONDS", 0.1)
        self.patch(listener_module, "ANSWER_SECONDS", 0.1)
        listener = await self.started()
        await deferLater(reactor, 0.5)
        self.assertTrue(listener.settled)
        self.relay.silence()
        await self.until(lambda: not listener.settled)
        self.assertEqual(set(self.poller.listeners.values()), set(Topic))
        self.relay.cut()
        self.relay.resume()
        await self.until(lambda: self.calls.total() == len(Topic))
        self.notify("gamed_saves")
        await self.until(lambda: self.calls[Topic.SAVES] == 2)

    async def test_close(self) -> None:
        """The end does not wait for a server that does not answer."""
        listener = await self.started()
        self.relay.silence()
        began = reactor.seconds()
        listener.close()
        self.assertLess(reactor.seconds() - began, 1)


class _Changed:
    """A connection some of whose members are others."""

    def __init__(self, session: DriverConnection, **members: object) -> None:
        self._session = session
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)
