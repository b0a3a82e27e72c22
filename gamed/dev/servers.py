"""A development server listens on 127.0.0.1 only, and has no access log."""

from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.web.resource import IResource
from twisted.web.server import Site

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")


def origins(port: int) -> tuple[str, ...]:
    """Return the values that a browser may send as `Origin` for a page on this port."""
    return tuple(f"http://{name}:{port}" for name in NAMES)


class QuietSite(Site):
    """A site without an access log, whose lines would contain states and nonces."""

    noisy = False

    def log(self, request: Any) -> None: ...


class LoopbackService(Service):
    """A service on a loopback port; its start raises CannotListenError if the port is taken."""

    def __init__(self, reactor: Any, port: int, resource: IResource) -> None:
        self._reactor = reactor
        self._number = port
        self._site = QuietSite(resource)  # type: ignore[no-untyped-call]
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
