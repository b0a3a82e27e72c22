"""Large files are sent over TCP, unix sockets and TLS, from disk and from the page cache."""

import os
import socket
import ssl
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

from cryptography.x509 import DNSName
from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred
from twisted.internet.ssl import DefaultOpenSSLContextFactory
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from gamed.assets.cache import ObjectCache, ReleaseCache
from gamed.assets.routes import AssetRoutes
from gamed.assets.service import AssetService
from gamed.assets.store import AssetStore
from gamed.http import direct_socket
from gamed.http.direct_socket import unsent_bytes
from gamed.http.server import build_server
from gamed.http.settings import HttpSettings
from tests.assets.serving_fixtures import NOW_MS, Folder
from tests.support.certificates import certificate
from tests.support.folders import unused_path
from tests.support.http import Lines

T = TypeVar("T")
DATA = os.urandom(1000) * 9001
"""Nine stretches, the last of them short."""
LOCK_WAIT_SECONDS = 60
REQUEST = b"GET /assets/stable/pack HTTP/1.1\r\nHost: localhost\r\n%b\r\n"


def fetched(line: socket.socket, fields: bytes = b"", *, slow: bool = False) -> tuple[bytes, bytes]:
    """Return head and body of one response; with `slow` all buffers are full first."""
    line.settimeout(LOCK_WAIT_SECONDS)
    line.sendall(REQUEST % fields)
    if slow:
        time.sleep(0.3)
    received = b""
    while b"\r\n\r\n" not in received:
        received += line.recv(4096)
    head, _, body = received.partition(b"\r\n\r\n")
    [length] = [int(field[16:]) for field in head.split(b"\r\n") if field.startswith(b"Content-Length: ")]
    parts = [body]
    missing = length - len(body)
    while missing:
        parts.append(part := line.recv(256 * 1024))
        if not part:
            raise EOFError(missing)
        missing -= len(part)
    return head, b"".join(parts)


