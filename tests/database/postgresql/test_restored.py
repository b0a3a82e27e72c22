"""A database that was restored without gamed is found at the next start, and a standby that took over is accepted."""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

from msgspec.structs import replace
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.settings import DATABASE_NOTE
from gamed.database.connection import AUTH, STATE, Connection, Transaction
from gamed.database.engine import Database
from gamed.database.errors import DatabaseBusy, DatabaseRestored, DatabaseUnreachable
from gamed.database.postgresql import dump
from gamed.database.postgresql import store as store_module
from gamed.database.postgresql.connecting import Connector, SessionKind
from gamed.database.postgresql.engine import PostgresqlEngine
from gamed.database.postgresql.heartbeat import (
    BEAT_SECONDS,
    BEHIND_MS,
    Heartbeat,
    HeartbeatTask,
    RestoreGuard,
    beat,
    begin_generation,
    read_note,
    refuse_older,
    write_note,
)
from gamed.database.postgresql.identity import read_place, refuse_copy, write_identity
from gamed.database.postgresql.migrations import prepare_schema
from gamed.database.postgresql.session import PlainSession
from gamed.database.queues import DatabaseThread, WriteQueue
from tests.database.postgresql.engines import address_of, wall_ms
from tests.support.covers import covers
from tests.support.databases import InlineReactor, InlineThreads
from tests.support.postgresql import Address, Cluster, cluster, installed_major

T = TypeVar("T")
NOTED = Heartbeat(1, 10, 1_000_000, "00000001")


def nothing(*_: object) -> None:
    """Do nothing."""


