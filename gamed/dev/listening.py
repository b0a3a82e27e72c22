"""The development provider, or a page, on a port of this machine: 127.0.0.1, and no way to say another address."""

from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.web.resource import IResource
from twisted.web.server import Site

from gamed.dev.provider import DevelopmentProvider

LOOPBACK = "127.0.0.1"


class Silent(Site):
    """No access log: its lines would hold states and nonces."""

    noisy = False

    def log(self, request: Any) -> None: ...


class LoopbackService(Service):
    """Raises CannotListenError out of the start when the port is taken."""

    def __init__(self, reactor: Any, port: int, resource: IResource) -> None:
        self._reactor = reactor
        self._number = port
        self._site = Silent(resource)  # type: ignore[no-untyped-call]
        self._port: IListeningPort | None = None

    def privilegedStartService(self) -> None:
        super().privilegedStartService()  # type: ignore[no-untyped-call]
        self._port = self._reactor.listenTCP(self._number, self._site, interface=LOOPBACK)

    def startService(self) -> None:
        if self._port is None:
            self.privilegedStartService()
        super().startService()  # type: ignore[no-untyped-call]

    def stopService(self) -> Deferred[Any]:
        super().stopService()  # type: ignore[no-untyped-call]
        port, self._port = self._port, None
        return maybeDeferred(port.stopListening) if port else maybeDeferred(lambda: None)


class ProviderService(LoopbackService):
    def __init__(self, reactor: Any, port: int, provider: DevelopmentProvider) -> None:
        super().__init__(reactor, port, provider.app.resource())
