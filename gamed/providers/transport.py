"""Connections to providers verify TLS, carry one request each, and are aborted after a limited number of bytes.

A response's content is read completely, or not at all and the connection is aborted.
"""

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IConsumer, IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IAgentEndpointFactory, IBodyProducer, IPolicyForHTTPS, IResponse
from zope.interface import implementer

from gamed.config.validators import is_private

MAX_BODY_BYTES = 64 * 1024
MAX_CONNECTION_BYTES = 256 * 1024
"""The limit of a whole response with head, chunk sizes and trailers; the content has a limit of its own."""
ENCODED_MARKER = b"x-refused-content-encoding"
"""The field to which IdentityEncodingAgent moves Content-Encoding, so that no decoder sees it."""


class ResponseTooLarge(Exception):
    """A response with more bytes than allowed."""


class PlainToPublic(ConnectError):
    """A connection without TLS to a public address; nothing was sent."""


class _ByteLimitedFactory(WrappingFactory):
    """A factory of byte-limited connections that does not log: one sign-in would log a dozen lines."""

    noisy = False

    def __init__(self, factory: Any) -> None:
        super().__init__(factory)  # type: ignore[no-untyped-call]
        factory.noisy = False
        self.protocol = _ByteLimitedConnection


class _ByteLimitedConnection(ProtocolWrapper):
    """A connection that counts received bytes. It is always aborted: the peer could delay a graceful end."""

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
class _ByteLimitedEndpoint:
    """An endpoint whose connections are byte-limited; without `tls` they lead to private addresses only.

    The address is checked once the connection is there, before its first byte: a name may lead anywhere.
    """

    def __init__(self, endpoint: IStreamClientEndpoint, *, tls: bool) -> None:
        self._endpoint = endpoint
        self._tls = tls

    def connect(self, protocolFactory: IProtocolFactory) -> "Deferred[IProtocol]":
        connecting: Deferred[Any] = self._endpoint.connect(_ByteLimitedFactory(protocolFactory))
        return connecting.addCallback(self._checked)

    def _checked(self, connection: Any) -> Any:
        if not self._tls and not is_private(connection.getPeer().host):
            connection.loseConnection()
            raise PlainToPublic
        return connection.wrappedProtocol


@implementer(IAgentEndpointFactory)
class _ByteLimitedEndpoints:
    """The endpoints of URIs, over TLS except for http."""

    def __init__(self, reactor: Any, policy: IPolicyForHTTPS) -> None:
        self._reactor = reactor
        self._policy = policy

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        endpoint: IStreamClientEndpoint = HostnameEndpoint(self._reactor, uri.host, uri.port)
        tls: bool = uri.scheme != b"http"
        if tls:
            endpoint = wrapClientTLS(self._policy.creatorForNetloc(uri.host, uri.port), endpoint)
        return _ByteLimitedEndpoint(endpoint, tls=tls)


@implementer(IAgent)
class IdentityEncodingAgent:
    """An agent that requests content without coding, and hides codings and cookies from treq.

    200 KB of gzip can be 300 MB, so encoded content is rejected, not decoded.
    """

    def __init__(self, agent: IAgent) -> None:
        self._agent = agent

    def request(
        self, method: bytes, uri: bytes, headers: Headers | None = None, bodyProducer: IBodyProducer | None = None
    ) -> "Deferred[IResponse]":
        headers = Headers() if headers is None else headers.copy()
        headers.setRawHeaders(b"Accept-Encoding", [b"identity"])
        answering: Deferred[IResponse] = self._agent.request(method, uri, headers, bodyProducer)
        return answering.addCallback(_without_coding)


def build_agent(reactor: Any, policy: IPolicyForHTTPS | None = None) -> IAgent:
    """Build the agent of the service: it trusts this machine's CA certificates, and connects for every request."""
    endpoints = _ByteLimitedEndpoints(reactor, policy or BrowserLikePolicyForHTTPS())
    # No connection is kept: if the provider closes it at the moment of a token request, the code may be spent or not.
    # A handshake more for each request is nothing beside the seconds that a person takes to sign in.
    agent: IAgent = Agent.usingEndpointFactory(reactor, endpoints, HTTPConnectionPool(reactor, persistent=False))
    return agent


def _without_coding(response: IResponse) -> IResponse:
    """Remove the fields of cookies and codings; mark a response that has a coding."""
    fields: list[bytes] = response.headers.getRawHeaders(b"Content-Encoding", [])
    codings = {coding.strip().lower() for one in fields for coding in one.split(b",")} - {b"", b"identity"}
    for name in (b"Content-Encoding", b"Set-Cookie", ENCODED_MARKER):
        response.headers.removeHeader(name)
    if codings:
        response.headers.setRawHeaders(ENCODED_MARKER, [b"yes"])
    return response


class _Reader(Protocol):
    """The receiver of a response's content; cancelling `whole` aborts the connection."""

    def __init__(self, limit: int) -> None:
        self.whole: Deferred[bytes] = Deferred(lambda _: self._abort())
        self._body = bytearray()
        self._limit = limit

    def connectionMade(self) -> None:
        if self._limit < 0:
            self._abort()

    def dataReceived(self, data: bytes) -> None:
        self._body += data[: self._limit + 1]
        if len(self._body) > self._limit:
            self._abort()
            self._settle(Failure(ResponseTooLarge()))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        # Without a length the end of the connection ends the content; incomplete JSON does not parse.
        self._settle(bytes(self._body) if reason.check(ResponseDone, PotentialDataLoss) else reason)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.loseConnection()

    def _settle(self, result: bytes | Failure) -> None:
        if not self.whole.called:
            self.whole.callback(result)  # callback() with a Failure runs the errbacks


def read_body(response: IResponse) -> "Deferred[bytes]":
    """Read at most MAX_BODY_BYTES; fail with ResponseTooLarge. Cancelling the result aborts the connection."""
    reader = _Reader(MAX_BODY_BYTES)
    response.deliverBody(reader)
    return reader.whole


def discard_body(response: IResponse) -> None:
    """Abort the connection without reading the content."""
    reader = _Reader(-1)
    reader.whole.addErrback(lambda _: None)
    response.deliverBody(reader)


@implementer(IBodyProducer)
class BytesBody:
    """A small request body, written at once."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.length = len(body)

    def startProducing(self, consumer: IConsumer) -> "Deferred[None]":
        consumer.write(self._body)
        return succeed(None)

    def pauseProducing(self) -> None: ...

    def resumeProducing(self) -> None: ...

    def stopProducing(self) -> None: ...
