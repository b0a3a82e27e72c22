"""Connections to providers: TLS verified, one request each, no byte more than it can need, no coding, no lingering.

A response's body: whole and small, or an error and an aborted connection.
"""

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.interfaces import IConsumer, IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IAgentEndpointFactory, IBodyProducer, IPolicyForHTTPS, IResponse
from zope.interface import implementer

MAX_CONNECTION_BYTES = 256 * 1024
"""Head, chunk sizes and trailers included; the body has a limit of its own."""
ENCODED_MARKER = b"x-refused-content-encoding"
"""Where `PlainAgent` puts a Content-Encoding, out of reach of every decoder."""


class ResponseTooLarge(Exception):
    """More bytes than an answer may have."""


class _Connections(WrappingFactory):
    """Says nothing of its starts and stops, nor does what it wraps: one sign-in would be a dozen lines of log."""

    noisy = False

    def __init__(self, factory: Any) -> None:
        super().__init__(factory)  # type: ignore[no-untyped-call]
        factory.noisy = False
        self.protocol = _Connection


class _Connection(ProtocolWrapper):
    """Counts what arrives; to lose it is to abort it, since a graceful end is the peer's to delay."""

    _received = 0

    def dataReceived(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > MAX_CONNECTION_BYTES:
            self.loseConnection()
        else:
            super().dataReceived(data)  # type: ignore[no-untyped-call]

    def loseConnection(self) -> None:
        self.disconnecting = True
        if self.transport is not None:
            self.transport.abortConnection()  # type: ignore[attr-defined]

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        too_large = self._received > MAX_CONNECTION_BYTES
        super().connectionLost(Failure(ResponseTooLarge()) if too_large else reason)  # type: ignore[no-untyped-call]


@implementer(IStreamClientEndpoint)
class _Rationed:
    """An endpoint whose connections are counted."""

    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    def connect(self, protocolFactory: IProtocolFactory) -> "Deferred[IProtocol]":
        connecting: Deferred[Any] = self._endpoint.connect(_Connections(protocolFactory))
        return connecting.addCallback(lambda connection: connection.wrappedProtocol)


@implementer(IAgentEndpointFactory)
class _Endpoints:
    def __init__(self, reactor: Any, policy: IPolicyForHTTPS) -> None:
        self._reactor = reactor
        self._policy = policy

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        endpoint: IStreamClientEndpoint = HostnameEndpoint(self._reactor, uri.host, uri.port)
        if uri.scheme != b"http":
            endpoint = wrapClientTLS(self._policy.creatorForNetloc(uri.host, uri.port), endpoint)
        return _Rationed(endpoint)


@implementer(IAgent)
class IdentityEncodingAgent:
    """Asks for bodies as they are, whatever stands in front of it asks for; hides codings and cookies from it.

    200 KB of gzip can be 300 MB: what is coded is refused, not decoded.
    """

    def __init__(self, agent: IAgent) -> None:
        self._agent = agent

    def request(
        self, method: bytes, uri: bytes, headers: Headers | None = None, bodyProducer: IBodyProducer | None = None
    ) -> "Deferred[IResponse]":
        plain = Headers() if headers is None else headers.copy()
        plain.setRawHeaders(b"Accept-Encoding", [b"identity"])
        answering: Deferred[IResponse] = self._agent.request(method, uri, plain, bodyProducer)
        return answering.addCallback(_plain)


def build_agent(reactor: Any, policy: IPolicyForHTTPS | None = None) -> IAgent:
    """The agent of the service: the machine's own CA certificates, a new connection for every request."""
    endpoints = _Endpoints(reactor, policy or BrowserLikePolicyForHTTPS())
    agent: IAgent = Agent.usingEndpointFactory(reactor, endpoints, HTTPConnectionPool(reactor, persistent=False))
    return agent


def _plain(response: IResponse) -> IResponse:
    fields: list[bytes] = response.headers.getRawHeaders(b"Content-Encoding", [])
    codings = {coding.strip().lower() for one in fields for coding in one.split(b",")} - {b"", b"identity"}
    for name in (b"Content-Encoding", b"Set-Cookie", ENCODED_MARKER):
        response.headers.removeHeader(name)
    if codings:
        response.headers.setRawHeaders(ENCODED_MARKER, [b"yes"])
    return response


MAX_BODY_BYTES = 64 * 1024


class _Reader(Protocol):
    def __init__(self, most: int) -> None:
        self.whole: Deferred[bytes] = Deferred(lambda _: self._leave())
        self._body = bytearray()
        self._most = most

    def connectionMade(self) -> None:
        if self._most < 0:
            self._leave()

    def dataReceived(self, data: bytes) -> None:
        self._body += data[: self._most + 1]
        if len(self._body) > self._most:
            self._leave()
            self._settle(Failure(ResponseTooLarge()))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        # Without a length the end of the connection is the end of the body; JSON that was cut short does not parse.
        self._settle(bytes(self._body) if reason.check(ResponseDone, PotentialDataLoss) else reason)

    def _leave(self) -> None:
        if self.transport is not None:
            self.transport.loseConnection()

    def _settle(self, result: bytes | Failure) -> None:
        if not self.whole.called:
            self.whole.callback(result)  # a Failure makes it an errback


def read_body(response: IResponse) -> "Deferred[bytes]":
    """At most MAX_BODY_BYTES, or AnswerTooLarge; cancelling it aborts the connection."""
    reader = _Reader(MAX_BODY_BYTES)
    response.deliverBody(reader)
    return reader.whole


def discard_body(response: IResponse) -> None:
    """Hang up: nothing of the body is wanted."""
    reader = _Reader(-1)
    reader.whole.addErrback(lambda _: None)
    response.deliverBody(reader)


@implementer(IBodyProducer)
class BytesBody:
    """A small body, written at once."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.length = len(body)

    def startProducing(self, consumer: IConsumer) -> "Deferred[None]":
        consumer.write(self._body)
        return succeed(None)

    def pauseProducing(self) -> None: ...

    def resumeProducing(self) -> None: ...

    def stopProducing(self) -> None: ...
