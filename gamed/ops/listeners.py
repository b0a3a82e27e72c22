"""The ports are opened from endpoint strings, before the first request; a port that fails stops the start."""

import socket
from collections.abc import Sequence
from typing import Any

from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, execute, gatherResults, maybeDeferred
from twisted.internet.endpoints import AdoptedStreamServerEndpoint, serverFromString
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.unix import Port as UNIXPort
from twisted.python.failure import Failure

TCP = (IPv4Address, IPv6Address)
QUEUE = 4096
"""The length of a port's accept queue, as for systemd's sockets. Twisted's 50 are few after a restart, when every game
reconnects: the 52nd connection gets no reply for a second."""


class ListenerService(Service):
    """The service that opens the ports; its start raises CannotListenError, so no service runs without its port."""

    def __init__(self, reactor: Any, endpoints: Sequence[str], factory: IProtocolFactory) -> None:
        self._reactor = reactor
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
            endpoint = serverFromString(self._reactor, text)
            adopted = isinstance(endpoint, AdoptedStreamServerEndpoint)
            if adopted and endpoint.addressFamily == socket.AF_UNIX:
                opening = execute(self._listen_on, endpoint.fileno)
            else:
                opening = endpoint.listen(self._factory)
            opening.addCallbacks(self._ports.append, failures.append)
            if failures:
                failures[0].raiseException()
            if not adopted:
                _extend_queue(self._ports[-1])

    def _listen_on(self, descriptor: int) -> IListeningPort:
        port = InheritedPort(descriptor, self._factory, self._reactor)
        port.startListening()  # type: ignore[no-untyped-call]
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
