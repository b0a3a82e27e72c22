"""Sign-ins that failed at a provider are logged in one line each, with the request id that the page showed."""

from typing import TYPE_CHECKING

from twisted.logger import Logger

from gamed.audit import Event
from gamed.event_log import EventLog
from gamed.login.outcome import Outcome
from gamed.ops.audit import AuditLog

if TYPE_CHECKING:
    from gamed.ops.metrics import Counters

_log = EventLog(Logger())
_security = AuditLog()
_CONFIGURATION = frozenset({Outcome.PROVIDER_MISCONFIGURED, Outcome.SERVER_CLOCK_SKEW})
"""No player can sign in at this provider until the operator has corrected something."""


class Journal:
    """A log of sign-ins that failed; values are texts of this project and the provider's name in the configuration."""

    def __init__(self, counters: "Counters | None" = None) -> None:
        self._counters = counters

    def sign_in_failed(self, provider: str, outcome: Outcome, cause: str, request_id: str) -> None:
        if self._counters is not None:
            self._counters.record_failed_sign_in(provider, outcome)
        log = _log.error if outcome in _CONFIGURATION else _log.warn
        log("sign_in_failed", provider=provider, outcome=outcome.value, request=request_id, detail=cause)

    def callback_rejected(self, provider: str, check: str, request_id: str) -> None:
        """Record a security event: a browser sent a callback that its provider did not make for it."""
        if self._counters is not None:
            self._counters.record_event(Event.CALLBACK_REJECTED, {})
        _security.note(Event.CALLBACK_REJECTED, provider=provider, check=check, request=request_id)
