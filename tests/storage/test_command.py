"""A command's one unit beside the service, and what SQLite's errors are called."""

import sqlite3
from contextlib import closing
from errno import EDQUOT, EIO, ENOSPC, EROFS

from twisted.internet import reactor
from twisted.internet.defer import gatherResults
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.storage.command import once
from gamed.storage.errors import failure, of_disk, translate
from gamed.storage.files import connect, file_uri
from gamed.storage.migrations import MigrationError, prepare_files
from gamed.store import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFailing,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from tests.storage.test_lanes import arrivals, arrive, increment
from tests.support.stores import ask, data_folder, file_stores


class Once(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = data_folder(self)
        self.path = self.data / "auth.db"
        prepare_files(self.data)

    def test_decides(self) -> None:
        """The unit's answer comes back and its writes stay."""
        self.assertEqual(4, once(self.path, arrive(4)))
        self.assertEqual([4], once(self.path, arrivals))

    def test_unit_that_raises(self) -> None:
        """A unit that raises changes nothing."""

        def refuse(connection: sqlite3.Connection) -> None:
            arrive(1)(connection)
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            once(self.path, refuse)
        self.assertEqual([], once(self.path, arrivals))

    def test_beside_the_service(self) -> None:
        """The running service sees what a command wrote, and the other way round."""
        stores = file_stores(self, data=self.data)
        self.successResultOf(stores.auth.submit(arrive(1)))
        once(self.path, arrive(2))
        self.assertEqual([1, 2], self.successResultOf(stores.reads.submit(arrivals)))
        self.assertEqual([1, 2], once(self.path, arrivals))

    def test_missing(self) -> None:
        """A file that is not there is said to be missing, and not made."""
        with self.assertRaises(StoreUnavailable):
            once(self.data / "elsewhere" / "auth.db", arrivals)
        self.path.unlink()
        with self.assertRaises(StoreUnavailable):
            once(self.path, arrivals)
        self.assertFalse(self.path.exists())

    def test_other_version(self) -> None:
        """A file of an older or newer schema is left to the version that serves it."""
        for version in (0, 99):
            with closing(connect(file_uri(self.path, "rw"))) as connection:
                connection.execute(f"PRAGMA user_version = {version}")
            with self.assertRaises(MigrationError):
                once(self.path, arrivals)

    def test_no_database(self) -> None:
        """A damaged file is StoreCorrupt."""
        self.path.write_bytes(b"something else" * 1000)
        with self.assertRaises(StoreCorrupt):
            once(self.path, arrivals)

    def test_references_are_checked(self) -> None:
        """A command cannot leave rows that refer to nothing."""
        with self.assertRaises(sqlite3.IntegrityError):
            once(self.path, ask("INSERT INTO access_token VALUES (x'00', 'ses_none', 1, 1)"))


class Beside(TestCase):
    async def test_no_lost_update(self) -> None:
        """Decisions of commands and of the service on one row, at the same time, are all counted."""
        data = data_folder(self)
        stores = file_stores(self, reactor, data=data)

        def command() -> int:
            """What is refused because the file was held for too long had no effect, and is done again."""
            while True:
                try:
                    return once(data / "auth.db", increment)
                except StoreBusy:
                    continue

        commands = [deferToThread(command) for _ in range(10)]
        service = [stores.auth.submit(increment) for _ in range(30)]
        counted = await gatherResults(service + commands)
        self.assertEqual(list(range(1, 41)), sorted(counted))


class Translation(SynchronousTestCase):
    def test_table(self) -> None:
        """Every complaint about the file or the disk is one of ours, by its primary code."""
        for code, kind in (
            (sqlite3.SQLITE_FULL, StoreFull),
            (sqlite3.SQLITE_IOERR, StoreFailing),
            (sqlite3.SQLITE_IOERR_WRITE, StoreFailing),
            (sqlite3.SQLITE_IOERR_SHMSIZE, StoreFull),
            (sqlite3.SQLITE_READONLY, StoreReadOnly),
            (sqlite3.SQLITE_BUSY, StoreBusy),
            (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusy),
            (sqlite3.SQLITE_LOCKED, StoreBusy),
            (sqlite3.SQLITE_CANTOPEN, StoreUnavailable),
            (sqlite3.SQLITE_CORRUPT, StoreCorrupt),
            (sqlite3.SQLITE_NOTADB, StoreCorrupt),
        ):
            error = sqlite3.OperationalError("what SQLite said")
            error.sqlite_errorcode = code
            ours = translate(error)
            self.assertIs(kind, type(ours))
            self.assertIs(error, ours.__cause__)
            self.assertNotIn("SQLite", str(ours))

    def test_disk(self) -> None:
        """What the operating system says of the disk: an I/O error is not a full disk; a full one is a full one."""
        for code, kind in ((EIO, StoreFailing), (ENOSPC, StoreFull), (EDQUOT, StoreFull), (EROFS, StoreFull)):
            error = OSError(code, "what the system said")
            ours = of_disk(error)
            self.assertIs(kind, type(ours))
            self.assertEqual("I/O error" in str(ours), kind is StoreFailing)

    def test_others_stay(self) -> None:
        """A mistake of ours stays what it is, so that it is noticed."""
        mistake = sqlite3.OperationalError("near SELCT: syntax error")
        mistake.sqlite_errorcode = sqlite3.SQLITE_ERROR
        for error in (mistake, sqlite3.ProgrammingError("closed"), KeyError("k"), StoreBusy("ours")):
            self.assertIs(error, translate(error))

    def test_failure_keeps_its_place(self) -> None:
        """A failure still tells where it was raised, though it holds no frame's values."""
        try:
            raise StoreError("here")
        except StoreError as e:
            self.assertIn("test_failure_keeps_its_place", failure(e).getTraceback())
        try:
            sqlite3.connect("/nowhere/at/all")
        except sqlite3.OperationalError as e:
            self.assertIn("test_failure_keeps_its_place", failure(e).getTraceback())
            self.assertIs(StoreUnavailable, failure(e).type)
