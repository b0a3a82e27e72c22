"""The registry builds every provider that the configuration enables."""

from collections.abc import Callable, Mapping
from functools import partial

from twisted.internet.interfaces import IReactorTime
from twisted.web.iweb import IAgent

from gamed import __version__
from gamed.config.model import Provider, ProviderProtocol
from gamed.providers.base import IdentityProvider
from gamed.providers.circuit_breaker import CircuitBreaker
from gamed.providers.client import ProviderHttpClient
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
    report: Callable[[str, str, float], None] | None = None,
) -> dict[str, IdentityProvider]:
    """Build the providers in the order of the file, without sending a request.

    `report` is called after each call with the provider's name, the outcome and the seconds (gamed.providers.client).
    """

    def build(settings: Provider) -> IdentityProvider:
        breaker = CircuitBreaker(clock.seconds)
        reported = None if report is None else partial(report, settings.name)
        client = ProviderHttpClient(agent, clock, now_ms, user_agent(settings.name, public_url), breaker, reported)
        if settings.protocol is ProviderProtocol.OIDC:
            return OidcProvider(settings, client, breaker, clock, now_ms)
        return OAuth2Provider(settings, client, breaker)

    return {name: build(provider) for name, provider in providers.items()}


def user_agent(name: str, public_url: str) -> str:
    """Return the User-Agent; Discord rejects requests without one in its own form."""
    return f"DiscordBot ({public_url}, {__version__})" if name == "discord" else f"gamed/{__version__}"
