"""gamed serves players behind the proxies (SPEC 1/3, 4; docs/owners/proxies.md: trusted_proxies)."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.process import folder_of
from tests.e2e.service import Service
from tests.e2e.wire import Answer
from tests.proxies.cases import in_front
from tests.proxies.programs import HOST, Proxy
from tests.support.covers import covers

PLAYERS = 200
PATIENCE_SECONDS = 120
SENT_SECONDS = 0.5
"""Time in which a sent request mostly reaches gamed."""
ROUNDS = 5
LONGEST_SECONDS = 25
FORGED = ("203.0.113.9", "127.0.3.9", "203.0.113.9, 127.0.3.9", "127.0.3.9, 127.0.0.1", "unknown", "")
LOST = (
    "c00kie4711",
    "c0de4711",
    "5tate4711",
    "t0kenT0kenT0kenT0ken42",
    "invi7eT0kenT0kenT0ke42",
    "re5etT0kenT0kenT0ken42",
)
CONFIG = {
    "mode": "local",
    "public_url": f"https://{HOST}",
    "trusted_proxies": ["127.0.0.1/32"],
    "limits": {"starts_per_minute": 1},
}
"""The proxies come from 127.0.0.1; players from elsewhere in 127.0.0.0/8, as far as gamed can tell from anywhere."""


def start(proxy: Proxy, source: str = "127.0.0.1", **headers: str) -> Answer:
    """Start a login from this address."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return proxy.ask("POST", "/auth/login", source=source, json_body={}, headers=fields)


def collect(
    proxy: Proxy, login: Answer, sent: Callable[[], object] = int, source: str = "127.0.0.1", **members: object
) -> Answer:
    bearer = login.json["device_secret"]
    return proxy.ask("POST", "/auth/login/collect", source=source, json_body=members, bearer=bearer, sent=sent)


class PlayersTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = folder_of(self)
        self.service = Service(folder / "service", CONFIG)
        self.addCleanup(self.end)
        self.service.start()
        self.proxies = in_front(self, folder, f"127.0.0.1:{self.service.port}")
        self.pool = ThreadPoolExecutor(PLAYERS + len(self.proxies))
        self.addCleanup(self.pool.shutdown)
        self.numbers = count(2)

    def end(self) -> None:
        self.service.close()
        self.assertNotIn("Traceback", self.service.text())

    def test_two_hundred_players(self) -> None:
        """A game waits 25 seconds for its player, and is not cut off. Meanwhile 200 others wait behind the same proxy,
        all at once and each at an address of their own: none is limited for the others' sake."""
        waiting = [self.pool.submit(self.longest_wait, proxy) for proxy in self.proxies]
        for number, proxy in enumerate(self.proxies):
            together = Barrier(PLAYERS)

            def play(source: str, proxy: Proxy = proxy, together: Barrier = together) -> tuple[int, int]:
                login = start(proxy, source)
                together.wait(PATIENCE_SECONDS)
                return login.status, collect(proxy, login, source=source, wait=2).status

            sources = [f"127.0.{number}.{last}" for last in range(2, 2 + PLAYERS)]
            self.assertEqual(set(self.pool.map(play, sources, timeout=PATIENCE_SECONDS)), {(201, 202)}, proxy.name)
        for proxy, (seconds, answer) in zip(
            self.proxies, [wait.result(PATIENCE_SECONDS) for wait in waiting], strict=True
        ):
            self.assertEqual((answer.status, answer.json["stage"]), (202, "waiting_for_browser"), proxy.name)
            self.assertGreater(seconds, LONGEST_SECONDS - 0.5)

    def longest_wait(self, proxy: Proxy) -> tuple[float, Answer]:
        login = start(proxy, f"127.0.5.{next(self.numbers)}")
        began = time.monotonic()
        answer = collect(proxy, login, wait=LONGEST_SECONDS)
        return time.monotonic() - began, answer

    @covers("threats/33")
    def test_forged_address(self) -> None:
        """A forged address neither avoids a limit nor counts against another player."""
        for number, proxy in enumerate(self.proxies):
            source = f"127.0.2.{2 + number}"
            self.assertEqual(start(proxy, source).status, 201)
            for forged in FORGED:
                answer = start(proxy, source, X_Forwarded_For=forged, X_Real_IP=forged, Forwarded=f"for={forged}")
                self.assertEqual((answer.status, answer.json["code"]), (429, "rate_limited"), (proxy.name, forged))
            self.assertEqual(start(proxy, f"127.0.2.{4 + number}", X_Forwarded_For=source).status, 201, proxy.name)
        self.assertEqual(start(self.proxies[0], "127.0.3.9").status, 201)

    @covers("threats/49")
    def test_restart(self) -> None:
        """Answer waiting requests while gamed stops; then respond 502 without logging the request, until gamed runs
        again.
        """
        self.stop()
        headers = {"Cookie": f"__Host-gl={LOST[0]}", "Referer": f"https://{HOST}/?x={LOST[0]}"}
        paths = (
            f"/auth/discord/callback?code={LOST[1]}&state={LOST[2]}",
            f"/auth/login/{LOST[3]}",
            f"/auth/invite/{LOST[4]}",
            f"/auth/reset/{LOST[5]}",
        )
        for proxy in self.proxies:
            self.assertEqual([proxy.ask("GET", path, headers=headers).status for path in paths], [502] * 4)
        self.service.start()
        for proxy in self.proxies:
            self.assertEqual([proxy.ask("GET", "/healthz").body for _ in range(3)], [b"ok"] * 3)
            proxy.close()
            self.assertIn("502", proxy.log.read_text("utf-8"))
            hidden(self, proxy, LOST)

    def stop(self) -> None:
        """Do this while a request waits behind each proxy; repeat it if a slow machine was too late."""
        for _ in range(ROUNDS):
            statuses = self.stopped_in_a_wait()
            if statuses == [202, 202]:
                return
            self.service.start()
        self.fail(f"in no round were both answered; in the last {statuses}")

    def stopped_in_a_wait(self) -> list[int]:
        sent = Barrier(1 + len(self.proxies))

        def wait(proxy: Proxy) -> int:
            login = start(proxy, f"127.0.4.{next(self.numbers)}")
            return collect(proxy, login, sent=lambda: sent.wait(PATIENCE_SECONDS), wait=LONGEST_SECONDS).status

        waiting = [self.pool.submit(wait, proxy) for proxy in self.proxies]
        sent.wait(PATIENCE_SECONDS)
        time.sleep(SENT_SECONDS)
        self.assertEqual(self.service.terminate(), 0)
        return [future.result(PATIENCE_SECONDS) for future in waiting]


def hidden(test: SynchronousTestCase, proxy: Proxy, secrets: Sequence[str]) -> None:
    """Assert that the proxy has written neither these secrets nor any query."""
    for path, text in proxy.logs().items():
        test.assertEqual([secret for secret in secrets if secret in text], [], (proxy.name, path))
        # Debian 13's Caddy asks at its start: "Not a *net.UDPConn?. See ...".
        test.assertNotRegex(text, r"\?(?!\. See )", (proxy.name, path))
    test.assertTrue(proxy.log.read_text("utf-8"))
