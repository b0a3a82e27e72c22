"""What a start, a visit or a password counts against: buckets and places per address (PROTOCOL 3.9); pure.

What the owner's configuration means for a handoff (SPEC 2.1, PROTOCOL 3.1).
"""

from collections.abc import Mapping

from msgspec import Struct

from gamed.config.model import AuthLimits, Mode, Registration, ReturnProofSetting
from gamed.crypto import Index, Indexer, Purpose
from gamed.rate_limit import WIDE_FACTOR, RateLimit, client_networks
from gamed.sessions.credentials import SessionPolicy


class LoginQuota(Struct, frozen=True):
    """What the next login has to find room in; 0 is no limit."""

    buckets: Mapping[Index, RateLimit]
    live_per_address: int
    live: int

    @classmethod
    def of(cls, limits: AuthLimits, indexer: Indexer, address: str) -> "LoginQuota":
        buckets = per_address(indexer, b"start", address, RateLimit.per_minute(limits.starts_per_minute))
        return cls(buckets, limits.live_logins_per_address, limits.live_logins)

    @property
    def live_per_wide(self) -> int:
        return self.live_per_address * WIDE_FACTOR


def per_address(indexer: Indexer, what: bytes, address: str, rate: RateLimit) -> dict[Index, RateLimit]:
    """The buckets of one kind of request; none when there is no limit."""
    if not rate.interval_ms:
        return {}
    networks = client_networks(address)
    return {indexer.index(Purpose.LIMIT, what, net.encode()): rate.times(factor) for net, factor in networks}


def address_indexes(indexer: Indexer, address: str) -> tuple[Index, Index | None]:
    """Of what counts as one client, and of the /48 around it in IPv6."""
    narrow, *wide = (indexer.index(Purpose.ADDRESS, net.encode()) for net, _ in client_networks(address))
    return narrow, wide[0] if wide else None


NO_LIMITS = AuthLimits(0, 0, 0, 0, 0, 0, 0)


class LoginPolicy(Struct, frozen=True):
    mode: Mode
    session: SessionPolicy
    providers: tuple[str, ...] = ()
    """The names of `GET /auth/config`."""
    ttl_seconds: int = 600
    """From the start to the first collect: `session.device_transaction_ttl`."""
    return_proof: ReturnProofSetting = ReturnProofSetting.REQUIRED
    registration: Registration = Registration.OPEN
    limits: AuthLimits = NO_LIMITS
