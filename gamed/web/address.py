"""The client's address behind proxies that we trust (PROTOCOL 3.9)."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

UNIX = "unix"
"""The address of a client on a local socket that no proxy spoke for."""


def client_address(peer: str | None, forwarded: str, trusted: Sequence[Network]) -> str:
    """The TCP peer, or the right-most untrusted entry of X-Forwarded-For when the peer is trusted.

    `peer` is None for a unix socket, which is trusted. `forwarded` are the field's lines, joined by commas. An entry
    that is no address ends the walk: the hop that reported it is the last one known.
    """
    hop = None if peer is None else parse_address(peer)
    entries = forwarded.split(",") if forwarded else []
    while entries and is_trusted(hop, trusted):
        reported = parse_address(entries.pop())
        if reported is None:
            break
        hop = reported
    return UNIX if hop is None else str(hop)


@lru_cache(1024)
def own_address(peer: str | None) -> str:
    """Of a peer that nobody spoke for."""
    return client_address(peer, "", ())


def is_trusted(hop: Address | None, trusted: Sequence[Network]) -> bool:
    """Loopback peers are trusted only when listed; a unix socket (None) always is."""
    return hop is None or any(hop.version == network.version and hop in network for network in trusted)


@lru_cache(1024)
def parse_address(text: str) -> Address | None:
    """`192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]:4711`; mapped IPv4 becomes IPv4, zones go."""
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
