"""The queues, the blob store and the health check work on PostgreSQL with their threads."""

from collections.abc import Callable
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from secrets import token_bytes
from types import SimpleNamespace
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.trial.unittest import TestCase

import gamed
from gamed.crypto import Index, Keys, Purpose, Secret
from gamed.database import rate_limits
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseUnavailable, DatabaseUnreachable
from gamed.database.postgresql import heartbeat
from gamed.database.postgresql.backend import PostgresqlBackend
from gamed.database.postgresql.connecting import Connector
from gamed.http.access_log import Tally
from gamed.owner.build import build_figures
from gamed.passkeys import tables
from gamed.passkeys.ceremony import CEREMONY_MS, Ceremony
from gamed.rate_limit import RateLimit
from gamed.timestamps import CLOCKS_MS, Now
from tests.database.postgresql.engines import address_of, wall_ms
from tests.notify.test_service import Process, Webhook, World
from tests.support.postgresql import Cluster, cluster

SCHEMAS = Path(gamed.__file__).parent / "database" / "postgresql" / "schema"


def make_schemas(target: Cluster, database: str) -> None:
    """Make both schemas, as the first start does."""
    for name in (AUTH, STATE):
        target.execute(f"CREATE SCHEMA {name} AUTHORIZATION gamed", database)
        scripts = "".join(script.read_text("utf-8") for script in sorted((SCHEMAS / name).glob("*.sql")))
        target.execute(f"SET ROLE gamed; SET search_path = {name}; {scripts}", database)


def players(connection: Connection) -> int:
    """Return the number of players, as a transaction."""
    return int(connection.rows("SELECT count(*) FROM player")[0][0])


