"""`gamed setup` at a terminal: questions with proposals, asked again after a wrong answer."""

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable
from select import select

from tests.cli.process import WAIT_SECONDS
from tests.cli.setup.fixtures import HERE, SetupCase
from tests.support.stores import sqlite_files

CTRL_C = "Ctrl-C"


@sqlite_files("the databases of a new server are files")
class AskingTests(SetupCase):
    def at_terminal(self, *typed: str | Callable[[], object]) -> tuple[int, str]:
        """Run a set-up at a terminal, and type each line at the prompt that comes; return exit code and screen.

        A function is called instead, and the next line is typed at the same prompt.
        """
        near, far = pty.openpty()
        command = [*self.before, self.python, "-c", HERE, "setup", "--port", str(self.port)]
        process = subprocess.Popen(command, stdin=far, stdout=far, stderr=far, cwd=self.home, env=self.environ)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(far)
        screen, answers, end = b"", list(typed), time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            if not select([near], [], [], 0.3)[0]:
                if process.poll() is not None:
                    break
                if answers and screen.endswith(b": "):
                    while callable(answers[0]):
                        answers.pop(0)()
                    if (answer := answers.pop(0)) == CTRL_C:
                        process.send_signal(signal.SIGINT)
                    else:
                        os.write(near, f"{answer}\n".encode())
                continue
            try:
                screen += os.read(near, 65536)
            except OSError:  # the process has ended
                break
        os.close(near)
        return process.wait(WAIT_SECONDS), screen.decode()

    def test_proposals(self) -> None:
        """Enter alone takes what is proposed: a server for this machine, by invite; and the next run proposes that."""
        code, screen = self.at_terminal("Rose Street 7", "", "", "", "", "")
        self.assertEqual(code, 0, screen)
        self.assertEqual(json.loads(self.new.config.read_text())["server_name"], "Rose Street 7")
        for asked in ("which players see [gamed]", "play from [machine]", "join [invited]", f"[{self.backups}]"):
            self.assertIn(asked, screen)
        self.assertNotIn("The address", screen)
        self.assertEqual(self.page(), (True, str(self.backups)))
        code, screen = self.at_terminal("", "", "everyone", "", "", "n")
        self.assertEqual(code, 1, screen)
        self.assertIn("which players see [Rose Street 7]", screen)
        self.assertIn("Nothing was changed.", screen)
        self.assertEqual(json.loads(self.new.config.read_text())["login"], {"registration": "closed"})

    def test_edited(self) -> None:
        """The proposals are the settings of now, edited or changed by commands since the last run."""
        self.set_up(players="internet", address="https://play.example.net", owner_page=True)
        config = json.loads(self.new.config.read_text())
        config |= {"server_name": "Rose Street 8", "public_url": "https://games.example.net"}
        config["login"]["registration"] = "open"
        self.new.config.write_text(json.dumps(config))
        places = ["--config", str(self.new.config), "--data", str(self.new.data)]
        self.assertEqual(self.gamed(*places, "owner", "page", "off")[0], 0)
        code, screen = self.at_terminal("", "", "", "", "", "", "")
        self.assertEqual(code, 0, screen)
        for asked in ("[Rose Street 8]", "[internet]", "[https://games.example.net]", "[everyone]", "too [y/N]"):
            self.assertIn(asked, screen)
        self.assertEqual(json.loads(self.new.config.read_text()), config)
        self.assertEqual(self.page(), (False, None))

    def test_beside_another_run(self) -> None:
        """A run that another one has overtaken at its last question changes nothing."""
        code, screen = self.at_terminal("Mine", "", "", "", "", self.set_up, "")
        self.assertEqual(code, 1, screen)
        self.assertIn("Another gamed setup has changed this server. Run gamed setup again.", screen)
        self.assertEqual(json.loads(self.new.config.read_text())["server_name"], "Rose Street 7")

    def test_wrong_answers(self) -> None:
        """A wrong answer gets a sentence, and the question again."""
        code, screen = self.at_terminal(
            "",
            "everywhere",
            "home",
            "http://192.168.1.20:8080",
            "gamed.home.arpa",
            "friends",
            "",
            "backups",
            "",
            "n",
            "",
        )
        self.assertEqual(code, 0, screen)
        for sentence in (
            'expected "machine" or "home" or "internet"',
            "must begin with https://",
            'expected "invited" or "approval" or "everyone"',
            "expected the absolute path of a folder",
        ):
            self.assertIn(sentence, screen)
        self.assertIn("[https://gamed.home.arpa]", screen)
        self.assertEqual(json.loads(self.new.config.read_text())["public_url"], "https://gamed.home.arpa")

    def test_interrupted(self) -> None:
        """Ctrl-C at a question ends with one sentence, and nothing is written."""
        code, screen = self.at_terminal("", CTRL_C)
        self.assertEqual(code, 130, screen)
        self.assertIn("Interrupted. Nothing was changed.", screen)
        self.assertFalse(self.new.config.exists())
