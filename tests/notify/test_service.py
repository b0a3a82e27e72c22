"""The notifier over real databases: what it reads, what it sends, and what a restart or another process repeats."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from gamed.audit import SecurityEvent
from gamed.config.model import NotifyFormat
from gamed.database.connection import Connection
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseBusy, DatabaseCorrupt
from gamed.database.event_counts import EventCount, EventKey
from gamed.database.last_backup import LastBackup, write_last_backup
from gamed.database.security_events import latest_of, list_events, write_events
from gamed.notify.format_rules import WebhookMessage
from gamed.notify.model import FAILING_MS, MOST_NOTICES, SETTLED_MS, Facts, Undelivered
from gamed.notify.notice_rules import NoticeSettings
from gamed.notify.service import OwnerNotifier, Surroundings, retry_seconds
from gamed.notify.store import NoticeStore
from gamed.notify.watch import DiskWatch
from gamed.ops.logging import TwistedAuditLog
from gamed.ops.stored_events import StoringAuditLog
from gamed.players import tables as players
from tests.account.killed_command import KEYS
from tests.support.databases import InlineThreads, data_folder, file_databases, memory_databases
from tests.support.stores import sqlite_files

T = TypeVar("T")
NOW_MS = 1_800_000_000_000
MINUTE_MS, DAY_MS = 60_000, 86_400_000
BOUND = 1000


class Webhook:
    """A webhook that accepts messages, or answers with the failures that a test sets."""

    def __init__(self) -> None:
        self.form, self.names = NotifyFormat.NTFY, False
        self.sent: list[str] = []
        self.failures: list[Undelivered] = []
        self.tries = 0

    async def send(self, message: WebhookMessage) -> Undelivered | None:
        self.tries += 1
        if self.failures:
            return self.failures.pop(0)
        self.sent.append(message.body.decode())
        return None


class World(Struct):
    """The parts that several processes of one server share: the clock, the disk and the webhook."""

    webhook: Webhook
    now_ms: int = NOW_MS
    free_bytes: int = 10 * BOUND


class Process:
    """One process of the server, with the parts that build_notify() makes."""

    def __init__(self, databases: Databases, world: World, machine: str = "", **settings: Any) -> None:
        reactor = MemoryReactorClock()
        reactor.getThreadPool = InlineThreads  # type: ignore[method-assign]
        reactor.callFromThread = lambda work, *args, **kw: work(*args, **kw)  # type: ignore[method-assign]
        self.databases, self.world, self.reactor = databases, world, reactor
        log = TwistedAuditLog()
        self.audit = StoringAuditLog(log, databases.auth, lambda: world.now_ms)
        names = bool(settings.pop("names", False))
        store = NoticeStore(reads=databases.reads, writes=databases.auth, keys=KEYS, names=names)
        self.disk = DiskWatch(
            lambda: world.free_bytes,
            BOUND,
            machine,
            lambda: store.was_full(machine, world.now_ms),
            self.audit,
            reactor,
        )
        values = {"backup_seconds": None, "min_free_bytes": BOUND, "providers": {}, "titles": databases.titles}
        around = Surroundings(
            notifies=databases.notifies,
            damaged=databases.damaged,
            audit=self.audit,
            log=log,
            now_ms=lambda: world.now_ms,
            seconds=lambda: world.now_ms / 1000,
        )
        self.notifier = OwnerNotifier(
            around,
            store,
            self.disk,
            NoticeSettings(**values | settings, machine=machine),
            world.webhook,  # type: ignore[arg-type]
        )

    def minute(self) -> None:
        """Do what the process does each minute."""
        self.world.now_ms += MINUTE_MS
        for work in (self.disk.look, self.audit.flush, self.notifier.run, self.audit.flush):
            finish(Deferred.fromCoroutine(work()))


def finish(work: "Deferred[T]") -> T:
    """Return the result of work that needs no thread."""
    found: list[T] = []
    failed: list[Any] = []
    work.addCallbacks(found.append, failed.append)
    if failed:
        failed[0].raiseException()
    [result] = found
    return result


class NotifierCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(Webhook())
        self.databases = memory_databases(self)
        self.process = Process(self.databases, self.world)
        self.lines: list[str] = []
        globalLogPublisher.addObserver(observer := lambda event: self.lines.append(formatEvent(event)))
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    @property
    def sent(self) -> list[str]:
        """Return what was sent since the last look."""
        found, self.world.webhook.sent = self.world.webhook.sent, []
        return found

    def write(self, transaction: Callable[[Connection], T]) -> T:
        return finish(self.databases.auth.submit(transaction))

    def add_waiting(self, player_id: str, name: str | None = None) -> None:
        def transaction(connection: Connection) -> None:
            code = f"48{int(player_id[4:]):04}"
            players.create_player(connection, player_id, self.world.now_ms, "pending", code)
            if name is not None:
                players.set_display_name(connection, KEYS.sealer, player_id, name)

        self.write(transaction)

    def end_login(self, number: int, outcome: str | None, provider: str = "discord") -> None:
        """Insert a login that ended now."""
        stage = "collected" if outcome is None else "failed"
        query = """
            INSERT INTO login (login_id, secret_index, token_index, stage, outcome, intent, provider, client,
                return_proof, address_index, instance_id, created_ms, expires_ms, stage_ms, expires_or_purge_at_ms)
            VALUES (:id, :index, :index, :stage, :outcome, 'login', :provider, '{}', 'none', :index, '',
                :now, :now, :now, :now)
        """
        values = {"id": f"lgn_{number}", "index": bytes([number] * 32), "stage": stage, "outcome": outcome}
        self.write(lambda c: c.execute(query, {**values, "provider": provider, "now": self.world.now_ms}) and None)


class WaitingTests(NotifierCase):
    def test_digest(self) -> None:
        """Waiting players are reported once they are certain, then at most every ten minutes, without name and code."""
        self.add_waiting("ply_1", "Anna")
        self.process.minute()
        [text] = self.sent
        self.assertTrue(text.startswith("1 player waits"), text)
        sent = []
        for minute in range(25):
            if minute < 15:
                self.add_waiting(f"ply_{minute + 2}")
            self.process.minute()
            sent += [(minute, text.split()[0]) for text in self.sent]
        self.assertEqual(sent, [(9, "11"), (19, "16")])
        self.assertNotIn("480001", text)
        self.assertNotIn("Anna", text)

    def test_names(self) -> None:
        """Names are sent if the owner asked for them, each in one digest only."""
        self.process = Process(self.databases, self.world, names=True)
        self.add_waiting("ply_1", "Anna")
        self.add_waiting("ply_2")
        self.process.minute()
        self.assertTrue(self.sent[0].endswith(" New: Anna"))
        self.add_waiting("ply_3", "Bo")
        self.world.now_ms += 10 * MINUTE_MS
        self.process.minute()
        [text] = self.sent
        self.assertTrue(text.startswith("3 players wait") and text.endswith(" New: Bo"), text)

    def test_approved_before(self) -> None:
        """A player who was approved before the digest is not reported."""
        self.add_waiting("ply_1")
        self.write(lambda c: players.set_state(c, "ply_1", "active"))
        self.process.minute()
        self.assertEqual(self.sent, [])


class DiskTests(NotifierCase):
    def test_start_below_the_bound(self) -> None:
        """A start below the bound is logged and reported at once; the disk that has room again, too; each once."""
        self.world.free_bytes = BOUND - 1
        for _ in range(3):
            self.process.minute()
        event = f"disk_nearly_full machine=- free_bytes={BOUND - 1} min_free_bytes={BOUND}"
        self.assertEqual([line for line in self.lines if line.startswith("disk_")], [event])
        self.assertEqual(len(self.sent), 1)
        self.world.free_bytes = 2 * BOUND
        for _ in range(3):
            self.process.minute()
        self.assertEqual([line.split()[0] for line in self.lines if line.startswith("disk_")][1:], ["disk_has_room"])
        self.assertEqual(self.sent, ["The disk of this server has room again, and saves are stored."])

    def test_around_the_bound(self) -> None:
        """A disk around the bound is reported once: it has room again a quarter above it."""
        for free in (BOUND, BOUND - 1, BOUND, BOUND - 1, BOUND + 1, BOUND - 1):
            self.world.free_bytes = free
            self.process.minute()
        self.assertEqual(len(self.sent), 1)

    def test_restart(self) -> None:
        """A restart logs a full disk again and sends nothing; room that came meanwhile is logged and sent."""
        self.world.free_bytes = 0
        self.process.minute()
        Process(self.databases, self.world).minute()
        self.assertEqual((len(self.sent), len([each for each in self.lines if "disk_nearly" in each])), (1, 2))
        self.world.free_bytes = 10 * BOUND
        Process(self.databases, self.world).minute()
        Process(self.databases, self.world).minute()
        self.assertEqual(self.sent, ["The disk of this server has room again, and saves are stored."])
        self.assertEqual(len([each for each in self.lines if "disk_has_room" in each]), 1)

    def test_machines(self) -> None:
        """The process that sends tells the disks of all machines; the others only report them."""
        other = Process(self.databases, World(Webhook(), free_bytes=0), machine="b2")
        finish(Deferred.fromCoroutine(other.disk.look()))
        finish(Deferred.fromCoroutine(other.audit.flush()))
        self.process.minute()
        [text] = self.sent
        self.assertTrue(text.startswith("The disk of the machine b2"), text)


class BackupTests(NotifierCase):
    def test_both_ways(self) -> None:
        """A backup that is too old is logged and reported, and so is the next one."""
        self.process = Process(self.databases, self.world, backup_seconds=2 * 86400)
        self.write(lambda c: write_last_backup(c, LastBackup(self.world.now_ms, 1)))
        self.process.minute()
        self.world.now_ms += 3 * DAY_MS
        self.process.minute()
        self.process.minute()
        self.write(lambda c: write_last_backup(c, LastBackup(self.world.now_ms, 1)))
        self.process.minute()
        self.assertEqual(self.sent, ["The last backup was made 3 days ago.", "There is a new backup."])
        events = [line.split()[0] for line in self.lines if line.startswith("backup_")]
        self.assertEqual(events, ["backup_overdue", "backup_made"])

    def test_clock_set_back(self) -> None:
        """A notice of a clock that was a year ahead is not repeated, and keeps none back, also after a restart."""
        self.process = Process(self.databases, self.world, backup_seconds=2 * 86400)
        self.write(lambda c: write_last_backup(c, LastBackup(self.world.now_ms, 1)))
        self.world.now_ms += 365 * DAY_MS
        self.process.minute()
        self.assertEqual(self.sent, ["The last backup was made 1 year ago."])
        self.world.now_ms -= 365 * DAY_MS
        for _ in range(3):
            self.process.minute()
        self.assertEqual(self.sent, [])
        restarted = Process(self.databases, self.world, backup_seconds=2 * 86400)
        restarted.minute()
        self.world.now_ms += 3 * DAY_MS
        restarted.minute()
        self.write(lambda c: write_last_backup(c, LastBackup(self.world.now_ms, 1)))
        for _ in range(3):
            restarted.minute()
        self.assertEqual(self.sent, ["The last backup was made 3 days ago.", "There is a new backup."])

    def test_machine_of_a_wrong_clock(self) -> None:
        """Another machine's disk has room again although it was reported as full by a clock that was ahead."""
        other = Process(self.databases, World(Webhook(), now_ms=NOW_MS + 365 * DAY_MS, free_bytes=0), machine="b2")
        for now_ms, free in ((NOW_MS + 365 * DAY_MS, 0), (NOW_MS, 0), (NOW_MS, 10 * BOUND)):
            other.world.now_ms, other.world.free_bytes = now_ms, free
            for work in (other.disk.look, other.audit.flush):
                finish(Deferred.fromCoroutine(work()))
        for _ in range(3):
            self.process.minute()
        self.assertEqual(self.sent, [])


