"""What a start, a visit or a password counts against: buckets and places per address (PROTOCOL 3.9); pure."""

from collections.abc import Mapping

from msgspec import Struct

from gamed.config.model import Limits
from gamed.crypto import Index, Indexer, Purpose
from gamed.limits import WIDE_FACTOR, Rate, prefixes


class Crowd(Struct, frozen=True):
    """What the next login has to find room in; 0 is no limit."""

    buckets: Mapping[Index, Rate]
    live_per_address: int
    live: int

    @classmethod
    def of(cls, limits: Limits, indexer: Indexer, address: str) -> "Crowd":
        buckets = per_address(indexer, b"start", address, Rate.per_minute(limits.starts_per_minute))
        return cls(buckets, limits.live_logins_per_address, limits.live_logins)

    @property
    def live_per_wide(self) -> int:
        return self.live_per_address * WIDE_FACTOR


def per_address(indexer: Indexer, what: bytes, address: str, rate: Rate) -> dict[Index, Rate]:
    """The buckets of one kind of request; none when there is no limit."""
    if not rate.interval_ms:
        return {}
    networks = prefixes(address)
    return {indexer.index(Purpose.LIMIT, what, net.encode()): rate.times(factor) for net, factor in networks}


def address_indexes(indexer: Indexer, address: str) -> tuple[Index, Index | None]:
    """Of what counts as one client, and of the /48 around it in IPv6."""
    narrow, *wide = (indexer.index(Purpose.ADDRESS, net.encode()) for net, _ in prefixes(address))
    return narrow, wide[0] if wide else None
