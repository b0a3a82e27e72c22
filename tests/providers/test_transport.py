"""Real sockets show what providers do that drip, reset, flood, and speak no HTTP, or whose TLS cannot be trusted."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import (
    CertificateBuilder,
    DNSName,
    IPAddress,
    Name,
    NameAttribute,
    SubjectAlternativeName,
    random_serial_number,
)
from cryptography.x509.oid import NameOID
from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import Certificate, PrivateCertificate
from twisted.internet.task import Clock, LoopingCall, deferLater
from twisted.logger import formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase
from twisted.web.client import BrowserLikePolicyForHTTPS

from gamed.crypto import Secret
from gamed.providers.base import ProviderError, ProviderFailure, ProviderUnavailable
from gamed.providers.circuit_breaker import CircuitBreaker
from gamed.providers.client import TIMEOUT_SECONDS, ProviderHttpClient
from gamed.providers.messages import ClientCredentials, ProviderRequest, document_request, token_request
from gamed.providers.transport import MAX_CONNECTION_BYTES, build_agent
from tests.support.covers import covers

reactor: Any = installed
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
GOOD = HEAD + b'Content-Length: 8\r\n\r\n{"a":1} '
DRIPPING_SECONDS = 0.1
"""So long a provider that drips is watched."""
Script = Callable[["FakeProtocol"], None]


class FakeProtocol(Protocol):
    """Runs a script once a whole request's head is here."""

    factory: "FakeFactory"

    def connectionMade(self) -> None:
        self.factory.connections += 1
        self.received = b""
        self.dripping: LoopingCall | None = None
        if self.factory.at_once:
            self._run()

    def dataReceived(self, data: bytes) -> None:
        whole = b"\r\n\r\n" in self.received
        self.received += data
        self.factory.received.append(data)
        if not whole and b"\r\n\r\n" in self.received and not self.factory.at_once:
            self._run()

    def _run(self) -> None:
        self.factory.scripts.pop(0)(self)
        if not self.factory.scripts and not self.factory.begun.called:
            self.factory.begun.callback(None)

    def drip(self, piece: bytes, seconds: float) -> None:
        self.dripping = LoopingCall(lambda: self.transport and self.transport.write(piece))
        self.dripping.start(seconds)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.dripping is not None and self.dripping.running:
            self.dripping.stop()
        self.factory.lost.callback(None)
        self.factory.lost = Deferred()


class FakeFactory(Factory):
    protocol = FakeProtocol
    noisy = False

    def __init__(self, scripts: Sequence[Script], at_once: bool) -> None:
        self.scripts = list(scripts)
        self.at_once = at_once
        self.connections = 0
        self.received: list[bytes] = []
        self.lost: Deferred[None] = Deferred()
        self.begun: Deferred[None] = Deferred()
        """The last script has begun."""


def says(raw: bytes, end: bool = True) -> Script:
    def script(fake: FakeProtocol) -> None:
        assert fake.transport is not None
        fake.transport.write(raw)
        if end:
            fake.transport.loseConnection()

    return script


def resets(fake: FakeProtocol) -> None:
    fake.transport.abortConnection()  # type: ignore[union-attr]