class ProviderTests(NotifierCase):
    def setUp(self) -> None:
        super().setUp()
        self.process = Process(self.databases, self.world, providers={"discord": "Discord"})

    def test_both_ways(self) -> None:
        """A provider that fails for an hour is logged and reported, and so is the sign-in that works again."""
        for number in range(1, 66):
            self.end_login(number, "provider_unavailable")
            self.process.minute()
        self.end_login(100, None)
        self.process.minute()
        first, second = self.sent
        self.assertTrue(first.startswith("Sign-ins with Discord have failed for more than an hour."), first)
        self.assertEqual(second, "Sign-ins with Discord work again.")
        events = [line for line in self.lines if line.startswith("provider_")]
        self.assertEqual(events, ["provider_failing provider=discord", "provider_works provider=discord"])

    def test_other_process(self) -> None:
        """A process that begins to send within the hour knows of the failures before."""
        self.end_login(1, "provider_unavailable")
        self.world.now_ms += FAILING_MS - MINUTE_MS
        self.process = Process(self.databases, self.world, providers={"discord": "Discord"})
        self.process.minute()
        self.end_login(2, "provider_unavailable")
        self.process.minute()
        self.assertEqual(len(self.sent), 1)


class StoreTests(NotifierCase):
    def test_damage(self) -> None:
        """Damage that any process finds is reported once by the one that sends, also after a restart."""
        finder = Process(memory_databases(self), World(Webhook()))
        finder.databases._state.unavailable_as = DatabaseCorrupt
        finder.audit = StoringAuditLog(TwistedAuditLog(), self.databases.auth, lambda: self.world.now_ms)
        finder.notifier._around = self.surroundings_of(finder)
        finder.minute()
        self.process.minute()
        self.process.minute()
        Process(self.databases, self.world).minute()
        [text] = self.sent
        self.assertIn("is damaged or cannot be opened", text)
        self.assertEqual([line for line in self.lines if line.startswith("damage_")], ["damage_found database=state"])

    def surroundings_of(self, process: Process) -> Surroundings:
        """Return the surroundings of a process that does not send, and whose events are in our database."""
        around = process.notifier._around
        return Surroundings(
            notifies=lambda: succeed(False),
            damaged=around.damaged,
            audit=process.audit,
            log=around.log,
            now_ms=around.now_ms,
            seconds=around.seconds,
        )

    def test_damaged_auth(self) -> None:
        """A database that cannot be written cannot keep what was sent: the process itself remembers that."""
        self.databases.auth._database.unavailable_as = DatabaseCorrupt
        for _ in range(3):
            try:
                self.process.minute()
            except DatabaseCorrupt:  # the events that wait for this database
                finish(Deferred.fromCoroutine(self.process.notifier.run()))
        self.assertEqual(len(self.sent), 1)

    def test_busy_auth(self) -> None:
        """A process that cannot read what was sent repeats nothing; it reads again a minute later."""
        self.world.free_bytes = 0
        self.process.minute()
        other = Process(self.databases, self.world)
        other.notifier._store = UnreadableStore()  # type: ignore[assignment]
        self.assertRaises(DatabaseBusy, other.minute)
        self.assertEqual(len(self.sent), 1)


