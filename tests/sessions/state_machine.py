"""This model predicts the decisions of the refresh table from a list of events, and compares subjects with it.

Two clients share one stored credential, and a thief may copy it. `play` runs a story on a subject and fails where a
decision differs from the prediction. Subjects with a planted defect show that the comparison finds defects.
"""

import contextlib
from enum import Enum
from typing import Protocol

from hypothesis.strategies import SearchStrategy, builds, lists, one_of, sampled_from
from msgspec import Struct, field
from msgspec.structs import replace

from gamed.sessions import store as session_store
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import CredentialPair, Refreshed, RotationDecision, RotationState, decide
from gamed.sessions.errors import RefreshExpired, RefreshReused, SessionRevoked
from tests.sessions.fixtures import DAY_MS, NOW_MS, AuthDatabase

LIFE_MS = 30 * DAY_MS
WINDOW_MS = 30_000


class Holder(Enum):
    ONE = "a client"
    TWO = "another process with the same store"
    THIEF = "a thief"


class Refresh(Struct, frozen=True):
    """The holder sends its refresh credential; `lost`: the response never arrives."""

    holder: Holder
    lost: bool


class Use(Struct, frozen=True):
    """The holder's access token authenticates a request."""

    holder: Holder


class Copy(Struct, frozen=True):
    """The target gets the credential that the source holds."""

    source: Holder
    target: Holder


class Wait(Struct, frozen=True):
    milliseconds: int


Step = Refresh | Use | Copy | Wait
holders = sampled_from(Holder)
waits = sampled_from((1, 5_000, 29_999, 30_000, 30_001, 12 * DAY_MS))
refreshes = builds(Refresh, holders, sampled_from((False, False, True)))
steps: SearchStrategy[Step] = one_of(
    refreshes,
    refreshes,  # twice as likely as the rest: only a refresh can show a defect
    builds(Use, holders),
    builds(Copy, holders, holders),
    builds(Wait, waits),
)
stories = lists(steps, min_size=4, max_size=30)


class Subject(Protocol):
    """One session, called with the generation of the credential."""

    def refresh(self, generation: int, now_ms: int) -> RotationDecision: ...

    def use(self, generation: int, now_ms: int) -> None: ...


class Prediction(Struct):
    """The table of refreshes in docs/internals/rules.md, computed from the events so far."""

    handed_out_ms: dict[int, int] = field(default_factory=lambda: {1: NOW_MS})
    used: set[int] = field(default_factory=set)
    over: bool = False

    def refresh(self, generation: int, now_ms: int) -> RotationDecision:
        newest = max(self.handed_out_ms)
        answer = self._row(newest, generation, now_ms)
        if answer is RotationDecision.ROTATE:
            self.handed_out_ms[newest + 1] = now_ms
        self.over = self.over or answer is RotationDecision.REUSED
        return answer

    def _row(self, newest: int, generation: int, now_ms: int) -> RotationDecision:
        if self.over:
            return RotationDecision.REVOKED
        if now_ms - self.handed_out_ms[generation] >= LIFE_MS:
            return RotationDecision.EXPIRED
        if generation == newest:
            return RotationDecision.ROTATE
        fresh = newest not in self.used or now_ms - self.handed_out_ms[newest] <= WINDOW_MS
        return RotationDecision.REPEAT if generation + 1 == newest and fresh else RotationDecision.REUSED


class WrongDecision(AssertionError):
    """A decision that differs from the prediction."""


def play(story: list[Step], subject: Subject) -> None:
    """Run the story; raise WrongDecision at the first difference."""
    predicted, now_ms = Prediction(), NOW_MS
    held = dict.fromkeys(Holder, 1)
    for number, step in enumerate(story):
        match step:
            case Wait(milliseconds):
                now_ms += milliseconds
            case Copy(source, target):
                held[target] = held[source]
            case Use(holder):
                subject.use(held[holder], now_ms)
                predicted.used.add(held[holder])
            case Refresh(holder, lost):
                expected, given = predicted.refresh(held[holder], now_ms), subject.refresh(held[holder], now_ms)
                if expected is not given:
                    raise WrongDecision(f"step {number}: {given} instead of {expected}")
                if given in (RotationDecision.ROTATE, RotationDecision.REPEAT) and not lost:
                    held[holder] = max(predicted.handed_out_ms)


