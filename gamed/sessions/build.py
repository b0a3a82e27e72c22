"""Builds the sessions of a service."""

from gamed.context import ServiceContext
from gamed.rate_limit import PlayerRateLimiter, RateLimit
from gamed.sessions.credentials import CredentialIssuer, SessionPolicy, refreshes_of_player
from gamed.sessions.recent import RecentTokens
from gamed.sessions.service import FirstUses, RevocationListener, SessionService
from gamed.sessions.store import SessionStore


def build_sessions(
    context: ServiceContext, revoked: RevocationListener, first_uses: FirstUses, recent: RecentTokens | None = None
) -> SessionService:
    """Return the service of sessions; `revoked` is notified of each player of whom one has ended."""
    config, databases = context.config, context.databases
    issuer = CredentialIssuer(keys=context.keys, policy=SessionPolicy.of(config.session), random=context.random)
    per_minute = config.limits.refreshes_per_minute
    store = SessionStore(
        reads=databases.reads,
        writes=databases.auth,
        issuer=issuer,
        refreshes=RateLimit.per_minute(per_minute),
        players=PlayerRateLimiter(refreshes_of_player(per_minute, issuer.policy.access_seconds)),
    )
    return SessionService(
        store=store,
        revoked=revoked,
        now_ms=context.now_ms,
        audit=context.audit,
        uses=first_uses,
        recent=RecentTokens() if recent is None else recent,
    )
