"""Another process locks `auth` for longer than the service waits: 503 busy; reads continue.

See docs/protocol.md: Errors.
"""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from signal import SIGCONT, SIGSTOP
from threading import Event

from gamed.database.connection import AUTH
from gamed.database.sqlite.write_lock import WAIT_SECONDS
from tests.e2e.cases import ServiceCase
from tests.e2e.wire import Answer
from tests.support.stores import held, sqlite_files

PATIENCE_SECONDS = 60
"""Longest time for two batches that wait in turn, the sweep's and the cancel's, 5 s each."""


class LockedStore(ServiceCase):
    def test_locked(self) -> None:
        """A cancel gets a typed error and a collect a response; after the release all requests succeed."""
        login, answers = self.start(), dict[str, Answer]()

        def cancel() -> None:
            answers["cancel"] = self.ask("POST", "/auth/login/cancel", bearer=login["device_secret"])

        with held(self.service.data, AUTH):
            game = threading.Thread(target=cancel)
            game.start()
            self.assertEqual(self.collect(login).json["stage"], "waiting_for_browser")
            game.join(PATIENCE_SECONDS)
            self.assertFalse(game.is_alive(), "no answer while the database was held")
        refused = answers["cancel"]
        self.assertEqual((refused.status, refused.json["code"]), (503, "busy"))
        self.assertIn("retry-after", refused.headers)
        self.assertEqual(self.collect(login).json["stage"], "waiting_for_browser")
        cancel()
        self.assertEqual(answers["cancel"].status, 204)
        self.assertEqual(self.collect(login).json["problem"]["code"], "login_cancelled")
        self.start()


@sqlite_files("its lock file; tests.e2e.test_postgresql_outages has a process that is stopped")
class StoppedWriter(ServiceCase):
    """A stopped process has the write lock of auth.db."""

    def setUp(self) -> None:
        super().setUp()
        self.login = self.start()
        command = [sys.executable, "-m", "tests.database.lock_users", "hold", str(self.service.data / "auth.db")]
        self.writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.writer.communicate)
        self.addCleanup(self.writer.kill)
        self.writer.stdout.readline()
        os.kill(self.writer.pid, SIGSTOP)

    def cancel(self, sent: Event | None = None) -> Answer:
        sent = sent or Event()
        return self.ask("POST", "/auth/login/cancel", bearer=self.login["device_secret"], sent=sent.set)

    def test_busy_until_it_continues(self) -> None:
        """After five seconds a write is refused, later ones at once; once the process continues, so does the server."""
        asked = time.monotonic()
        refused = self.cancel()
        self.assertEqual((refused.status, refused.json["code"]), (503, "busy"))
        self.assertLess(time.monotonic() - asked, PATIENCE_SECONDS)
        asked = time.monotonic()
        self.assertEqual(self.cancel().status, 503)
        self.assertLess(time.monotonic() - asked, WAIT_SECONDS)
        self.assertEqual(self.collect(self.login).json["stage"], "waiting_for_browser")
        self.assertIn(f"database_locked database=auth process={self.writer.pid} ", self.service.text())
        os.kill(self.writer.pid, SIGCONT)
        self.writer.communicate(b"\n")
        ends = time.monotonic() + PATIENCE_SECONDS
        while (answer := self.cancel()).status == 503 and time.monotonic() < ends:
            time.sleep(0.05)
        self.assertEqual(answer.status, 204)
        self.start()

    def test_end_while_waiting(self) -> None:
        """SIGTERM ends a server that waits for the lock; the write that waits gets an answer."""
        with ThreadPoolExecutor(1) as game:
            waits = game.submit(self.cancel, sent := Event())
            self.assertTrue(sent.wait(PATIENCE_SECONDS))
            for _ in range(2):  # answered after the write has been given to its queue
                self.assertEqual(self.collect(self.login).json["stage"], "waiting_for_browser")
            self.assertEqual(self.service.terminate(), 0)
            self.assertEqual(waits.result().json["code"], "busy")
