"""GAMED_EXAMPLES: few examples unless many are asked for."""

import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.support.examples import FEW, MANY, read_amount
from tests.test_spec import ROOT

SHOWN = "import tests; from hypothesis import settings; s = settings(); print(s.max_examples, s.derandomize)"


class ExamplesTests(SynchronousTestCase):
    def test_values(self) -> None:
        """The variable is `few` or `many`; `few` where it is not set."""
        self.assertEqual(read_amount({}), FEW)
        self.assertEqual([read_amount({"GAMED_EXAMPLES": value}) for value in (FEW, MANY)], [FEW, MANY])

    def test_unknown_value(self) -> None:
        """Any other value is an error that names the variable and both values."""
        for value in ("", "Few", "300", " many"):
            error = self.assertRaises(ValueError, read_amount, {"GAMED_EXAMPLES": value})
            self.assertIn("GAMED_EXAMPLES is", str(error))
            self.assertIn("Set it to few or many", str(error))

    def test_whole_process(self) -> None:
        """Hypothesis follows the variable as soon as `tests` is imported: few are the same in each run."""
        self.assertEqual(self.python("few"), "100 True\n")
        self.assertEqual(self.python("many"), "1000 False\n")

    def test_wrong_process(self) -> None:
        """With an unknown value no test is loaded."""
        done = self.run_python("all")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ValueError: GAMED_EXAMPLES is 'all'.", done.stderr)

    def python(self, value: str) -> str:
        done = self.run_python(value)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def run_python(self, value: str) -> "subprocess.CompletedProcess[str]":
        """Import `tests` in a new process with this value and print the profile of hypothesis."""
        command = [sys.executable, "-c", SHOWN]
        environ = {"GAMED_EXAMPLES": value}
        return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=100, check=False)
