"""The page of licences is what the metadata of the pinned libraries state, and gamed itself has no licence yet."""

from twisted.trial.unittest import SynchronousTestCase

from tests.packaging.environments import ROOT
from tests.packaging.licences import BEGIN, PAGE, table

NOT_GIVEN = "No licence has been given for gamed itself yet"


class LicencesTests(SynchronousTestCase):
    def test_table(self) -> None:
        """The page has each pinned library with its version and its SPDX expression."""
        before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
        self.assertEqual(begin + rest, table())
        self.assertIn(NOT_GIVEN, before)

    def test_none_is_chosen(self) -> None:
        """No file of the project grants a licence."""
        names = {path.name.lower() for path in ROOT.iterdir()}
        self.assertEqual({name for name in names if name.startswith(("license", "licence", "copying"))}, set())
