"""On a terminal there are colours, pages and progress bars; a pipe gets plain lines."""

import io
import os
import pty
import re
import subprocess
import sys
import time

from twisted.trial.unittest import SynchronousTestCase

from gamed.cli import terminal
from gamed.cli.output import table
from tests.cli.process import GAMED, WAIT_SECONDS, CommandTestCase, environment

RED, GREEN, BOLD = "\x1b[31m", "\x1b[32m", "\x1b[1m"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class TerminalTests(CommandTestCase):
    def at_terminal(self, *arguments: str, **environ: str) -> str:
        """Return what a terminal shows of a command."""
        near, far = pty.openpty()
        self.addCleanup(os.close, near)
        env = environment({"TERM": "xterm", **self.environ, **environ})
        words = [*GAMED, *self.places, *arguments]
        process = subprocess.Popen(words, stdin=far, stdout=far, stderr=far, env=env, cwd=self.folder)
        os.close(far)
        shown = b""
        try:
            while data := os.read(near, 65536):
                shown += data
        except OSError:  # the process has ended
            pass
        process.wait(WAIT_SECONDS)
        return shown.decode().replace("\r\n", "\n")

    def test_colours(self) -> None:
        """Colour the words of doctor, health and errors on a terminal; not in a pipe, with NO_COLOR or TERM=dumb."""
        process, _ = self.serve()
        shown = self.at_terminal("doctor")
        self.assertIn(f"{GREEN}ok      \x1b[0m server: ", shown)
        self.assertEqual(self.at_terminal("health"), f"{GREEN}ok\x1b[0m\n")
        self.assertEqual(self.gamed("health")[1], "ok\n")
        for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertEqual(self.at_terminal("health", **more), "ok\n")
        self.assertNotIn("\x1b", self.gamed("doctor")[1])
        self.stop(process)
        self.assertIn(f"{RED}\x1b[1mgamed:\x1b[0m No server answers", self.at_terminal("health"))

    def test_pager(self) -> None:
        """Show a list in the pager only if the terminal has fewer lines."""
        process, _ = self.serve()
        self.stop(process)
        for number in range(5):
            self.gamed("players", "add", f"player{number}", "--password-stdin", stdin="correct horse\n")
        pager = {"PAGER": "sed s/^/paged:/"}
        self.assertIn("paged:", self.at_terminal("players", "list", LINES="6", COLUMNS="200", **pager))
        self.assertNotIn("paged:", self.at_terminal("players", "list", LINES="8", COLUMNS="200", **pager))
        self.environ |= {"LINES": "2", **pager}
        self.assertNotIn("paged:", self.gamed("players", "list")[1])


class TableTests(SynchronousTestCase):
    def on_a_screen(self) -> Screen:
        screen, before = Screen(), (sys.stdout, sys.stderr, os.environ.get("TERM"))
        sys.stdout = sys.stderr = screen

        def restore() -> None:
            sys.stdout, sys.stderr = before[:2]
            os.environ.pop("TERM", None)
            if before[2] is not None:
                os.environ["TERM"] = before[2]

        os.environ["TERM"] = "xterm"
        self.addCleanup(restore)
        return screen

    def test_states(self) -> None:
        """Colour states by their column, and align the columns as without colours."""
        rows = [("blocked", "blocked"), ("anna", "active")]
        plain = table(("NAME", "STATE"), rows)
        self.on_a_screen()
        headings, first, second = table(("NAME", "STATE"), rows)
        self.assertEqual((headings, second), (f"{BOLD}{plain[0]}\x1b[0m", plain[2]))
        self.assertEqual(first, f"blocked  {RED}blocked\x1b[0m")
        self.assertEqual(plain[1], "blocked  blocked")

    def test_quick_work(self) -> None:
        """Show no progress bar below a second."""
        screen = self.on_a_screen()
        with terminal.steps_shown(range(100), "copying") as steps:
            self.assertEqual(list(steps), list(range(100)))
        self.assertEqual(screen.getvalue(), "")

    def test_slow_work(self) -> None:
        """Show a bar after a second, and leave nothing of it at the end."""
        screen = self.on_a_screen()
        with terminal.bar("copying", 10) as update:
            time.sleep(terminal.BAR_SECONDS + 0.05)
            update(5)
            self.assertIn("copying", screen.getvalue())
            self.assertIn("50%", screen.getvalue())
        self.assertTrue(screen.getvalue().endswith(terminal.ERASE_LINE))
        self.assertNotIn("\n", re.sub(r"\x1b\[\?25[hl]", "", screen.getvalue()))
