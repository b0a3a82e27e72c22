"""What the owner decides about HTTP."""

from collections.abc import Collection, Sequence
from ipaddress import ip_network

from msgspec import Struct

from gamed.web.address import Network

LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


class HttpPolicy(Struct, frozen=True):
    """`host` is the base's, without port or brackets, lower case. Unix sockets are always trusted."""

    host: str
    trusted_proxies: Sequence[Network] = LOOPBACK
    cors_origins: Collection[str] = ()
    connections: int = 20_000
    connections_per_address: int = 64
    """For peers that are neither loopback nor trusted; of IPv6 per /64, and eight times as many per /48."""
    upload_seconds: int = 600
    idle_seconds: int = 30
    trusted_idle_seconds: int = 180
    fast: bool = True
    """Whether plain requests take the short way (gamed.web.fast)."""
