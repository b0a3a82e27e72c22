"""The two commands of the README, and the transcript of docs/developers/by-hand.md, which newcomers follow."""

import os
import re
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess, run

from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.service import ROOT, Service
from tests.support.covers import covers
from tests.support.folders import unused_path

README, PAGE = "README.md", "docs/developers/by-hand.md"
PORT = "127.0.0.1:8080"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "-- next step --"


class Step(Struct, frozen=True):
    """A block of commands, and what is printed below it: `...` stands for anything on one line."""

    commands: str
    printed: str

    def matches(self, said: str) -> bool:
        return re.fullmatch(re.escape(self.printed.strip()).replace(r"\.\.\.", ".+"), said.strip()) is not None


def blocks(page: str = README) -> list[tuple[str, str]]:
    """Return language and text of each fenced block of a page."""
    return BLOCK.findall((ROOT / page).read_text("utf-8"))


def steps() -> list[Step]:
    return [Step(first, second) for (language, first), (_, second) in pairwise(blocks(PAGE)) if language == "bash"]


def two_commands() -> list[str]:
    """Return the lines of the README's `sh` blocks: the command that starts the server, and the one that tests."""
    return [line for language, text in blocks() if language == "sh" for line in text.splitlines()]


def bash(script: str, folder: Path) -> CompletedProcess[str]:
    """Run it as a newcomer would: of the environment of the tests only PATH and HOME."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = ["bash", "-eu", "-o", "pipefail", "-c", script]
    return run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300, check=False)


class ReadmeTests(SynchronousTestCase):
    def test_two_commands(self) -> None:
        """Two blocks of one line each start the server and run the tests, and each installs all that it needs on a
        Debian that has nothing but apt."""
        serve, tests = two_commands()
        self.assertTrue(serve.endswith(".venv/bin/gamed serve"))
        self.assertTrue(tests.endswith(".venv/bin/python -m twisted.trial -j6 tests"))
        for command in (serve, tests):
            install, separator, _ = command.partition(" && python3 -m venv .venv && .venv/bin/pip install -e ")
            self.assertTrue(install.startswith("apt-get update && apt-get install -y python3-venv"), command)
            self.assertTrue(separator, command)

    @covers("1/1")
    def test_transcript(self) -> None:
        """From sign-in to a loaded save: each step, run by bash as it is printed, prints what is below it."""
        service = self.service()
        self.assertEqual(self.wrong(service), [])
        self.assertIn("game/saves", steps()[-1].commands)

    def test_transcript_again(self) -> None:
        """A second paste prints the same: the account signs in, and the save that exists is not written again."""
        service = self.service()
        self.assertEqual(self.wrong(service), [])
        self.assertEqual(self.wrong(service), [])
        self.assertEqual(service.rows()["save_version"], 1)

    def test_transcript_twice_in_one_shell(self) -> None:
        """Both pastes into one shell print the same: no variable or file of the first spoils the second."""
        self.assertEqual(self.wrong(self.service(), times=2), [])

    def test_content_type(self) -> None:
        """The save is stored as text, not as the form that curl names where it is not given a type."""
        service = self.service()
        question = 'curl -s -o /dev/null -w "%{content_type}" $base/game/saves/auto -H "Authorization: Bearer $token"'
        commands = "\n".join(step.commands for step in self.printed(service))
        done = bash(f"{commands}\necho\n{question}", service.folder)
        self.assertEqual(done.stdout.splitlines()[-1], "text/plain", done.stderr)

    def test_waiting_for_approval(self) -> None:
        """Where the owner approves newcomers, the transcript ends with the problem and the code for the owner."""
        done = self.run_all(self.service({"mode": "local", "login": {"registration": "approval"}}))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"\Aplayer_pending: .+: \d{6}\n\Z")

    def test_blocked(self) -> None:
        """For a blocked player the transcript ends with that problem."""
        service = self.service()
        self.assertEqual(self.run_all(service).returncode, 0)
        command = [sys.executable, "-m", "gamed", "--config", service.config, "--data", service.data]
        run([*command, "players", "block", "anna"], cwd=ROOT, env={**os.environ, **service.environ}, check=True)
        done = self.run_all(service)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"\Aplayer_blocked: .+\n\Z")

    def run_all(self, service: Service) -> CompletedProcess[str]:
        return bash("\n".join(step.commands for step in self.printed(service)), service.folder)

    def service(self, config: Mapping[str, object] | None = None) -> Service:
        """Return a running server in a folder of this test."""
        service = Service(unused_path(self), config)
        self.addCleanup(service.close)
        return service.start()

    def printed(self, service: Service) -> list[Step]:
        """The steps, for the address of this server."""
        here = f"127.0.0.1:{service.port}"
        return [Step(step.commands.replace(PORT, here), step.printed.replace(PORT, here)) for step in steps()]

    def wrong(self, service: Service, times: int = 1) -> list[tuple[str, str]]:
        """Run the steps; return what is printed in the README and what was printed here, where they differ."""
        printed = self.printed(service) * times
        script = "".join(f"{step.commands}\necho; echo '{MARK}'\n" for step in printed)
        done = bash(script, service.folder)
        said = done.stdout.split(MARK)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        self.assertEqual(said[-1].strip(), "")
        pairs = zip(printed, said[:-1], strict=True)
        return [(step.printed, text) for step, text in pairs if not step.matches(text)]

    def test_matching(self) -> None:
        """Three dots stand for something on one line, never for nothing, and all else is taken word for word."""
        step = Step("", '{"a":"...","b":1}\nend\n')
        self.assertTrue(step.matches('{"a":"x.y","b":1}\nend'))
        for said in ('{"a":"","b":1}\nend', '{"a":"x","b":2}\nend', '{"a":"x\ny","b":1}\nend', '{"a":"x","b":1}'):
            self.assertFalse(step.matches(said), said)
