"""The ports: opened as endpoint strings say, before the first request and with every failure told at once."""

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
"""How many may wait at a port to be let in; systemd lets as many wait at its sockets. Twisted's fifty are few when the
service was started anew and every game comes back: the fifty-second to come hears nothing for a second."""


class ListenerService(Service):
    """Raises CannotListenError out of the start: a service that lives on without its port would be deaf."""

    def __init__(self, reactor: Any, endpoints: Sequence[str], factory: IProtocolFactory) -> None:
        self._reactor = reactor
        self._endpoints = endpoints
        self._factory = factory
        self._ports: list[IListeningPort] = []

    @property
    def port(self) -> int:
        """Of the first TCP listener; 0 while there is none."""
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
                _queue_many(self._ports[-1])

    def _listen_on(self, descriptor: int) -> IListeningPort:
        port = InheritedPort(descriptor, self._factory, self._reactor)
        port.startListening()  # type: ignore[no-untyped-call]
        return port

    def startService(self) -> None:
        if not self._ports:
            self.privilegedStartService()
        super().startService()  # type: ignore[no-untyped-call]

    def stopService(self) -> Deferred[Any]:
        """No new connections; those that are open stay."""
        super().stopService()  # type: ignore[no-untyped-call]
        ports, self._ports = self._ports, []
        return gatherResults([maybeDeferred(port.stopListening) for port in ports])


def _queue_many(port: Any) -> None:
    """Of Twisted's own kinds; another plugin's may have no queue."""
    if getattr(port, "backlog", QUEUE) < QUEUE:
        port.socket.listen(QUEUE)


class InheritedPort(UNIXPort):
    """A unix socket that another process opened, and keeps: who connects while we are gone is answered by the next.

    Twisted's own port would open its file to everybody, shorten its queue, and at the end shut it down for all and
    remove the file. With TCP it does nothing of the kind.
    """

    def __init__(self, descriptor: int, factory: IProtocolFactory, reactor: Any) -> None:
        super().__init__(b"\0", factory, QUEUE, reactor=reactor)  # a name without a file
        self._preexistingSocket = socket.socket(fileno=descriptor)
        self._preexistingSocket.setblocking(False)
        self._preexistingSocket.set_inheritable(False)
        self._shouldShutdown = False
