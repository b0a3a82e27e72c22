"""Ctrl-C ends every command with one sentence and exit code 130, whatever it is doing."""

import sys

from tests.cli.process import CommandTestCase

AT_IMPORT = """
import os, signal, sys
from gamed.cli import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
main()
"""
"""Runs the command line, and interrupts it when it imports the module that `AT` names."""
PLANTED = """
import click, sys
from gamed.cli import commands, interrupt

@click.command()
def serve():
    if sys.argv[1] == "writing":
        interrupt.may_change()
    raise KeyboardInterrupt

commands.serve = serve
commands.gamed(["serve"])
"""


class InterruptedTests(CommandTestCase):
    forked = False

    def interrupted(self, program: str, *arguments: str) -> str:
        """Run a program that is interrupted; return what it prints on stderr."""
        code, out, err = self.run_command(*arguments, of=(sys.executable, "-c", program))
        self.assertEqual((code, out), (130, ""), err)
        return err

    def test_imports(self) -> None:
        """Print a sentence and no traceback while the modules of the command line, or of the command, are imported."""
        for module in ("gamed.gc_pause", "gamed.cli.commands", "msgspec", "gamed.cli.people.players"):
            self.environ["AT"] = module
            err = self.interrupted(AT_IMPORT, "players", "list")
            self.assertEqual(err, "gamed: Interrupted. Nothing was changed.\n", module)

    def test_completion(self) -> None:
        """Print nothing into the line that the operator is typing."""
        self.environ |= {"_GAMED_COMPLETE": "bash_complete", "COMP_WORDS": "gamed ", "COMP_CWORD": "1"}
        self.environ["AT"] = "msgspec"
        self.assertEqual(self.interrupted(AT_IMPORT), "")

    def test_command(self) -> None:
        """Say that nothing was changed only for a command that had not begun to write."""
        self.assertEqual(self.interrupted(PLANTED, "reading"), "gamed: Interrupted. Nothing was changed.\n")
        self.assertEqual(self.interrupted(PLANTED, "writing"), "gamed: Interrupted.\n")
