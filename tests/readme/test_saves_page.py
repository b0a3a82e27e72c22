"""The page for game developers: its commands do what is printed below them."""

import json
from itertools import pairwise

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.client import gamed
from tests.e2e.service import ROOT, Service
from tests.readme.test_transcript import BLOCK, MARK, Step, bash
from tests.support.folders import unused_path


def printed_steps() -> list[Step]:
    found = BLOCK.findall((ROOT / "docs/developers/saves.md").read_text("utf-8"))
    return [Step(first, second) for (language, first), (_, second) in pairwise(found) if language == "bash"]


class SavesPageTests(SynchronousTestCase):
    def test_commands(self) -> None:
        """Each block, run by bash in the page's order, says what the page says."""
        folder = unused_path(self)
        service = Service(folder)
        self.addCleanup(service.close)
        service.start()
        token = self.token(service)
        script = f"base={service.base}\ntoken={token}\n"
        steps = printed_steps()
        done = bash(script + "".join(f"{step.commands}\necho; echo '{MARK}'\n" for step in steps), folder)
        said = done.stdout.split(MARK)
        self.assertEqual(done.returncode, 0, done.stderr)
        wrong = [(step.printed, text) for step, text in zip(steps, said, strict=False) if not step.matches(text)]
        self.assertEqual(wrong, [])
        self.assertEqual(len(steps), 14)

    def token(self, service: Service) -> str:
        gamed(service, "players", "add", "anna", "--password-stdin", stdin="correct horse\n")
        return str(json.loads(gamed(service, "players", "token", "anna", "--json"))["access_token"])
