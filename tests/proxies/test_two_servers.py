"""nginx in front of two servers, with the line of the sample for a second one (docs/owners/postgresql.md)."""

import contextlib
import socket
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from cryptography.x509 import DNSName
from twisted.trial.unittest import SynchronousTestCase

from tests.cli.process import folder_of
from tests.e2e.client import Keeper
from tests.e2e.service import Service
from tests.e2e.wire import PATIENCE_SECONDS
from tests.proxies.programs import HAS_IPV6, HOST
from tests.proxies.samples import Nginx
from tests.proxies.upstream import Upstream
from tests.support.certificates import certificate
from tests.support.ports import free_port

REQUESTS = 20
CLIENT_REQUESTS = 64
SETTLED_SECONDS = 0.5
PLAYERS = 4
DOWN_SECONDS = 0.5
"""A player asks meanwhile, and nginx finds the server down."""
BETWEEN_SECONDS = 2
PAUSE_SECONDS = 0.05
"""Between two turns of a player: four that never pause need both processors, and find nothing more."""
CONFIG = {"mode": "local", "public_url": f"https://{HOST}"}
SMALL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Losing:
    """A server that reads each request and closes the connection without an answer, as a killed one does."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", free_port()))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.heard: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                with connection:
                    self.heard.append(connection.recv(65536))

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Silent:
    """A server that accepts connections and answers nothing, as one whose games all wait for changes."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", free_port()), backlog=256)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def close(self) -> None:
        self._socket.close()


class TwoServersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = folder_of(self)
        self.trusted = certificate(self.folder, DNSName(HOST))

    def upstream(self) -> Upstream:
        upstream = Upstream(answer=SMALL)
        self.addCleanup(upstream.close)
        return upstream

    def nginx(self, *addresses: str) -> Nginx:
        """Run nginx in front of these servers until the test ends."""
        proxy = Nginx(self.folder / "nginx", self.trusted, " ".join(addresses))
        self.addCleanup(proxy.close)
        return proxy

    def test_both(self) -> None:
        """Requests go to both servers, over connections that stay open, with the player's address."""
        servers = self.upstream(), self.upstream()
        proxy = self.nginx(*(server.address for server in servers))
        for _ in range(REQUESTS):
            answer = proxy.ask("GET", "/game/saves", source="127.0.0.7", headers={"X-Forwarded-For": "203.0.113.9"})
            self.assertEqual(answer.status, 200)
        for server in servers:
            self.assertEqual(len(server.heard), REQUESTS // 2)
            self.assertLess(len(server.connections), REQUESTS // 2)
            self.assertEqual({(*heard.values("x-forwarded-for"),) for heard in server.heard}, {("127.0.0.7",)})

    def test_one_is_down(self) -> None:
        """While one server is down the other answers every request, also one that changes something."""
        server = self.upstream()
        proxy = self.nginx(f"127.0.0.1:{free_port()}", server.address)
        for method in ("GET", "PUT", "POST", "PATCH", "DELETE") * 4:
            body = None if method in ("GET", "DELETE") else b"{}"
            self.assertEqual(proxy.ask(method, "/game/saves/auto", body=body).status, 200)
        self.assertEqual(len(server.heard), REQUESTS)

    def test_lost_answer(self) -> None:
        """A GET whose answer is lost is sent to the other server."""
        losing, server = Losing(), self.upstream()
        self.addCleanup(losing.close)
        proxy = self.nginx(losing.address, server.address)
        self.assertEqual([proxy.ask("GET", "/game/saves").status for _ in range(2)], [200, 200])
        self.assertEqual((len(losing.heard), len(server.heard)), (1, 2))

    def test_lost_answer_to_a_change(self) -> None:
        """A POST whose answer is lost may have happened: it is not sent to the other server, and the game gets 502."""
        losing, server = Losing(), self.upstream()
        self.addCleanup(losing.close)
        proxy = self.nginx(losing.address, server.address)
        self.assertEqual({proxy.ask("POST", "/game/commit", body=b"{}").status for _ in range(2)}, {200, 502})
        self.assertEqual((len(losing.heard), len(server.heard)), (1, 1))

    def test_many_of_one_client(self) -> None:
        """A client has 64 requests under way; the next one is refused at once, and another client is not."""
        self.many_of("127.0.0.7")

    def test_many_of_one_network(self) -> None:
        """The same over IPv6, where nginx counts by the network of 64 bits."""
        if HAS_IPV6:
            self.many_of("::1")

    def many_of(self, client: str) -> None:
        server = Silent()
        proxy = self.nginx(server.address)
        with ThreadPoolExecutor(CLIENT_REQUESTS + 2) as pool:
            asked = [pool.submit(proxy.ask, "GET", "/", source=client) for _ in range(CLIENT_REQUESTS + 1)]
            done, waiting = wait(asked, PATIENCE_SECONDS, FIRST_COMPLETED)
            elsewhere = pool.submit(proxy.ask, "GET", "/", source="127.0.0.8")
            self.assertEqual([each.result().status for each in done], [503])
            self.assertEqual(wait([elsewhere, *waiting], SETTLED_SECONDS).done, set())
            server.close()
            self.assertEqual({each.result().status for each in [elsewhere, *waiting]}, {502})


class QuickRestartTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = folder_of(self)
        self.servers = [
            Service(self.folder / "gamed", CONFIG, arguments=("--share",), log=f"log-{number}") for number in (1, 2)
        ]
        for server in self.servers:
            self.addCleanup(server.close)
            server.start()
        self.token = Keeper(self.servers[0]).token
        upstream = " ".join(f"127.0.0.1:{server.port}" for server in self.servers)
        self.proxy = Nginx(self.folder / "nginx", certificate(self.folder, DNSName(HOST)), upstream)
        self.addCleanup(self.proxy.close)
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.done = threading.Event()

    def play(self, number: int) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        while not self.done.wait(PAUSE_SECONDS):
            for method, body in (("GET", None), ("PUT", b"%f" % time.monotonic())):
                answer = self.proxy.ask(method, f"/game/saves/slot{number}", body=body, headers=headers)
                self.statuses[method, answer.status] += 1

    def test_both_in_turn(self) -> None:
        """Two servers that restart one right after the other lose nearly no request: one of them always answers.

        With nginx's usual ten seconds both are left out after the second restart, and most requests are 502.
        """
        with ThreadPoolExecutor(PLAYERS) as pool:
            playing = [pool.submit(self.play, number) for number in range(PLAYERS)]
            for server in self.servers:
                time.sleep(BETWEEN_SECONDS)
                self.assertEqual(server.terminate(), 0)
                time.sleep(DOWN_SECONDS)
                server.start()
            time.sleep(BETWEEN_SECONDS)
            self.done.set()
            for each in playing:
                each.result(PATIENCE_SECONDS)
        lost = sum(count for (_, status), count in self.statuses.items() if status >= 500)
        self.assertLess(lost * 50, self.statuses.total(), self.statuses)
