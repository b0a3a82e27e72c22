"""The lock of a data folder, and the record of where its server listens."""

import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.errors import CommandFailed, SetupError
from gamed.cli.process import read_listeners, write_listeners
from gamed.cli.service.folder_lock import SERVE, SHARE, Lock, file_system, refuse_network_folder
from tests.cli.process import folder_of

SHORT = ["tcp:1:interface=127.0.0.1"]
LONG = [f"tcp:{port}:interface=127.0.0.1" for port in range(50_000, 50_400)]
STARTS = 300
NOTED = """
from pathlib import Path
from gamed.cli.service.folder_lock import Lock
lock = Lock.acquire_shared(Path({0!r}), lambda: None)
print(lock.alone, flush=True)
input()
"""


class LockTests(SynchronousTestCase):
    def test_every_read_is_whole(self) -> None:
        """A command that reads while a server starts sees the record of this start or of the last one, never less."""
        data = folder_of(self)
        write_listeners(data, SHORT)
        ended = Event()

        def read() -> set[tuple[str, ...]]:
            seen = set()
            while not ended.is_set():
                seen.add(tuple(read_listeners(data)))
            return seen

        with ThreadPoolExecutor(2) as threads:
            readers = [threads.submit(read) for _ in range(2)]
            for number in range(STARTS):
                write_listeners(data, (LONG, SHORT)[number % 2])
            ended.set()
            seen = set().union(*(reader.result() for reader in readers))
        self.assertEqual(seen, {tuple(SHORT), tuple(LONG)})

    def test_the_lock_outlasts_the_record(self) -> None:
        """A server that has recorded where it listens still holds its folder, until it releases the lock."""
        data = folder_of(self)
        lock = Lock.acquire(data, SERVE)
        write_listeners(data, SHORT)
        write_listeners(data, LONG)
        refusal = self.assertRaises(CommandFailed, Lock.acquire, data, "gamed restore")
        self.assertEqual(str(refusal), f"A gamed serves {data} (process {os.getpid()}). Stop it first.")
        lock.release()
        Lock.acquire(data, SERVE).release()

    def test_the_same_again(self) -> None:
        """A restart with the same listeners writes nothing, so that it also works on a full disk."""
        data = folder_of(self)
        write_listeners(data, SHORT)
        (record,) = data.iterdir()
        before = record.stat()
        write_listeners(data, SHORT)
        self.assertEqual((record.stat().st_ino, record.stat().st_mtime_ns), (before.st_ino, before.st_mtime_ns))

    def test_a_held_lock_is_not_waited_for(self) -> None:
        """A folder that another process holds is refused at once."""
        data = folder_of(self)
        with open(data / "gamed.lock", "w", encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            refusal = self.assertRaises(CommandFailed, Lock.acquire, data, "gamed restore")
        self.assertEqual(str(refusal), f"A gamed serves {data}. Stop it first.")

    def test_removed_after_a_failure(self) -> None:
        """A start that fails removes the file that it made, and no file that was there before."""
        data = folder_of(self)
        for left in ([], ["gamed.lock"]):
            lock = Lock.acquire(data, SERVE)

            def fail(lock: Lock) -> None:
                with lock.removed_on_failure():
                    raise CommandFailed("The disk is full.")

            self.assertRaises(CommandFailed, fail, lock)
            self.assertEqual([path.name for path in data.iterdir()], left)
            lock.release()
            (data / "gamed.lock").touch()


class SharedLockTests(SynchronousTestCase):
    """Locks of one process are as apart as those of two: each has an open file of its own."""

    def setUp(self) -> None:
        self.data = folder_of(self)
        self.waits = 0

    def shared(self) -> Lock:
        lock = Lock.acquire_shared(self.data, self.wait)
        self.addCleanup(lock.release)
        return lock

    def wait(self) -> None:
        self.waits += 1

    def refused(self, purpose: str) -> str:
        return str(self.assertRaises(CommandFailed, Lock.acquire, self.data, purpose))

    def test_the_first_is_alone(self) -> None:
        """The first server that shares a folder has it alone until it shares it; the next one joins."""
        first = Lock.acquire_shared(self.data, self.wait)
        self.assertTrue(first.alone)
        shared = first.share()
        assert shared is not None
        self.addCleanup(shared.release)
        self.assertFalse(self.shared().alone)
        self.assertEqual(self.waits, 0)

    def test_the_next_waits(self) -> None:
        """A server that shares waits until the one that prepares the folder is ready."""
        first = Lock.acquire_shared(self.data, self.wait)

        def work() -> None:
            self.wait()
            if self.waits == 3:
                shared = first.share()
                assert shared is not None
                self.addCleanup(shared.release)

        second = Lock.acquire_shared(self.data, work)
        self.addCleanup(second.release)
        self.assertEqual((self.waits, second.alone), (3, False))

    def test_after_a_failure(self) -> None:
        """A server that waited for one whose start failed locks the file of that name: two never prepare the folder."""
        first = Lock.acquire_shared(self.data, self.wait)

        def fail() -> None:
            self.wait()
            if self.waits == 1:
                with self.assertRaises(CommandFailed), first.removed_on_failure():
                    raise CommandFailed("The disk is full.")
                first.release()

        second = Lock.acquire_shared(self.data, fail)
        self.addCleanup(second.release)
        self.assertTrue(second.alone)
        self.assertRaises(CommandFailed, Lock.acquire, self.data, SERVE)

    def test_place(self) -> None:
        """Servers that share a folder read the place of the first one's databases; a server alone forgets it."""
        first = Lock.acquire_shared(self.data, self.wait)
        shared = first.share("db.lan 7")
        assert shared is not None
        second = Lock.acquire_shared(self.data, self.wait)
        second.note()
        self.assertEqual([each.place() for each in (shared, second)], ["db.lan 7"] * 2)
        self.assertIn(f"(process {os.getpid()})", self.refused("gamed restore"))
        shared.release()
        second.release()
        self.assertIsNone(self.shared().place())

    def test_sharing_and_not(self) -> None:
        """A server that shares is refused beside one that does not, and the reverse; the message names the process."""
        held = Lock.acquire(self.data, SERVE)
        refusal = str(self.assertRaises(CommandFailed, Lock.acquire_shared, self.data, self.wait))
        expected = f"Another gamed already serves {self.data} (process {os.getpid()}). Stop that one first, "
        self.assertTrue(refusal.startswith(f"{expected}start all with --share"), refusal)
        held.release()
        self.shared().share()
        self.assertTrue(self.refused(SERVE).startswith(expected), self.refused(SERVE))

    def test_commands_need_it_alone(self) -> None:
        """A command that needs the folder alone is refused beside servers that share it, and names them all."""
        self.shared().share()
        with subprocess.Popen(
            [sys.executable, "-c", NOTED.format(str(self.data))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout is not None
            other.stdout.read(1)
            refusal = self.refused("gamed restore")
            other.kill()
        pids = f"processes {os.getpid()} and {other.pid}"
        self.assertEqual(refusal, f"A gamed serves {self.data} ({pids}). Stop it first.")
        self.assertIn(f"(process {os.getpid()})", self.refused("gamed restore"))

    def test_beside_a_command(self) -> None:
        """A server that starts while a command needs the folder alone names that command."""
        held = Lock.acquire(self.data, "gamed restore")
        self.addCleanup(held.release)
        for purpose in (SERVE, "gamed move-data"):
            self.assertEqual(
                self.refused(purpose),
                f"gamed restore (process {os.getpid()}) needs {self.data} alone. Try again when it has finished.",
            )

    def test_lost_in_between(self) -> None:
        """A server whose lock another process took while it changed its kind learns it."""
        holder = Lock.acquire(self.data, "gamed restore")
        self.addCleanup(holder.release)
        late = Lock(descriptor=os.open(self.data / "gamed.lock", os.O_RDWR), purpose=SHARE, alone=True)
        self.assertIsNone(late.share())


class NetworkTests(SynchronousTestCase):
    MOUNTS = r"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:22 / /srv rw shared:7 master:1 - nfs4 nas:/games rw,vers=4.2
24 23 254:1 / /srv/local rw,relatime shared:8 - xfs /dev/vdb rw
25 22 0:24 / /mnt/two\040words rw - cifs //nas/share rw
26 22 0:25 / /mnt/host rw - 9p host rw,trans=virtio
27 22 0:26 / /mnt/ssh rw - fuse.sshfs host: rw
28 22 0:27 / /mnt/merged rw - fuse.mergerfs a:b rw
29 22 254:3 / /mnt/hidden rw - ext4 /dev/vdc rw
30 22 0:28 / /mnt/hidden rw - nfs nas:/other rw
damaged line
"""

    def test_types(self) -> None:
        """The innermost mount above a folder counts, and of two at one place the later one."""
        for path, kind in (
            ("/var/lib/gamed", "ext4"),
            ("/srv/gamed", "nfs4"),
            ("/srvother", "ext4"),
            ("/srv/local/gamed", "xfs"),
            ("/mnt/two words/gamed", "cifs"),
            ("/mnt/host", "9p"),
            ("/mnt/hidden/gamed", "nfs"),
            ("/mnt/merged/gamed", "fuse.mergerfs"),
        ):
            self.assertEqual(file_system(Path(path), self.MOUNTS), kind, path)
        self.assertIsNone(file_system(Path("/srv"), ""))

    def test_refused(self) -> None:
        """Servers do not share a folder of a network file system; the message has the folder and the type."""
        for path, kind in (("/srv/gamed", "nfs4"), ("/mnt/host/d", "9p"), ("/mnt/ssh/d", "fuse.sshfs")):
            refusal = str(self.assertRaises(SetupError, refuse_network_folder, Path(path), self.MOUNTS))
            self.assertTrue(refusal.startswith(f"{path} is on a network file system ({kind}), "), refusal)
        for path in ("/srv/local/gamed", "/mnt/merged/gamed", "/var/lib/gamed"):
            refuse_network_folder(Path(path), self.MOUNTS)
