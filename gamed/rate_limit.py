"""Rate limits use GCRA: a bucket is one instant, and a rejected request does not change it.

See docs/owners/configuration.md: Limits; the generic cell rate algorithm of ITU-T I.371, annex A.
"""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from msgspec import Struct, field

WIDE_FACTOR = 8
"""A /48 network of IPv6 has this many times the rate of each /64 network in it."""


class RateLimited(Exception):
    """The client sent requests too fast; it may try again in `retry_after` seconds."""

    def __init__(self, retry_after_ms: int) -> None:
        self.retry_after = max(1, -(-retry_after_ms // 1000))
        seconds = "1 second" if self.retry_after == 1 else f"{self.retry_after} seconds"
        super().__init__(f"Try again in {seconds}.")


class RateLimit(Struct, frozen=True):
    """A limit of `burst` requests at once, then one every `interval_ms`; an interval of 0 means no limit.

    One request may count as up to `most`: it is accepted if one more is, and the next ones wait for all of it.
    """

    interval_ms: int
    burst: int
    most: int = 1

    @classmethod
    def per_minute(cls, count: int, minutes: int = 1) -> "RateLimit":
        """Return a limit of `count` requests in so many minutes that follow as many without any; 0 means no limit."""
        return cls(60_000 * minutes // count if count else 0, count)

    def times(self, factor: int) -> "RateLimit":
        return RateLimit(self.interval_ms // factor, self.burst * factor)

    def acquire(self, arrival_ms: int | None, now_ms: int, count: int = 1) -> int:
        """Return the bucket after one more request, which counts as `count`; raise RateLimited if it has to wait.

        A bucket is the instant at which it will be empty again. The limit never sets it more than one full bucket, and
        what one request may count more, ahead. An instant more than two full buckets ahead of that comes from a clock
        that was wrong; such a bucket counts as empty, so that a clock that was set back blocks a client no longer than
        a full bucket lasts.
        """
        arrival = now_ms if self.is_idle(arrival_ms, now_ms) else arrival_ms or now_ms
        wait_ms = arrival + self.interval_ms - self.full_ms - now_ms
        if self.interval_ms and wait_ms > 0:
            raise RateLimited(wait_ms)
        return arrival + self.interval_ms * min(count, self.most)

    def is_idle(self, arrival_ms: int | None, now_ms: int) -> bool:
        """Return whether a bucket limits no client: it is empty again, or was written by a clock that was ahead."""
        return (
            arrival_ms is None
            or not now_ms < arrival_ms <= now_ms + 2 * self.full_ms + (self.most - 1) * self.interval_ms
        )

    @property
    def full_ms(self) -> int:
        """Return the time that a full bucket needs to become empty."""
        return self.interval_ms * self.burst


UNLIMITED = RateLimit(0, 0)
MAX_BUCKETS = 10_000
"""Buckets in memory; above this number the limiter discards those that are empty again."""


class PlayerRateLimiter(Struct):
    """Requests of one kind of all players in this process: a bucket each, in memory."""

    _rate: RateLimit
    _buckets: dict[str, int] = field(default_factory=dict)

    def acquire(self, player_id: str, now_ms: int, stored_ms: int = 0) -> None:
        """Count one request; raise RateLimited, which counts nothing.

        `stored_ms` is the bucket of the changes that all processes committed; the fuller bucket decides.
        """
        buckets = self._buckets.get(player_id, 0), stored_ms
        arrival = max((each for each in buckets if not self._rate.is_idle(each, now_ms)), default=None)
        self._buckets[player_id] = self._rate.acquire(arrival, now_ms)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets = {player: ms for player, ms in self._buckets.items() if ms > now_ms}

    def add(self, player_id: str, now_ms: int, count: int) -> None:
        """Count so many requests more, of which the next ones wait.

        The bucket stays within what RateLimit.acquire() may set: further ahead it looks like one that a wrong clock
        wrote, which limits no client.
        """
        rate, arrival = self._rate, self._buckets.get(player_id, 0)
        begin = now_ms if rate.is_idle(arrival, now_ms) else arrival
        fullest = now_ms + rate.full_ms + (rate.most - 1) * rate.interval_ms
        self._buckets[player_id] = min(begin + rate.interval_ms * count, fullest)


@lru_cache(1024)
def client_networks(address: str) -> tuple[tuple[str, int], ...]:
    """Return the networks that a client address counts against, narrowest first, each with the factor of its rate.

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
    """Return the narrowest network of an address: all of it counts as one client."""
    return client_networks(address)[0][0]
