"""Asked to stop in the middle of work, the service ends soon, in order, and with everything it said yes to on disk."""

import contextlib
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from threading import Event

from msgspec import Struct, field

from tests.cli.process import WAIT_SECONDS
from tests.ops.systemd_manager import FakeManager
from tests.ops.test_sockets import SocketTestCase, ask

WRITERS = 8
WRITES_BEFORE, WRITES_AFTER = 10, 3
STOP_SECONDS = 5
SLACK_SECONDS = 45
"""This machine may be busy with other tests."""


class Writer(Struct):
    """A game that stores a save again and again, each time in place of the one that was acknowledged last."""

    port: int
    token: str
    slot: str
    tag: str | None = None
    acknowledged: int = 0
    other: list[tuple[int, str]] = field(default_factory=list)

    def write(self) -> None:
        """One connection, one save; another answer than yes is kept.

        A connection that ended before it was asked anything, because this thread did not get its turn, is no answer:
        the same write is tried again.
        """
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            self._write()

    def _write(self) -> None:
        condition = {"If-None-Match": "*"} if self.tag is None else {"If-Match": self.tag}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)) as connection:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/octet-stream", **condition}
            data = f"{self.slot} {self.acknowledged}".encode() * 500
            connection.request("PUT", f"/game/saves/{self.slot}", data, headers)
            answer = connection.getresponse()
            body = answer.read()
        if answer.status in (200, 201):
            self.acknowledged, self.tag = self.acknowledged + 1, answer.headers["ETag"]
        else:
            self.other.append((answer.status, json.loads(body)["code"]))

    def run(self, enough: Event) -> None:
        while not enough.is_set():
            self.write()


class LoadTests(SocketTestCase):
    def setUp(self) -> None:
        super().setUp()
        (self.folder / "game.json").write_text('{"writes_per_minute": 0}')
        self.manager = FakeManager(self, self.folder / "notify")
        self.tcp = self.listening(socket.AF_INET, ("127.0.0.1", 0))

    def token(self) -> str:
        code, _, err = self.gamed("players", "add", "Anna", "--password-stdin", stdin="correct horse")
        self.assertEqual((code, err), (0, ""))
        return str(json.loads(self.gamed("players", "token", "Anna", "--json")[1])["access_token"])

    def test_stop_and_go_on(self) -> None:
        """SIGTERM while games write: STOPPING, exit 0 within seconds, and the next start goes on with all of it.

        Each write replaces what was acknowledged before: one that was lost would be a conflict. No connection is
        refused; a request that came too late gets 503 and may be sent again.
        """
        self.environ["NOTIFY_SOCKET"] = self.manager.address
        port, enough = self.tcp.getsockname()[1], Event()
        first = self.passing(self.tcp)
        self.assertEqual(ask(port), b"ok")
        token = self.token()
        writers = [Writer(port, token, f"slot-{n}") for n in range(WRITERS)]
        with ThreadPoolExecutor(WRITERS) as pool:
            runs = [pool.submit(writer.run, enough) for writer in writers]
            try:
                self.until(lambda: all(writer.acknowledged >= WRITES_BEFORE for writer in writers))
                asked = time.monotonic()
                self.assertEqual(self.stop(first), 0, self.output())
                self.assertLess(time.monotonic() - asked, STOP_SECONDS + SLACK_SECONDS)
                self.assertIn("STOPPING=1", self.manager.lines)
                before = [writer.acknowledged for writer in writers]
                second = self.passing(self.tcp)
                self.until(
                    lambda: all(w.acknowledged >= n + WRITES_AFTER for w, n in zip(writers, before, strict=True))
                )
            finally:
                enough.set()
            for run in runs:
                run.result()
        self.assertLessEqual({each for writer in writers for each in writer.other}, {(503, "shutting_down")})
        self.assertEqual(self.stop(second), 0, self.output())

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not done():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
