"""Another program holds auth.db while the service starts; the recovery of interrupted sign-ins is tried again."""

import sqlite3
from contextlib import closing, redirect_stdout
from io import StringIO
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from gamed.cli import context, paths, serve
from gamed.ops.systemd import SystemdNotifier
from gamed.service import build_service
from tests.startup.exchanges import begin_exchange
from tests.support.ports import free_port

POLL_SECONDS = 0.1


class Recovery(TestCase):
    timeout = 60

    async def test_held_at_the_start(self) -> None:
        """The start succeeds; the interrupted sign-in ends soon after the file is free, and no traceback is logged."""
        folder = Path(self.mktemp()).absolute()
        opened = context.read_all(paths.find({}, str(folder / "authentication.json"), str(folder / "data")))
        listen = [f"tcp:{free_port()}:interface=127.0.0.1"]
        with redirect_stdout(StringIO()):
            settings, lock = serve.prepare(reactor, opened, listen, private=False, notifier=SystemdNotifier())
        self.addCleanup(lock.release)
        begin_exchange(settings.data / "auth.db")
        service = build_service(reactor, settings)
        with closing(sqlite3.connect(settings.data / "auth.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            service.startService()
            self.addCleanup(service.stopService)
            await self.wait_seconds(6)
            self.assertEqual(self.stage(settings.data / "auth.db"), "exchanging")
            other.execute("ROLLBACK")
        while self.stage(settings.data / "auth.db") != "failed":
            await self.wait_seconds(POLL_SECONDS)
        self.assertEqual(self.flushLoggedErrors(), [])

    def wait_seconds(self, seconds: float) -> Deferred[None]:
        return deferLater(reactor, seconds, lambda: None)

    def stage(self, path: Path) -> str:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            [(stage,)] = connection.execute("SELECT stage FROM login").fetchall()
            return str(stage)
