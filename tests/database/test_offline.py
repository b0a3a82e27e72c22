"""A command's transaction beside the service, and the translation of SQLite's errors."""

import sqlite3
from contextlib import closing
from errno import EDQUOT, EIO, ENOSPC, EROFS

from twisted.internet import reactor
from twisted.internet.defer import gatherResults
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.database.errors import (
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseError,
    DatabaseFailing,
    DatabaseReadOnly,
    DatabaseUnavailable,
    DiskFull,
    MigrationError,
    of_disk,
)
from gamed.database.group_commit import detached_failure
from gamed.database.sqlite.error_mapping import translate
from gamed.database.sqlite.files import connect, file_uri
from gamed.database.sqlite.offline import run_transaction
from tests.database.test_queues import arrivals, arrive, increment
from tests.support.databases import ask, data_folder, file_databases, prepare_files
from tests.support.stores import sqlite_files


@sqlite_files("its files; tests.cli.test_postgresql has PostgreSQL's commands")
class Once(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = data_folder(self)
        self.path = self.data / "auth.db"
        prepare_files(self.data)

    def test_decides(self) -> None:
        """The transaction's result is returned and its writes stay."""
        self.assertEqual(4, run_transaction(self.path, arrive(4)))
        self.assertEqual([4], run_transaction(self.path, arrivals))

    def test_transaction_that_raises(self) -> None:
        """A transaction that raises an exception changes nothing."""

        def refuse(connection: sqlite3.Connection) -> None:
            arrive(1)(connection)
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            run_transaction(self.path, refuse)
        self.assertEqual([], run_transaction(self.path, arrivals))

    def test_beside_the_service(self) -> None:
        """The running service sees what a command wrote, and the other way round."""
        stores = file_databases(self, data=self.data)
        self.successResultOf(stores.auth.submit(arrive(1)))
        run_transaction(self.path, arrive(2))
        self.assertEqual([1, 2], self.successResultOf(stores.reads.submit(arrivals)))
        self.assertEqual([1, 2], run_transaction(self.path, arrivals))

    def test_missing(self) -> None:
        """A missing file is reported as missing, and not created."""
        with self.assertRaises(DatabaseUnavailable):
            run_transaction(self.data / "elsewhere" / "auth.db", arrivals)
        self.path.unlink()
        with self.assertRaises(DatabaseUnavailable):
            run_transaction(self.path, arrivals)
        self.assertFalse(self.path.exists())

    def test_other_version(self) -> None:
        """A file of an older or newer schema is rejected."""
        for version in (0, 99):
            with closing(connect(file_uri(self.path, "rw"))) as connection:
                connection.execute(f"PRAGMA user_version = {version}")
            with self.assertRaises(MigrationError):
                run_transaction(self.path, arrivals)

    def test_no_database(self) -> None:
        """A damaged file is DatabaseCorrupt."""
        self.path.write_bytes(b"something else" * 1000)
        with self.assertRaises(DatabaseCorrupt):
            run_transaction(self.path, arrivals)

    def test_references_are_checked(self) -> None:
        """A command cannot leave rows that refer to nothing."""
        with self.assertRaises(sqlite3.IntegrityError):
            run_transaction(self.path, ask("INSERT INTO identity VALUES (x'00', 'ply_none', 'x', x'00', 1, 1)"))


@sqlite_files("its files; tests.cli.test_postgresql has PostgreSQL's commands")
class Beside(TestCase):
    async def test_no_lost_update(self) -> None:
        """Decisions of commands and of the service on one row, at the same time, are all counted."""
        data = data_folder(self)
        stores = file_databases(self, reactor, data=data)

        def command() -> int:
            """Retry a transaction that failed because the file was locked for too long, as it had no effect."""
            while True:
                try:
                    return run_transaction(data / "auth.db", increment)
                except DatabaseBusy:
                    continue

        commands = [deferToThread(command) for _ in range(10)]
        service = [stores.auth.submit(increment) for _ in range(30)]
        counted = await gatherResults(service + commands)
        self.assertEqual(list(range(1, 41)), sorted(counted))


@sqlite_files("its error codes; tests.database.postgresql.test_transactions has PostgreSQL's")
class Translation(SynchronousTestCase):
    def test_table(self) -> None:
        """Every error about the file or the disk is a DatabaseError, by its primary code."""
        for code, kind in (
            (sqlite3.SQLITE_FULL, DiskFull),
            (sqlite3.SQLITE_IOERR, DatabaseFailing),
            (sqlite3.SQLITE_IOERR_WRITE, DatabaseFailing),
            (sqlite3.SQLITE_IOERR_SHMSIZE, DiskFull),
            (sqlite3.SQLITE_READONLY, DatabaseReadOnly),
            (sqlite3.SQLITE_BUSY, DatabaseBusy),
            (sqlite3.SQLITE_BUSY_SNAPSHOT, DatabaseBusy),
            (sqlite3.SQLITE_LOCKED, DatabaseBusy),
            (sqlite3.SQLITE_CANTOPEN, DatabaseUnavailable),
            (sqlite3.SQLITE_CORRUPT, DatabaseCorrupt),
            (sqlite3.SQLITE_NOTADB, DatabaseCorrupt),
        ):
            error = sqlite3.OperationalError("what SQLite said")
            error.sqlite_errorcode = code
            ours = translate(error)
            self.assertIs(kind, type(ours))
            self.assertIs(error, ours.__cause__)
            self.assertNotIn("SQLite", str(ours))

    def test_disk(self) -> None:
        """Errors of the operating system are translated: an I/O error is not a full disk."""
        for code, kind in ((EIO, DatabaseFailing), (ENOSPC, DiskFull), (EDQUOT, DiskFull), (EROFS, DiskFull)):
            error = OSError(code, "what the system said")
            ours = of_disk(error)
            self.assertIs(kind, type(ours))
            self.assertEqual("I/O error" in str(ours), kind is DatabaseFailing)

    def test_others_stay(self) -> None:
        """Errors of gamed's own code stay as they are, so that they are found."""
        mistake = sqlite3.OperationalError("near SELCT: syntax error")
        mistake.sqlite_errorcode = sqlite3.SQLITE_ERROR
        for error in (mistake, sqlite3.ProgrammingError("closed"), KeyError("k"), DatabaseBusy("ours")):
            self.assertIs(error, translate(error))

    def test_failure_keeps_its_place(self) -> None:
        """A detached Failure still has its traceback, but no frame's values."""
        try:
            raise DatabaseError("here")
        except DatabaseError as e:
            self.assertIn("test_failure_keeps_its_place", detached_failure(e).getTraceback())
        try:
            sqlite3.connect("/nowhere/at/all")
        except sqlite3.OperationalError as e:
            self.assertIn("test_failure_keeps_its_place", detached_failure(e).getTraceback())
            self.assertIs(DatabaseUnavailable, detached_failure(translate(e)).type)
