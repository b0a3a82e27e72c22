"""Two servers share a socket and a data folder, and are restarted one after the other while games play."""

import json
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from http.client import BadStatusLine, HTTPConnection, HTTPResponse
from subprocess import Popen
from threading import Event

from msgspec import Struct, field

from tests.cli.process import WAIT_SECONDS
from tests.ops.systemd_manager import FakeManager
from tests.ops.test_sockets import SocketTestCase

RESTARTS = 4
WRITERS, READERS = 3, 2
POLL_SECONDS = 25


class Game(Struct):
    """A game of one player. Any answer but the expected one is a failure, and so is a connection without an answer."""

    port: int
    token: str
    failures: list[str] = field(default_factory=list)
    answered: int = 0

    def send(self, connection: HTTPConnection, method: str, path: str, *others: object) -> tuple[HTTPResponse, bytes]:
        body, headers = (*others, None, {})[:2] if others else (None, {})
        connection.request(method, path, body, {"Authorization": f"Bearer {self.token}", **headers})  # type: ignore[dict-item]
        answer = connection.getresponse()
        return answer, answer.read()

    def connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)

    def run(self, enough: Event, once: Callable[[], None]) -> None:
        """Call `once` until it is enough; record exceptions of the connection as failures."""
        while not enough.is_set():
            try:
                once()
            except OSError as e:
                self.failures.append(repr(e))

    def expect(self, answer: HTTPResponse, body: bytes, *statuses: int) -> None:
        if answer.status in statuses:
            self.answered += 1
        else:
            self.failures.append(f"{answer.status} {body[:200]!r}")


class Writer(Game):
    """A game that replaces its own save; a lost write would be a conflict."""

    slot: str = ""
    tag: str = ""
    content: bytes = b""

    def write(self) -> None:
        content = f"{self.slot} {self.answered}".encode() * 300
        condition = {"If-Match": self.tag} if self.tag else {"If-None-Match": "*"}
        headers = {"Content-Type": "application/octet-stream", **condition}
        with closing(self.connect()) as connection:
            answer, body = self.send(connection, "PUT", f"/game/saves/{self.slot}", content, headers)
        self.expect(answer, body, 200, 201)
        if answer.status in (200, 201):
            self.tag, self.content = answer.headers["ETag"], content


class Reader(Game):
    """A game that reads on one connection, and on a new one only if the server closed it between two requests."""

    connection: HTTPConnection | None = None
    fresh: bool = True

    def read(self) -> None:
        if self.connection is None:
            self.connection, self.fresh = self.connect(), True
        try:
            answer, body = self.send(self.connection, "GET", "/game/saves")
        except (BadStatusLine, ConnectionError):  # RFC 9112 9.3.1: a client may repeat this on another connection
            self.connection.close()
            self.connection = None
            if self.fresh:
                raise
            return
        self.fresh = False
        self.expect(answer, body, 200)
        if answer.will_close:
            self.connection = None


class Poller(Game):
    """A game that waits for changes which never come: each answer is the cursor that it knows."""

    cursor: str = ""
    early: int = 0
    """Answers before the time was over: those of a server that stopped."""

    def poll(self) -> None:
        begun = time.monotonic()
        path = f"/game/saves?since={self.cursor}" if self.cursor else "/game/saves"
        with closing(self.connect()) as connection:
            answer, body = self.send(connection, "GET", path, None, {"Prefer": f"wait={POLL_SECONDS}"})
        self.expect(answer, body, 200)
        members = json.loads(body)
        if self.cursor:
            self.early += time.monotonic() - begun < POLL_SECONDS
            if (members["cursor"], members["saves"]) != (self.cursor, []):
                self.failures.append(f"{members}")
        self.cursor = members["cursor"]


class RollingTests(SocketTestCase):
    def setUp(self) -> None:
        super().setUp()
        (self.folder / "game.json").write_text('{"writes_per_minute": 0}')
        self.tcp = self.listening(socket.AF_INET, ("127.0.0.1", 0))

    def token(self, name: str) -> str:
        code, _, err = self.gamed("players", "add", name, "--password-stdin", stdin="correct horse")
        self.assertEqual((code, err), (0, ""))
        return str(json.loads(self.gamed("players", "token", name, "--json")[1])["access_token"])

    def server(self, number: int) -> "Popen[str]":
        """Start a server as `systemctl start` does: it has started when it reports that it is ready."""
        manager = FakeManager(self, self.folder / f"notify-{number}")
        self.environ["NOTIFY_SOCKET"] = manager.address
        process = self.passing(self.tcp, options=("--share",))
        manager.wait_for("READY=1")
        return process

    def test_one_after_the_other(self) -> None:
        """Servers that are restarted one after the other refuse no request and lose no write; waits are answered."""
        port = self.tcp.getsockname()[1]
        servers = [self.server(number) for number in range(2)]
        writers = [Writer(port, self.token("Anna"), slot="slot-0")]
        writers += [Writer(port, writers[0].token, slot=f"slot-{number}") for number in range(1, WRITERS)]
        readers = [Reader(port, writers[0].token) for _ in range(READERS)]
        pollers = [Poller(port, self.token(name)) for name in ("Bo", "Chidi", "Dilek", "Emre")]
        games: list[Game] = [*writers, *readers, *pollers]
        work = [*(each.write for each in writers), *(each.read for each in readers), *(each.poll for each in pollers)]
        enough, seconds = Event(), []
        with ThreadPoolExecutor(len(games)) as pool:
            runs = [pool.submit(game.run, enough, once) for game, once in zip(games, work, strict=True)]
            try:
                for number in range(2, 2 + RESTARTS):
                    self.until(lambda: all(poller.cursor for poller in pollers))
                    before = [game.answered for game in (*writers, *readers)]
                    begun = time.monotonic()
                    oldest = servers.pop(0)
                    oldest.send_signal(signal.SIGTERM)
                    self.assertEqual(oldest.wait(WAIT_SECONDS), 0, self.output())
                    servers.append(self.server(number))
                    seconds.append(time.monotonic() - begun)
                    after = zip((*writers, *readers), before, strict=True)
                    self.assertEqual([game for game, count in after if game.answered == count], [])
            finally:
                enough.set()
                wait(runs[: len(writers) + len(readers)])
                for server in servers:
                    server.send_signal(signal.SIGTERM)
            for run in runs:
                run.result()
        self.assertEqual([failure for game in games for failure in game.failures], [], self.output())
        self.assertGreaterEqual(sum(poller.early for poller in pollers), RESTARTS)
        again = self.server(99)
        for writer in writers:
            with closing(writer.connect()) as connection:
                self.assertEqual(writer.send(connection, "GET", f"/game/saves/{writer.slot}")[1], writer.content)
        self.assertEqual(self.stop(again), 0)

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not done():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
