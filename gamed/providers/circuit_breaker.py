"""When a provider is left alone: it failed again and again, it asked for patience, or it is about to ban us.

`Health` is the judgement, pure; `Breaker` remembers it between requests. Seconds are of a clock that is passed in; when
that clock is set back, nothing is held any longer.
"""

from collections.abc import Callable
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from gamed.providers.base import ProviderUnavailable

FAILURES = 5
"""This many in a row open the breaker; the requests of one login count once."""
FIRST_PAUSE_SECONDS = 30
LONGEST_PAUSE_SECONDS = 300
LONGEST_PATIENCE_SECONDS = 3600
"""However long `Retry-After` says."""
REFUSALS = 1000
"""Answers of 401, 403 and 429 within ten minutes; at 10,000 Discord bans the address."""
REFUSAL_WINDOW_SECONDS = 600
SHORT_SECONDS = 3
"""A silence that a request sits out."""
_SLOT_SECONDS = 60


class Cooldown(Struct, frozen=True):
    """From `since`, for so many seconds."""

    since: float = 0
    seconds: float = 0

    def left(self, now: float) -> float:
        return self.since + self.seconds - now if self.since <= now < self.since + self.seconds else 0


class CircuitState(Struct, frozen=True):
    """What the last answers say about a provider."""

    failures: int = 0
    """In a row; counted on over a pause, so that after it the next one pauses again, for twice as long."""
    failed_logins: tuple[str, ...] = ()
    """The newest logins among these failures, at most FAILURES of them."""
    open: Cooldown = Cooldown()
    """No new sign-in is sent there; what is under way may still try."""
    silence: Cooldown = Cooldown()
    """Nothing at all is sent."""
    refusals: tuple[tuple[int, int], ...] = ()
    """Minute of the clock and count."""

    def failed(self, now: float, retry_after: int | None = None, login_id: str | None = None) -> "CircuitState":
        """Return the health after the provider did not answer a request, or answered that it cannot.

        A request of the login `login_id` counts once with all others of that login: what fails may be that login's
        code, which its browser brought. Without `login_id` each request counts.
        """
        after = self if retry_after is None else self._silent(now, min(retry_after, LONGEST_PATIENCE_SECONDS))
        if self.open.left(now) or login_id in self.failed_logins:
            return after
        failures = self.failures + 1
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(failures - FAILURES, 8), LONGEST_PAUSE_SECONDS)
        return replace(
            after,
            failures=failures,
            failed_logins=self.failed_logins if login_id is None else (*self.failed_logins, login_id)[-FAILURES:],
            open=Cooldown(now, pause) if failures >= FAILURES else self.open,
        )

    def answered(self) -> "CircuitState":
        """It can be reached, whatever it said; a silence it asked for still holds."""
        return replace(self, failures=0, failed_logins=(), open=Cooldown())

    def refused(self, now: float) -> "CircuitState":
        """It answered 401, 403 or 429."""
        slot = int(now // _SLOT_SECONDS)
        oldest = slot - REFUSAL_WINDOW_SECONDS // _SLOT_SECONDS
        counts = {when: count for when, count in self.refusals if oldest < when <= slot}
        counts[slot] = counts.get(slot, 0) + 1
        if sum(counts.values()) < REFUSALS:
            return replace(self, refusals=tuple(counts.items()))
        return replace(self._silent(now, REFUSAL_WINDOW_SECONDS), refusals=())

    def closed_for(self, now: float) -> float:
        """Seconds for which no new sign-in should begin; 0: go ahead."""
        silent = self.silence.left(now)
        return max(self.open.left(now), silent if silent > SHORT_SECONDS else 0)

    def _silent(self, now: float, seconds: float) -> "CircuitState":
        return self if self.silence.left(now) >= seconds else replace(self, silence=Cooldown(now, seconds))


class CircuitBreaker:
    """One provider's health; every answer is told to it."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self.health = CircuitState()

    def failed(self, retry_after: int | None = None, login_id: str | None = None) -> None:
        self.health = self.health.failed(self._seconds(), retry_after, login_id)

    def answered(self, status: int) -> None:
        """Any answer that is no failure of the provider's."""
        self.health = self.health.answered()
        self.count(status)

    def count(self, status: int) -> None:
        """What Discord counts, too."""
        if status in (401, 403, 429):
            self.health = self.health.refused(self._seconds())

    def silence(self) -> float:
        """Seconds for which nothing may be sent."""
        return self.health.silence.left(self._seconds())

    def require_closed(self) -> None:
        """ProviderUnavailable while no new sign-in should begin."""
        left = ceil(self.health.closed_for(self._seconds()))
        if left:
            cause = f"left alone for another {left} s: it did not answer several times, or asked for patience"
            raise ProviderUnavailable(cause, left)
