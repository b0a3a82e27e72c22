"""The refresh table decides as the model predicts, for two clients and a thief (docs/internals/rules.md: Refreshes)."""

from contextlib import closing

from hypothesis import Phase, find, given, settings
from hypothesis.errors import NoSuchExample
from twisted.trial.unittest import SynchronousTestCase

from gamed.sessions.credentials import RotationDecision
from tests.sessions.fixtures import NOW_MS
from tests.sessions.state_machine import (
    MUTANTS,
    Copy,
    Holder,
    Prediction,
    Refresh,
    Rule,
    Step,
    Stored,
    Subject,
    Use,
    Wait,
    WrongDecision,
    play,
    stories,
)
from tests.support.covers import covers
from tests.support.examples import histories
from tests.support.stores import sqlite_files

SEARCH = settings(max_examples=20_000, database=None, phases=[Phase.generate])
"""Without shrinking: one story that shows the defect is enough."""
ONE, TWO, THIEF = Holder.ONE, Holder.TWO, Holder.THIEF


class ModelTests(SynchronousTestCase):
    """Random stories."""

    @given(stories)
    def test_rule(self, story: list[Step]) -> None:
        """The pure function gives the predicted decision at every step of any story."""
        play(story, Rule())

    @settings(max_examples=histories(few=60, many=1000))
    @given(stories)
    def test_stored(self, story: list[Step]) -> None:
        """The transactions of a real auth.db give the predicted decisions."""
        with closing(Stored()) as stored:
            play(story, stored)

    @sqlite_files("it tests the model, not the store")
    def test_planted_defects(self) -> None:
        """For each planted defect some story shows it."""
        for mutant in MUTANTS:
            try:
                find(stories, lambda story, mutant=mutant: _breaks(story, mutant()), settings=SEARCH)
            except NoSuchExample:
                self.fail(f"no story shows the defect: {mutant.__doc__}")


class StoryTests(SynchronousTestCase):
    """The stories the table was written for."""

    def answers(self, story: list[Step]) -> list[RotationDecision]:
        """Return the decision of the real auth.db for each refresh of the story."""
        decisions: list[RotationDecision] = []
        stored = Stored()
        self.addCleanup(stored.close)
        refresh = stored.refresh

        def noted(generation: int, now_ms: int) -> RotationDecision:
            decisions.append(refresh(generation, now_ms))
            return decisions[-1]

        stored.refresh = noted  # type: ignore[method-assign]
        play(story, stored)
        return decisions

    @covers("threats/25")
    def test_thief_first(self) -> None:
        """The thief exchanges a copy and uses the token; the victim's next refresh ends the session for both."""
        story = [Copy(ONE, THIEF), Refresh(THIEF, False), Use(THIEF), Wait(30_001), Refresh(ONE, False), Wait(1)]
        self.assertEqual(
            self.answers([*story, Refresh(THIEF, False)]),
            [RotationDecision.ROTATE, RotationDecision.REUSED, RotationDecision.REVOKED],
        )

    @covers("threats/25")
    def test_victim_first(self) -> None:
        """The victim has refreshed; the thief's older copy ends the session."""
        story = [Copy(ONE, THIEF), Refresh(ONE, False), Use(ONE), Wait(3_600_000), Refresh(THIEF, False)]
        self.assertEqual(
            self.answers([*story, Refresh(ONE, False)]),
            [RotationDecision.ROTATE, RotationDecision.REUSED, RotationDecision.REVOKED],
        )

    def test_both_within_the_window(self) -> None:
        """A thief within the 30 seconds shares one successor with the victim, and is detected at the next refresh."""
        story = [Copy(ONE, THIEF), Refresh(ONE, False), Use(ONE), Wait(29_999), Refresh(THIEF, False)]
        story += [Wait(900_000), Refresh(ONE, False), Use(ONE), Wait(30_001), Refresh(THIEF, False)]
        self.assertEqual(
            self.answers(story),
            [RotationDecision.ROTATE, RotationDecision.REPEAT, RotationDecision.ROTATE, RotationDecision.REUSED],
        )

    @covers("threats/26")
    def test_lost_answer(self) -> None:
        """A response that never arrived is repeated 12 days later, as often as it is lost."""
        story = [
            Refresh(ONE, True),
            Wait(12 * 86_400_000),
            Refresh(ONE, True),
            Refresh(ONE, False),
            Refresh(ONE, False),
        ]
        self.assertEqual(
            self.answers(story),
            [RotationDecision.ROTATE, RotationDecision.REPEAT, RotationDecision.REPEAT, RotationDecision.ROTATE],
        )

    @covers("threats/26")
    def test_two_processes(self) -> None:
        """Two processes with one store both refresh at once, and go on with the same successor."""
        story = [Refresh(ONE, False), Use(ONE), Wait(5_000), Refresh(TWO, False), Refresh(TWO, False)]
        self.assertEqual(
            self.answers(story), [RotationDecision.ROTATE, RotationDecision.REPEAT, RotationDecision.ROTATE]
        )


class HonestTests(SynchronousTestCase):
    """Clients whose credential was never copied."""

    @given(stories)
    def test_alone(self, story: list[Step]) -> None:
        """A single client may lose any answers and wait any time: it is signed in until its credential expires."""
        predicted, rule, now_ms, held = Prediction(), Rule(), NOW_MS, 1
        for step in story:
            if isinstance(step, Wait):
                now_ms += step.milliseconds
            elif isinstance(step, Use):
                rule.use(held, now_ms)
            elif isinstance(step, Refresh):
                answer = rule.refresh(held, now_ms)
                self.assertIn(answer, (RotationDecision.ROTATE, RotationDecision.REPEAT, RotationDecision.EXPIRED))
                if answer is not RotationDecision.EXPIRED and not step.lost:
                    held = rule.state.generation
        self.assertFalse(predicted.over)


def _breaks(story: list[Step], subject: Subject) -> bool:
    try:
        play(story, subject)
    except WrongDecision:
        return True
    return False
