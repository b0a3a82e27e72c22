"""The circuit breaker decides from a provider's responses when to skip requests."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.providers.base import ProviderUnavailable
from gamed.providers.circuit_breaker import (
    FAILURES,
    LONGEST_COOLDOWN_SECONDS,
    LONGEST_PAUSE_SECONDS,
    REJECTION_WINDOW_SECONDS,
    REJECTIONS,
    SHORT_SECONDS,
    CircuitBreaker,
    CircuitState,
)


def failing(times: int, now: float = 0, state: CircuitState | None = None) -> CircuitState:
    state = state or CircuitState()
    for _ in range(times):
        state = state.failed(now)
    return state


class StateTests(SynchronousTestCase):
    def test_failures_in_a_row(self) -> None:
        """Four failures do nothing; the fifth opens the circuit for 30 s; a response in between resets the count."""
        self.assertEqual(failing(FAILURES - 1).closed_for(0), 0)
        self.assertEqual(failing(FAILURES).closed_for(0), 30)
        self.assertEqual(failing(FAILURES - 1, 0, failing(FAILURES - 1).answered()).closed_for(0), 0)

    def test_one_login_counts_once(self) -> None:
        """Logins are counted, not their failures: one login alone never opens the circuit."""
        state = CircuitState()
        for _ in range(3 * FAILURES):
            state = state.failed(0, login_id="lgn_a")
        self.assertEqual((state.failures, state.closed_for(0)), (1, 0))
        for number in range(FAILURES - 2):
            state = state.failed(0, login_id=f"lgn_{number}").failed(0, login_id="lgn_a")
        self.assertEqual(state.closed_for(0), 0)
        self.assertEqual(state.failed(0, login_id="lgn_b").closed_for(0), 30)
        self.assertEqual(state.answered().failed(0, login_id="lgn_a").failures, 1)

    def test_retry_after_of_one_login(self) -> None:
        """`Retry-After` counts in every response, also of a login that was counted before."""
        state = CircuitState().failed(0, login_id="lgn_a").failed(0, 100, login_id="lgn_a")
        self.assertEqual((state.failures, state.cooldown.left(0)), (1, 100))

    def test_few_logins_are_remembered(self) -> None:
        """No more logins are remembered than open the circuit."""
        state = CircuitState()
        for number in range(1000):
            state = state.failed(number * LONGEST_PAUSE_SECONDS, login_id=f"lgn_{number}")
        self.assertEqual(len(state.failed_logins), FAILURES)

    def test_pauses_grow(self) -> None:
        """Each failure after a pause doubles it, up to five minutes; a response ends it."""
        state, now, pauses = failing(FAILURES), 0.0, []
        for _ in range(20):
            pauses.append(state.closed_for(now))
            now += pauses[-1]
            state = state.failed(now)
        self.assertEqual(pauses[:5], [30, 60, 120, 240, 300])
        self.assertEqual(set(pauses[5:]), {LONGEST_PAUSE_SECONDS})
        self.assertEqual(state.answered().closed_for(now), 0)

    def test_many_at_once(self) -> None:
        """Failures while the circuit is open do not extend the pause."""
        self.assertEqual(failing(50).closed_for(0), 30)

    def test_cooldown(self) -> None:
        """A cooldown lasts up to an hour, whatever other responses come; a shorter one does not replace it."""
        state = CircuitState().failed(0, 100).answered()
        self.assertEqual((state.cooldown.left(0), state.closed_for(40)), (100, 60))
        self.assertEqual(state.failed(10, 5).cooldown.left(10), 90)
        self.assertEqual(CircuitState().failed(0, 10**9).closed_for(0), LONGEST_COOLDOWN_SECONDS)
        self.assertEqual(CircuitState().failed(0, SHORT_SECONDS).closed_for(0), 0)
        self.assertEqual(CircuitState().failed(0, 0), failing(1))

    def test_rejections(self) -> None:
        """A thousand rejections within ten minutes start a cooldown of ten minutes; over a longer time they do not."""
        state = CircuitState()
        for _ in range(REJECTIONS - 1):
            state = state.rejected(0)
        self.assertEqual(state.cooldown.left(0), 0)
        self.assertEqual(state.rejected(0).cooldown.left(0), REJECTION_WINDOW_SECONDS)
        self.assertEqual(state.rejected(REJECTION_WINDOW_SECONDS).cooldown.left(REJECTION_WINDOW_SECONDS), 0)

    def test_clock_set_back(self) -> None:
        """A clock that is set back by a day ends every pause."""
        state = failing(FAILURES, 1_000_000).failed(1_000_000, 3600)
        self.assertEqual(state.closed_for(1_000_000 - 86400), 0)

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["failed", "asked", "answered", "refused"]), st.floats(0, 500), st.integers(0, 10**6)
            ),
            max_size=60,
        )
    )
    def test_it_always_ends(self, events: list[tuple[str, float, int]]) -> None:
        """Whatever happened, an hour later the circuit is closed, and the state is small."""
        state, now = CircuitState(), 0.0
        for event, wait, seconds in events:
            now += wait
            match event:
                case "failed":
                    state = state.failed(now)
                case "asked":
                    state = state.failed(now, seconds)
                case "answered":
                    state = state.answered()
                case _:
                    state = state.rejected(now)
            self.assertLessEqual(state.closed_for(now), LONGEST_COOLDOWN_SECONDS + 1e-6)
            self.assertLessEqual(len(state.rejections), 10)
        self.assertEqual(state.closed_for(now + LONGEST_COOLDOWN_SECONDS + 1e-6), 0)


class BreakerTests(SynchronousTestCase):
    def test_retry_after_is_whole(self) -> None:
        """`retry_after` is in whole seconds, rounded up, never 0."""
        now = [0.0]
        breaker = CircuitBreaker(lambda: now[0])
        for _ in range(FAILURES):
            breaker.record_failure()
        for at, left in ((0.0, 30), (0.5, 30), (29.5, 1), (29.999, 1)):
            now[0] = at
            with self.assertRaises(ProviderUnavailable) as closed:
                breaker.require_closed()
            self.assertEqual(closed.exception.retry_after, left)
        now[0] = 30
        breaker.require_closed()
