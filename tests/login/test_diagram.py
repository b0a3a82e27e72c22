"""The page in docs/ says what the table says."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import gamed
from gamed.login.diagram import page
from gamed.login.transaction import MEANING, NEXT, Event

DOCS = Path(gamed.__file__).parents[1] / "docs"


class Diagram(SynchronousTestCase):
    def test_the_page_is_current(self) -> None:
        """docs/login-states.md is what `python -m gamed.login.diagram` prints."""
        self.assertEqual((DOCS / "login-states.md").read_text("utf-8"), page())

    def test_every_arrow_is_drawn(self) -> None:
        """One line per arrow, and every event is explained."""
        for (before, event), after in NEXT.items():
            self.assertIn(f"\n    {before.value} --> {after.value}: {event.value}\n", page())
        self.assertEqual(set(MEANING), set(Event))
