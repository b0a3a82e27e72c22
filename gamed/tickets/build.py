"""Builds the tickets of a service."""

from collections.abc import Callable

from gamed.context import ServiceContext
from gamed.rate_limit import PlayerRateLimiter, RateLimit
from gamed.sessions.service import SessionService
from gamed.tickets.model import TicketSettings
from gamed.tickets.routes import TicketRoutes
from gamed.tickets.service import TicketIssuer, TicketService, secrets_of
from gamed.tickets.store import TicketStore


def build_tickets(context: ServiceContext, sessions: SessionService, base_url: Callable[[], str]) -> TicketRoutes:
    """Return the routes; without an audience in the configuration the modules of the keys are not imported."""
    config, issuer = context.config, None
    if config.ticket_audiences:
        from gamed.tickets.keys import TicketKeys

        issuer = TicketIssuer(
            settings=TicketSettings(config.ticket_audiences, config.session.ticket_seconds),
            keys=TicketKeys(context.settings.master_key),
            url=lambda: f"{base_url()}/auth",
            rate=PlayerRateLimiter(RateLimit.per_minute(config.limits.tickets_per_minute)),
            random=context.random,
            askers=secrets_of(config.ticket_audiences),
        )
    store = TicketStore(reads=context.databases.reads, keys=context.keys)
    return TicketRoutes(tickets=TicketService(store=store, sessions=sessions, now_ms=context.now_ms, issuer=issuer))
