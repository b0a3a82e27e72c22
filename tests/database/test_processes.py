"""Each process holds a lock file in the data folder, so that the others know which processes have ended."""

import signal
import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.sqlite.processes import ProcessLocks, is_living
from tests.database.holders import start_holder
from tests.support.databases import data_folder, file_databases, memory_databases
from tests.support.stores import sqlite_files

HOLDER = """
import sys
from pathlib import Path
from gamed.database.sqlite.processes import ProcessLocks
locks = ProcessLocks(Path(sys.argv[1]), sys.argv[2])
locks.hold()
print("held", flush=True)
sys.stdin.read()
locks.close()
"""
IDS = ("me", "other", "never")


@sqlite_files("lock files; tests.database.postgresql.test_processes has PostgreSQL's locks")
class ProcessLocksTest(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = data_folder(self)
        self.mine = self.locks("me")
        self.mine.hold()

    def locks(self, instance_id: str) -> ProcessLocks:
        locks = ProcessLocks(self.data, instance_id)
        self.addCleanup(locks.close)
        return locks

    def holder(self, name: str = "other") -> "subprocess.Popen[str]":
        """Return another process that holds the lock of this name."""
        return start_holder(self, HOLDER, str(self.data), name)

    def files(self) -> set[str]:
        return {path.name for path in (self.data / "processes").iterdir()}

    def test_living(self) -> None:
        """A process that holds its file lives, for itself and for others; a stopped one does, too."""
        process = self.holder()
        self.assertEqual(self.mine.ended(IDS), {"never"})
        self.assertEqual(self.files(), {"me.lock", "other.lock"})
        process.send_signal(signal.SIGSTOP)
        self.assertEqual(self.mine.ended(IDS), {"never"})
        self.assertEqual(self.locks("third").ended(IDS), {"never"})

    def test_killed(self) -> None:
        """A killed process has ended for every other one, and the first that asks deletes its file."""
        process = self.holder()
        process.kill()
        process.wait()
        self.assertEqual(self.files(), {"me.lock", "other.lock"})
        for locks in (self.mine, self.locks("third")):
            self.assertEqual(locks.ended(IDS) - {"me"}, {"other", "never"})
            self.assertEqual(self.files(), {"me.lock"})

    def test_clean_end(self) -> None:
        """A process that ends by itself deletes its file."""
        process = self.holder()
        assert process.stdin
        process.stdin.close()
        process.wait()
        self.assertEqual(self.files(), {"me.lock"})
        self.assertEqual(self.mine.ended(IDS), {"other", "never"})

    def test_names_from_elsewhere(self) -> None:
        """A name from the network is found only if a living process has it; it never leads out of the folder."""
        process = self.holder("0a1b2c3d")
        self.assertTrue(is_living(self.data, "0a1b2c3d"))
        outside = ProcessLocks(self.data / "processes", "ab")
        outside.hold()
        self.addCleanup(outside.close)
        for name in ("", "ffffffff", "processes/ab", "../processes/0a1b2c3d", "\0", "0a1b2c3d\n"):
            self.assertFalse(is_living(self.data, name), name)
        process.kill()
        process.wait()
        self.assertFalse(is_living(self.data, "0a1b2c3d"))
        self.assertIn("0a1b2c3d.lock", self.files())

    def test_leftovers(self) -> None:
        """A start deletes the files of ended processes, also half made ones, and no file of a living process."""
        process = self.holder()
        for name in ("dead.lock", "dead.new"):
            (self.data / "processes" / name).touch()
        self.locks("third").hold()
        self.assertEqual(self.files(), {"me.lock", "other.lock", "third.lock"})
        self.assertEqual(self.mine.ended(IDS), {"never"})
        process.kill()

    def test_disk_that_refuses(self) -> None:
        """If the file cannot be made, the process goes on; it has not ended for itself, and tries again later."""
        (self.data / "processes" / "me.lock").unlink()
        other = self.locks("other")
        folder = self.data / "processes"
        folder.rmdir()
        folder.write_text("in the way")
        other.hold()
        self.assertEqual(other.ended(["other"]), frozenset())
        folder.unlink()
        other.hold()
        self.assertEqual(self.mine.ended(["other"]), frozenset())


class DatabasesTest(SynchronousTestCase):
    @sqlite_files("lock files; a server notices the end of a session a moment later")
    def test_two_on_one_folder(self) -> None:
        """Databases know which of the others on their folder are open."""
        folder = data_folder(self)
        first, second = (file_databases(self, data=folder, instance_id=name) for name in ("first", "second"))
        for stores in (first, second):
            self.successResultOf(stores.register_process())
        self.assertEqual(self.successResultOf(first.ended_processes(["first", "second", "x"])), {"x"})
        self.successResultOf(second.close())
        self.assertEqual(self.successResultOf(first.ended_processes(["first", "second", "x"])), {"second", "x"})

    def test_memory(self) -> None:
        """Databases in memory have no other process."""
        self.assertEqual(self.successResultOf(memory_databases(self).ended_processes(["x"])), {"x"})
        self.assertFalse(Path("processes").exists())