class UnreadableStore:
    """A store whose reads fail."""

    async def read(self, now_ms: int) -> Facts:
        raise DatabaseBusy


class SendingTests(NotifierCase):
    def fill(self) -> None:
        self.world.free_bytes = 0

    def test_record(self) -> None:
        """Log each notice that was sent, and keep it in the table."""
        self.fill()
        self.process.minute()
        self.assertIn("owner_notified about=disk state=bad", self.lines)
        kept = [each.key.event for each in self.write(lambda c: list_events(c, 0))]
        self.assertEqual(sorted(kept), ["disk_nearly_full", "owner_notified"])

    def test_retry(self) -> None:
        """A webhook that is down is tried at a growing distance, at last once an hour, and gets the message then."""
        self.fill()
        self.world.webhook.failures = [Undelivered("notify: the connection failed")] * 9
        tries = []
        for minute in range(300):
            before = self.world.webhook.tries
            self.process.minute()
            tries += [minute] * (self.world.webhook.tries - before)
        self.assertEqual(tries, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243])
        self.assertEqual(len(self.sent), 1)
        failed = [line for line in self.lines if line.startswith("owner_not_notified")]
        self.assertEqual(failed[0], 'owner_not_notified detail="notify: the connection failed" retry_seconds=60')
        self.assertEqual(len(failed), 9)

    def test_retry_after(self) -> None:
        """A webhook that asks to wait is left alone for so long, at most for a day."""
        self.assertEqual([retry_seconds(failures, None) for failures in range(8)][-3:], [1920, 3600, 3600])
        self.assertEqual((retry_seconds(0, 7200), retry_seconds(9, 5), retry_seconds(0, 10**9)), (7200, 3600, 86400))
        self.fill()
        self.world.webhook.failures = [Undelivered("notify: answered 429", 600)]
        for _ in range(10):
            self.process.minute()
        self.assertEqual((self.world.webhook.tries, self.sent), (1, []))
        self.process.minute()
        self.assertEqual((self.world.webhook.tries, len(self.sent)), (2, 1))

    def test_over_meanwhile(self) -> None:
        """Send nothing about what was over before the webhook worked again."""
        self.fill()
        self.world.webhook.failures = [Undelivered("notify: answered 500")]
        self.process.minute()
        self.world.free_bytes = 10 * BOUND
        for _ in range(3):
            self.process.minute()
        self.assertEqual((self.world.webhook.tries, self.sent), (1, []))

    def test_bounded(self) -> None:
        """A message has a bounded number of sentences, and the next one has the others; none is kept in memory."""
        names = [f"p{number}" for number in range(MOST_NOTICES + 2)]
        self.process = Process(self.databases, self.world, providers={name: name for name in names})
        for round_ in range(2):
            for number, name in enumerate(names):
                self.end_login(10 * round_ + number + 1, "provider_unavailable", name)
            self.process.minute()
            self.world.now_ms += FAILING_MS
        counts = [len(text.splitlines()) for text in self.sent]
        self.process.minute()
        counts += [len(text.splitlines()) for text in self.sent]
        self.assertEqual(counts, [MOST_NOTICES, 2])

    def test_without_webhook(self) -> None:
        """Without a webhook the log has the events, and nothing is kept as sent."""
        self.process.notifier._webhook = None
        self.fill()
        self.add_waiting("ply_1")
        self.process.minute()
        self.process.minute()
        self.assertEqual([line.split()[0] for line in self.lines], ["disk_nearly_full", "players_waiting"])
        sent = self.write(lambda c: latest_of(c, [SecurityEvent.OWNER_NOTIFIED], 0))
        self.assertEqual(sent, [])


