"""Two services on one data folder share the periodic work: one deletes what has expired, each keeps its own memory."""

import sqlite3
from contextlib import closing, redirect_stdout
from io import StringIO
from pathlib import Path

from twisted.application.service import IService
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from gamed.cli import context, paths, serve
from gamed.cli.folder_lock import SHARE
from gamed.ops.systemd import SystemdNotifier
from gamed.service import GamedService, build_service
from tests.startup.exchanges import begin_exchange
from tests.support.ports import free_port

POLL_SECONDS = 0.05
SETTLED_SECONDS = 0.7


class TwoServices(TestCase):
    timeout = 60

    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.running: list[GamedService] = []
        self.addCleanup(self.stop_all)

    async def stop_all(self) -> None:
        while self.running:
            await self.stop(self.running[0])

    def start(self) -> GamedService:
        opened = context.read_all(paths.find({}, str(self.folder / "authentication.json"), str(self.folder / "data")))
        listen = [f"tcp:{free_port()}:interface=127.0.0.1"]
        with redirect_stdout(StringIO()):
            settings, lock = serve.prepare(
                reactor, opened, listen, private=False, notifier=SystemdNotifier(), purpose=SHARE
            )
        self.addCleanup(lock.release)
        service: IService = build_service(reactor, settings)
        assert isinstance(service, GamedService)
        service.startService()
        self.running.append(service)
        return service

    async def stop(self, service: GamedService) -> None:
        self.running.remove(service)
        await service.stopService()

    def add_expired(self, number: int) -> None:
        """Insert a rate limit of long ago and a security event of last year, which the next cleanups delete."""
        with closing(sqlite3.connect(self.folder / "data" / "auth.db")) as connection, connection:
            connection.execute("INSERT INTO limit_bucket VALUES (?, 1)", (bytes([number]) * 32,))
            connection.execute(
                "INSERT INTO security_event VALUES (?, 1, 'sign_in', '', '{}', 1, 1, 1)",
                (number,),
            )

    def left(self) -> int:
        with closing(sqlite3.connect(self.folder / "data" / "auth.db")) as connection:
            query = "SELECT (SELECT count(*) FROM limit_bucket) + (SELECT count(*) FROM security_event)"
            [(count,)] = connection.execute(query).fetchall()
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
        auth = self.folder / "data" / "auth.db"
        logins = [begin_exchange(auth, each) for each in ("dead", *map(self.name_of, (first, second)))]
        self.start()
        await self.reached([*zip(logins, ("failed", "exchanging", "exchanging"), strict=True)])
        await self.stop(first)
        for task in second._periodic_tasks:
            task.start(now=True)  # within a minute by itself
        await self.reached([*zip(logins, ("failed", "failed", "exchanging"), strict=True)])

    def name_of(self, service: GamedService) -> str:
        return service._context.instance_id

    async def reached(self, wanted: list[tuple[str, str]]) -> None:
        """Wait until the logins have these stages, and a moment longer."""
        for _ in range(2):
            while self.stages() != dict(wanted):
                await self.wait_seconds(POLL_SECONDS)
            await self.wait_seconds(SETTLED_SECONDS)

    def stages(self) -> dict[str, str]:
        with closing(sqlite3.connect(self.folder / "data" / "auth.db")) as connection:
            return dict(connection.execute("SELECT login_id, stage FROM login").fetchall())

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
