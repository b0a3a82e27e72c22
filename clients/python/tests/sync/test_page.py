"""The page on offline play describes the client."""

import re

from twisted.trial.unittest import SynchronousTestCase

from tests.support.python_client import gamed_sync as gs
from tests.test_spec import ROOT


class PageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.page = (ROOT / "docs/developers/offline.md").read_text("utf-8")

    def test_calls(self) -> None:
        """Each public method has its row, and the table has no others."""
        rows = re.findall(r"(?m)^\| (`.+?) \| .+ \|$", self.page[: self.page.index("| `state` |")])
        named = {name for row in rows for name in re.findall(r"`(\w+)", row)}
        public = {name for name in vars(gs.Sync) if not name.startswith("_")}
        self.assertEqual(named, public | {"trouble"})

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
