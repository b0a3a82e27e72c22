"""The client of the webhook, and the time until it is tried again."""

from typing import Any

from gamed import __version__
from gamed.config.model import Notify
from gamed.crypto import Secret
from gamed.notify.format_rules import WebhookMessage
from gamed.notify.model import Undelivered
from gamed.providers.base import ProviderFailure, ProviderUnavailable
from gamed.providers.circuit_breaker import CircuitBreaker
from gamed.providers.client import ProviderHttpClient
from gamed.providers.messages import ProviderRequest
from gamed.providers.transport import build_agent
from gamed.timestamps import Now

USER_AGENT = f"DiscordBot (gamed, {__version__})"
"""Discord rejects other forms; no address is in it, as the receiver need not know the server's."""


class WebhookClient:
    """The client of one webhook: ten seconds for each message, no redirect, and no content of a response is read."""

    def __init__(self, notify: Notify, reactor: Any, now_ms: Now) -> None:
        self.form, self.names = notify.format, notify.names
        self._url = notify.url
        self._client = ProviderHttpClient(
            build_agent(reactor), reactor, now_ms, USER_AGENT, CircuitBreaker(reactor.seconds)
        )

    async def send(self, message: WebhookMessage) -> Undelivered | None:
        """Send a message once; return None if the webhook accepted it."""
        headers = {name: Secret(value.encode("latin-1")) for name, value in message.headers.items()}
        url, body = self._url.reveal().decode("latin-1"), Secret(message.body)
        request = ProviderRequest("notify", "POST", url, headers, body, repeatable=False, reads_content=False)
        try:
            await self._client.deliver(request, self._client.deadline())
        except ProviderFailure as e:
            return Undelivered(str(e), e.retry_after if isinstance(e, ProviderUnavailable) else None)
        return None
