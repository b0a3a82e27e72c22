"""A circuit breaker stops requests to a provider that fails repeatedly, asks to wait, or is about to ban this server.

`CircuitState` decides as a pure value; `CircuitBreaker` holds it between requests. Seconds are those of a clock that is
passed in; if that clock is set back, every cooldown ends.
"""

from collections.abc import Callable
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from gamed.providers.base import ProviderUnavailable

FAILURES = 5
"""So many failures in a row open the circuit; the requests of one login count once."""
FIRST_PAUSE_SECONDS = 30
LONGEST_PAUSE_SECONDS = 300
LONGEST_COOLDOWN_SECONDS = 3600
"""The maximum, however long `Retry-After` is."""
REJECTIONS = 1000
"""So many responses of 401, 403 and 429 within ten minutes stop all requests; at 10,000 Discord bans the address.

A tenth of that, because each process of the server counts alone, and other programs may share the address.
"""
REJECTION_WINDOW_SECONDS = 600
SHORT_SECONDS = 3
"""A request waits for a cooldown of at most so many seconds; it fails for a longer one."""
_SLOT_SECONDS = 60
"""Rejections are counted by the minute: ten numbers instead of the instants of up to a thousand responses."""


class Cooldown(Struct, frozen=True):
    """A time span that begins at `since`."""

    since: float = 0
    seconds: float = 0

    def left(self, now: float) -> float:
        return self.since + self.seconds - now if self.since <= now < self.since + self.seconds else 0


class CircuitState(Struct, frozen=True):
    """The conclusions from the last responses of a provider."""

    failures: int = 0
    """Failures in a row; a pause does not reset them, so that the next failure pauses again, for twice as long."""
    failed_logins: tuple[str, ...] = ()
    """The newest logins among these failures, at most FAILURES of them."""
    open: Cooldown = Cooldown()
    """While it lasts no new sign-in begins; the requests of others go on."""
    cooldown: Cooldown = Cooldown()
    """While it lasts no request is sent."""
    rejections: tuple[tuple[int, int], ...] = ()
    """Responses of 401, 403 and 429 as (minute of the clock, count)."""

    def failed(self, now: float, retry_after: int | None = None, login_id: str | None = None) -> "CircuitState":
        """Return the state after a request without a response, or with one that says that the provider cannot.

        All failures of the login `login_id` count once: the cause may be that login's code, which a browser sent.
        Without `login_id` each failure counts.
        """
        after = self if retry_after is None else self._cooled(now, min(retry_after, LONGEST_COOLDOWN_SECONDS))
        if self.open.left(now) or login_id in self.failed_logins:
            return after
        failures = self.failures + 1
        # Doubled at most eight times: 2 ** failures would grow without bound while a provider is down.
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(failures - FAILURES, 8), LONGEST_PAUSE_SECONDS)
        return replace(
            after,
            failures=failures,
            failed_logins=self.failed_logins if login_id is None else (*self.failed_logins, login_id)[-FAILURES:],
            open=Cooldown(now, pause) if failures >= FAILURES else self.open,
        )

    def answered(self) -> "CircuitState":
        """Return the state after any other response; a cooldown that the provider asked for still applies."""
        return replace(self, failures=0, failed_logins=(), open=Cooldown())

    def rejected(self, now: float) -> "CircuitState":
        """Return the state after a response of 401, 403 or 429."""
        slot = int(now // _SLOT_SECONDS)
        oldest = slot - REJECTION_WINDOW_SECONDS // _SLOT_SECONDS
        # Minutes that are still to come are from before the clock was set back, and would never grow old.
        counts = {when: count for when, count in self.rejections if oldest < when <= slot}
        counts[slot] = counts.get(slot, 0) + 1
        if sum(counts.values()) < REJECTIONS:
            return replace(self, rejections=tuple(counts.items()))
        return replace(self._cooled(now, REJECTION_WINDOW_SECONDS), rejections=())

    def closed_for(self, now: float) -> float:
        """Return for how many seconds no new sign-in should begin; 0 if one may begin now."""
        cooldown = self.cooldown.left(now)
        return max(self.open.left(now), cooldown if cooldown > SHORT_SECONDS else 0)

    def _cooled(self, now: float, seconds: float) -> "CircuitState":
        return self if self.cooldown.left(now) >= seconds else replace(self, cooldown=Cooldown(now, seconds))


class CircuitBreaker:
    """The state of one provider, updated after every response and failure."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self.state = CircuitState()

    def record_failure(self, retry_after: int | None = None, login_id: str | None = None) -> None:
        """Record a failure of the provider; see CircuitState.failed."""
        self.state = self.state.failed(self._seconds(), retry_after, login_id)

    def record_answer(self, status: int) -> None:
        """Record a response that is not a failure of the provider."""
        self.state = self.state.answered()
        self.count_rejection(status)

    def count_rejection(self, status: int) -> None:
        """Count the statuses for which Discord bans an address."""
        if status in (401, 403, 429):
            self.state = self.state.rejected(self._seconds())

    def cooldown(self) -> float:
        """Return for how many seconds no request may be sent."""
        return self.state.cooldown.left(self._seconds())

    def require_closed(self) -> None:
        """Raise ProviderUnavailable while no new sign-in should begin."""
        left = ceil(self.state.closed_for(self._seconds()))
        if left:
            cause = f"requests are skipped for {left} s: the provider failed repeatedly, or asked to wait (Retry-After)"
            raise ProviderUnavailable(cause, left)
