"""Who may connect: so many in all, so many from one stranger."""

from collections import Counter
from resource import RLIMIT_NOFILE, getrlimit

from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import IAddress

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
        if peer is not None and not self._known(peer):
            if self._open[peer] >= self._policy.connections_per_address:
                self.refused["connections_per_address"] += 1
                return False
            self._open[peer] += 1
        self.count += 1
        return True

    def release(self, peer: str | None) -> None:
        """A connection that was admitted is gone."""
        self.count -= 1
        if peer is not None and not self._known(peer):
            self._open[peer] -= 1
            if not self._open[peer]:
                del self._open[peer]

    def _known(self, peer: str) -> bool:
        return self.trusted(peer) or is_trusted(parse_address(peer), LOOPBACK)
