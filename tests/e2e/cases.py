"""Fixtures of the end-to-end tests: the service as a process, windows, the reference client."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import ClassVar

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.settings import Intervals
from tests.e2e.chromium import Window
from tests.e2e.service import Service
from tests.e2e.wire import Answer, ask
from tests.support.folders import unused_path
from tests.support.python_client import gamed_client as gc

NAME, PASSWORD = "Zaphod.B", "correct horse battery staple"
PATIENCE_SECONDS = 300
QUICK = Intervals(page_return_seconds=0)
"""For tests with many sign-ins, which wait for the page that leads to the game. `GoingOn` of test_handoff keeps its
real time."""


class Player(gc.Person):
    """A person who reads the code from their window if the game asks for one."""

    def __init__(self, *codes: Callable[[], str] | str) -> None:
        self.codes = list(codes)
        self.attempts: list[int | None] = []

    def browser_opened(self, url, opened, qr_url):
        pass

    def finish_code(self, show_code, attempts_left):
        self.attempts.append(attempts_left)
        if not self.codes:
            return None  # the browser comes back by itself, however long it takes
        if show_code is not None:
            show_code()
        code = self.codes.pop(0)
        return code() if callable(code) else code


class ServiceCase(SynchronousTestCase):
    """`self.service` runs. At the end of each test no process of it is left, and its log has no traceback."""

    config: ClassVar[Mapping[str, object] | None] = {"mode": "local"}
    environ: ClassVar[Mapping[str, str]] = {}
    forked: ClassVar[bool] = True
    intervals: ClassVar[Intervals | None] = None
    """None for `gamed serve` itself, with its usual intervals."""

    def setUp(self) -> None:
        self.folder = unused_path(self)
        self.service = Service(self.folder, self.config, self.environ, forked=self.forked, intervals=self.intervals)
        self.addCleanup(self._end)
        self.service.start()

    def _end(self) -> None:
        self.service.close()
        self.assertFalse("Traceback" in (said := self.service.text()), said)

    def window(self) -> Window:
        window = Window()
        self.addCleanup(window.close)
        return window

    def client(self, **how: object):
        """Return the reference client, with the same folder each time, as after a restart of the game."""
        return gc.GamedClient(self.service.base, folder=self.folder / "player", **how)

    def ask(self, method: str, path: str, **how: object) -> Answer:
        return ask(self.service.port, method, path, **how)

    def opens(self, window: Window, *steps: Callable[[], object]) -> Callable[[str], bool]:
        """Return a browser that opens the game's link, then runs `steps`; an error there fails the test."""
        running: list[Future] = []
        self.addCleanup(lambda: [future.result(PATIENCE_SECONDS) for future in running])

        def open_browser(url: str) -> bool:
            running.append(window.later(lambda: window.open(url), *steps))
            return True

        return open_browser

    def created(self, window: Window, **how: object):
        """Create an account and sign in; return the client with the credentials."""
        client = self.client(**how)
        client.sign_in(Player(), open_browser=self.opens(window, lambda: window.create_account(NAME, PASSWORD)))
        return client

    def start(self, **members: object) -> dict:
        """Start a login without the reference client."""
        answer = self.ask("POST", "/auth/login", json_body=members)
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json

    def collect(self, login: dict, **members: object) -> Answer:
        return self.ask("POST", "/auth/login/collect", json_body=members, bearer=login["device_secret"])
