"""Every enabled provider, made from the owner's file."""

from collections.abc import Mapping

from twisted.internet.interfaces import IReactorTime
from twisted.web.iweb import IAgent

from gamed import __version__
from gamed.config.model import Provider, ProviderProtocol
from gamed.providers.base import IdentityProvider
from gamed.providers.circuit_breaker import CircuitBreaker
from gamed.providers.client import Called, WatchedEndpoint, uncounted
from gamed.providers.oauth2 import OAuth2Provider
from gamed.providers.oidc import OidcProvider
from gamed.timestamps import Now


def build_providers(
    providers: Mapping[str, Provider],
    public_url: str,
    agent: IAgent,
    clock: IReactorTime,
    now_ms: Now,
    *,
    called: Called = uncounted,
) -> dict[str, IdentityProvider]:
    """In the file's order. Nothing is asked of anyone yet; `agent` is `wire.build_agent`'s, or one in memory."""

    def build(settings: Provider) -> IdentityProvider:
        breaker, agent_name = CircuitBreaker(clock.seconds), user_agent(settings.name, public_url)
        endpoint = WatchedEndpoint(agent, clock, now_ms, agent_name, breaker, provider=settings.name, called=called)
        if settings.protocol is ProviderProtocol.OIDC:
            return OidcProvider(settings, endpoint, breaker, clock, now_ms)
        return OAuth2Provider(settings, endpoint, breaker)

    return {name: build(provider) for name, provider in providers.items()}


def user_agent(name: str, public_url: str) -> str:
    """Discord turns away whoever does not say so in its own form."""
    return f"DiscordBot ({public_url}, {__version__})" if name == "discord" else f"gamed/{__version__}"