class SeveralTests(SynchronousTestCase):
    """Several processes over the same files, or the same schemas of PostgreSQL."""

    def setUp(self) -> None:
        self.world, self.folder = World(Webhook(), free_bytes=0), data_folder(self)

    def process(self, number: int, folder: Path | None = None) -> Process:
        found = file_databases(self, data=folder or self.folder, instance_id=f"{number:08x}")
        return Process(found, self.world)

    def test_one_sends(self) -> None:
        """One of three processes that see the same sends."""
        processes = [self.process(number) for number in range(3)]
        for _ in range(3):
            for each in processes:
                each.minute()
        self.assertEqual(len(self.world.webhook.sent), 1)

    @sqlite_files("a lock of a file; PostgreSQL's lock ends with the session")
    def test_handed_on(self) -> None:
        """Another process sends after the first one has ended, and repeats nothing."""
        first, second = self.process(1), self.process(2)
        first.minute()
        second.minute()
        finish(first.databases.close())
        second.minute()
        self.assertEqual(len(self.world.webhook.sent), 1)
        self.world.free_bytes = 10 * BOUND
        second.minute()
        self.assertEqual(len(self.world.webhook.sent), 2)


class LatestTests(NotifierCase):
    def test_since(self) -> None:
        """The events of the server are found by their kind and time."""
        key = EventKey.of(SecurityEvent.OWNER_NOTIFIED, {"about": "disk", "state": "bad"}, NOW_MS)
        self.write(lambda c: write_events(c, [EventCount(key, NOW_MS, NOW_MS, 1)], NOW_MS))
        [found] = self.write(lambda c: latest_of(c, [SecurityEvent.OWNER_NOTIFIED], NOW_MS - DAY_MS))
        self.assertEqual((found.values, found.last_ms), ({"about": "disk", "state": "bad"}, NOW_MS))
        self.assertEqual(self.write(lambda c: latest_of(c, [SecurityEvent.OWNER_NOTIFIED], NOW_MS + DAY_MS)), [])

    def test_settled(self) -> None:
        """The newest waiting player is one who came before the last half minute."""
        self.add_waiting("ply_1")
        self.world.now_ms += SETTLED_MS
        self.add_waiting("ply_2")
        until = self.world.now_ms - SETTLED_MS
        self.assertEqual(self.write(lambda c: players.newest_waiting(c, until)), (2, NOW_MS))
