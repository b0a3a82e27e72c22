"""The limits of open connections: in all, and of one network that is not trusted."""

from collections import Counter
from resource import RLIMIT_NOFILE, getrlimit

from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import IAddress

from gamed.limits import prefixes
from gamed.web.address import is_trusted, parse_address
from gamed.web.http_policy import LOOPBACK, HttpPolicy

RESERVED_FILES = 256
"""Descriptors kept for the stores, spooled bodies and the log."""


def peer_host(address: IAddress | None) -> str | None:
    """The text of a TCP peer's address; None for a local socket."""
    return None if isinstance(address, UNIXAddress) else str(getattr(address, "host", ""))


def most_connections(wanted: int) -> int:
    """As many as wanted, but never more than the process may open."""
    soft, _hard = getrlimit(RLIMIT_NOFILE)
    return max(1, min(wanted, soft - RESERVED_FILES))


def spare_files(wanted_connections: int) -> int:
    """Half of the descriptors that no connection takes."""
    soft, _hard = getrlimit(RLIMIT_NOFILE)
    return max(1, (soft - most_connections(wanted_connections)) // 2)


class Connections:
    """Counts what is open."""

    def __init__(self, policy: HttpPolicy) -> None:
        self._policy = policy
        self._open: Counter[str] = Counter()
        """By network."""
        self._most = most_connections(policy.connections)
        self.count = 0
        self.refused: Counter[str] = Counter(connections=0, connections_per_address=0)
        """How many were turned away, by the limit."""

    def trusted(self, peer: str | None) -> bool:
        hop = None if peer is None else parse_address(peer)
        return (peer is None or hop is not None) and is_trusted(hop, self._policy.trusted_proxies)

    def admit(self, peer: str | None) -> bool:
        """Count a new connection, or refuse it."""
        if self.count >= self._most:
            self.refused["connections"] += 1
            return False
        networks = self._counted(peer)
        limit = self._policy.connections_per_address
        if any(self._open[network] >= limit * factor for network, factor in networks):
            self.refused["connections_per_address"] += 1
            return False
        self._open.update(network for network, _ in networks)
        self.count += 1
        return True

    def release(self, peer: str | None) -> None:
        """A connection that was admitted is gone."""
        self.count -= 1
        for network, _ in self._counted(peer):
            self._open[network] -= 1
            if not self._open[network]:
                del self._open[network]

    def _counted(self, peer: str | None) -> tuple[tuple[str, int], ...]:
        """Return the networks that a connection counts against, each with the factor of its limit.

        None for local sockets, loopback and trusted peers. One customer's IPv6 line has a /64 or more, so single
        addresses would limit nobody.
        """
        if peer is None or self.trusted(peer) or is_trusted(parse_address(peer), LOOPBACK):
            return ()
        return prefixes(peer)
