"""Two servers on one data folder, and the races of their clients."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import ClassVar
from urllib.parse import urlencode, urlsplit

from twisted.python import log
from twisted.trial.unittest import SynchronousTestCase

from bench.instance import Player, sign_in_players
from tests.e2e.providers import CLIENT_ID, DISCORD, FAKE_GOOGLE, KEY, SECRET, Stand
from tests.e2e.recorder import Recorder
from tests.e2e.service import Service
from tests.e2e.wire import Answer, ask
from tests.login.browser_fixtures import Page
from tests.login.test_browser_routes import code
from tests.processes.wire import KeptConnection, Request, bearer, json_request, together
from tests.support.examples import examples
from tests.support.folders import unused_path
from tests.support.ports import free_port
from tests.support.stores import with_store

SHARE = ("--share",)
MASTER_KEY = "GAMED_MASTER_KEY"
MANY_ROUNDS = 200
ROUNDS = examples(few=12, many=MANY_ROUNDS)
MOST_PAUSE_SECONDS = 0.002
"""The longest pause between the two requests of a race: longer than a server needs for one of them."""
BATCHES = re.compile(r'gamed_database_batch_size_count\{queue="(\w+)"\} (\d+)')
NO_LIMITS = {
    "starts_per_minute": 0,
    "live_logins_per_address": 0,
    "live_logins": 0,
    "entries_per_minute": 0,
    "callbacks_per_minute": 0,
    "refreshes_per_minute": 0,
    "passwords_per_minute": 0,
}


class SharedCase(SynchronousTestCase):
    """A test with two servers on one data folder; the log of neither may have a traceback."""

    limits: ClassVar[Mapping[str, int]] = {}
    game: ClassVar[Mapping[str, object]] = {"writes_per_minute": 0, "min_free_bytes": 0}
    environ: ClassVar[Mapping[str, str]] = {}
    count = 2

    def setUp(self) -> None:
        self.folder = unused_path(self)
        self.admin_ports = [free_port() for _ in range(self.count)]
        self.servers = [self.make_server(number) for number in range(self.count)]
        self.addCleanup(self._end)
        self.config = self.servers[0].config
        text = json.dumps(with_store(self.configuration(), self.servers[0].data))
        for server in self.servers:
            server.config.write_text(text)
            server.config.with_name("game.json").write_text(json.dumps(self.game))
        self.random = Random(1)
        self.start()

    def make_server(self, number: int) -> Service:
        """Return a server that is not started yet."""
        arguments = (*SHARE, f"--admin=tcp:{self.admin_ports[number]}:interface=127.0.0.1")
        return Service(self.folder, None, self.environ, arguments=arguments, log=f"log-{number}")

    def configuration(self) -> dict[str, object]:
        limits = {**NO_LIMITS, **self.limits}
        return {"mode": "local", "public_url": self.servers[0].base, "session": {"access_ttl": "24h"}, "limits": limits}

    def start(self) -> None:
        """Start the first server on the new folder, then the others; connect to each."""
        for server in self.servers:
            server.start()
        self.connections = [self.connect(number) for number in range(self.count)]

    def _end(self) -> None:
        for server in self.servers:
            server.close()
        for server in self.servers:
            self.assertNotIn("Traceback", server.text())

    def connect(self, number: int) -> KeptConnection:
        connection = KeptConnection(self.servers[number].port)
        self.addCleanup(connection.close)
        return connection

    def players(self, count: int) -> list[Player]:
        """Return the credentials of new players."""
        names = [f"ply_{number:026}" for number in range(count)]
        if key := self.servers[0].environ.get(MASTER_KEY):
            os.environ[MASTER_KEY] = key  # a command erases it
        return sign_in_players(self.config, self.servers[0].data, names)

    def ask(self, number: int, request: Request, status: int | None = None) -> Answer:
        """Send a request to this server; check the status of its answer."""
        answer = self.connections[number].ask(request)
        if status is not None:
            self.assertEqual(answer.status, status, answer.body)
        return answer

    def batches(self, number: int) -> dict[str, int]:
        """Return the number of batches of each queue of a server."""
        text = ask(self.admin_ports[number], "GET", "/metrics").body.decode()
        return {queue: int(count) for queue, count in BATCHES.findall(text)}

    def race(self, *requests: Request) -> list[Answer]:
        """Send one request to each server at the same time; return the answers in the order of the servers.

        Either server may be the first, with a pause of random length between, so that the second request meets every
        step of the first.
        """
        order = self.random.sample(range(self.count), self.count)
        pause = self.random.choice((0.0, self.random.uniform(0, MOST_PAUSE_SECONDS)))
        lines = [self.connections[number] for number in order]
        answers = together(lines, [requests[number] for number in order], pause_seconds=pause)
        return [answers[order.index(number)] for number in range(self.count)]

    def rounds(self, each: Callable[[int], int | None]) -> None:
        """Call `each` with the number of each round; it returns the server that won, or None if both did.

        In many rounds each server must win one, or the requests do not race. The log of the tests has the figures.
        """
        wins = Counter(each(number) for number in range(ROUNDS))
        log.msg(f"race test={self.id()} rounds={ROUNDS} wins={dict(wins)}")
        if ROUNDS >= MANY_ROUNDS and None not in wins:
            self.assertEqual(wins.keys(), {0, 1})

    def winner(self, answers: Sequence[Answer], won: int | Sequence[int], lost: int | Sequence[int]) -> int:
        """Return the server that answered with a status of `won`; check that only one did, the other with `lost`."""
        right, wrong = ((each,) if isinstance(each, int) else each for each in (won, lost))
        statuses = [answer.status for answer in answers]
        winners = [number for number, status in enumerate(statuses) if status in right]
        self.assertEqual(len(winners), 1, [answer.body for answer in answers])
        self.assertIn(statuses[1 - winners[0]], wrong)
        return winners[0]


class ScriptedBrowser:
    """A browser without a window: it keeps its cookie, and each request goes to the server that the test chooses."""

    def __init__(self, case: SharedCase) -> None:
        self._case = case
        self.cookie = ""

    def request(self, url: str, form: Mapping[str, str] | None = None) -> Request:
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = {"Cookie": self.cookie} if self.cookie else {}
        if form is None:
            return Request("GET", target, headers)
        headers |= {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        return Request("POST", target, headers, urlencode(form).encode())

    def visit(self, number: int, url: str, form: Mapping[str, str] | None = None) -> Answer:
        answer = self._case.ask(number, self.request(url, form))
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer


class SharedProviderCase(SharedCase):
    """Two servers that sign players in at the development provider."""

    stands: ClassVar[Sequence[Stand]] = (DISCORD, FAKE_GOOGLE)
    environ: ClassVar[Mapping[str, str]] = {
        MASTER_KEY: KEY,
        **{stand.variable: SECRET for stand in (DISCORD, FAKE_GOOGLE)},
    }

    def configuration(self) -> dict[str, object]:
        self.recorders: dict[str, Recorder] = {}
        providers = {}
        for stand in self.stands:
            port = free_port()
            recorder = self.recorders[stand.name] = Recorder(port)
            self.addCleanup(recorder.close)
            process = stand.start(port, recorder.base, f"{self.servers[0].base}/auth/{stand.name}/callback")
            self.addCleanup(process.close)
            secret = {"client_id": CLIENT_ID, "client_secret_env": stand.variable}
            providers[stand.name] = {**secret, **stand.members(recorder.base)}
        return {
            **super().configuration(),
            "mode": "oauth",
            "master_key_env": MASTER_KEY,
            "providers": providers,
        }

    def begin(
        self, browser: ScriptedBrowser, stand: Stand, person: str, token: str = "", **members: str
    ) -> tuple[dict, str]:
        """Start a login, and let a person agree at the provider; return the login and the callback's address.

        The servers take turns with the requests.
        """
        headers = bearer(token) if token else {}
        request = json_request("POST", "/auth/login", {"provider": stand.name, **members}, **headers)
        login = self.ask(0, request, 201).json
        return login, self.agree(browser, stand, person, login["login_url"])

    def agree(self, browser: ScriptedBrowser, stand: Stand, person: str, login_url: str, server: int = 1) -> str:
        """Open the link of a login at `server`, agree at the provider; return the callback's address."""
        form = Page(browser.visit(server, login_url)).form("/continue")
        sent = browser.visit(0, form["action"], form["fields"])
        self.assertEqual(sent.status, 303, sent.body)
        location = urlsplit(sent.headers["location"])
        fields = urlencode({"query": location.query, "person": person, "manner": "at once"}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        chosen = ask(location.port or 0, "POST", stand.authorize, body=fields, headers=kind)
        self.assertEqual(chosen.status, 303, chosen.body)
        return chosen.headers["location"]

    def finish_code(self, browser: ScriptedBrowser, callback: str) -> str:
        """Return the code that the browser shows after this callback."""
        done = browser.visit(1, callback)
        self.assertEqual(done.status, 303, done.body)
        return code(Page(browser.visit(0, done.headers["location"])))

    def sign_in(self, stand: Stand, person: str) -> str:
        """Sign a player in; return the access token."""
        browser = ScriptedBrowser(self)
        login, callback = self.begin(browser, stand, person)
        answer = self.ask(0, collect(login, finish_code=self.finish_code(browser, callback)), 200)
        return str(answer.json["access_token"])


def collect(login: Mapping[str, str], **members: object) -> Request:
    return json_request("POST", "/auth/login/collect", members, **bearer(login["device_secret"]))
