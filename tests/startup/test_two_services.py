"""Two services on one data folder share the periodic work: one deletes what has expired, each keeps its own memory."""

import time
from functools import partial

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from gamed.cli.service.folder_lock import SHARE
from gamed.database.connection import Connection
from gamed.service import GamedService
from tests.startup.exchanges import ServiceTestCase, begin_exchange

POLL_SECONDS = 0.05
PATIENCE_SECONDS = 20
SETTLED_SECONDS = 0.7


class TwoServices(ServiceTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.running: list[GamedService] = []
        self.addCleanup(self.stop_all)

    async def stop_all(self) -> None:
        while self.running:
            await self.stop(self.running[0])

    def start(self) -> GamedService:
        service = self.build(SHARE)
        service.startService()
        self.running.append(service)
        return service

    async def stop(self, service: GamedService) -> None:
        self.running.remove(service)
        await service.stopService()

    def add_expired(self, number: int) -> None:
        """Insert a rate limit of long ago and a security event of last year, which the next cleanups delete."""

        def add(connection: Connection) -> None:
            connection.execute("INSERT INTO limit_bucket VALUES (?, 1)", (bytes([number]) * 32,))
            connection.execute(
                "INSERT INTO security_event VALUES (?, 1, 'sign_in', '', '{}', 1, 1, 1, 1)",
                (number,),
            )

        self.auth(add)

    def left(self) -> int:
        query = "SELECT (SELECT count(*) FROM limit_bucket) + (SELECT count(*) FROM security_event)"
        [(count,)] = self.read(query)
        return int(count)

    async def settled(self, service: GamedService) -> None:
        """Wait until the periodic work that begins with a start is done."""
        while any(task._working for task in service._periodic_tasks):
            await self.wait_seconds(POLL_SECONDS)

    async def cleaned_up(self) -> None:
        while self.left():
            await self.wait_seconds(POLL_SECONDS)

    def wait_seconds(self, seconds: float) -> Deferred[None]:
        return deferLater(reactor, seconds, lambda: None)

    async def test_exchanges(self) -> None:
        """A service ends the exchanges of services that have ended, at its start and while it runs, and no others."""
        first, second = self.start(), self.start()
        for service in (first, second):
            await service._context.databases.register_process()  # as before the first exchange of a process
            await self.settled(service)
        names = ("dead", *map(self.name_of, (first, second)))
        logins = [self.auth(partial(begin_exchange, instance_id=each)) for each in names]
        self.start()
        await self.await_stages(dict(zip(logins, ("failed", "exchanging", "exchanging"), strict=True)))
        await self.stop(first)
        for task in second._periodic_tasks:
            task.start(now=True)  # within a minute by itself
        await self.await_stages(dict(zip(logins, ("failed", "failed", "exchanging"), strict=True)))

    def name_of(self, service: GamedService) -> str:
        return service._context.instance_id

    async def await_stages(self, wanted: dict[str, str]) -> None:
        """Wait until the logins have these stages, and check that they keep them."""
        end = time.monotonic() + PATIENCE_SECONDS
        while self.stages() != wanted and time.monotonic() < end:
            await self.wait_seconds(POLL_SECONDS)
        await self.wait_seconds(SETTLED_SECONDS)
        self.assertEqual(self.stages(), wanted)

    async def test_cleanup(self) -> None:
        """The first service deletes what has expired and the second does not, until the first one has ended."""
        first = self.start()
        await self.settled(first)
        self.add_expired(1)
        second = self.start()
        await self.settled(second)
        self.assertEqual(self.left(), 2)
        await self.stop(first)
        for task in second._periodic_tasks:
            task.start(now=True)  # within a minute by itself
        await self.cleaned_up()
