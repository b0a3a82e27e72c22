"""The door to a provider, with a word to whoever counts what goes through it."""

from collections.abc import Callable
from typing import Any

from gamed.identity.answer import Answer
from gamed.identity.call import Call
from gamed.identity.endpoint import Endpoint
from gamed.identity.provider import ProviderFailure, ProviderUnavailable

Called = Callable[[str, str, float], None]
"""Provider, outcome and seconds of one call; waits and second tries are part of it."""


def uncounted(provider: str, outcome: str, seconds: float) -> None:
    """Nobody counts."""


class WatchedEndpoint(Endpoint):
    """Outcomes: `answered` (200), `refused` (another status), `unavailable`, `error`, `cancelled`."""

    def __init__(self, *of_endpoint: Any, provider: str, called: Called) -> None:
        super().__init__(*of_endpoint)
        self._provider = provider
        self._called = called

    async def call(self, call: Call, until: float) -> Answer:
        began, outcome = self._clock.seconds(), "cancelled"
        try:
            answer = await super().call(call, until)
            outcome = "answered" if answer.status == 200 else "refused"
            return answer
        except ProviderFailure as e:
            outcome = "unavailable" if isinstance(e, ProviderUnavailable) else "error"
            raise
        finally:
            self._called(self._provider, outcome, self._clock.seconds() - began)
