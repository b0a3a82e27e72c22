"""Connections to providers: TLS verified, one request each, no byte more than it can need, no coding, no lingering."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import connectionDone
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IAgentEndpointFactory, IBodyProducer, IPolicyForHTTPS, IResponse
from zope.interface import implementer

MAX_CONNECTION_BYTES = 256 * 1024
"""Head, chunk sizes and trailers included; the body has a limit of its own."""
CODED = b"x-refused-content-encoding"
"""Where `PlainAgent` puts a Content-Encoding, out of reach of every decoder."""


class AnswerTooLarge(Exception):
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
        super().connectionLost(Failure(AnswerTooLarge()) if too_large else reason)  # type: ignore[no-untyped-call]


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
class PlainAgent:
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
    for name in (b"Content-Encoding", b"Set-Cookie", CODED):
        response.headers.removeHeader(name)
    if codings:
        response.headers.setRawHeaders(CODED, [b"yes"])
    return response
