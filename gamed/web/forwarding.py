"""X-Forwarded-For, believed from trusted peers only (PROTOCOL 3.9)."""

from collections.abc import Sequence
from ipaddress import ip_network

from twisted.logger import Logger

from gamed.http_rules.conditions import Header
from gamed.web.address import Network, client_address, is_trusted, own_address, parse_address

_log = Logger()


class Forwarding:
    """Finds the client's address; tells the owner once when a proxy is not listed."""

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = trusted
        self._warned = False

    def client(self, peer: str | None, header: Header) -> str:
        """`peer` is the TCP peer, None for a unix socket."""
        forwarded = header("x-forwarded-for")
        if forwarded is None:
            return own_address(peer)
        if not self._warned and not (peer is None or is_trusted(parse_address(peer), self._trusted)):
            self._warned = True
            _log.warn(
                "X-Forwarded-For came from a peer that is not trusted and was ignored. If it is your proxy, add to"
                ' authentication.json: "trusted_proxies": ["{network}"]',
                network=_network(peer),
            )
        return client_address(peer, forwarded, self._trusted)


def _network(peer: str | None) -> str:
    """What to write down for a peer in a private network; a stranger's address is not logged."""
    address = parse_address(peer or "")
    if address is None or not address.is_private:
        return "<address of the proxy>"
    return str(ip_network(address))
