"""Advisory locks tell which processes use the databases, and which of them cleans up."""

import signal
import subprocess

from psycopg import RawCursor
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.errors import DatabaseBusy
from gamed.database.postgresql.connecting import DriverConnection
from gamed.database.postgresql.processes import alone, ended, is_living, join, snapshot_version, tend, tend_no_more
from gamed.database.postgresql.session import PlainSession
from tests.database.holders import start_holder
from tests.support.postgresql import cluster

HOLDER = """
import sys
from gamed.database.postgresql.processes import join
from tests.database.postgresql.test_processes import Session
session = Session(sys.argv[1])
join(session, sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""
IDS = ("me", "other", "never")


class Session(PlainSession):
    """A session outside a transaction."""

    def __init__(self, conninfo: str) -> None:
        super().__init__(DriverConnection.connect(conninfo, autocommit=True, cursor_factory=RawCursor))


class ProcessCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = cluster()
        self.address = self.cluster.database()
        self.addCleanup(self.cluster.drop, self.address.database)
        self.mine = self.session()
        join(self.mine, "me")

    def session(self, database: str = "") -> Session:
        session = Session(self.address.conninfo if not database else self.cluster.address(database).conninfo)
        self.addCleanup(session.close)
        return session

    def holder(self, name: str = "other") -> "subprocess.Popen[str]":
        """Return another process that lives under this name."""
        return start_holder(self, HOLDER, self.address.conninfo, name)

    def wait_until_gone(self, process: "subprocess.Popen[str]") -> None:
        """Wait until the server has noticed that the process has ended."""
        process.wait()
        while len(self.cluster.backends(self.address.database)) > 1:
            pass


class Living(ProcessCase):
    def test_living(self) -> None:
        """A process lives while one of its connections does, for itself and for others; a stopped one does, too."""
        process = self.holder()
        self.assertEqual(ended(self.mine, IDS), {"never"})
        process.send_signal(signal.SIGSTOP)
        self.assertEqual(ended(self.session(), IDS), {"never"})
        self.assertTrue(is_living(self.session(), "other"))

    def test_killed(self) -> None:
        """A killed process has ended for every other one."""
        process = self.holder()
        process.kill()
        self.wait_until_gone(process)
        self.assertEqual(ended(self.mine, IDS), {"other", "never"})
        self.assertFalse(is_living(self.mine, "other"))

    def test_second_connection(self) -> None:
        """A process that has lost one of its connections lives by the other one."""
        first, second = self.session(), self.session()
        for session in (first, second):
            join(session, "other")
        first.close()
        self.assertEqual(ended(self.mine, IDS), {"never"})

    def test_another_database(self) -> None:
        """A process of another database of the same server does not count."""
        elsewhere = self.cluster.database()
        self.addCleanup(self.cluster.drop, elsewhere.database)
        join(self.session(elsewhere.database), "other")
        self.assertFalse(is_living(self.mine, "other"))

    def test_names_from_elsewhere(self) -> None:
        """Any text is a name, and only the name of a living process lives."""
        join(self.session(), "0a1b2c3d")
        self.assertTrue(is_living(self.mine, "0a1b2c3d"))
        for name in ("", "0a1b2c3d\n", "\0", "\ud800", "0' OR 1=1"):
            self.assertFalse(is_living(self.mine, name), name)

    def test_many_names(self) -> None:
        """Names whose numbers fill all 32 bits are not confused."""
        names = [f"{n:08x}" for n in range(0, 1 << 32, 1 << 26)]
        for name in names:
            join(self.mine, name)
        self.assertEqual(ended(self.session(), [*names, "never"]), {"never"})


class Tender(ProcessCase):
    def test_one(self) -> None:
        """One process cleans up, however often it asks; the next one does once that has ended."""
        first, second = self.session(), self.session()
        self.assertEqual([tend(first), tend(first), tend(second), tend(first)], [True, True, False, True])
        first.close()
        while not tend(second):
            pass
        self.assertFalse(tend(self.mine))

    def test_tend_no_more(self) -> None:
        """The tender lets another session clean up; one that is not it changes nothing."""
        first, second = self.session(), self.session()
        self.assertTrue(tend(first))
        self.assertEqual([tend_no_more(second), tend(second)], [False, False])
        self.assertEqual([tend_no_more(first), tend_no_more(first), tend(second)], [False, False, True])


class Alone(ProcessCase):
    def test_command(self) -> None:
        """A command has the databases for itself only while no process uses them, and no process starts meanwhile."""
        command = self.session()
        with self.assertRaises(DatabaseBusy), alone(command):
            self.fail("a process lives")
        self.mine.close()
        self.wait_for_sessions(1)
        with alone(command):
            with self.assertRaises(DatabaseBusy):
                join(self.session(), "late")
            with self.assertRaises(DatabaseBusy), alone(self.session()):
                self.fail("another command works")
        join(self.session(), "later")

    def wait_for_sessions(self, count: int) -> None:
        while len(self.cluster.backends(self.address.database)) > count:
            pass


class SnapshotVersion(ProcessCase):
    def test_changes_with_commits(self) -> None:
        """The version of a session changes with the transactions that write, and only then."""
        other = self.session()
        other.execute("CREATE TABLE t (a int)")
        before = snapshot_version(self.mine)
        other.execute("INSERT INTO t VALUES (1)")
        self.assertNotEqual(snapshot_version(self.mine), before)
        # the server itself may write between the two, rarely
        self.assertTrue(any(snapshot_version(self.mine) == snapshot_version(self.mine) for _ in range(9)))
