"""The lock of a data folder, and the record of where its server listens."""

import fcntl
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.errors import CommandFailed
from gamed.cli.process import Lock, read_listeners, write_listeners
from tests.cli.process import folder_of

SHORT = ["tcp:1:interface=127.0.0.1"]
LONG = [f"tcp:{port}:interface=127.0.0.1" for port in range(50_000, 50_400)]
STARTS = 300


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
        lock = Lock.acquire(data)
        write_listeners(data, SHORT)
        write_listeners(data, LONG)
        refusal = self.assertRaises(CommandFailed, Lock.acquire, data)
        self.assertEqual(str(refusal), f"A gamed serves {data}. Stop it first.")
        lock.release()
        Lock.acquire(data).release()

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
            self.assertRaises(CommandFailed, Lock.acquire, data)
