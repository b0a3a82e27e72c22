"""The configuration of logins determines their limits per client address.

See SPEC 2.1; docs/owners/configuration.md: Limits.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from gamed.audit import NULL_AUDIT_LOG, AuditLog
from gamed.config.model import AuthLimits, Mode, Registration, ReturnProofSetting
from gamed.crypto import Index, Indexer, Keys, Purpose, Random
from gamed.outcomes import LoginFailure
from gamed.providers.base import IdentityProvider
from gamed.rate_limit import WIDE_FACTOR, RateLimit, client_networks
from gamed.sessions.credentials import SessionPolicy
from gamed.structs import Component
from gamed.timestamps import Now

NO_LIMITS = AuthLimits(0, 0, 0, 0, 0, 0, 0, newcomers_per_day=0)
DAY_MINUTES = 1440


class LoginPolicy(Struct, frozen=True):
    """The settings that apply to every login."""

    mode: Mode
    session: SessionPolicy
    providers: tuple[str, ...] = ()
    """The names that `GET /auth/config` lists."""
    ttl_seconds: int = 600
    """From the start to the first collect: `session.device_transaction_ttl`."""
    return_proof: ReturnProofSetting = ReturnProofSetting.REQUIRED
    registration: Registration = Registration.OPEN
    limits: AuthLimits = NO_LIMITS
    app_links: tuple[str, ...] = ()
    """The schemes and origins to which a login may return."""
    web_origins: tuple[str, ...] = ()
    """The origins of games in a browser: `cors_origins`."""

    @property
    def newcomers(self) -> RateLimit:
        """Return how many players who wait for approval an address may add.

        Each row is kept for 30 days, there are 100,000 approval codes, and the owner reads about each player. A whole
        class begins in the same lesson, so a day's number may come at once.
        """
        return RateLimit.per_minute(self.limits.newcomers_per_day, DAY_MINUTES)


class LoginContext(Component, frozen=True, kw_only=True):
    """The keys, the random source, the clock, the policy and the audit log that all services of a login share."""

    keys: Keys
    random: Random
    now_ms: Now
    policy: LoginPolicy
    audit: AuditLog = NULL_AUDIT_LOG
    instance_id: str = ""
    """Names this process in the logins whose code it redeems."""


class ProviderAccess(Component, frozen=True, kw_only=True):
    """The configured providers by name, the server's base URL, and the log of sign-ins that fail at a provider."""

    providers: Mapping[str, IdentityProvider]
    """Empty in local mode."""
    public_url: str | None
    port: Callable[[], int]
    """The port of the first TCP listener, once it is bound; without `public_url` it decides the base URL."""
    sign_in_failed: Callable[[str, LoginFailure, str, str], object]
    """Logs provider, outcome, cause and request id for the operator, without a value from a browser or a provider."""

    def base_url(self) -> str:
        """Return what every URL begins with (SPEC 4/8)."""
        return self.public_url or f"http://127.0.0.1:{self.port()}"

    def redirect_uri(self, name: str) -> str:
        """Return the redirect URI that has to be registered at the provider (SPEC 4/10)."""
        return f"{self.base_url()}/auth/{name}/callback"


class LoginQuota(Struct, frozen=True):
    """The limits that a new login has to respect; 0 is no limit."""

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


def per_address(indexer: Indexer, purpose: bytes, address: str, rate: RateLimit) -> dict[Index, RateLimit]:
    """Return the buckets of one kind of request, empty if it has no limit."""
    if not rate.interval_ms:
        return {}
    networks = client_networks(address)
    return {indexer.index(Purpose.LIMIT, purpose, net.encode()): rate.times(factor) for net, factor in networks}


def address_indexes(indexer: Indexer, address: str) -> tuple[Index, Index | None]:
    """Return the indexes of the network that counts as one client, and of the /48 around it for IPv6."""
    narrow, *wide = (indexer.index(Purpose.ADDRESS, net.encode()) for net, _ in client_networks(address))
    return narrow, wide[0] if wide else None
