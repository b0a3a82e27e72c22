"""`.ci/fresh` and `.ci/fresh-machine` perform what the pages print: the commands they look for are there."""

import os
import re
import subprocess
from itertools import pairwise
from shutil import which

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.service import ROOT
from tests.readme.test_transcript import PAGE, blocks, two_commands

FENCED = re.compile(r"(?ms)^( *)```\w*\n(.*?)^\1```$")
LOOKED_FOR = re.compile(r"""\b(block|said) (\S+\.md) (?:'([^']*)'|"([^"]*)")""")


def found(kind: str, page: str, words: str) -> bool:
    """A block that has these words, or a sentence with this command."""
    text = (ROOT / page).read_text("utf-8")
    fenced = [block for _, block in FENCED.findall(text)]
    return any(words in block for block in fenced) if kind == "block" else f"`{words}`" in text


class FreshTests(SynchronousTestCase):
    def test_commands_are_in_the_pages(self) -> None:
        """Find the commands that the script uses in the README and the guides, word for word."""
        script = (ROOT / ".ci/fresh").read_text("utf-8")
        wanted = [(kind, page, one or other) for kind, page, one, other in LOOKED_FOR.findall(script)]
        self.assertEqual([each for each in wanted if not found(*each)], [])
        self.assertEqual(len(wanted), len(re.findall(r"\$\((?:block|said) ", script)))
        self.assertGreater(len(wanted), 20)

    def test_every_step_of_the_transcript_is_compared(self) -> None:
        """Each block of commands of the transcript is followed by what it prints, which the script compares."""
        languages = [language for language, _ in blocks(PAGE)]
        after = [second for first, second in pairwise(languages) if first == "bash"]
        self.assertEqual(after, [""] * languages.count("bash"))
        self.assertGreater(len(after), 5)

    def test_no_root_needed(self) -> None:
        """The script leaves out what only root can do of the README's first command, and keeps the rest."""
        [moved] = re.findall(r"(?m)^    sed -e '(s/\^apt-get[^']*)'", (ROOT / ".ci/fresh").read_text("utf-8"))
        first = two_commands()[0]
        done = subprocess.run(["sed", "-e", moved], input=first, capture_output=True, text=True, check=True)
        self.assertTrue(done.stdout.startswith("python3 -m venv .venv && "), done.stdout)

    def test_scripts_parse(self) -> None:
        """bash reads the scripts, and shellcheck, where it is installed, has no objection."""
        names = ("container", "deb", "first-hour", "fresh", "fresh-machine", "machine", "release")
        for script in (ROOT / ".ci" / name for name in names):
            done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            if (shellcheck := which("shellcheck")) is not None:
                found = subprocess.run([shellcheck, script], capture_output=True, text=True, check=False)
                self.assertEqual(found.stdout, "")


class FreshMachineTests(SynchronousTestCase):
    def test_both_commands(self) -> None:
        """`.ci/fresh-machine` and `.ci/run` read the README's two commands whole."""
        for script in (".ci/fresh-machine", ".ci/run"):
            expressions = re.findall(r"sed -nE '(/pip install [^']+)'", (ROOT / script).read_text("utf-8"))
            commands = ["sed", "-nE", expressions[0]], ["sed", "-nE", expressions[1]]
            found = [
                subprocess.run([*command, ROOT / "README.md"], capture_output=True, check=True, text=True).stdout
                for command in commands
            ]
            self.assertEqual(found, [f"{command}\n" for command in two_commands()], script)

    def test_another_user(self) -> None:
        """Without root the script ends with one sentence and changes nothing."""
        command = ["bash", "-c", (ROOT / ".ci/fresh-machine").read_text("utf-8")]
        user = 54321 if os.geteuid() == 0 else None
        done = subprocess.run(command, cwd="/", user=user, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.splitlines()[0], "only root can make a Debian root: run this as root")
