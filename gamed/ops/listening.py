"""The ports: opened as endpoint strings say, before the first request and with every failure told at once."""

from collections.abc import Sequence
from typing import Any

from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.endpoints import AdoptedStreamServerEndpoint, serverFromString
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.unix import Port as UNIXPort
from twisted.python.failure import Failure

TCP = (IPv4Address, IPv6Address)


class Listening(Service):
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
            opening = endpoint.listen(self._factory)
            if isinstance(endpoint, AdoptedStreamServerEndpoint):
                opening.addCallback(_lent)
            opening.addCallbacks(self._ports.append, failures.append)
            if failures:
                failures[0].raiseException()

    def startService(self) -> None:
        if not self._ports:
            self.privilegedStartService()
        super().startService()  # type: ignore[no-untyped-call]

    def stopService(self) -> Deferred[Any]:
        """No new connections; those that are open stay."""
        super().stopService()  # type: ignore[no-untyped-call]
        ports, self._ports = self._ports, []
        return gatherResults([maybeDeferred(port.stopListening) for port in ports])


def _lent(port: IListeningPort) -> IListeningPort:
    """A unix socket that another process opened stays when we close our end of it: who connects meanwhile is answered
    after the next start. Twisted, which does so with TCP, would shut it down for all and remove its file.
    """
    if isinstance(port, UNIXPort):
        port._shouldShutdown = False
        port._bindPath = "\0"  # a name without a file
    return port
