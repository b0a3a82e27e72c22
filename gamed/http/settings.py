"""The operator's settings for HTTP."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from gamed.http.client_address import LOOPBACK, Network


class HttpSettings(Struct, frozen=True):
    """The limits, proxies and origins that the operator has set; unix sockets are always trusted."""

    host: str | None
    """The base's, without port or brackets, lower case; None allows every name, for a unix socket."""
    trusted_proxies: Sequence[Network] = LOOPBACK
    cors_origins: Collection[str] = ()
    connections: int = 20_000
    connections_per_address: int = 64
    """For peers that are neither loopback nor trusted; of IPv6 per /64, and eight times as many per /48."""
    upload_seconds: int = 600
    idle_seconds: int = 30
    trusted_idle_seconds: int = 180
    drains: bool = False
    """Connections that are open at the shutdown may send a last request; without it they get 503."""
