"""The page on assets describes the Python client."""

import re

from twisted.trial.unittest import SynchronousTestCase

from tests.support.python_client import gamed_assets as ga
from tests.support.python_client import gamed_client as gc
from tests.test_spec import ROOT


class PageTests(SynchronousTestCase):
    def setUp(self) -> None:
        page = (ROOT / "docs/developers/assets.md").read_text("utf-8")
        self.part = page.partition("## In Python\n")[2].partition("\n## ")[0]

    def test_calls(self) -> None:
        """Each public method has its row, and the table has no others."""
        rows = set(re.findall(r"(?m)^\| `(\w+)", self.part))
        public = {name for name in vars(ga.Assets) if not name.startswith("_")}
        self.assertEqual(rows, public | {"folder"})
        self.assertLessEqual({"id", "folder", "manifest"}, set(ga.Release.__dataclass_fields__))
        self.assertLessEqual({"stage", "done", "size"}, set(ga.Progress.__dataclass_fields__))

    def test_numbers(self) -> None:
        """The page has the right numbers of ranges and connections."""
        text = " ".join(self.part.split())
        self.assertIn(f"ranges of {ga.PIECE_BYTES >> 20} MiB, {['four'][ga.WORKERS - 4]} at a time", text)

    def test_errors(self) -> None:
        """The page lists each error."""
        named = set(re.findall(r"`([A-Z]\w+)`", self.part)) - {"GamedError"}
        self.assertEqual({name for name in named if not (hasattr(ga, name) or hasattr(gc, name))}, set())
        self.assertGreaterEqual(len(named), 5)

    def test_commands(self) -> None:
        """Each command line on the page is valid."""
        lines = re.findall(r"(?m)^python -m gamed_client (.+)$", self.part)
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertEqual(gc.parser().parse_args(line.split()).command, "assets")
