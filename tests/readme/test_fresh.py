"""`.ci/fresh` performs what the pages print: here, that each command it looks for is there, and that it parses."""

import re
import subprocess
from itertools import pairwise
from shutil import which

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.service import ROOT
from tests.readme.test_transcript import BLOCK

FENCED = re.compile(r"(?ms)^( *)```\w*\n(.*?)^\1```$")
LOOKED_FOR = re.compile(r"""\b(block|said) (\S+\.md) (?:'([^']*)'|"([^"]*)")""")


def found(kind: str, page: str, words: str) -> bool:
    """A block that has these words, or a sentence with this command."""
    text = (ROOT / page).read_text("utf-8")
    blocks = [block for _, block in FENCED.findall(text)]
    return any(words in block for block in blocks) if kind == "block" else f"`{words}`" in text


class FreshTests(SynchronousTestCase):
    def test_commands_are_in_the_pages(self) -> None:
        """What the script takes out of the README and the guides stands there, word for word."""
        script = (ROOT / ".ci/fresh").read_text("utf-8")
        wanted = [(kind, page, one or other) for kind, page, one, other in LOOKED_FOR.findall(script)]
        self.assertEqual([each for each in wanted if not found(*each)], [])
        self.assertEqual(len(wanted), len(re.findall(r"\$\((?:block|said) ", script)))
        self.assertGreater(len(wanted), 20)

    def test_every_step_of_the_readme_is_compared(self) -> None:
        """Each block of commands in the README is followed by what it prints, which the script compares."""
        languages = [language for language, _ in BLOCK.findall((ROOT / "README.md").read_text("utf-8"))]
        after = [second for first, second in pairwise(languages) if first == "bash"]
        self.assertEqual(after, [""] * languages.count("bash"))

    def test_it_parses(self) -> None:
        done = subprocess.run(["bash", "-n", ROOT / ".ci/fresh"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        if (shellcheck := which("shellcheck")) is not None:
            judged = subprocess.run([shellcheck, ROOT / ".ci/fresh"], capture_output=True, text=True, check=False)
            self.assertEqual(judged.stdout, "")