class BackendTest(TestCase):
    timeout = 60

    def setUp(self) -> None:
        self.cluster = cluster()
        self.place = self.cluster.database()
        make_schemas(self.cluster, self.place.database)
        self.databases = self.open("a1")

    def open(self, instance_id: str, now_ms: Now = wall_ms) -> Databases:
        """Return the databases as a process of this name, with this clock, uses them."""
        folder = Path(self.mktemp())
        folder.mkdir()
        backend = PostgresqlBackend(
            reactor, Connector(address_of(self.place), now_ms), instance_id, folder, lambda: None
        )
        databases = Databases(reactor, backend, folder, now_ms)
        self.addCleanup(databases.close)
        return databases

    def insert(self, player_id: str) -> Deferred[Any]:
        def transaction(connection: Connection) -> None:
            sql = "INSERT INTO player (player_id, state, created_ms) VALUES (?, 'active', 0)"
            connection.execute(sql, (player_id,))

        return self.databases.auth.submit(transaction, keys=(player_id,))

    async def test_queues(self) -> None:
        """Write in group commits, and read what was written, many transactions at once."""
        await gatherResults([self.insert(f"p{n}") for n in range(200)])
        self.assertEqual(await self.databases.reads.submit(players), 200)
        self.assertLess(sum(self.databases.auth.batches), 100)
        await self.databases.check()

    async def test_blobs(self) -> None:
        """Store a large blob in parts, read it, and delete it."""
        content = bytes(range(256)) * 4096 * 2 + b"end"
        blob_id = await self.databases.blobs.append("p1", BytesIO(content))

        def finish(connection: Connection) -> None:
            values = {"sha256": sha256(content).digest(), "blob_id": blob_id}
            connection.execute("UPDATE blob SET sha256 = :sha256 WHERE blob_id = :blob_id", values)

        await self.databases.state.submit(finish)
        with await self.databases.blobs.fetch(blob_id) as copy:
            self.assertEqual(copy.read(), content)
        await self.databases.blobs.discard(blob_id, "p1")
        left = await self.databases.reads.submit(lambda connection: connection.rows("SELECT count(*) FROM blob_part"))
        self.assertEqual(left, [(0,)])

    async def test_without_state(self) -> None:
        """Serve `auth` while the schema `state` does not exist."""
        self.cluster.execute("ALTER SCHEMA state RENAME TO away", self.place.database)
        await self.insert("p1")
        self.assertEqual(await self.databases.reads.submit(players), 1)
        await self.assert_fails(self.databases.check, DatabaseUnavailable)
        self.assertEqual(len(await self.databases.unresponsive()), 1)

    async def test_server_away(self) -> None:
        """Fail while the server is away, and work as soon as it is back."""
        place, own = self.place, Cluster()
        self.addCleanup(own.close)
        self.cluster, self.place = own, own.database()
        make_schemas(own, self.place.database)
        databases, self.databases = self.databases, self.open("b1")
        await self.insert("p1")
        own.stop("immediate")
        await self.assert_fails(lambda: self.insert("p2"), DatabaseUnreachable)
        await self.assert_fails(lambda: self.databases.reads.submit(players), DatabaseUnreachable)
        probe = self.databases.watchdog_probe()
        await probe.ping()  # it responds: systemd shall not restart it for a server that is away
        probe.close()
        own.start()
        while True:
            try:
                await self.insert("p2")
                break
            except DatabaseUnreachable:
                pass
        self.assertEqual(await self.databases.reads.submit(players), 2)
        self.databases, self.place = databases, place

    async def test_processes(self) -> None:
        """Know which processes live, and let one of them clean up."""
        other = self.open("a2")
        await self.databases.register_process()
        await other.register_process()
        self.assertEqual((await self.databases.tends(), await other.tends()), (True, False))
        self.assertEqual(await self.databases.ended_processes(["a1", "a2", "a3"]), {"a3"})
        await other.close()
        while await self.databases.ended_processes(["a1", "a2", "a3"]) != {"a2", "a3"}:
            pass  # the server ends the sessions a moment later

    async def test_wrong_clock(self) -> None:
        """A process whose clock was set while it runs deletes nothing that another clock has written; another one does.

        It does again once its clock is right.
        """
        self.patch(heartbeat, "BEAT_SECONDS", 0.01)
        ahead = [0]
        first, other = self.open("b1", lambda: wall_ms() + ahead[0]), self.open("b2")
        self.assertEqual([await each.tends() for each in (first, other)], [True, False])
        ahead[0] = 60_000
        while await first.tends():
            pass
        self.assertEqual([await each.tends() for each in (other, first)], [True, False])
        await other.close()
        ahead[0] = 0
        while not await first.tends():
            pass

    async def test_only_wrong_clocks(self) -> None:
        """While all clocks are wrong, one process notifies the owner, and none deletes; with a right clock both."""
        self.patch(heartbeat, "BEAT_SECONDS", 0.01)
        ahead = [0]
        first, second = opened = [self.open(name, lambda: wall_ms() + ahead[0]) for name in ("b1", "b2")]
        self.assertEqual([await each.notifies() for each in opened], [True, False])
        ahead[0] = 60_000
        for _ in range(2):
            self.assertEqual([await each.notifies() for each in opened], [True, False])
            self.assertEqual([await each.tends() for each in opened], [False, False])
        right = self.open("b3")
        self.assertEqual((await right.notifies(), await right.tends()), (True, True))
        self.assertEqual([await each.notifies() for each in opened], [False, False])
        await right.close()
        while not await first.notifies():
            pass  # the server ends the session a moment later
        self.assertFalse(await second.notifies())
        await first.close()
        while not await second.notifies():
            pass
        ahead[0] = 0
        while not await second.tends():
            pass

    async def test_owner_with_wrong_clock(self) -> None:
        """The only process still writes to the owner that the disk is full, and the figures of the day."""
        ahead = [0]
        only = self.open("b1", lambda: wall_ms() + ahead[0])
        await gatherResults([only.register_process(), only.reads.submit(players)])  # no session opens later
        ahead[0] = 60_000
        self.assertFalse(await only.tends())
        world = World(Webhook(), now_ms=wall_ms(), free_bytes=0)
        process = Process(only, world, "one")
        await process.disk.look()
        await process.notifier.run()
        self.assertEqual(len(world.webhook.sent), 1)
        await build_figures(SimpleNamespace(databases=only, now_ms=wall_ms), Tally()).write()
        self.assertEqual(await only.reads.submit(lambda c: c.rows("SELECT count(*) FROM daily_figure")), [(1,)])

    async def test_requests_with_wrong_clock(self) -> None:
        """Requests of a process whose clock was set delete no limit and no used challenge that others still need.

        That is so at once, not only after the next beat, and they still delete what is over by the right clock.
        """
        now_ms, ahead = wall_ms(), [0]
        process = self.open("b1", lambda: wall_ms() + ahead[0])
        indexer = Keys.of(Secret(bytes(32)), token_bytes).indexer
        limits = {Index(bytes([n]) * 32): RateLimit(60_000, 1) for n in range(3)}
        over, limiting, own = limits
        used = Ceremony.begin(token_bytes, now_ms)
        old = Ceremony.begin(token_bytes, now_ms - 2 * CEREMONY_MS)

        def others(connection: Connection) -> None:
            # The one that is over comes last, as each request deletes what is over by its clock.
            for bucket, at_ms in ((limiting, now_ms), (over, now_ms - 10 * CLOCKS_MS)):
                rate_limits.acquire(connection, {bucket: limits[bucket]}, at_ms)
            for each in (used, old):
                tables.use_challenge(connection, indexer, each, each.made_ms)

        def request(connection: Connection) -> tuple[bool, list[Any], list[Any]]:
            set_ms = wall_ms() + ahead[0]
            rate_limits.acquire(connection, {own: limits[own]}, set_ms)
            first = tables.use_challenge(connection, indexer, Ceremony.begin(token_bytes, set_ms), set_ms)
            challenges = connection.rows("SELECT challenge_index FROM passkey_challenge")
            return first, challenges, connection.rows("SELECT bucket_index FROM limit_bucket")

        await process.auth.submit(others)
        for ahead_ms in (20 * 60_000, -3 * 3_600_000):
            ahead[0] = ahead_ms
            first, challenges, buckets = await process.auth.submit(request)
            self.assertTrue(first)
            self.assertIn((indexer.index(Purpose.PASSKEY_CEREMONY, used.challenge),), challenges)
            self.assertIn((limiting,), buckets)
            if ahead_ms > 0:
                self.assertNotIn((indexer.index(Purpose.PASSKEY_CEREMONY, old.challenge),), challenges)
                self.assertNotIn((over,), buckets)

    async def assert_fails(self, work: Callable[[], Deferred[Any]], kind: type[Exception]) -> None:
        with self.assertRaises(kind):
            await work()
