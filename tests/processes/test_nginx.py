"""Two servers on PostgreSQL behind one nginx, as on two machines: players notice nothing of that."""

from collections.abc import Mapping
from http.client import HTTPConnection
from threading import Thread
from time import monotonic, sleep
from typing import Any

from cryptography.x509 import DNSName
from twisted.python import log

from bench.instance import percentile
from tests.e2e.providers import DISCORD
from tests.e2e.service import Service
from tests.e2e.wire import Answer
from tests.processes.cases import ScriptedBrowser, SharedProviderCase, collect
from tests.processes.hosts import TwoHosts
from tests.processes.wire import Request, bearer, json_request
from tests.proxies.programs import HOST
from tests.proxies.samples import Nginx
from tests.support.certificates import certificate
from tests.support.examples import examples

ROUNDS = examples(few=4, many=100)
WAIT_SECONDS = 20
SETTLED_SECONDS = 0.2
ALLOWED_SECONDS = 0.05
INCREMENTS = examples(few=10, many=200)


class NginxConnection:
    """A connection to nginx that stays open."""

    def __init__(self, proxy: Nginx) -> None:
        self._line = proxy.line()

    def send(self, request: Request) -> None:
        headers = {**request.headers, "Host": HOST}
        self._line.request(request.method, request.path, request.body or None, headers)

    def receive(self) -> Answer:
        """Return the answer to the request that was sent last."""
        answer = self._line.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def ask(self, request: Request) -> Answer:
        self.send(request)
        return self.receive()

    def close(self) -> None:
        self._line.close()


class BehindNginx(TwoHosts, SharedProviderCase):
    """Each request goes through nginx, to the server that the test chooses."""

    def make_server(self, number: int) -> Service:
        server = super().make_server(number)
        server.base = f"https://{HOST}"
        return server

    def start(self) -> None:
        for server in self.servers:
            server.start()
        trusted = certificate(self.folder, DNSName(HOST))
        upstream = " ".join(f"127.0.0.1:{server.port}" for server in self.servers)
        self.proxy = Nginx(self.folder / "nginx", trusted, upstream)
        self.addCleanup(self.proxy.close)
        self.instances = [_instance(server.port) for server in self.servers]
        self.control = self.through_nginx()
        self.connections = [self.through_nginx() for _ in self.servers]

    def through_nginx(self) -> Any:
        connection = NginxConnection(self.proxy)
        self.addCleanup(connection.close)
        return connection

    def ask(self, number: int, request: Request, status: int | None = None) -> Answer:
        self.turn(number)
        return super().ask(number, request, status)

    def turn(self, number: int) -> None:
        """Make this server the next one: nginx takes the servers in turn while none of them has more requests."""
        for _ in range(4):
            if self.next_server() == 1 - number:
                return
        self.fail("nginx does not take turns")

    def next_server(self) -> int:
        """Send a request through nginx; return the server that answered."""
        return self.instances.index(self.control.ask(Request("GET", "/healthz")).headers["gamed-instance"])


