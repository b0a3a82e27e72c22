"""`.ci/stopwatch` times the README's own commands: here, that they are there, and that the script parses."""

import re
import subprocess
from shutil import which

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.service import ROOT
from tests.readme.test_transcript import blocks

SCRIPT = ROOT / ".ci/stopwatch"


class StopwatchTests(SynchronousTestCase):
    def test_commands_are_in_the_readme(self) -> None:
        """Each is one whole line of a block, and the only one with those words."""
        wanted = re.findall(r"\$\(block '([^']+)'\)", SCRIPT.read_text("utf-8"))
        lines = [line for _, text in blocks() for line in text.splitlines()]
        found = {words: [line for line in lines if words in line] for words in wanted}
        self.assertEqual({words: len(those) for words, those in found.items()}, {"gamed serve": 1, "gamed dev": 1})

    def test_what_the_demo_is_served_from(self) -> None:
        """The folders that the README's command names."""
        [command] = [line for _, text in blocks() for line in text.splitlines() if "gamed dev" in line]
        folders = re.findall(r"--(?:static|assets) (\S+)", command)
        self.assertEqual(len(folders), 3)
        self.assertEqual([name for name in folders if not (ROOT / name).is_dir()], [])

    def test_it_parses(self) -> None:
        done = subprocess.run(["bash", "-n", SCRIPT], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        if (shellcheck := which("shellcheck")) is not None:
            checked = subprocess.run([shellcheck, SCRIPT], capture_output=True, text=True, check=False)
            self.assertEqual(checked.stdout, "")
