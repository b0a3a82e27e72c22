"""The port of this machine's own: numbers and readiness, and nothing for anybody else."""

import re
from contextlib import closing
from http.client import HTTPConnection
from json import dumps, loads
from secrets import token_bytes

from twisted.internet.defer import succeed
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.errors import SetupError
from gamed.cli.service.listen import check_admin, parse_listener, probe
from gamed.database.errors import DatabaseCorrupt
from gamed.http.background import ShieldedTasks
from gamed.login.csrf import BrowserGuard
from gamed.login.responder import PageResponder
from gamed.ops.metrics import Counters, Metrics
from gamed.owner.report import MachineReport, OwnerReporter
from gamed.pages.languages import Languages
from gamed.pages.render import PageRenderer
from gamed.service import AdminServer
from tests.account.killed_command import KEYS
from tests.cli.process import WAIT_SECONDS, CommandTestCase, get
from tests.ops.test_metrics import gauges
from tests.support.covers import covers
from tests.support.databases import memory_databases
from tests.support.http import START_MS, Answer, Connection, request_bytes
from tests.support.ports import free_port
from tests.support.stores import POSTGRESQL
from tests.test_spec import ROOT


def new_pages() -> PageResponder:
    """Return the look and the languages of Anna's server."""
    guard = BrowserGuard(indexer=KEYS.indexer, random=token_bytes, secure=True)
    base, clock = "https://game.example", lambda: START_MS
    return PageResponder(guard, lambda: base, "Anna's Arena", clock, ShieldedTasks(), PageRenderer(), Languages())


MACHINE = MachineReport(START_MS, (), {"auth.db": 4096, "state.db": 0}, 5 * 1024**3)
ENDPOINT = "tcp:9100:interface=127.0.0.1"
AUTH_TITLE, STATE_TITLE = (b"schema auth", b"schema state") if POSTGRESQL else (b"auth.db", b"state.db")


class AdminTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor, self.stores = MemoryReactorClock(), memory_databases(self)
        reporter = OwnerReporter(self.stores, KEYS, lambda: START_MS, lambda: succeed(MACHINE), self.reactor, {})
        metrics = Metrics(Counters([]), gauges(**self.stores.queues), {})
        self.admin = AdminServer(self.reactor, ENDPOINT, metrics, self.stores, reporter, new_pages(), {})
        self.admin.open()
        [(port, self.site, _, interface)] = self.reactor.tcpServers
        self.assertEqual((port, interface), (9100, "127.0.0.1"))

    def ask(self, path: str, method: str = "GET", host: str = "localhost:9100") -> Answer:
        connection = Connection(self.site, self.reactor)
        connection.head_only = method == "HEAD"
        answer = connection.send(request_bytes(method, path, {"Host": host})).answer
        connection.leave()
        return answer

    def test_every_metric_is_described(self) -> None:
        """docs/owners/metrics.md has a row with the labels of each number, and for no other."""
        answer = self.ask("/metrics")
        self.assertEqual((answer.status, answer.headers["cache-control"]), (200, "no-store"))
        self.assertTrue(answer.headers["content-type"].startswith("text/plain; version="))
        page = (ROOT / "docs/owners/metrics.md").read_text("utf-8")
        rows = re.findall(r"(?m)^\| `((?:gamed|process)_[a-z_]+)` \|", page)
        named = re.findall(r"(?m)^# TYPE (\S+) ", answer.body.decode())
        self.assertEqual(sorted(rows), sorted(named))

    def test_ready(self) -> None:
        """`ok` while both stores answer; asked with HEAD, too."""
        self.assertEqual((self.ask("/readyz").status, self.ask("/readyz").body), (200, b"ok"))
        self.assertEqual(self.ask("/readyz", "HEAD").status, 200)

    def test_a_store_is_silent(self) -> None:
        """503 says which."""
        self.stores._state.unavailable_as = DatabaseCorrupt
        answer = self.ask("/readyz")
        self.assertEqual((answer.status, answer.body), (503, b"%s does not answer: DatabaseCorrupt\n" % STATE_TITLE))

    def test_both_are_silent(self) -> None:
        """Each has a line, also where nothing can be asked any more."""
        self.stores.reads.drain()
        answer = self.ask("/readyz")
        lines = b"".join(b"%s does not answer: DatabaseBusy\n" % title for title in (AUTH_TITLE, STATE_TITLE))
        self.assertEqual((answer.status, answer.body), (503, lines))

    def test_stopping(self) -> None:
        """Not ready any more, though both stores still answer; then the port closes."""
        self.admin.stopping()
        answer = self.ask("/readyz")
        self.assertEqual((answer.status, answer.body), (503, b"the service is stopping\n"))
        self.successResultOf(self.admin.close())

    def test_only_to_be_read(self) -> None:
        """GET and HEAD; no other method, and nothing of the game but its picture."""
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            for path, allowed in (("/metrics", "GET, HEAD"), ("/", "GET")):
                answer = self.ask(path, method)
                self.assertEqual((answer.status, answer.headers["allow"]), (405, allowed))
                self.assertNotIn("access-control-allow-origin", answer.headers)
        self.assertEqual(self.ask("/metrics", "HEAD").status, 200)
        self.assertEqual(self.ask("/auth/mark").headers["content-type"], "image/svg+xml")
        for path in ("/healthz", "/auth/config", "/game/saves", "/auth/account"):
            self.assertEqual(self.ask(path).status, 404, path)

    @covers("threats/34")
    def test_other_names(self) -> None:
        """A page elsewhere whose name leads to this machine is not answered."""
        for host in ("game.example", "localhost.game.example", "192.168.1.5:9100"):
            for path in ("/metrics", "/readyz", "/", "/elsewhere"):
                self.assertEqual(self.ask(path, host=host).status, 421, (host, path))
        for host in ("127.0.0.1", "[::1]:9100", "localhost:9100"):
            for path in ("/readyz", "/"):
                self.assertEqual(self.ask(path, host=host).status, 200, (host, path))