class Players(BehindNginx):
    def test_sign_in(self) -> None:
        """A sign-in that begins at one server is collected at the other, and its token is valid at both."""
        for number in range(ROUNDS):
            first = number % 2
            login = self.ask(first, json_request("POST", "/auth/login", {"provider": DISCORD.name}), 201).json
            browser = ScriptedBrowser(self)
            callback = self.agree(
                browser, DISCORD, ("anna", "bo")[number // 2 % 2], login["login_url"], server=1 - first
            )
            request = collect(login, finish_code=self.finish_code(browser, callback))
            token = bearer(self.ask(1 - first, request, 200).json["access_token"])
            for server in (first, 1 - first):
                self.ask(server, Request("GET", "/game/", token), 200)

    def test_revocation(self) -> None:
        """A session that one server has ended is refused by the other from then on."""
        for number, player in enumerate(self.players(ROUNDS)):
            token, first = bearer(player.access), number % 2
            self.ask(1 - first, Request("GET", "/game/saves", token), 200)
            self.ask(first, json_request("POST", "/auth/session/logout", {}, **token), 204)
            for server in (1 - first, first):
                refused = self.ask(server, Request("GET", "/game/saves", token), 401)
                self.assertEqual(refused.json["code"], "session_revoked")

    def test_waits(self) -> None:
        """A wait for a change at one server is answered soon after the other has stored one, or ended the session."""
        seconds = []
        for number, player in enumerate(self.players(ROUNDS)):
            token, first = bearer(player.access), number % 2
            saved = Request("PUT", "/game/saves/auto", token, b"data")
            ended = json_request("POST", "/auth/session/logout", {}, **token)
            for change, status in ((saved, 200), (ended, 401)):
                seconds.append(self.wake(token, first, change, status))
        slow = percentile(seconds, 0.99)
        log.msg(
            f"nginx waits={len(seconds)} median={percentile(seconds, 0.5):.4f} p99={slow:.4f} most={max(seconds):.4f}"
        )
        self.assertLess(percentile(seconds, 0.5), ALLOWED_SECONDS, seconds)
        if len(seconds) >= 100:
            self.assertLess(slow, ALLOWED_SECONDS, seconds)

    def wake(self, token: Mapping[str, str], first: int, change: Request, status: int) -> float:
        """Let a request wait at one server while the other one changes something; return the seconds until its answer.

        nginx passes a request to the server with the fewest, so to the other one.
        """
        cursor = self.ask(1 - first, Request("GET", "/game/saves", token), 200).json["cursor"]
        headers = {**token, "Prefer": f"wait={WAIT_SECONDS}"}
        self.turn(1 - first)
        self.connections[1 - first].send(Request("GET", f"/game/saves?since={cursor}", headers))
        sleep(SETTLED_SECONDS + self.random.uniform(0, 0.1))
        self.assertEqual(self.next_server(), first)
        self.assertIn(self.connections[first].ask(change).status, (200, 201, 204))
        changed = monotonic()
        answer = self.connections[1 - first].receive()
        self.assertEqual(answer.status, status, answer.body)
        return monotonic() - changed

    def test_writes(self) -> None:
        """Writers at both servers lose no change of a slot that they share."""
        [player] = self.players(1)
        token = bearer(player.access)
        self.ask(0, Request("PUT", "/game/saves/count", {**token, "If-None-Match": "*"}, b"0"), 201)
        counters = [Counter(self.through_nginx(), token, number) for number in range(3)]
        for each in counters:
            each.start()
        for each in counters:
            each.join()
        self.assertEqual([each.problem for each in counters], [None] * len(counters))
        for server in (0, 1):
            stored = self.ask(server, Request("GET", "/game/saves/count", token), 200).body
            self.assertEqual(int(stored.split()[0]), len(counters) * INCREMENTS)
            self.assertGreater(self.batches(server)["state"], INCREMENTS // 2)


class Counter(Thread):
    """A device that counts up in a slot: it reads, adds one, writes over what it has read, and begins again if the slot
    has changed. Its number is in what it writes, because a write of equal bytes would count as a repeated one."""

    def __init__(self, connection: NginxConnection, token: Mapping[str, str], number: int) -> None:
        super().__init__()
        self._connection, self._token, self._number = connection, token, number
        self.problem: Exception | None = None

    def run(self) -> None:
        try:
            for _ in range(INCREMENTS):
                while not self._count_up():
                    pass
        except Exception as e:
            self.problem = e

    def _count_up(self) -> bool:
        read = self._connection.ask(Request("GET", "/game/saves/count", self._token))
        data = b"%d by %d" % (int(read.body.split()[0]) + 1, self._number)
        headers = {**self._token, "If-Match": read.headers["etag"]}
        status = self._connection.ask(Request("PUT", "/game/saves/count", headers, data)).status
        if status not in (200, 412):
            raise AssertionError(status)
        return status == 200


def _instance(port: int) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().headers["Gamed-Instance"]
    finally:
        connection.close()
