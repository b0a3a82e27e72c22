"""The clusters that the tests start keep what was committed, switch over, and end with the tests."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
from twisted.trial.unittest import SynchronousTestCase

from tests.cli.process import ROOT, environment
from tests.support.postgresql import PASSWORD, WAIT_SECONDS, Cluster, cluster

START = """
import sys, time
from tests.support.postgresql import Cluster
print(Cluster().folder, flush=True)
time.sleep(600)
"""


class ClusterTest(SynchronousTestCase):
    """A cluster that was started for one test."""

    def setUp(self) -> None:
        self.cluster = Cluster(tcp=True)
        self.addCleanup(self.cluster.close)

    def test_password(self) -> None:
        """Accept the password over TCP, and refuse another one."""
        address = self.cluster.database(tcp=True)
        with psycopg.connect(address.conninfo, password=PASSWORD) as connection:
            self.assertEqual(connection.execute("SELECT current_user").fetchall(), [("gamed",)])
        with self.assertRaises(psycopg.OperationalError):
            psycopg.connect(address.conninfo, password="wrong")

    def test_immediate_stop(self) -> None:
        """Keep a committed row through an immediate stop, with fsync on."""
        name = self.cluster.database().database
        self.cluster.execute("CREATE TABLE kept (number bigint)", name)
        self.cluster.execute("INSERT INTO kept VALUES (7)", name)
        self.cluster.restart("immediate")
        self.assertEqual(self.cluster.execute("SELECT number FROM kept", name), [(7,)])
        self.assertEqual(self.cluster.execute("SHOW fsync"), [("on",)])

    def test_ended_backends(self) -> None:
        """End the connections to a database, of which there is a list."""
        address = self.cluster.database()
        with psycopg.connect(address.conninfo) as connection:
            self.assertEqual(self.cluster.backends(address.database), [connection.info.backend_pid])
            self.assertEqual(self.cluster.end_backends(address.database), 1)
            with self.assertRaises(psycopg.OperationalError):
                connection.execute("SELECT 1")

    def test_switch_over(self) -> None:
        """Find a committed row on the synchronous standby that takes the primary's place."""
        name = self.cluster.database().database
        standby = self.cluster.standby(synchronous=True)
        self.addCleanup(standby.close)
        self.cluster.execute("CREATE TABLE kept (number bigint)", name)
        with self.assertRaises(psycopg.errors.ReadOnlySqlTransaction):
            standby.execute("CREATE TABLE refused (number bigint)", name)
        self.cluster.stop("immediate")
        standby.promote()
        self.assertEqual(standby.execute("INSERT INTO kept VALUES (7) RETURNING number", name), [(7,)])


class ProcessTest(SynchronousTestCase):
    """The clusters of a process."""

    def test_one(self) -> None:
        """Start one cluster for all tests of a process, and make empty databases in it."""
        self.assertIs(cluster(), cluster())
        first, second = cluster().database(), cluster().database()
        for each in (first, second):
            self.addCleanup(cluster().drop, each.database)
        cluster().execute("CREATE TABLE mine (number bigint)", first.database)
        self.assertEqual(cluster().execute("SELECT to_regclass('mine')", second.database), [(None,)])

    def test_killed(self) -> None:
        """End the server and delete its folder when the process that started it is killed."""
        process = subprocess.Popen(
            [sys.executable, "-c", START], stdout=subprocess.PIPE, text=True, env=environment({}), cwd=ROOT
        )
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        self.assertTrue((folder / "data").is_dir())
        process.send_signal(signal.SIGKILL)
        process.communicate()
        deadline = time.monotonic() + WAIT_SECONDS
        while folder.exists():
            self.assertLess(time.monotonic(), deadline, "the folder is still there")
            time.sleep(0.05)