class FilesCase(TestCase):
    def setUp(self) -> None:
        self.folder = unused_path(self)
        self.folder.mkdir(parents=True)
        self.assets = Folder(self.folder / "assets")
        self.assets.publish("stable", {"pack": DATA})
        self.runs = 0
        store, seconds = AssetStore(self.assets.path), reactor.seconds  # type: ignore[attr-defined]
        self.objects = ObjectCache(store, self.away, seconds, 8)
        self.addCleanup(self.objects.close)
        routes = AssetRoutes(
            assets=AssetService(
                releases=ReleaseCache(store, self.away, seconds), objects=self.objects, started_ms=NOW_MS
            )
        )
        policy, real = HttpSettings("localhost"), reactor
        self.log = Lines()
        self.site = build_server(
            [routes],
            policy,
            real,  # type: ignore[arg-type]
            access_log=self.log,
            now_ms=lambda: NOW_MS,
            random=os.urandom,
        )

    def away(self, work: Callable[[], T]) -> Deferred[T]:
        self.runs += 1
        return deferToThread(work)

    def listen(self, port: Any) -> Any:
        self.addCleanup(lambda: maybeDeferred(port.stopListening))
        self.addCleanup(self.site.shut_down)
        return port

    def tcp(self) -> Callable[[], socket.socket]:
        port = self.listen(reactor.listenTCP(0, self.site, interface="127.0.0.1"))  # type: ignore[attr-defined]
        number = port.getHost().port
        return lambda: socket.create_connection(("127.0.0.1", number), LOCK_WAIT_SECONDS)

    def unix(self) -> Callable[[], socket.socket]:
        path = os.path.relpath(self.folder / "socket")
        self.listen(reactor.listenUNIX(path, self.site))  # type: ignore[attr-defined]

        def connect() -> socket.socket:
            line = socket.socket(socket.AF_UNIX)
            line.connect(path)
            return line

        return connect

    def tls(self) -> Callable[[], socket.socket]:
        trusted = certificate(self.folder, DNSName("localhost"))
        factory = DefaultOpenSSLContextFactory(str(trusted), str(trusted))
        port = self.listen(reactor.listenSSL(0, self.site, factory, interface="127.0.0.1"))  # type: ignore[attr-defined]
        number, context = port.getHost().port, ssl.create_default_context(cafile=trusted)

        def connect() -> socket.socket:
            plain = socket.create_connection(("127.0.0.1", number), LOCK_WAIT_SECONDS)
            return context.wrap_socket(plain, server_hostname="localhost")

        return connect

    def same(self, connect: Callable[[], socket.socket]) -> Any:
        """Fetch the file completely, slowly and in part on one connection, in a thread."""

        def ask() -> None:
            with connect() as line:
                for slow in (False, True):
                    head, body = fetched(line, slow=slow)
                    self.assertTrue(head.startswith(b"HTTP/1.1 200 "), head)
                    self.assertEqual(sha256(body).digest(), sha256(DATA).digest())
                head, body = fetched(line, b"Range: bytes=1000001-8000000\r\n")
                self.assertTrue(head.startswith(b"HTTP/1.1 206 "), head)
                self.assertEqual(body, DATA[1_000_001:8_000_001])

        return deferToThread(ask)

    @inlineCallbacks
    def kinds(self, connect: Callable[[], socket.socket]) -> Any:
        yield self.same(connect)
        path = self.assets.object_path(DATA)
        with path.open("rb") as file:  # what the kernel has of it is dropped, where it lets go
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        yield self.same(connect)
        sizes = [line["size"] for line in self.log.lines]
        self.assertEqual(sizes, 2 * [len(DATA), len(DATA), 7_000_000])
        self.assertEqual([file.is_idle for file in self.objects.open], [True])

    def written(self) -> int:
        return sum(channel._request.sent_bytes for channel in self.site._open if channel._request)

    @inlineCallbacks
    def until(self, holds: Callable[[], bool]) -> Any:
        limit = time.monotonic() + LOCK_WAIT_SECONDS
        while not holds():
            self.assertLess(time.monotonic(), limit)
            yield deferLater(reactor, 0.02)  # type: ignore[arg-type]


class SocketTests(FilesCase):
    def test_tcp(self) -> Any:
        return self.kinds(self.tcp())

    def test_unix(self) -> Any:
        return self.kinds(self.unix())

    def test_tls(self) -> Any:
        return self.kinds(self.tls())

    @inlineCallbacks
    def test_pipelined(self) -> Any:
        """A long pipeline is answered in order, without deep recursion."""
        connect, count = self.tcp(), 150
        wanted = b"Range: bytes=0-199999\r\n"

        def ask() -> int:
            with connect() as line:
                line.settimeout(LOCK_WAIT_SECONDS)
                line.sendall(REQUEST % wanted * (count - 1) + REQUEST % (wanted + b"Connection: close\r\n"))
                received = b"".join(iter(lambda: line.recv(1024 * 1024), b""))
                return received.count(DATA[:200_000])

        found = yield deferToThread(ask)
        self.assertEqual(found, count)


class UnsentTests(FilesCase):
    @inlineCallbacks
    def test_how_much_is_unread(self) -> Any:
        """unsent_bytes() shrinks while a slow client reads, before the socket has room."""
        line = yield deferToThread(self.tcp())
        self.addCleanup(line.close)
        line.sendall(REQUEST % b"")
        yield self.until(lambda: self.written() > 0)
        [channel] = self.site._open
        before = unsent_bytes(channel.transport)
        yield deferToThread(line.recv, 100_000, socket.MSG_WAITALL)
        yield self.until(lambda: unsent_bytes(channel.transport) < before or self.written() > before + 100_000)
        self.assertGreater(before, 0)
        line.close()
        yield self.until(lambda: not self.site._open)
        self.assertIsNone(unsent_bytes(channel.transport))


class FallbackTests(SocketTests):
    """The same without Twisted's private names: all bytes pass through the transport."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(direct_socket, "AVAILABLE", False)
