"""The ports are opened from endpoint strings, before the first request; a port that fails stops the start."""

import socket
from collections.abc import Sequence
from re import compile
from typing import Any, cast

from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, execute, gatherResults, maybeDeferred
from twisted.internet.endpoints import AdoptedStreamServerEndpoint, serverFromString
from twisted.internet.interfaces import IDelayedCall, IListeningPort, IProtocolFactory, IReactorTime
from twisted.internet.tcp import Port as TCPPort
from twisted.internet.unix import Port as UNIXPort
from twisted.python.failure import Failure

TCP = (IPv4Address, IPv6Address)
TURN_SECONDS, MOST_ACCEPTED = 0.001, 64
"""The pause after which a process accepts from a shared socket again, and the most that it accepts at a time."""
QUEUE = 4096
"""The length of a port's accept queue, as for systemd's sockets. Twisted's 50 are few after a restart, when every game
reconnects: the 52nd connection gets no reply for a second."""
UNIX_MODE = 0o660
"""The mode of a unix socket whose endpoint string has none: for the user and the group of the process."""
_PIECE = compile(r":((?:\\.|[^:\\])*)")
_NAMED = compile(r"(?:\\.|[^=\\])*=")


class ListenerService(Service):
    """The service that opens the ports; its start raises CannotListenError, so no service runs without its port."""

    def __init__(
        self, reactor: Any, endpoints: Sequence[str], factory: IProtocolFactory, *, shared: bool = False
    ) -> None:
        """With `shared`, other processes may accept from the sockets that are passed to this one."""
        self._reactor = reactor
        self._shared = shared
        self._endpoints = endpoints
        self._factory = factory
        self._ports: list[IListeningPort] = []

    @property
    def port(self) -> int:
        """Return the port of the first TCP listener; 0 while there is none."""
        addresses = [port.getHost() for port in self._ports]
        return next((address.port for address in addresses if isinstance(address, TCP)), 0)

    def privilegedStartService(self) -> None:
        super().privilegedStartService()  # type: ignore[no-untyped-call]
        for text in self._endpoints:
            failures: list[Failure] = []
            endpoint = serverFromString(self._reactor, with_mode(text))
            adopted = isinstance(endpoint, AdoptedStreamServerEndpoint)
            if adopted and (self._shared or endpoint.addressFamily == socket.AF_UNIX):
                opening = execute(self._listen_on, endpoint.fileno, endpoint.addressFamily)
            else:
                opening = endpoint.listen(self._factory)
            opening.addCallbacks(self._ports.append, failures.append)
            if failures:
                failures[0].raiseException()
            if not adopted:
                _extend_queue(self._ports[-1])

    def _listen_on(self, descriptor: int, family: socket.AddressFamily) -> IListeningPort:
        kind: Any = SharedTcpPort
        if family == socket.AF_UNIX:
            kind = SharedUnixPort if self._shared else InheritedPort
        port: IListeningPort = kind(descriptor, self._factory, self._reactor)
        port.startListening()
        return port

    def pause(self) -> list[int]:
        """Accept no connection in this process; return the descriptors of the ports, for other processes."""
        ports: list[Any] = list(self._ports)
        for port in ports:
            port.stopReading()
        return [port.fileno() for port in ports]

    def startService(self) -> None:
        if not self._ports:
            self.privilegedStartService()
        super().startService()  # type: ignore[no-untyped-call]

    def stopService(self) -> Deferred[Any]:
        """Accept no new connections; open connections stay."""
        super().stopService()  # type: ignore[no-untyped-call]
        ports, self._ports = self._ports, []
        return gatherResults([maybeDeferred(port.stopListening) for port in ports])


def with_mode(text: str) -> str:
    """Return the endpoint string of a unix socket with a mode; without one Twisted opens the file to every user.

    The peers of a unix socket are trusted proxies: each user of the machine could claim any address.
    """
    if not text.startswith("unix:"):
        return text
    pieces = _PIECE.findall(text)
    unnamed = sum(_NAMED.match(piece) is None for piece in pieces)  # the second of them is the mode
    has_mode = unnamed > 1 or any(piece.startswith("mode=") for piece in pieces)
    return text if has_mode else f"{text}:mode={UNIX_MODE:o}"


def _extend_queue(port: Any) -> None:
    """Extend the accept queue of one of Twisted's ports; a port of another plugin may have none."""
    if getattr(port, "backlog", QUEUE) < QUEUE:
        port.socket.listen(QUEUE)


class InheritedPort(UNIXPort):
    """The port of a unix socket that another process opened and retains, so that a restart loses no connection.

    Twisted's own port would open the file to every user, shorten the queue, and at the end shut the socket down for
    all processes and remove the file. With TCP it does none of that.
    """

    def __init__(self, descriptor: int, factory: IProtocolFactory, reactor: Any) -> None:
        super().__init__(b"\0", factory, QUEUE, reactor=reactor)  # a name without a file
        self._preexistingSocket = socket.socket(fileno=descriptor)
        self._preexistingSocket.setblocking(False)
        self._preexistingSocket.set_inheritable(False)
        self._shouldShutdown = False


class TurnTaking(TCPPort):
    """A port that leaves connections to other processes which accept from the same socket.

    The process that wakes first would accept all that wait. This one accepts a single connection, then none for a
    moment; twice as many each time that more are waiting still.
    """

    _most = 1
    _resuming: IDelayedCall | None = None

    def doRead(self) -> None:
        self.numberAccepts, before = self._most, self.sessionno
        super().doRead()  # type: ignore[no-untyped-call]
        accepted = self.sessionno - before
        self._most = min(MOST_ACCEPTED, 2 * self._most) if accepted == self._most else 1
        if accepted:
            self.stopReading()  # type: ignore[no-untyped-call]
            self._resuming = cast(IReactorTime, self.reactor).callLater(TURN_SECONDS, self._resume)

    def _resume(self) -> None:
        self._resuming = None
        self.startReading()  # type: ignore[no-untyped-call]

    def stopListening(self, connDone: Any = None) -> Any:
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None
        return super().stopListening()  # type: ignore[no-untyped-call]


class SharedUnixPort(TurnTaking, InheritedPort):
    """The port of a unix socket that other processes accept from, too."""


class SharedTcpPort(TurnTaking):
    """The port of a TCP socket that another process opened, and that other processes accept from, too."""

    def __init__(self, descriptor: int, factory: IProtocolFactory, reactor: Any) -> None:
        opened = socket.socket(fileno=descriptor)
        super().__init__(0, factory, QUEUE, opened.getsockname()[0], reactor)
        self._preexistingSocket = opened
        opened.setblocking(False)
        opened.set_inheritable(False)