class StoredCase(SynchronousTestCase):
    """A test with a database that has both schemas, and a data folder."""

    def setUp(self) -> None:
        self.cluster = self.make_cluster()
        self.place = self.prepared(self.cluster)
        self.major = installed_major()
        self.folder = Path(mkdtemp(prefix="gamed-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def make_cluster(self) -> Cluster:
        """Return the cluster for the database of the test."""
        return cluster()

    def prepared(self, server: Cluster) -> Address:
        """Return the address of a new database with both schemas."""
        place = server.database()
        kind = SessionKind("schemas", idle_ms=0)
        with closing(PlainSession(Connector(address_of(place), wall_ms).open(kind))) as session:
            for database in (AUTH, STATE):
                prepare_schema(session, database, database, nothing, nothing, migrate=False)
        key = "INSERT INTO auth.key_record (one, check_value, fingerprint, source, created_ms) VALUES"
        self.run_in(lambda connection: connection.execute(f"{key} (1, '', 'abc', 'master', 0)").rowcount, place)
        return place

    def engine(self, place: Address | None = None) -> PostgresqlEngine:
        kind = SessionKind("auth writer", schemas=(AUTH,), idle_ms=0)
        return PostgresqlEngine(Connector(address_of(place or self.place), wall_ms), Database(AUTH), kind)

    def run_in(self, transaction: Transaction[T], place: Address | None = None) -> T:
        """Run a transaction, and commit it."""
        engine = self.engine(place)
        connection = engine.open()
        try:
            engine.begin_writing(connection, None)
            result = transaction(connection)
            engine.commit(connection)
            return result
        finally:
            engine.end(connection)
            connection.close()

    def recognize(self, place: Address | None = None) -> set[str]:
        """Return the schemas that are copies."""
        return {database for database in (AUTH, STATE) if self._is_copy(database, place)}

    def _is_copy(self, database: str, place: Address | None) -> bool:
        try:
            self.run_in(lambda connection: refuse_copy(connection, database), place)
        except DatabaseRestored as e:
            self.assertIn("Stop all servers that use it, then run: gamed restored", str(e))
            return True
        return False

    def execute(self, sql: str) -> None:
        """Execute one statement as superuser, outside a transaction."""
        self.cluster.execute(sql, self.place.database)

    def dumped(self) -> Path:
        """Return a dump of the database."""
        target = self.folder / "dump"
        self.run_in(lambda connection: dump.dump(connection, address_of(self.place), target, nothing))
        return target


class CopyTests(StoredCase):
    def test_original(self) -> None:
        """The first start recognizes both schemas, and each later one finds them unchanged, also after a restart."""
        self.assertEqual([self.recognize() for _ in range(3)], [set()] * 3)

    @covers("threats/70")
    def test_elsewhere(self) -> None:
        """A dump that was restored into another database is a copy, until the operator declares it the original."""
        self.recognize()
        other = self.cluster.database()
        dump.load(address_of(other), self.dumped(), self.major, [])
        self.assertEqual(self.recognize(other), {AUTH, STATE})
        self.run_in(lambda connection: write_identity(connection, AUTH), other)
        self.assertEqual(self.recognize(other), {STATE})
        self.assertEqual(self.recognize(), set())

    def test_in_place(self) -> None:
        """A dump that replaced the schemas of the same database is a copy."""
        self.recognize()
        before = [f"DROP SCHEMA {database} CASCADE" for database in (AUTH, STATE)]
        dump.load(address_of(self.place), self.dumped(), self.major, before)
        self.assertEqual(self.recognize(), {AUTH, STATE})

    def test_one_schema(self) -> None:
        """A schema that alone was replaced is the only copy."""
        self.recognize()
        before = [f"DROP SCHEMA {AUTH} CASCADE", f"ALTER SCHEMA {STATE} RENAME TO kept"]
        dump.load(address_of(self.place), self.dumped(), self.major, before)
        self.execute(f"DROP SCHEMA {STATE} CASCADE")
        self.execute(f"ALTER SCHEMA kept RENAME TO {STATE}")
        self.assertEqual(self.recognize(), {AUTH})

    def test_rows_alone(self) -> None:
        """Rows that were restored into the existing tables are a copy."""
        self.recognize()
        self.execute("CREATE TABLE copy AS SELECT * FROM state.database_identity")
        self.execute("DELETE FROM state.database_identity")
        self.execute("INSERT INTO state.database_identity SELECT * FROM copy")
        self.assertEqual(self.recognize(), {STATE})

    def test_new_schema(self) -> None:
        """A schema that was deleted and made anew is not a copy: without saves nothing exists twice."""
        self.recognize()
        self.execute(f"DROP SCHEMA {STATE} CASCADE")
        self.execute(f"CREATE SCHEMA {STATE} AUTHORIZATION gamed")
        self.execute(f"CREATE TABLE {STATE}.database_identity (LIKE auth.database_identity)")
        self.execute(f"ALTER TABLE {STATE}.database_identity OWNER TO gamed")
        self.assertEqual(self.recognize(), set())

    def test_copied_database(self) -> None:
        """A copy that PostgreSQL makes of the whole database is a copy."""
        self.recognize()
        self.cluster.end_backends(self.place.database)
        other = self.cluster.database(self.place.database)
        self.assertEqual((self.recognize(other), self.recognize()), ({AUTH, STATE}, set()))

    def test_vacuum(self) -> None:
        """Vacuum, also one that writes the table anew and freezes its rows, leaves the original what it is."""
        self.recognize()
        for command in ("VACUUM (FREEZE)", "VACUUM (FULL, FREEZE)"):
            self.execute(f"{command} auth.database_identity")
        self.execute("CLUSTER auth.database_identity USING database_identity_pkey")
        self.assertEqual(self.recognize(), set())

    def test_other_server(self) -> None:
        """The files of another server of the same version are a copy; after pg_upgrade they are the original."""
        for major, copies in ((self.major, {AUTH}), (self.major - 1, set())):
            self.run_in(lambda connection: write_identity(connection, AUTH))
            self.run_in(lambda connection, major=major: connection.execute(MOVED, {"major": major}).rowcount)
            self.assertEqual(self.recognize(), copies, major)
            self.assertEqual(self.recognize(), copies, major)

    def test_savepoint(self) -> None:
        """A schema is not declared in a savepoint, after which it would count as a copy."""

        def write(connection: Connection) -> None:
            connection.execute("SAVEPOINT unit")
            write_identity(connection, AUTH)

        self.assertRaises(DatabaseBusy, self.run_in, write)
        self.assertEqual(self.recognize(), set())

    def test_without_permission(self) -> None:
        """A user who may not read the server's identifier recognizes the schemas by all the rest."""
        self.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        self.assertEqual([self.recognize() for _ in range(2)], [set()] * 2)
        self.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
        self.assertEqual(self.recognize(), set())
        before = [f"DROP SCHEMA {database} CASCADE" for database in (AUTH, STATE)]
        dump.load(address_of(self.place), self.dumped(), self.major, before)
        self.assertEqual(self.recognize(), {AUTH, STATE})


MOVED = """
    UPDATE auth.database_identity
    SET system_identifier = system_identifier + 1, server_major = :major,
        xid = CAST(CAST(pg_current_xact_id() AS text) AS bigint)
"""


class Interrupted:
    """A connection after whose read of the counter another process works."""

    def __init__(self, connection: Connection, work: Callable[[], None]) -> None:
        self._connection = connection
        self._work = work

    def execute(self, sql: str, values: Any = (), /) -> Any:
        found = self._connection.execute(sql, values)
        if "FROM auth.heartbeat" in sql:
            self._work()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class HeartbeatTests(StoredCase):
    def refused(self, noted: Heartbeat | None) -> bool:
        """Return whether a start refuses the database because of this note."""
        if noted is not None:
            write_note(self.folder, self.run_in(read_place), noted)
        try:
            self.run_in(lambda connection: refuse_older(connection, self.folder))
        except DatabaseRestored as e:
            self.assertIn("is older than when gamed last served it. Stop all servers", str(e))
            return True
        return False

    def test_counts(self) -> None:
        """Each beat is one more, at the server's time; an older note is no reason to refuse the database."""
        first, second = self.run_in(beat), self.run_in(beat)
        self.assertEqual((first.generation, first.beats, second.beats, first.timeline), (1, 1, 2, "00000001"))
        self.assertLess(abs(first.beat_ms - wall_ms()), 30_000)
        self.assertEqual([self.refused(noted) for noted in (None, first, second)], [False] * 3)

    def count(self, connection: Connection, place: str) -> None:
        write_note(self.folder, place, beat(connection))

    def test_counted_meanwhile(self) -> None:
        """A process that counts and notes while another one reads does not make the database look older."""
        place = self.run_in(read_place)

        def refuse(connection: Connection) -> None:
            refuse_older(Interrupted(connection, partial(self.count, connection, place)), self.folder)

        for _ in range(2):  # before the first count, and later
            self.run_in(refuse)

    @covers("threats/70")
    def test_older_database(self) -> None:
        """A database with a lower counter than the note is refused, and one that has no counter."""
        self.assertTrue(self.refused(NOTED))
        found = self.run_in(beat)
        self.assertTrue(self.refused(replace(found, beats=2)))

    def test_next_generation(self) -> None:
        """After the operator has confirmed the restore, all notes of before are out of date."""
        found = self.run_in(beat)
        self.run_in(lambda connection: begin_generation(connection, 5))
        self.assertFalse(self.refused(replace(found, beats=99)))
        following = self.run_in(beat)
        self.assertEqual((following.generation, following.beats), (5, 1))
        self.run_in(lambda connection: begin_generation(connection, 5))
        self.assertEqual(self.run_in(beat).generation, 6)

    def test_other_notes(self) -> None:
        """A note of another database and a damaged note count as none."""
        self.run_in(beat)
        write_note(self.folder, "another", replace(NOTED, beats=99))
        self.assertFalse(self.refused(None))
        place = self.run_in(read_place)
        for content in (b"", b"{", b"[]", b"7", json.dumps({"place": place}).encode(), b"\xff"):
            (self.folder / DATABASE_NOTE).write_bytes(content)
            self.assertFalse(self.refused(None), content)

    def test_note(self) -> None:
        """A note is read as it was written, and only its user can read it."""
        write_note(self.folder, "store", NOTED)
        self.assertEqual(read_note(self.folder, "store"), NOTED)
        self.assertEqual((self.folder / DATABASE_NOTE).stat().st_mode & 0o777, 0o600)
        self.assertEqual([path.name for path in self.folder.iterdir()], [DATABASE_NOTE])

    def test_timelines(self) -> None:
        """On a later timeline a database may be five minutes older, on the same one not a single beat; on an earlier
        one it is older, however far its counter is."""
        other = replace(NOTED, timeline="00000002", beats=1)
        cases = (
            (replace(NOTED, beats=9, beat_ms=NOTED.beat_ms + 99), True),
            (replace(NOTED, beats=10, beat_ms=0), False),
            (replace(other, beat_ms=NOTED.beat_ms - BEHIND_MS), False),
            (replace(other, beat_ms=NOTED.beat_ms - BEHIND_MS - 1), True),
            (replace(other, generation=2, beat_ms=0), False),
            (replace(NOTED, generation=0, beats=99), True),
        )
        for found, expected in cases:
            self.assertEqual(found.is_before(NOTED), expected, found)
        for timeline in ("00000002", "0000000A", "00000010"):
            noted = replace(NOTED, timeline=timeline)
            self.assertTrue(replace(NOTED, beats=99, beat_ms=NOTED.beat_ms + 99).is_before(noted))
            self.assertFalse(replace(NOTED, generation=2).is_before(noted))


class HeartbeatTaskTests(StoredCase):
    def setUp(self) -> None:
        super().setUp()
        self.reactor = StoppableReactor()
        thread = DatabaseThread(self.reactor, self.engine())
        thread.pool.threadpool = InlineThreads()
        self.addCleanup(thread.close)
        guard = RestoreGuard(Connector(address_of(self.place), wall_ms), self.folder, self.reactor.stop)
        self.ahead_ms = 0
        queue = WriteQueue(thread, lambda *_: None)
        self.task = HeartbeatTask(self.reactor, queue, guard, lambda: wall_ms() + self.ahead_ms)
        self.addCleanup(self.task.stop)

    def noted(self) -> int | None:
        found = read_note(self.folder, self.run_in(read_place))
        return None if found is None else found.beats

    def test_notes(self) -> None:
        """A service counts at its start and every 15 seconds, and notes what was committed."""
        self.task.start()
        self.reactor.advance(0)
        self.assertEqual(self.noted(), 1)
        for expected in (2, 3):
            self.reactor.pump([BEAT_SECONDS, 0])
            self.assertEqual(self.noted(), expected)
        self.task.stop()
        self.reactor.pump([BEAT_SECONDS, 0])
        self.assertEqual(self.noted(), 3)

    def test_clock_that_moves(self) -> None:
        """A beat notices that the clock differs by more than 30 seconds, in either direction, and that it is right."""
        self.task.start()
        self.reactor.advance(0)
        found = []
        for ahead_ms in (-29_000, -40_000, -86_400_000, 0, 29_000, 40_000, 0):
            self.ahead_ms = ahead_ms
            self.reactor.pump([BEAT_SECONDS, 0])
            found.append(self.task.ahead_ms() != 0)
        self.assertEqual(found, [False, True, True, False, False, True, False])

    def test_clock_is_set(self) -> None:
        """A clock that is set between two beats is wrong at once, and how far it is ahead is known."""
        self.task.start()
        self.reactor.advance(0)
        for set_ms in (40_000, -86_400_000, 3_600_000):
            self.ahead_ms = set_ms
            for _ in range(2):
                self.assertLess(abs(self.task.ahead_ms() - set_ms), 5_000)
                self.reactor.pump([BEAT_SECONDS, 0])
        self.ahead_ms = 0
        self.assertEqual(self.task.ahead_ms(), 0)

    def test_logged_each_hour(self) -> None:
        """A clock that is wrong is logged when a beat finds it, and once in each hour after that."""
        found: list[int] = []

        def observe(event: dict[str, Any]) -> None:
            if "database_clocks_differ" in formatEvent(event):
                found.append(number)

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.task.start()
        self.reactor.advance(0)
        self.ahead_ms = 40_000
        hour = int(3600 / BEAT_SECONDS)
        for number in range(hour + 2):  # noqa: B007  observe() reads it
            self.reactor.pump([BEAT_SECONDS, 0])
        self.assertEqual(found, [0, hour])
        self.ahead_ms = 0
        self.reactor.pump([BEAT_SECONDS, 0])
        self.ahead_ms, found[:] = 40_000, []
        self.reactor.pump([BEAT_SECONDS, 0])
        self.assertEqual(len(found), 1)

    def test_restored_meanwhile(self) -> None:
        """A service whose database goes back while it runs stops, and keeps its note for the next start."""
        self.task.start()
        self.reactor.pump([0, BEAT_SECONDS, 0])
        self.execute("UPDATE auth.heartbeat SET beats = 0")
        self.reactor.pump([BEAT_SECONDS, 0])
        self.assertTrue(self.reactor.stopped)
        self.assertEqual(self.noted(), 2)
        self.assertRaises(DatabaseRestored, self.run_in, lambda connection: refuse_older(connection, self.folder))

    def test_other_process(self) -> None:
        """A process that starts without the check of a start, such as a worker, stops at its first beat."""
        write_note(self.folder, str(self.run_in(read_place)), NOTED)
        self.task.start()
        self.reactor.advance(0)
        self.assertTrue(self.reactor.stopped)

    def test_replaced_meanwhile(self) -> None:
        """A service whose schema is replaced by a copy while it runs stops."""
        self.task.start()
        self.reactor.advance(0)
        self.execute("UPDATE auth.database_identity SET xid = 1")
        self.reactor.pump([BEAT_SECONDS, 0])
        self.assertTrue(self.reactor.stopped)

    def test_full_disk(self) -> None:
        """A note that cannot be written does not end the work."""
        self.task.start()
        (self.folder / DATABASE_NOTE).unlink(missing_ok=True)
        (self.folder / DATABASE_NOTE).mkdir()
        self.reactor.pump([0, BEAT_SECONDS, 0])
        (self.folder / DATABASE_NOTE).rmdir()
        self.reactor.pump([BEAT_SECONDS, 0])
        self.assertEqual(self.noted(), 3)
        self.assertFalse(self.reactor.stopped)


class CommandTests(StoredCase):
    def test_patience(self) -> None:
        """A command waits for its own time: restoring changes a row of each player, however many there are."""
        self.patch(store_module, "ANSWER_SECONDS", 0.3)
        store = store_module.PostgresqlStore(address_of(self.place), self.folder, wall_ms)
        self.addCleanup(store.close)
        slow = "SELECT 1 FROM pg_sleep(1)"
        for run in (store.run_read, store.run_transaction):
            self.assertRaises(DatabaseUnreachable, run, STATE, lambda connection: connection.rows(slow))


class StoppableReactor(InlineReactor):
    """A clock that notes whether the process was stopped."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


class ServerTests(StoredCase):
    def make_cluster(self) -> Cluster:
        server = Cluster()
        self.addCleanup(server.close)
        return server

    def test_fail_over(self) -> None:
        """A standby that takes over has the original, and a counter that goes on."""
        self.recognize()
        standby = self.cluster.standby(synchronous=True)
        self.addCleanup(standby.close)
        noted = self.run_in(beat)
        self.cluster.stop("immediate")
        standby.promote()
        there = standby.address(self.place.database)
        self.assertEqual(self.recognize(there), set())
        found = self.run_in(beat, there)
        self.assertEqual((found.beats, found.timeline, found.is_before(noted)), (2, "00000002", False))

    def test_disk_went_back(self) -> None:
        """A server whose whole disk went back has the original, and a counter that is too low."""
        self.run_in(beat)
        self.cluster.stop()
        data, kept = self.cluster.data, self.cluster.folder / "kept"
        shutil.copytree(data, kept, copy_function=shutil.copy2)
        self.cluster.start()
        noted = self.run_in(beat)
        self.cluster.stop()
        shutil.rmtree(data)
        kept.rename(data)
        _own_as(data, self.cluster)
        self.cluster.start()
        self.assertEqual(self.recognize(), set())
        write_note(self.folder, self.run_in(read_place), noted)
        self.assertRaises(DatabaseRestored, self.run_in, lambda connection: refuse_older(connection, self.folder))


def _own_as(folder: Path, server: Cluster) -> None:
    """Make the server's user the owner of all files."""
    if server.user is not None:
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, server.user)
