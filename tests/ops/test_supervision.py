"""The running service notifies its manager; the databases and the clock are fakes."""

from msgspec import Struct, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.errors import DatabaseCorrupt
from gamed.ops.systemd import EXTENSIONS, REPEAT_SECONDS, SystemdNotifier, SystemdSupervisor
from tests.cli.process import folder_of
from tests.ops.systemd_manager import FakeManager

BASE = "http://127.0.0.1:8080"


class FakeDatabases(Struct):
    """A fake of the databases and of their watchdog probe."""

    health: Deferred[None] = field(default_factory=Deferred)
    answer: Deferred[None] = field(default_factory=lambda: succeed(None))
    pings: int = 0
    closed: bool = False

    def check(self) -> Deferred[None]:
        return self.health

    def watchdog_probe(self) -> "FakeDatabases":
        return self

    def ping(self) -> Deferred[None]:
        self.pings += 1
        return self.answer

    def close(self) -> None:
        self.closed = True


class SupervisionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.played = FakeManager(self, folder_of(self) / "notify")
        self.clock, self.stores = Clock(), FakeDatabases()
        self.supervision = self.of(SystemdNotifier(self.played.address, watchdog_usec=30_000_000))

    def of(self, notifier: SystemdNotifier) -> SystemdSupervisor:
        return SystemdSupervisor(self.clock, notifier, self.stores)

    def lines_until(self, end: str) -> list[str]:
        """Return all lines before `end`, which is sent last."""
        SystemdNotifier(self.played.address).notify(end)
        self.played.wait_for(end)
        return self.played.lines[:-1]

    def test_ready_when_it_answers(self) -> None:
        """Not before the stores were asked; then with the address that is served."""
        self.supervision.started(BASE)
        self.assertEqual(self.lines_until("A"), [])
        self.stores.health.callback(None)
        self.assertEqual(self.lines_until("B"), ["A", "READY=1", f"STATUS=serving at {BASE}", "WATCHDOG=1"])

    def test_ready_without_a_store(self) -> None:
        """A store that is damaged does not keep the rest from serving; the status says so."""
        self.stores.health = fail(DatabaseCorrupt("no"))
        self.supervision.started(BASE)
        status = f"STATUS=serving at {BASE}; a database does not respond: DatabaseCorrupt"
        self.assertEqual(self.lines_until("A")[:2], ["READY=1", status])

    def test_signs_of_life(self) -> None:
        """Twice in the time that the manager waits; none while a store does not answer, or fails."""
        self.stores.health.callback(None)
        self.supervision.started(BASE)
        self.clock.pump([15] * 3)
        self.assertEqual(self.lines_until("A").count("WATCHDOG=1"), 4)
        self.stores.answer = slow = Deferred()
        self.clock.pump([15] * 4)
        self.assertEqual((self.lines_until("B").count("WATCHDOG=1"), self.stores.pings), (4, 5))
        slow.callback(None)
        self.stores.answer = fail(DatabaseCorrupt("no"))
        self.clock.pump([15])
        self.assertEqual(self.lines_until("C").count("WATCHDOG=1"), 5)
        self.stores.answer = succeed(None)
        self.clock.pump([15])
        self.assertEqual(self.lines_until("D").count("WATCHDOG=1"), 6)

    def test_nobody_watches(self) -> None:
        """Without a watchdog no thread and no connection is spent on it."""
        self.stores.health.callback(None)
        self.of(SystemdNotifier(self.played.address)).started(BASE)
        self.clock.pump([15] * 3)
        self.assertEqual((self.lines_until("A")[0], self.stores.pings), ("READY=1", 0))

    def test_stopping(self) -> None:
        """Said at once, and more time is asked for while it goes on: not without an end."""
        self.stores.health.callback(None)
        self.supervision.started(BASE)
        self.supervision.stopping()
        self.assertTrue(self.stores.closed)
        self.clock.pump([REPEAT_SECONDS] * (EXTENSIONS + 3))
        lines = self.lines_until("A")
        stop = lines.index("STOPPING=1")
        self.assertEqual(lines[stop + 2 :], ["EXTEND_TIMEOUT_USEC=30000000"] * EXTENSIONS)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stopped(self) -> None:
        """Send no notification and leave no timer after the stop, also before the databases have answered."""
        self.supervision.started(BASE)
        self.supervision.stopping()
        self.supervision.stopped()
        self.stores.health.callback(None)
        self.assertNotIn("READY=1", self.lines_until("A"))
        self.assertEqual(self.clock.getDelayedCalls(), [])
