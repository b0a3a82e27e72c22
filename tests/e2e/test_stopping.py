"""A service that is asked to stop answers everyone who waits (PROTOCOL 3.5)."""

import threading
import time
from typing import ClassVar

from tests.e2e.cases import ServiceCase
from tests.e2e.wire import Answer, ask

GAMES = 100


class Stopping(ServiceCase):
    config: ClassVar = {"mode": "local", "limits": {"starts_per_minute": 0, "live_logins_per_address": 0}}

    def test_a_hundred_waiters(self) -> None:
        """Each gets its 202 and is told that this connection ends; nobody finds a closed one; the exit code is 0."""
        port, answers = self.service.port, list[Answer]()

        def wait(secret: str) -> None:
            answers.append(ask(port, "POST", "/auth/login/collect", json_body={"wait": 25}, bearer=secret))

        secrets = [ask(port, "POST", "/auth/login", json_body={}).json["device_secret"] for _ in range(GAMES)]
        games = [threading.Thread(target=wait, args=(secret,)) for secret in secrets]
        for game in games:
            game.start()
        limit = time.monotonic() + 10
        while self.service.sockets() < GAMES and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(0.5)  # connected, and asked
        self.assertEqual(self.service.terminate(), 0)
        for game in games:
            game.join(10)
        told = {(answer.status, answer.json["stage"], answer.headers.get("connection")) for answer in answers}
        self.assertEqual((len(answers), told), (GAMES, {(202, "waiting_for_browser", "close")}))
