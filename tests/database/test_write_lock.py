"""Processes and threads take turns with a lock file beside each database."""

import os
import subprocess
import sys
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from stat import S_IMODE
from threading import Thread
from time import monotonic, sleep

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.errors import DatabaseLocked, DatabaseUnavailable
from gamed.database.sqlite.write_lock import WAIT_SECONDS, MaintenanceLock, WriteLock, lock_path
from tests.database.lock_users import TURNS
from tests.support.databases import data_folder
from tests.support.stores import sqlite_files

SOON_SECONDS = 1
"""Far more than a wait for a free lock needs, and far less than the allowed wait."""
WAITED = 0.3


@sqlite_files("lock files; tests.database.postgresql.test_transactions has PostgreSQL's locks")
class LockCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = data_folder(self)
        self.path = self.data / "state.db"

    def start(self, task: str, path: Path | None = None) -> "subprocess.Popen[bytes]":
        """Start a process of lock_users and return it when it is ready."""
        command = [sys.executable, "-m", "tests.database.lock_users", task, str(path or self.path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for pipe in (process.stdin, process.stdout):
            self.addCleanup(pipe.close)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def held(self, lock: WriteLock) -> DatabaseLocked:
        """Return the error of a lock that another process holds."""
        return self.assertRaises(DatabaseLocked, lock.__enter__)

    def lock(self, wait_seconds: float = WAITED) -> WriteLock:
        lock = WriteLock(self.path, wait_seconds)
        self.addCleanup(lock.close)
        return lock


class Processes(LockCase):
    def test_one_at_a_time(self) -> None:
        """Two processes never have the lock at the same time, however often they ask for it."""
        counter = self.data / "counter"
        counter.write_text("0", "utf-8")
        users = [self.start("count") for _ in range(2)]
        for user in users:
            assert user.stdin is not None
            user.stdin.write(b"\n")
            user.stdin.flush()
        self.assertEqual([user.wait() for user in users], [0, 0])
        self.assertEqual(counter.read_text("utf-8"), str(2 * TURNS))

    def test_stopped_process(self) -> None:
        """The lock of a stopped process is waited for as long as allowed; the error has the process's id."""
        holder = self.start("hold")
        os.kill(holder.pid, SIGSTOP)
        self.addCleanup(os.kill, holder.pid, SIGCONT)
        lock = WriteLock(self.path)
        began = monotonic()
        error = self.held(lock)
        self.assertTrue(WAIT_SECONDS <= monotonic() - began < WAIT_SECONDS + SOON_SECONDS)
        self.assertEqual((error.process, error.first), (str(holder.pid), True))
        self.assertEqual(str(error), "The server is busy. Try again in a moment.")

    def test_later_waits_fail_at_once(self) -> None:
        """Once a process has held the lock for too long, every further wait fails at once, and is not the first."""
        self.start("hold")
        lock = self.lock()
        self.held(lock)
        for _ in range(3):
            began = monotonic()
            self.assertFalse(self.held(lock).first)
            self.assertLess(monotonic() - began, WAITED)

    def test_released_late(self) -> None:
        """When the process releases the lock after all, the lock works again, and a new wait has its full time."""
        holder = self.start("hold")
        os.kill(holder.pid, SIGSTOP)
        lock = self.lock()
        self.held(lock)
        os.kill(holder.pid, SIGCONT)
        holder.communicate(b"\n")
        self.until_free(lock)
        self.start("hold")
        began = monotonic()
        self.assertTrue(self.held(lock).first)
        self.assertGreaterEqual(monotonic() - began, WAITED)

    def test_released_in_time(self) -> None:
        """A wait ends as soon as the other process releases the lock."""
        holder = self.start("hold")
        lock = self.lock(wait_seconds=60)
        release = Thread(target=lambda: (sleep(WAITED), holder.communicate(b"\n")))
        release.start()
        with lock:
            self.assertEqual(lock_path(self.path).read_text("utf-8").strip(), str(os.getpid()))
        release.join()

    def test_killed_process(self) -> None:
        """The lock of a killed process is free at once."""
        holder = self.start("hold")
        lock = self.lock(wait_seconds=60)
        kill = Thread(target=lambda: (sleep(WAITED), os.kill(holder.pid, SIGKILL)))
        kill.start()
        began = monotonic()
        with lock:
            self.assertLess(monotonic() - began, WAITED + SOON_SECONDS)
        kill.join()

    def test_end_while_waiting(self) -> None:
        """A process ends although a thread of it still waits for the lock."""
        self.start("hold")
        waiting = self.start("wait")
        began = monotonic()
        waiting.communicate(b"\n")
        self.assertEqual(waiting.returncode, 0)
        self.assertLess(monotonic() - began, WAIT_SECONDS)

    def test_close_while_waiting(self) -> None:
        """A lock that is closed while its thread waits takes nothing from the next user of the file."""
        holder = self.start("hold")
        lock = WriteLock(self.path, WAITED)
        self.held(lock)
        lock.close()
        holder.communicate(b"\n")
        self.until_free(self.lock())
        self.assertEqual(lock._descriptor, -1)

    def until_free(self, lock: WriteLock) -> None:
        """Lock and release, after the waiting thread has noticed that the lock is free."""
        for _ in range(100):
            try:
                with lock:
                    return
            except DatabaseLocked:
                sleep(0.01)
        self.fail("the lock is still held")


class Threads(LockCase):
    def test_threads(self) -> None:
        """Threads of one process take turns, too, with a file and without one."""
        for lock in (self.lock(), WriteLock()):
            inside, most = [0], [0]

            def work(lock: WriteLock = lock, inside: list[int] = inside, most: list[int] = most) -> None:
                for _ in range(50):
                    with lock:
                        inside[0] += 1
                        most[0] = max(most[0], inside[0])
                        sleep(0)
                        inside[0] -= 1

            threads = [Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(most, [1])


class Files(LockCase):
    def test_private_file(self) -> None:
        """Only the server's user may read or write the lock file, which has nothing but a process's id."""
        with self.lock():
            file = self.data / "state.db.lock"
            self.assertEqual(S_IMODE(file.stat().st_mode), 0o600)
            self.assertEqual(file.read_bytes().strip(), str(os.getpid()).encode())

    def test_strange_note(self) -> None:
        """A lock file with other content is used as it is; its process is unknown then."""
        self.start("hold")
        lock_path(self.path).write_bytes(b"ps -ef; \xff\n")
        self.assertEqual(self.held(self.lock()).process, "unknown")

    def test_folder_missing(self) -> None:
        """Without the data folder the lock is refused as the database would be."""
        lock = WriteLock(self.data / "missing" / "state.db")
        self.assertRaises(DatabaseUnavailable, lock.__enter__)


class Maintenance(LockCase):
    def test_one_process(self) -> None:
        """One process holds the maintenance lock; another gets it, without a wait, once that one was killed."""
        path = self.data / "maintenance.lock"
        first = self.start("maintain", path)
        lock = MaintenanceLock(path)
        self.addCleanup(lock.close)
        self.assertFalse(lock.held)
        self.assertFalse(lock.held)
        first.kill()
        first.wait()
        self.assertTrue(lock.held)
        self.assertTrue(lock.held)

    def test_without_files(self) -> None:
        """Databases in memory have one process, which does all maintenance."""
        self.assertTrue(MaintenanceLock(None).held)

    def test_release(self) -> None:
        """A closed lock is free for the next process, and is not taken again."""
        locks = [MaintenanceLock(self.data / "maintenance.lock") for _ in range(2)]
        self.assertTrue(locks[0].held)
        self.assertFalse(locks[1].held)
        locks[0].close()
        self.assertFalse(locks[0].held)
        self.assertTrue(locks[1].held)
        locks[1].close()
