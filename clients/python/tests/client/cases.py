"""Fixtures of all tests of the client: a fake server, a folder, a client that records its pauses."""

import http.client
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from twisted.trial.unittest import SynchronousTestCase

from clients.python.tests.client.fake_server import TICKET, FakeGamed, Player
from tests.support.folders import unused_path
from tests.support.python_client import gamed_client as gc

OFFER_SECONDS, PATIENCE_SECONDS = gc.RETURN_SECONDS, 60.0
"""After the first a player is offered a code; a browser that returns in a test has the second."""


def returned(url: str, host: str | None = None) -> tuple[int, str | None]:
    """Request `url` as a browser does; return status and Location. `host` is the Host header."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=PATIENCE_SECONDS)
    connection.request("GET", url.partition(parts.netloc)[2], headers={"Host": host or parts.netloc})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.getheader("Location")


class ClientCase(SynchronousTestCase):
    """`self.fake` runs; `self.client` is its client; `self.pauses` records the seconds of its waits."""

    def setUp(self) -> None:
        self.fake = FakeGamed()
        self.server = self.fake.start()
        self.addCleanup(self.fake.stop)
        self.folder = unused_path(self)
        self.pauses: list[float] = []
        self.clock = 1_000_000.0
        self.patch(gc, "RETURN_SECONDS", PATIENCE_SECONDS)
        self.running: list[threading.Thread] = []
        self.client = self.another()

    def another(self):
        """Return a client of the same folder, as a second process has it."""
        return gc.GamedClient(self.server, folder=self.folder, sleep=self.pauses.append, now=lambda: self.clock)

    def signed_in(self):
        """Return the client, with the credentials of the fake's session in its file."""
        self.client.keep(self.fake.credentials())
        return self.client

    def on_disk(self):
        """Return a client that reads the same folder, as a new process does."""
        return self.another().credential

    def raised(self, error: type[Exception], code: str, call: Callable, *args: object, **how: object) -> Exception:
        found = self.assertRaises(error, call, *args, **how)
        self.assertEqual(found.code, code)
        return found

    def browser(self, *steps: Callable[[], object]) -> Callable[[str], bool]:
        """Return a browser that runs `steps` in a thread when it is opened."""

        def opened(url: str) -> bool:
            self.running.append(threading.Thread(target=lambda: [step() for step in steps], daemon=True))
            self.running[-1].start()
            return True

        return opened

    def browsers_done(self) -> None:
        """Wait until every browser has ended."""
        for thread in self.running:
            thread.join(PATIENCE_SECONDS)

    def comes_back(
        self, ticket: str = TICKET, login_id: str = "lgn_1", host: str | None = None
    ) -> tuple[int, str | None]:
        """Request the client's listener, as the browser does after the page's redirect."""
        port = self.fake.started["loopback_port"]
        return returned(f"http://127.0.0.1:{port}/gamed/return?login_id={login_id}&ticket={ticket}", host)

    def signs_in(self) -> None:
        """Do the player's part in the browser."""
        self.fake.move("proof_required")

    def player(self, *codes: str | None) -> Player:
        return Player(*codes)
