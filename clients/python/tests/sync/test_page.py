"""The page on offline play describes the client."""

import re

from twisted.trial.unittest import SynchronousTestCase

from tests.support.python_client import PACKAGE
from tests.support.python_client import gamed_sync as gs
from tests.test_spec import ROOT

OLDER = {"pump", "dropped", "trouble"}
"""Names that work until 1.0: the page leaves them out."""


class PageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.page = (ROOT / "docs/developers/offline.md").read_text("utf-8")

    def test_calls(self) -> None:
        """Each public method has its row, and the table has no others."""
        rows = re.findall(r"(?m)^\| (`.+?) \| .+ \|$", self.page[: self.page.index("| `state` |")])
        named = {name for row in rows for name in re.findall(r"`(\w+)", row)}
        public = {name for name in vars(gs.Sync) if not name.startswith("_")}
        self.assertEqual(named | OLDER, public | {"problem"})
        self.assertEqual(named & OLDER, set())

    def test_older_names(self) -> None:
        """The older names do the same as the new ones, and say that they are deprecated."""
        self.assertEqual((gs.Sync.pump, gs.Sync.dropped), (gs.Sync.send, gs.Sync.lost))
        source = (PACKAGE / "sync.py").read_text("utf-8")
        for older, new in (("pump", "send"), ("dropped", "lost"), ("trouble", "problem")):
            self.assertIn(f'"""The older name of `{new}`, deprecated: it works until 1.0."""', source)
            self.assertIn(f"| `{older}` | `{new}` |", (ROOT / "CHANGELOG.md").read_text("utf-8"))

    def test_states(self) -> None:
        """Each state has its row."""
        states = {gs.UNKNOWN, gs.IN_STEP, gs.WAITING, gs.NEWER, gs.CONFLICT, gs.REFUSED}
        self.assertEqual({state for state in states if f"| `{state}` | " in self.page}, states)

    def test_sides(self) -> None:
        """The page's example of a conflict works."""
        used = set(re.findall(r"conflict\.(\w+)", self.page))
        fields = set(gs.SyncConflict.__dataclass_fields__)
        self.assertLessEqual(used, {*vars(gs.SyncConflict), *fields})
        self.assertLessEqual({"keep_mine", "keep_theirs", "merged", "mine", "theirs", "base"}, used)
