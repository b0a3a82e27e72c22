"""A service that stops answers all waiting requests (docs/protocol.md: Collect)."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import ClassVar

from tests.e2e.cases import PATIENCE_SECONDS, ServiceCase
from tests.e2e.wire import Answer, ask

GAMES = 100


class Stopping(ServiceCase):
    config: ClassVar = {"mode": "local", "limits": {"starts_per_minute": 0, "live_logins_per_address": 0}}

    def test_a_hundred_waiters(self) -> None:
        """Each waiter gets 202 with `Connection: close`; no client finds a closed connection; the exit code is 0."""
        asked = Barrier(GAMES + 1, timeout=PATIENCE_SECONDS)

        def wait(login: dict) -> Answer:
            how = {"json_body": {"wait": 25}, "bearer": login["device_secret"], "sent": asked.wait}
            return ask(self.service.port, "POST", "/auth/login/collect", **how)

        last, *logins = [self.start() for _ in range(GAMES + 1)]
        with ThreadPoolExecutor(GAMES) as games:
            waits = [games.submit(wait, login) for login in logins]
            asked.wait()
            for _ in range(2):
                self.collect(last)  # who asked before this was answered waits now
            self.assertEqual(self.service.terminate(), 0)
            answers = [each.result() for each in waits]
        kinds = {(answer.status, answer.json["stage"], answer.headers.get("connection")) for answer in answers}
        self.assertEqual((len(answers), kinds), (GAMES, {(202, "waiting_for_browser", "close")}))
