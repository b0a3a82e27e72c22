"""Another process holds auth.db for longer than the service waits: 503 busy, what only reads goes on (PROTOCOL 1)."""

import sqlite3
import threading
from contextlib import closing

from tests.e2e.cases import ServiceCase
from tests.e2e.wire import Answer

PATIENCE_SECONDS = 60
"""Two batches may wait in turn, the sweep's and the cancel's, 5 s each."""


class LockedStore(ServiceCase):
    def test_locked(self) -> None:
        """A cancel is refused typed, a collect is answered meanwhile; released, all of it works."""
        login, answers = self.start(), dict[str, Answer]()

        def cancel() -> None:
            answers["cancel"] = self.ask("POST", "/auth/login/cancel", bearer=login["device_secret"])

        with closing(sqlite3.connect(self.service.data / "auth.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            game = threading.Thread(target=cancel)
            game.start()
            self.assertEqual(self.collect(login).json["stage"], "waiting_for_browser")
            game.join(PATIENCE_SECONDS)
            self.assertFalse(game.is_alive(), "no answer while the file was held")
            other.execute("ROLLBACK")
        refused = answers["cancel"]
        self.assertEqual((refused.status, refused.json["code"]), (503, "busy"))
        self.assertIn("retry-after", refused.headers)
        self.assertEqual(self.collect(login).json["stage"], "waiting_for_browser")
        cancel()
        self.assertEqual(answers["cancel"].status, 204)
        self.assertEqual(self.collect(login).json["problem"]["code"], "login_cancelled")
        self.start()
