"""The server accepts connections within limits, in all and for each network, and closes them when the service stops."""

from collections import Counter
from collections.abc import Mapping, Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import ServerFactory
from twisted.logger import Logger

from gamed.crypto import Random
from gamed.event_log import EventLog
from gamed.http.access_log import RequestLog
from gamed.http.app import RouteGroup
from gamed.http.client_address import Peer, peer_host
from gamed.http.connection import HttpConnection
from gamed.http.problems import Renderer, render_json
from gamed.http.route_compiler import compile_routes
from gamed.http.settings import HttpSettings
from gamed.http.site import Site
from gamed.open_files import most_connections
from gamed.timestamps import Now

_log = EventLog(Logger())


class HttpServer(ServerFactory):
    """The factory of all connections of one site."""

    noisy = False

    def __init__(self, site: Site, clock: IReactorTime) -> None:
        self.site = site
        self.clock = clock
        self._limiter = ConnectionLimiter(site.settings)
        self._open: set[HttpConnection] = set()
        self._closed: list[Deferred[None]] = []

    def buildProtocol(self, addr: IAddress | None) -> HttpConnection | None:
        """Return a connection; None, which closes it, when there are too many or the service stops."""
        settings = self.site.settings
        peer = Peer.classify(peer_host(addr), settings.trusted_proxies)
        if self.site.shutting_down or not self._limiter.acquire(peer):
            return None
        idle_seconds = settings.trusted_idle_seconds if peer.trusted else settings.idle_seconds
        connection = HttpConnection(self.site, self.clock, peer, idle_seconds, self._connection_lost)
        self._open.add(connection)
        return connection

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    def refused(self) -> Mapping[str, int]:
        """Return the number of connections that were not accepted, by limit."""
        return self._limiter.refused

    def _connection_lost(self, connection: HttpConnection) -> None:
        self._open.remove(connection)
        self._limiter.release(connection.peer)
        self._notify_closed()

    def shut_down(self) -> Deferred[None]:
        """Accept nothing new and answer what is under way; fire when all connections are closed."""
        self.site.shutting_down = True
        closed: Deferred[None] = Deferred()
        self._closed.append(closed)
        for connection in list(self._open):
            connection.shut_down()
        self._notify_closed()
        return closed

    def _notify_closed(self) -> None:
        if not self._open:
            waiting, self._closed = self._closed, []
            for closed in waiting:
                if not closed.called:  # the caller may have given up
                    closed.callback(None)


class ConnectionLimiter:
    """The count of open connections, in all and for each network of a peer."""

    def __init__(self, settings: HttpSettings) -> None:
        self._per_address = settings.connections_per_address
        self._most = most_connections(settings.connections)
        self._open: Counter[str] = Counter()
        """By network."""
        self.count = 0
        self.refused: Counter[str] = Counter(connections=0, connections_per_address=0)
        """Connections that were not accepted, by the limit."""
        self._full = False
        """Whether the limit of all connections was reached, until half of them are closed."""

    def acquire(self, peer: Peer) -> bool:
        """Count a new connection; return False if it exceeds a limit."""
        if self.count >= self._most:
            self.refused["connections"] += 1
            if not self._full:
                self._full = True
                _log.warn("connections_full", connections=self.count)
            return False
        if any(self._open[network] >= self._per_address * factor for network, factor in peer.networks):
            self.refused["connections_per_address"] += 1
            return False
        self._open.update(network for network, _ in peer.networks)
        self.count += 1
        return True

    def release(self, peer: Peer) -> None:
        """Remove a closed connection from the count."""
        self.count -= 1
        self._full = self._full and self.count > self._most // 2
        for network, _ in peer.networks:
            self._open[network] -= 1
            if not self._open[network]:
                del self._open[network]


def build_server(
    groups: Sequence[RouteGroup],
    settings: HttpSettings,
    clock: IReactorTime,
    *,
    access_log: RequestLog,
    now_ms: Now,
    random: Random,
    render_unknown: Renderer = render_json,
) -> HttpServer:
    """Return the factory to listen with; `clock` is the reactor.

    `render_unknown` makes the responses for paths of no group.
    """
    routes = compile_routes(groups, render_unknown)
    return HttpServer(Site(routes, settings, clock, access_log=access_log, now_ms=now_ms, random=random), clock)