class Rule:
    """The pure rule as it is."""

    def __init__(self) -> None:
        self.state = RotationState(1, NOW_MS, False, False, None)
        self.expires_ms = {1: NOW_MS + LIFE_MS}

    def refresh(self, generation: int, now_ms: int) -> RotationDecision:
        answer = self.decide(generation, now_ms)
        if answer is RotationDecision.ROTATE:
            self.state = self.state.rotated(now_ms)
            self.expires_ms[self.state.generation] = now_ms + LIFE_MS
        elif answer is RotationDecision.REPEAT:
            self.repeated(now_ms)
        elif answer is RotationDecision.REUSED:
            self.revoke()
        return answer

    def use(self, generation: int, now_ms: int) -> None:
        self.state = replace(self.state, used=self.state.used or generation == self.state.generation)

    def decide(self, generation: int, now_ms: int) -> RotationDecision:
        return decide(self.state, generation, self.expires_ms[generation], now_ms)

    def repeated(self, now_ms: int) -> None:
        pass

    def revoke(self) -> None:
        self.state = replace(self.state, revoked=True)


class WindowSlides(Rule):
    """Defect: every repetition opens the 30 seconds again."""

    def repeated(self, now_ms: int) -> None:
        self.state = replace(self.state, rotated_ms=now_ms)


class RefreshOnly(Rule):
    """Defect: playing with the successor's access token does not count as use."""

    def use(self, generation: int, now_ms: int) -> None:
        pass


class Grandparent(Rule):
    """Defect: the generation before the predecessor is treated like the predecessor."""

    def decide(self, generation: int, now_ms: int) -> RotationDecision:
        near = generation + 1 if generation == self.state.generation - 2 else generation
        return decide(self.state, near, self.expires_ms[generation], now_ms)


class Forks(Rule):
    """Defect: the predecessor gets a generation of its own."""

    def decide(self, generation: int, now_ms: int) -> RotationDecision:
        answer = super().decide(generation, now_ms)
        return RotationDecision.ROTATE if answer is RotationDecision.REPEAT else answer


class Forgets(Rule):
    """Defect: the end of a session is reported and not stored."""

    def revoke(self) -> None:
        pass


MUTANTS = (WindowSlides, RefreshOnly, Grandparent, Forks, Forgets)


class Stored:
    """The same session in a real auth.db, with every credential that was ever issued, to be sent again."""

    def __init__(self) -> None:
        self.auth = AuthDatabase()
        self.session_id, pair = self.auth.sign_in()
        self.pairs: dict[int, CredentialPair] = {1: pair}

    def close(self) -> None:
        self.auth.connection.close()

    def refresh(self, generation: int, now_ms: int) -> RotationDecision:
        credential = self.pairs[generation].refresh
        outcome = session_store.refresh(self.auth.connection, self.auth.issuer, credential, now_ms)
        if not isinstance(outcome, Refreshed):
            refused = {
                RefreshExpired: RotationDecision.EXPIRED,
                RefreshReused: RotationDecision.REUSED,
                SessionRevoked: RotationDecision.REVOKED,
            }
            return refused[outcome.error]
        newest = max(self.pairs)
        if outcome.pair.refresh.matches(self.pairs[newest].refresh):
            self.pairs[newest] = outcome.pair
            return RotationDecision.REPEAT
        self.pairs[newest + 1] = outcome.pair
        return RotationDecision.ROTATE

    def use(self, generation: int, now_ms: int) -> None:
        """Mark the use of an access token, even of an expired one: the model has no expiry of access tokens."""
        with contextlib.suppress(SessionRevoked):
            session_tables.mark_used(self.auth.connection, self.session_id, generation, now_ms)
