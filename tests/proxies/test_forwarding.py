"""Requests and responses pass the proxies unchanged (SPEC 1/3, 4)."""

import time

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.process import folder_of
from tests.proxies.cases import in_front
from tests.proxies.programs import HOST, Proxy, program
from tests.proxies.upstream import META, Heard, Upstream
from tests.support.covers import covers

WAIT_SECONDS = 60
OTHERS = ("/index.html", "/auth", "/game", "/assets", "/healthz/", "/metrics", "/readyz", "/auth/../metrics")
TARGETS = (
    "/",
    "/?from=link",
    "/healthz",
    "/auth/config",
    "/auth/login/AbCdEfGhIjKlMnOpQrStUv/continue",
    "/auth/invite/AbCdEfGhIjKlMnOpQrStUv",
    "/auth/reset/AbCdEfGhIjKlMnOpQrStUv",
    "/auth/discord/callback?code=4%2F0A%2b&state=a%3D%3d&iss=https%3A%2F%2Fx&scope=a+b;c&bad=%zz%&empty=&&=&x=\xc3\xa9?/../#",
    "/auth/discord/callback?" + "q" * 4000,
    "/game/",
    "/game/saves?since=k3x9.1234&since=",
    "/game/saves/a%2Fb%20c%7E~%C3%A9",
    "/game/../game/saves",
    "//game//saves/",
    "/assets/r0123456789abcdef/d%C3%A4ta/level%201.pck",
    "/assets/stable/a//b/./c",
)
FIELDS = {
    "Authorization": "Bearer gat_x",
    "Cookie": "__Host-gl=abc",
    "If-Match": '"9-9f86d081884c7d65"',
    "If-None-Match": 'W/"x", *',
    "If-Range": '"9-9f86d081884c7d65"',
    "Range": "bytes=0-99,200-",
    "Prefer": "wait=25",
    "Content-Digest": "sha-256=:AAAA:",
    "Save-Meta": META.decode(),
    "Accept-Encoding": "gzip, br",
    "Sec-Fetch-Site": "same-origin",
    "Origin": "null",
}
FORGED = "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For: 127.0.0.1\r\n"


def request(start: str, fields: str = "", body: bytes = b"") -> bytes:
    return f"{start} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n{fields}\r\n".encode("latin-1") + body


