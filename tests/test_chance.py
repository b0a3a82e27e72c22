"""`python -m tests.chance` lists repaired tests, adds the times of a class, and counts failures of rounds."""

import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

from twisted.trial.unittest import SynchronousTestCase

from tests.chance import REPAIRED, main, rounds, seconds_by_class
from tests.quick import ROOT, Sources


class TimesTest(SynchronousTestCase):
    def test_times(self) -> None:
        """The seconds of a class's tests are added, whatever they print in between."""
        output = (
            "a.test_b.C.test_one ... [OK]\n(0.500 secs)\na.test_b.C.test_two ... a line\n[SKIPPED]\n(1.250 secs)\n"
            "a.test_b.D.test_three ... [ERROR]\n(0.125 secs)\n"
        )
        self.assertEqual(seconds_by_class(output), {"a.test_b.C": 1.75, "a.test_b.D": 0.125})

    def test_arguments(self) -> None:
        """Without arguments it prints the repaired tests; others than it knows are an error."""
        with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()):
            self.assertEqual([main(words) for words in (["rounds"], ["rounds", "2"], ["planted"])], [2, 2, 2])
            self.assertEqual(main([]), 0)
        self.assertEqual([each.test for each in REPAIRED if each.test not in printed.getvalue()], [])

    def test_repaired_exist(self) -> None:
        """Each module of the list of repaired tests exists."""
        names = [name for each in REPAIRED for name in re.findall(r"(?:tests|clients)(?:\.\w+)+", each.test)]
        self.assertEqual([name for name in names if name not in Sources(ROOT).texts], [])


class RoundsTest(SynchronousTestCase):
    def test_failures(self) -> None:
        """A round without a failure succeeds; a class that cannot be run fails."""
        with redirect_stdout(StringIO()) as printed:
            self.assertEqual(rounds(1, ["tests.util.test_structs.StructsTests"]), 0)
            self.assertEqual(rounds(1, ["tests.util.test_structs.PlantedTests"]), 1)
        self.assertIn("FAILED in round 1: tests.util.test_structs.PlantedTests", printed.getvalue())
