"""The address of a client, also behind trusted proxies."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

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


class Peer(Struct, frozen=True):
    """The other end of a connection, classified once when the connection is made."""

    hop: Address | None
    """None for a unix socket."""
    address: str
    """The text of the address, or `unix`."""
    trusted: bool
    """Whether it is a proxy that the operator trusts, or a unix socket."""
    networks: Sequence[tuple[str, int]]
    """The networks that the connection counts against, each with the factor of its limit.

    None for unix sockets, loopback and trusted peers. One customer's IPv6 line has a /64 or more, so a limit for single
    addresses would limit no client.
    """

    @classmethod
    def classify(cls, host: str | None, trusted_proxies: Sequence[Network]) -> "Peer":
        """Return the peer with this address, as peer_host() returns it."""
        if host is None:
            return LOCAL_SOCKET
        hop = parse_address(host)
        trusted = hop is not None and is_trusted(hop, trusted_proxies)
        exempt = trusted or is_trusted(hop, LOOPBACK)
        return cls(hop, UNIX if hop is None else str(hop), trusted, () if exempt else client_networks(host))


LOCAL_SOCKET = Peer(None, UNIX, True, ())
"""The peer of every connection over a unix socket."""


def peer_host(address: IAddress | None) -> str | None:
    """Return the text of a TCP peer's address; None for a local socket."""
    return None if isinstance(address, UNIXAddress) else str(getattr(address, "host", ""))


class ForwardedFor:
    """The reader of X-Forwarded-For; it warns the operator once if a peer that is not trusted sends the field."""

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = trusted
        self._warned = False

    def client(self, peer: Peer, forwarded: str) -> str:
        """Return the address of the client; `forwarded` are the lines of the field, joined by commas.

        It is the right-most entry that is not a trusted proxy, or the peer itself if that is not trusted. An entry that
        is not an address ends the search: the hop that reported it is the last known one
        (docs/owners/proxies.md: trusted_proxies).
        """
        if not peer.trusted:
            self._warn(peer)
            return peer.address
        hop, entries = peer.hop, forwarded.split(",")
        while entries and is_trusted(hop, self._trusted):
            entry = entries.pop().strip(" \t")
            reported = parse_address(entry) if len(entry) <= ADDRESS_CHARACTERS else None
            if reported is None:
                break
            hop = reported
        return UNIX if hop is None else str(hop)

    def _warn(self, peer: Peer) -> None:
        """Log the peer as the network to list if it is in a private one; other addresses are never logged."""
        if self._warned:
            return
        self._warned = True
        _log.warn(
            "forwarded_for_ignored",
            network=str(ip_network(peer.hop)) if peer.hop is not None and peer.hop.is_private else None,
            detail="X-Forwarded-For came from a peer that is not in trusted_proxies. If the peer is your proxy, add"
            " its network to trusted_proxies in authentication.json",
        )


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