@covers("1/3", "4/12")
class ForwardingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = folder_of(self)
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)
        self.proxies = in_front(self, self.folder, self.upstream.address)

    def heard(self, proxy: Proxy, sent: bytes) -> Heard:
        """Return the request as it arrived."""
        before = len(self.upstream.heard)
        answer = proxy.raw(sent)
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), (proxy.name, sent, answer[:300]))
        [heard] = self.upstream.heard[before:]
        return heard

    def test_targets(self) -> None:
        """Each path of the three families arrives as it was sent, with its query, over connections that stay open."""
        for proxy in self.proxies:
            before = len(self.upstream.connections)
            for target in TARGETS:
                heard = self.heard(proxy, request(f"GET {target}"))
                self.assertEqual(heard.start, f"GET {target} HTTP/1.1", proxy.name)
                self.assertEqual((heard.values("host"), heard.values("accept-encoding")), ([HOST], []), proxy.name)
                self.assertNotIn("close", heard.values("connection"))
            self.assertLess(len(self.upstream.connections) - before, len(TARGETS))

    def test_methods(self) -> None:
        """Each method arrives with its fields; only the fields about the client are the proxy's."""
        fields = "".join(f"{name}: {value}\r\n" for name, value in FIELDS.items())
        for proxy in self.proxies:
            for method in ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"):
                body = b"level 3" if method in ("PUT", "POST") else b""
                length = f"Content-Length: {len(body)}\r\n" if body else ""
                heard = self.heard(proxy, request(f"{method} /game/saves/auto", fields + FORGED + length, body))
                self.assertEqual((heard.start, bytes(heard.body)), (f"{method} /game/saves/auto HTTP/1.1", body))
                arrived = {name: ", ".join(heard.values(name.lower())) for name in FIELDS}
                self.assertEqual(arrived, FIELDS, proxy.name)
                self.assertEqual(heard.values("x-forwarded-for"), ["127.0.0.1"], proxy.name)
                self.assertEqual(heard.values("content-length"), [str(len(body))] if body else [], proxy.name)

    def test_other_paths(self) -> None:
        """Forward no other path to gamed, and redirect none."""
        for proxy in self.proxies:
            for target in (
                "/index.html",
                "/auth",
                "/game",
                "/assets",
                "/healthz/",
                "/metrics",
                "/readyz",
                "/auth/../metrics",
            ):
                answer = proxy.ask("GET", target)
                self.assertEqual((answer.status, answer.headers.get("location")), (404, None), (proxy.name, target))
        self.assertEqual(self.upstream.heard, [])

    @covers("threats/31")
    def test_answers(self) -> None:
        """Responses are neither cached nor compressed nor changed, even if the proxy does so for other sites."""
        for proxy in self.proxies:
            before = len(self.upstream.heard)
            for target in ("/auth/config", "/game/saves/auto", "/assets/stable"):
                for _ in range(2):
                    answer = proxy.ask("GET", target, headers={"Accept-Encoding": "gzip, br"})
                    self.assertEqual((answer.status, answer.body), (200, b"a" * 4000))
                    self.assertNotIn("content-encoding", answer.headers)
                    self.assertNotIn("age", answer.headers)
                    self.assertEqual(answer.headers["etag"], '"9-9f86d081884c7d65"', proxy.name)
                    self.assertEqual(answer.headers["accept-ranges"], "bytes")
                    self.assertEqual(answer.headers["save-meta"], META.decode())
                    self.assertEqual(answer.headers["cache-control"], "max-age=600")
            self.assertEqual(len(self.upstream.heard) - before, 6, proxy.name)

    def test_bodies(self) -> None:
        """A body reaches gamed while the client still sends it, with or without a known length."""
        first, rest = b"a" * 70_000, b"b" * 30_000
        for proxy in self.proxies:
            self.streams(proxy, "Content-Length: 100000", [first, rest])
            self.streams(proxy, "Transfer-Encoding: chunked", [chunk(first), chunk(rest) + b"0\r\n\r\n"])

    def streams(self, proxy: Proxy, framing: str, parts: list[bytes]) -> None:
        line, before = proxy.line(), len(self.upstream.heard)
        self.addCleanup(line.close)
        line.connect()
        line.sock.sendall(request("PUT /game/saves/auto", framing + "\r\n", parts[0]))
        self.wait_for(lambda: len(self.upstream.heard) > before and len(self.upstream.heard[-1].body) >= 40_000)
        line.sock.sendall(parts[1])
        self.assertTrue(line.sock.recv(65536).startswith(b"HTTP/1.1 200 "))
        heard = self.upstream.heard[-1]
        self.assertEqual(bytes(heard.body), b"a" * 70_000 + b"b" * 30_000, (proxy.name, framing))

    def wait_for(self, true: object) -> None:
        limit = time.monotonic() + WAIT_SECONDS
        while not true():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.02)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class SocketTests(SynchronousTestCase):
    def test_unix(self) -> None:
        """The line for a unix socket, which the samples have as a comment, works."""
        folder = folder_of(self)
        upstream = Upstream(folder / "gamed.sock")
        self.addCleanup(upstream.close)
        for proxy in in_front(self, folder, upstream.address):
            self.assertEqual(proxy.ask("GET", "/auth/config?x").status, 200)
            heard = upstream.heard.pop()
            self.assertEqual(heard.start, "GET /auth/config?x HTTP/1.1")
            self.assertEqual((heard.values("host"), heard.values("x-forwarded-for")), ([HOST], ["127.0.0.1"]))


class ProgramTests(SynchronousTestCase):
    def test_missing(self) -> None:
        """Without the program the test fails and says what to install."""
        error = self.assertRaises(AssertionError, program, "no-such-proxy")
        self.assertIn("apt-get install no-such-proxy", str(error))
