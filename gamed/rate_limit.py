"""Rate limits as GCRA: one instant per bucket, and a refusal that leaves it alone (PROTOCOL 3.9; ITU-T I.371 A)."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from msgspec import Struct

WIDE_FACTOR = 8
"""A /48 of IPv6 may do this much more than one /64 in it."""


class RateLimited(Exception):
    """Too fast; `retry_after` seconds from now it may work."""

    def __init__(self, retry_after_ms: int) -> None:
        self.retry_after = max(1, -(-retry_after_ms // 1000))
        seconds = "1 second" if self.retry_after == 1 else f"{self.retry_after} seconds"
        super().__init__(f"Try again in {seconds}.")


class RateLimit(Struct, frozen=True):
    """`burst` at once, then one every `interval_ms`; an interval of 0 is no limit."""

    interval_ms: int
    burst: int

    @classmethod
    def per_minute(cls, count: int) -> "RateLimit":
        """`count` in any minute that follows a quiet one; 0 is no limit."""
        return cls(60_000 // count if count else 0, count)

    def times(self, factor: int) -> "RateLimit":
        return RateLimit(self.interval_ms // factor, self.burst * factor)

    def after(self, arrival_ms: int | None, now_ms: int) -> int:
        """The bucket after one more request; RateLimited leaves it as it was.

        `arrival_ms` is when the bucket will be empty again. The limit itself never puts it further ahead than a full
        bucket. Twice that was written by another clock, and a refusal does not write: such a bucket counts as empty,
        so that a clock set back locks nobody out for longer than a full bucket lasts.
        """
        arrival = now_ms if self.is_over(arrival_ms, now_ms) else arrival_ms or now_ms
        wait_ms = arrival + self.interval_ms - self.full_ms - now_ms
        if self.interval_ms and wait_ms > 0:
            raise RateLimited(wait_ms)
        return arrival + self.interval_ms

    def is_over(self, arrival_ms: int | None, now_ms: int) -> bool:
        """Whether a bucket limits nobody: empty again, or of a clock that was ahead."""
        return arrival_ms is None or not now_ms < arrival_ms <= now_ms + 2 * self.full_ms

    @property
    def full_ms(self) -> int:
        """How long a full bucket takes to be empty again."""
        return self.interval_ms * self.burst


UNLIMITED = RateLimit(0, 0)


@lru_cache(1024)
def client_networks(address: str) -> tuple[tuple[str, int], ...]:
    """The networks that a client address counts against, each with the factor of its rate.

    IPv4: the address. IPv6: its /64, and its /48 at eight times the rate. Anything else (a unix socket): itself.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return ((address, 1),)
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if not isinstance(ip, IPv6Address):
        return ((f"{ip}/32", 1),)
    narrow, wide = (str(ip_network((ip, bits), strict=False)) for bits in (64, 48))
    return ((narrow, 1), (wide, WIDE_FACTOR))


def client_network(address: str) -> str:
    """The narrowest of them: what counts as one client."""
    return client_networks(address)[0][0]
