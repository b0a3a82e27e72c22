"""This module finds the client behind trusted proxies and limits the connections of each network."""

from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from resource import RLIMIT_NOFILE, getrlimit

from msgspec import Struct
from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import IAddress
from twisted.logger import Logger

from gamed.event_log import EventLog
from gamed.rate_limit import client_networks

_log = EventLog(Logger())
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

UNIX = "unix"
"""The address of a client on a local socket for which no proxy named another."""
ADDRESS_CHARACTERS = 64
"""Longer than any address with a zone and a port."""
LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
RESERVED_FILES = 256
"""Descriptors kept for the stores, spooled bodies and the log."""


class HttpSettings(Struct, frozen=True):
    """The operator's settings for HTTP. Unix sockets are always trusted."""

    host: str
    """The base's, without port or brackets, lower case."""
    trusted_proxies: Sequence[Network] = LOOPBACK
    cors_origins: Collection[str] = ()
    connections: int = 20_000
    connections_per_address: int = 64
    """For peers that are neither loopback nor trusted; of IPv6 per /64, and eight times as many per /48."""
    upload_seconds: int = 600
    idle_seconds: int = 30
    trusted_idle_seconds: int = 180


def peer_host(address: IAddress | None) -> str | None:
    """Return the text of a TCP peer's address; None for a local socket."""
    return None if isinstance(address, UNIXAddress) else str(getattr(address, "host", ""))


def client_address(peer: str | None, forwarded: str, trusted: Sequence[Network]) -> str:
    """Return the TCP peer, or the right-most untrusted entry of X-Forwarded-For when the peer is trusted.

    `peer` is None for a unix socket, which is trusted. `forwarded` are the field's lines, joined by commas. An entry
    that is not an address ends the search: the hop that reported it is the last one known (PROTOCOL 3.9).
    """
    hop = None if peer is None else parse_address(peer)
    entries = forwarded.split(",") if forwarded else []
    while entries and is_trusted(hop, trusted):
        entry = entries.pop().strip(" \t")
        reported = parse_address(entry) if len(entry) <= ADDRESS_CHARACTERS else None
        if reported is None:
            break
        hop = reported
    return UNIX if hop is None else str(hop)


def is_trusted(hop: Address | None, trusted: Sequence[Network]) -> bool:
    """Return whether a hop is trusted; loopback peers only when listed, a unix socket (None) always."""
    return hop is None or any(hop.version == network.version and hop in network for network in trusted)


@lru_cache(1024)
def parse_address(text: str) -> Address | None:
    """Parse `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1` or `[2001:db8::1]:4711`; return None for anything else.

    A mapped IPv4 address becomes IPv4, a zone is dropped.
    """
    text = text.strip(" \t")
    if text.startswith("[") and "]" in text:
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


class ForwardedFor:
    """The reader of X-Forwarded-For; it warns the operator once if a peer that is not trusted sends the field."""

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = trusted
        self._warned = False

    def client(self, peer: str | None, forwarded: str | None) -> str:
        """Return the client's address; `peer` is the TCP peer, None for a unix socket."""
        if forwarded is None:
            return _own_address(peer)
        if not self._warned and not (peer is None or is_trusted(parse_address(peer), self._trusted)):
            self._warned = True
            _log.warn(
                "forwarded_for_ignored",
                network=_loggable(peer),
                detail="X-Forwarded-For came from a peer that is not in trusted_proxies. If the peer is your proxy, add"
                " its network to trusted_proxies in authentication.json",
            )
        return client_address(peer, forwarded, self._trusted)


@lru_cache(1024)
def _own_address(peer: str | None) -> str:
    return client_address(peer, "", ())


def _loggable(peer: str) -> str | None:
    """Return a peer in a private network as the network to list; None for any other address, which is not logged."""
    address = parse_address(peer)
    if address is None or not address.is_private:
        return None
    return str(ip_network(address))


def most_connections(wanted: int) -> int:
    """Return how many connections to accept: as many as wanted, but never more than the process may open."""
    soft, _hard = getrlimit(RLIMIT_NOFILE)
    return max(1, min(wanted, soft - RESERVED_FILES))


def spare_files(wanted_connections: int) -> int:
    """Return half of the descriptors that connections never use."""
    soft, _hard = getrlimit(RLIMIT_NOFILE)
    return max(1, (soft - most_connections(wanted_connections)) // 2)


class ConnectionLimiter:
    """The count of open connections, in all and for each network that is neither loopback nor trusted."""

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._most = most_connections(settings.connections)
        self._open: Counter[str] = Counter()
        """By network."""
        self.count = 0
        self.refused: Counter[str] = Counter(connections=0, connections_per_address=0)
        """Connections that were not accepted, by the limit."""

    def is_trusted(self, peer: str | None) -> bool:
        """Return whether the peer is a proxy that the operator trusts, or a unix socket."""
        hop = None if peer is None else parse_address(peer)
        return (peer is None or hop is not None) and is_trusted(hop, self._settings.trusted_proxies)

    def acquire(self, peer: str | None) -> bool:
        """Count a new connection; return False if it exceeds a limit."""
        if self.count >= self._most:
            self.refused["connections"] += 1
            return False
        networks = self._networks_of(peer)
        limit = self._settings.connections_per_address
        if any(self._open[network] >= limit * factor for network, factor in networks):
            self.refused["connections_per_address"] += 1
            return False
        self._open.update(network for network, _ in networks)
        self.count += 1
        return True

    def release(self, peer: str | None) -> None:
        """Forget a connection that was acquired."""
        self.count -= 1
        for network, _ in self._networks_of(peer):
            self._open[network] -= 1
            if not self._open[network]:
                del self._open[network]

    def _networks_of(self, peer: str | None) -> tuple[tuple[str, int], ...]:
        """Return the networks that a connection counts against, each with the factor of its limit.

        None for local sockets, loopback and trusted peers. One customer's IPv6 line has a /64 or more, so counting
        single addresses would limit nobody.
        """
        if peer is None or self.is_trusted(peer) or is_trusted(parse_address(peer), LOOPBACK):
            return ()
        return client_networks(peer)
