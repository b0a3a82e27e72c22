"""Every enabled provider, made from the owner's file."""

from collections.abc import Mapping

from twisted.internet.interfaces import IReactorTime
from twisted.web.iweb import IAgent

from gamed import __version__
from gamed.config.model import Protocol, Provider
from gamed.identity.breaker import Breaker
from gamed.identity.oauth2 import OAuth2Provider
from gamed.identity.oidc import OidcProvider
from gamed.identity.provider import IdentityProvider
from gamed.identity.watched import Called, WatchedEndpoint, uncounted
from gamed.instants import Now


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
        breaker, agent_name = Breaker(clock.seconds), user_agent(settings.name, public_url)
        endpoint = WatchedEndpoint(agent, clock, now_ms, agent_name, breaker, provider=settings.name, called=called)
        if settings.protocol is Protocol.OIDC:
            return OidcProvider(settings, endpoint, breaker, clock, now_ms)
        return OAuth2Provider(settings, endpoint, breaker)

    return {name: build(provider) for name, provider in providers.items()}


def user_agent(name: str, public_url: str) -> str:
    """Discord turns away whoever does not say so in its own form."""
    return f"DiscordBot ({public_url}, {__version__})" if name == "discord" else f"gamed/{__version__}"
