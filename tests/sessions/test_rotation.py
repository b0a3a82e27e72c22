"""The refresh table decides row by row as a pure function (docs/internals/rules.md: Refreshes)."""

from hypothesis import given
from hypothesis.strategies import booleans, builds, integers, none
from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.sessions.credentials import SHARED_STORE_MS, RotationDecision, RotationState, decide
from gamed.timestamps import CLOCKS_MS
from tests.support.covers import covers

LATER = 10**15
FRESH = RotationState(generation=5, rotated_ms=1_000_000, used=False, revoked=False, ends_ms=None)
USED = replace(FRESH, used=True)
WINDOW_ENDS = FRESH.rotated_ms + SHARED_STORE_MS

lines = builds(
    RotationState,
    integers(1, 50),
    integers(0, 10**6),
    booleans(),
    booleans(),
    none() | integers(min_value=0, max_value=10**7),
)


@covers("threats/25")
class TableTests(SynchronousTestCase):
    """Each row, at its edges."""

    def test_current(self) -> None:
        """The newest generation rotates, used or not, however old it is."""
        for line in (FRESH, USED):
            for now_ms in (line.rotated_ms, LATER - 1):
                self.assertIs(decide(line, 5, LATER, now_ms), RotationDecision.ROTATE)

    def test_predecessor_of_an_unused_successor(self) -> None:
        """After a lost response the same successor is returned, days later, too."""
        for now_ms in (FRESH.rotated_ms, WINDOW_ENDS + 1, LATER - 1):
            self.assertIs(decide(FRESH, 4, LATER, now_ms), RotationDecision.REPEAT)

    def test_predecessor_of_a_used_successor(self) -> None:
        """The successor is repeated for 30 seconds after the first rotation; then the credential counts as copied."""
        self.assertIs(decide(USED, 4, LATER, USED.rotated_ms), RotationDecision.REPEAT)
        self.assertIs(decide(USED, 4, LATER, WINDOW_ENDS), RotationDecision.REPEAT)
        self.assertIs(decide(USED, 4, LATER, WINDOW_ENDS + 1), RotationDecision.REUSED)

    def test_clocks(self) -> None:
        """The 30 seconds are longer by how far the clock of the machine that has rotated may be behind."""
        self.assertIs(decide(USED, 4, LATER, WINDOW_ENDS + CLOCKS_MS, CLOCKS_MS), RotationDecision.REPEAT)
        self.assertIs(decide(USED, 4, LATER, WINDOW_ENDS + CLOCKS_MS + 1, CLOCKS_MS), RotationDecision.REUSED)
        self.assertIs(decide(USED, 3, LATER, USED.rotated_ms, CLOCKS_MS), RotationDecision.REUSED)

    def test_older(self) -> None:
        """A credential from two or more rotations ago ends the session at once, until its own expiry."""
        for line in (FRESH, USED):
            for generation in (3, 2, 1):
                self.assertIs(decide(line, generation, LATER, line.rotated_ms), RotationDecision.REUSED)
                self.assertIs(decide(line, generation, LATER, LATER), RotationDecision.EXPIRED)

    @covers("3/5")
    def test_expiry(self) -> None:
        """A credential lives until just before its instant."""
        for generation in (5, 4):
            self.assertIsNot(decide(FRESH, generation, LATER, LATER - 1), RotationDecision.EXPIRED)
            self.assertIs(decide(FRESH, generation, LATER, LATER), RotationDecision.EXPIRED)

    def test_end_of_the_session(self) -> None:
        """At its maximum age no credential of the session can be exchanged, whatever the credential's expiry."""
        line = replace(FRESH, ends_ms=LATER - 10)
        self.assertIs(decide(line, 5, LATER, LATER - 11), RotationDecision.ROTATE)
        for generation in (5, 4, 1):
            self.assertIs(decide(line, generation, LATER, LATER - 10), RotationDecision.EXPIRED)

    @given(lines, integers(1, 50), integers(0, 10**7), integers(0, 10**7))
    def test_revoked(self, line: RotationState, generation: int, expires_ms: int, now_ms: int) -> None:
        """Every credential of an ended session is rejected as revoked, expired or not."""
        self.assertIs(decide(replace(line, revoked=True), generation, expires_ms, now_ms), RotationDecision.REVOKED)

    def test_clock_set_back(self) -> None:
        """A clock that is set back does not turn a repetition into a reuse."""
        self.assertIs(decide(USED, 4, LATER, USED.rotated_ms - 3_600_000), RotationDecision.REPEAT)


class StateTests(SynchronousTestCase):
    """The changes of a session's state."""

    @given(lines, integers(0, 10**7))
    def test_rotated(self, line: RotationState, now_ms: int) -> None:
        """The next generation is delivered now and not used yet; all else stays."""
        after = line.rotated(now_ms)
        self.assertEqual((after.generation, after.rotated_ms, after.used), (line.generation + 1, now_ms, False))
        self.assertEqual((after.revoked, after.ends_ms), (line.revoked, line.ends_ms))