class SocketCase(TestCase):
    clock: Any = reactor
    """By which a provider has its time."""

    def listen(self, *scripts: Script, at_once: bool = False, context: Any = None) -> FakeFactory:
        self.fake = FakeFactory(scripts, at_once)
        if context is None:
            port = reactor.listenTCP(0, self.fake, interface="127.0.0.1")
        else:
            port = reactor.listenSSL(0, self.fake, context, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        self.port = port.getHost().port
        return self.fake

    async def ask(self, url: str = "", call: ProviderRequest | None = None, policy: Any = None) -> Any:
        """One call."""
        endpoint = ProviderHttpClient(
            build_agent(reactor, policy), self.clock, lambda: 0, "gamed/0", CircuitBreaker(self.clock.seconds)
        )
        call = call or document_request("discovery", url or f"http://127.0.0.1:{self.port}/")
        return await endpoint.call(call, endpoint.deadline())

    async def refused(self, kind: type[ProviderFailure], **how: Any) -> str:
        try:
            await self.ask(**how)
        except kind as failure:
            return str(failure)
        self.fail("it was believed")

    async def given_up(self, **how: Any) -> str:
        """Do as refused(), and let the deadline pass once the fake provider has begun its last script."""
        self.clock = Clock()
        refused = Deferred.fromCoroutine(self.refused(ProviderUnavailable, **how))
        await self.fake.begun
        await deferLater(reactor, DRIPPING_SECONDS, lambda: None)
        self.assertFalse(refused.called)
        self.clock.advance(TIMEOUT_SECONDS)
        return await refused

    async def gone(self) -> None:
        """Wait until the fake provider has lost its connection, which the client has then closed."""
        await self.fake.lost.addTimeout(60, reactor)


@covers("threats/20")
class AnswerTests(SocketCase):
    async def test_good(self) -> None:
        """A response with a length, in chunks, or ended by the end of the connection is read."""
        chunked = HEAD + b'Transfer-Encoding: chunked\r\n\r\n3;x=y\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n'
        for raw, end in (
            (GOOD, False),
            (chunked, False),
            (HEAD + b'\r\n{"a":1}', True),
            (b"HTTP/1.1 100 C\r\n\r\n" + GOOD, False),
        ):
            self.listen(says(raw, end))
            self.assertEqual((await self.ask()).members, {"a": 1})

    async def test_drips(self) -> None:
        """A head, content or chunks that arrive byte by byte end at the deadline, and the connection is closed."""
        for raw, piece in (
            (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
            (HEAD, b"X: y\r\n"),
            (HEAD + b"Content-Length: 1000\r\n\r\n", b" "),
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
            (HEAD + b"\r\n", b" "),
            (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ):

            def script(fake: FakeProtocol, raw: bytes = raw, piece: bytes = piece) -> None:
                says(raw, end=False)(fake)
                fake.drip(piece, 0.02)

            self.listen(script)
            self.assertIn("within 10 s", await self.given_up())
            await self.gone()

    async def test_says_nothing(self) -> None:
        """Silence ends at the deadline, before and after the request."""
        for at_once in (True, False):
            self.listen(lambda _: None, at_once=at_once)
            self.assertIn("within 10 s", await self.given_up())
            await self.gone()

    async def test_floods(self) -> None:
        """An endless head, body, chunk list or trailer is cut off early, not read to its end."""
        for raw, piece, kind in (
            (HEAD, b"X: " + b"y" * 4000 + b"\r\n", ProviderError),
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b" " * 4096 + b"\r\n", ProviderError),
            (HEAD + b"Content-Length: 99999999999\r\n\r\n", b" " * 65536, ProviderError),
            (HEAD + b"\r\n", b" " * 65536, ProviderError),
            (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65536, ProviderFailure),
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x" * 65536, ProviderFailure),
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X: y\r\n" * 999, ProviderFailure),
            (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 200, ProviderError),
        ):
            sent = [0]

            def script(fake: FakeProtocol, raw: bytes = raw, piece: bytes = piece, sent: list[int] = sent) -> None:
                says(raw, end=False)(fake)

                def flood() -> None:
                    sent[0] += len(piece)
                    fake.transport.write(piece)  # type: ignore[union-attr]

                fake.dripping = LoopingCall(flood)
                fake.dripping.start(0)

            self.listen(script)
            await self.refused(kind)
            await self.gone()
            self.assertLess(sent[0], 40 * MAX_CONNECTION_BYTES)

    async def test_gzip_bomb(self) -> None:
        """A coded body is refused at its head; not a byte of it is waited for."""
        self.listen(says(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 200000\r\n\r\n\x1f\x8b", end=False))
        self.assertIn("coding", await self.refused(ProviderError))
        await self.gone()

    async def test_redirect(self) -> None:
        """A redirect is not followed, and its body not waited for."""
        self.listen(says(b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 9\r\n\r\n", end=False))
        self.assertIn("redirects", await self.refused(ProviderError))
        await self.gone()
        self.assertEqual(self.fake.connections, 1)

    async def test_torn(self) -> None:
        """An answer that breaks off is no answer, however far it came, and is not asked for again."""
        for raw in (
            b"",
            b"HTTP",
            HEAD,
            HEAD + b'Content-Length: 9\r\n\r\n{"a":1}',
            b"\x16\x03\x01",
            HEAD + b'Transfer-Encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n',
            HEAD + b'\r\n{"a":',
        ):
            self.listen(says(raw))
            await self.refused(ProviderFailure)
            self.assertEqual(self.fake.connections, 1)

    async def test_reset(self) -> None:
        """A connection reset after the request is not made again: the code in it may have been read."""
        for at_once in (True, False):
            self.listen(resets, resets, at_once=at_once)
            call = token_request(
                f"http://127.0.0.1:{self.port}/", ClientCredentials("c", Secret(b"s")), {"code": b"code-7"}, "lgn_a"
            )
            self.assertIn("connection was lost", await self.refused(ProviderUnavailable, call=call))
            self.assertEqual(self.fake.connections, 1)

    async def test_nobody_listens(self) -> None:
        """A refused connection is tried once more and is unavailable."""
        free = reactor.listenTCP(0, Factory(), interface="127.0.0.1")
        self.port = free.getHost().port
        await free.stopListening()
        self.assertIn("the connection failed", await self.refused(ProviderUnavailable))

    async def test_not_http(self) -> None:
        """Bytes that are no HTTP are a typed failure each, and nothing is logged about them."""
        for raw in (
            *(b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/1.1 200\r\n: x\r\n\r\n", b"\x00" * 100),
            *(HEAD + b"Content-Length: x\r\n\r\n{}", HEAD + b"Content-Length: -1\r\n\r\n{}", b"{}", b"\r\n\r\n\r\n"),
            *(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"HTTP/1.1 99999 OK\r\n\r\n{}"),
            *(HEAD + b"Transfer-Encoding: gzip\r\n\r\n{}", HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}"),
            *(HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/9.9 200 OK\r\n\r\n["),
            *(HEAD + b"no colon\r\n\r\n{", HEAD + b"Date: \xff\xfe\r\nRetry-After: \xff\r\n\r\n["),
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n",
        ):
            self.listen(says(raw))
            await self.refused(ProviderFailure)
        self.assertEqual(self.flushLoggedErrors(), [])


class QuietTests(SocketCase):
    async def test_no_lines(self) -> None:
        """A call that works is no line of the log."""
        fake = self.listen(says(GOOD, end=False))
        lines: list[str] = []
        globalLogPublisher.addObserver(observer := lambda event: lines.append(str(formatEvent(event))))
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        lost = fake.lost
        await self.ask()
        await lost
        self.assertEqual(lines, [])


class SentTests(SocketCase):
    async def test_request(self) -> None:
        """Send one request per connection, with exactly these fields."""
        self.listen(says(GOOD, end=False))
        url, client = f"http://127.0.0.1:{self.port}/t?x=1", ClientCredentials("c", Secret(b"s"))
        call = token_request(url, client, {"code": b"code-7"}, "lgn_a")
        await self.ask(call=call)
        head, _, body = b"".join(self.fake.received).partition(b"\r\n\r\n")
        line, *fields = head.decode().split("\r\n")
        self.assertEqual((line, body), ("POST /t?x=1 HTTP/1.1", b"code=code-7"))
        self.assertEqual(
            sorted(field.lower() for field in fields),
            sorted(
                [
                    "accept-encoding: identity",
                    "accept: application/json",
                    "authorization: basic yzpz",
                    "connection: close",
                    "content-length: 11",
                    "content-type: application/x-www-form-urlencoded",
                    f"host: 127.0.0.1:{self.port}",
                    "user-agent: gamed/0",
                ]
            ),
        )


@covers("threats/18")
class TlsTests(SocketCase):
    async def test_untrusted(self) -> None:
        """For a self-signed certificate no request is sent, and the log names the cause."""
        self.listen(says(GOOD), context=certificate("localhost").options())
        cause = await self.refused(ProviderUnavailable, url=f"https://localhost:{self.port}/")
        self.assertIn("certificate is not accepted", cause)
        self.assertEqual(self.fake.received, [])

    async def test_trusted(self) -> None:
        """A certificate of a trusted authority for that very host is taken."""
        own = certificate("localhost")
        self.listen(says(GOOD, end=False), context=own.options())
        answer = await self.ask(url=f"https://localhost:{self.port}/", policy=trusting(own))
        self.assertEqual(answer.members, {"a": 1})

    async def test_other_host(self) -> None:
        """A trusted certificate for another host is not."""
        own = certificate("other.example")
        self.listen(says(GOOD), context=own.options())
        cause = await self.refused(ProviderUnavailable, url=f"https://localhost:{self.port}/", policy=trusting(own))
        self.assertIn("certificate is not accepted", cause)
        self.assertEqual(self.fake.received, [])

    async def test_plain_text_where_tls_should_be(self) -> None:
        """A provider that does not speak TLS gets no request."""
        self.listen(says(GOOD), at_once=True)
        await self.refused(ProviderUnavailable, url=f"https://localhost:{self.port}/")
        self.assertNotIn(b"GET", b"".join(self.fake.received))

    async def test_lingers(self) -> None:
        """A peer that never answers the end of TLS keeps no connection open."""
        own = certificate("localhost")
        self.listen(says(HEAD, end=False), context=own.options())
        await self.given_up(url=f"https://localhost:{self.port}/", policy=trusting(own))
        await self.gone()


def certificate(host: str) -> Any:
    """A key and a certificate that it signed itself."""
    key, now = generate_private_key(SECP256R1()), datetime.now(UTC)
    name = Name([NameAttribute(NameOID.COMMON_NAME, host)])
    made = (
        CertificateBuilder(name, name, key.public_key(), random_serial_number(), now, now + timedelta(days=1))
        .add_extension(SubjectAlternativeName([DNSName(host), IPAddress(ip_address("192.0.2.1"))]), critical=False)
        .sign(key, SHA256())
    )
    pem = made.public_bytes(Encoding.PEM) + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return PrivateCertificate.loadPEM(pem)


def trusting(own: Any) -> BrowserLikePolicyForHTTPS:
    return BrowserLikePolicyForHTTPS(Certificate.loadPEM(own.dumpPEM()))
