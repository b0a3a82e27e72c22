"""What the owner is told of sign-ins that went wrong: one line each, with the request id that its page's answer had."""

from twisted.logger import Logger

from gamed.login.outcome import Outcome
from gamed.ops.tally import Tally

_log = Logger()
_MENDABLE = frozenset({Outcome.PROVIDER_MISCONFIGURED, Outcome.SERVER_CLOCK_SKEW})
"""Nobody can sign in until the owner has done something."""


class Journal:
    """Names of events are stable; of values there are only our own words and the provider's name in the file."""

    def __init__(self, tally: Tally | None = None) -> None:
        self._tally = tally

    def sign_in_failed(self, provider: str, outcome: Outcome, cause: str, request_id: str) -> None:
        if self._tally is not None:
            self._tally.sign_in_failed(provider, outcome)
        emit = _log.error if outcome in _MENDABLE else _log.warn
        emit(
            "sign_in_failed provider={provider} outcome={outcome} request={request_id} cause: {cause}",
            provider=provider,
            outcome=outcome.value,
            request_id=request_id,
            cause=cause,
        )

    def callback_burned(self, provider: str, check: str, request_id: str) -> None:
        """A security event: a browser brought a callback that its own provider did not write for it."""
        if self._tally is not None:
            self._tally.callback_burned()
        _log.warn(
            "security callback_burned provider={provider} check={check} request={request_id}",
            provider=provider,
            check=check,
            request_id=request_id,
        )
