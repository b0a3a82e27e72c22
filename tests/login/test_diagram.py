"""These tests compare docs/internals/login-states.md with the transition table."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import gamed
from gamed.login.diagram import page
from gamed.login.transaction import MEANING, NEXT, LoginEvent, LoginStage
from tests.login.examples import START_MS, TTL_MS, a_login

DOCS = Path(gamed.__file__).parents[1] / "docs"


class Diagram(SynchronousTestCase):
    def test_the_page_is_current(self) -> None:
        """docs/internals/login-states.md is what `python -m gamed.login.diagram` prints."""
        self.assertEqual((DOCS / "internals/login-states.md").read_text("utf-8"), page())

    def test_the_clock(self) -> None:
        """The page gives the deadlines of the code, also for an exchange that ends late."""
        rows = {line.split("`")[1]: line.split(" | ")[1] for line in page().splitlines() if line.startswith("| `")}
        late = a_login(LoginStage.READY, stage_ms=START_MS + TTL_MS)
        in_time = a_login(LoginStage.READY, stage_ms=START_MS + TTL_MS - 1)
        begun = a_login(LoginStage.EXCHANGING, stage_ms=START_MS)
        begun_late = a_login(LoginStage.EXCHANGING, stage_ms=START_MS + TTL_MS - 1)
        self.assertEqual((late.deadline_ms, in_time.deadline_ms), (START_MS + TTL_MS + 15_000, START_MS + TTL_MS))
        self.assertEqual(rows["ready"], "at `device_transaction_ttl`; 15 s later if its exchange ended after that")
        self.assertEqual((begun.deadline_ms, begun_late.deadline_ms), (START_MS + 60_000, START_MS + TTL_MS + 15_000))
        self.assertEqual(rows["exchanging"], "60 s after it began; 15 s after `device_transaction_ttl` at the latest")

    def test_every_arrow_is_drawn(self) -> None:
        """The page has a line per transition, and explains every event."""
        for (before, event), after in NEXT.items():
            self.assertIn(f"\n    {before.value} --> {after.value}: {event.value}\n", page())
        self.assertEqual(set(MEANING), set(LoginEvent))
