"""The README: two commands, and a transcript that a newcomer can follow to the letter."""

import os
import re
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess, run

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.service import ROOT, Service

PORT = "127.0.0.1:8080"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "-- next step --"


@frozen
class Step:
    """A block of commands, and what is printed below it: `...` stands for anything on one line."""

    commands: str
    printed: str

    def matches(self, said: str) -> bool:
        return re.fullmatch(re.escape(self.printed.strip()).replace(r"\.\.\.", ".+"), said.strip()) is not None


def blocks() -> list[tuple[str, str]]:
    """Language and text of each fenced block of the README."""
    return BLOCK.findall((ROOT / "README.md").read_text("utf-8"))


def steps() -> list[Step]:
    return [Step(first, second) for (language, first), (_, second) in pairwise(blocks()) if language == "bash"]


def bash(script: str, folder: Path) -> CompletedProcess[str]:
    """Run it as a newcomer would: of the environment of the tests only PATH and HOME."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = ["bash", "-eu", "-o", "pipefail", "-c", script]
    return run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300, check=False)


class ReadmeTests(SynchronousTestCase):
    def test_two_commands(self) -> None:
        """The first block, right below the title, is two commands: one starts the service, one runs the tests."""
        text = (ROOT / "README.md").read_text("utf-8")
        self.assertTrue(text.startswith("# gamed\n\n```sh\n"))
        serve, tests = blocks()[0][1].splitlines()
        self.assertTrue(serve.endswith(".venv/bin/gamed serve"))
        self.assertTrue(tests.endswith(".venv/bin/python -m twisted.trial -j2 tests"))

    def test_transcript(self) -> None:
        """From sign-in to a loaded save: each step, run by bash as it is printed, says what is printed below it."""
        folder = Path(self.mktemp()).absolute()
        service = Service(folder)
        self.addCleanup(service.close)
        service.start()
        here = f"127.0.0.1:{service.port}"
        printed = [Step(step.commands.replace(PORT, here), step.printed.replace(PORT, here)) for step in steps()]
        script = "".join(f"{step.commands}\necho; echo '{MARK}'\n" for step in printed)
        done = bash(script, folder)
        said = done.stdout.split(MARK)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        wrong = [(step.printed, text) for step, text in zip(printed, said, strict=False) if not step.matches(text)]
        self.assertEqual(wrong, [])
        self.assertEqual(said[-1].strip(), "")
        self.assertIn("game/saves", printed[-1].commands)

    def test_matching(self) -> None:
        """Three dots stand for something on one line, never for nothing, and all else is taken word for word."""
        step = Step("", '{"a":"...","b":1}\nend\n')
        self.assertTrue(step.matches('{"a":"x.y","b":1}\nend'))
        for said in ('{"a":"","b":1}\nend', '{"a":"x","b":2}\nend', '{"a":"x\ny","b":1}\nend', '{"a":"x","b":1}'):
            self.assertFalse(step.matches(said), said)