class EndpointTests(SynchronousTestCase):
    def check(self, text: str, *others: str) -> None:
        reactor = MemoryReactorClock()
        check_admin(parse_listener(reactor, text, "--admin"), [parse_listener(reactor, other) for other in others])

    def test_this_machine_only(self) -> None:
        """Loopback and unix sockets."""
        for text in (
            ENDPOINT,
            "tcp6:9100:interface=\\:\\:1",
            "tcp:0:interface=localhost",
            "9100",
            "[::1]:9100",
            "unix:/run/gamed/admin.sock",
        ):
            self.assertIsNone(self.check(text, "tcp:8080", "unix:/run/gamed/http.sock"))

    @covers("threats/34")
    def test_anything_else(self) -> None:
        """Is refused, however it is spelled; no setting makes it right."""
        for text in ("tcp:9100", "tcp:9100:interface=0.0.0.0", "tcp:9100:interface=192.168.1.5", "tcp6:9100"):
            error = self.assertRaises(SetupError, self.check, text)
            self.assertTrue(str(error).startswith(f"--admin {text}: only this machine may reach it"), error)
        self.assertIn("--admin nowhere: ", str(self.assertRaises(SetupError, self.check, "nowhere")))

    def test_the_games_own(self) -> None:
        """One endpoint is not both."""
        for text, other in ((ENDPOINT, "tcp:9100"), ("unix:/run/a", "unix:/run/a:mode=660")):
            self.assertIn("the game is served there", str(self.assertRaises(SetupError, self.check, text, other)))

    def test_taken(self) -> None:
        """The sentence names the option."""
        listener = parse_listener(MemoryReactorClock(), "unix:/nowhere/at/all.sock", "--admin")
        error = self.assertRaises(SetupError, probe, [listener])
        self.assertTrue(str(error).startswith("--admin unix:/nowhere"), error)


def post(port: int, path: str, value: object) -> tuple[int, bytes]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)) as connection:
        connection.request("POST", path, dumps(value), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()


class ProcessTests(CommandTestCase):
    @covers("threats/34")
    def test_a_service(self) -> None:
        """The numbers are on the owner's port and never on the game's; each line of the log is an object."""
        admin = free_port()
        process, port = self.serve(f"--admin=tcp:{admin}:interface=127.0.0.1", "--log-format=json")
        for path in ("/metrics", "/readyz"):
            self.assertEqual(get(port, path)[0], 404, path)
        self.assertEqual(get(admin, "/readyz"), (200, b"ok"))
        numbers = get(admin, "/metrics")[1].decode()
        self.assertIn('gamed_requests_total{method="GET",route="-",status="4xx"} 2.0', numbers)
        self.assertIn('gamed_database_batch_size_count{queue="read"}', numbers)
        self.assertIn("process_open_fds", numbers)
        self.assertEqual(self.sign_out_somebody(port), (200, 204))
        numbers = get(admin, "/metrics")[1].decode()
        self.assertIn('gamed_sessions_total{event="refreshed"} 1.0', numbers)
        self.assertIn('gamed_security_events_total{event="signed_out"} 1.0', numbers)
        self.assertNotIn("ply_", numbers)
        self.assertEqual(self.stop(process), 0, self.output())
        lines = [loads(line) for line in self.output().splitlines()]
        self.assertTrue(all({"time", "level", "namespace", "message"} <= line.keys() for line in lines))
        routes = {line["route"] for line in lines if line["namespace"] == "gamed.requests"}
        self.assertEqual(routes, {"/healthz", "-", "/auth/session/refresh", "/auth/session/logout"})

    def sign_out_somebody(self, port: int) -> tuple[int, int]:
        """The answers to a refresh and a logout."""
        self.gamed("players", "add", "anna", "--password-stdin", stdin="a long password\n")
        token = loads(self.gamed("players", "token", "anna", "--json")[1])["refresh_credential"]
        status, body = post(port, "/auth/session/refresh", {"refresh_credential": token})
        token = loads(body)["refresh_credential"]
        return status, post(port, "/auth/session/logout", {"refresh_credential": token})[0]

    def test_refused(self) -> None:
        """Where others could reach it, the service does not start."""
        before = self.files()
        code, _, err = self.gamed("serve", "--admin=tcp:9100", f"--listen=tcp:{free_port()}:interface=127.0.0.1")
        self.assertEqual(code, 78)
        self.assertIn("--admin tcp:9100: only this machine may reach it", err)
        self.assertEqual(self.files(), before)
