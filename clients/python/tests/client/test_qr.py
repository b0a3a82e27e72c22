"""The link as a QR code, for a phone if this machine does not have a browser."""

import ast
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import segno
from twisted.trial.unittest import SynchronousTestCase

from clients.python.tests.client.cases import ClientCase
from clients.python.tests.client.fake_server import CODE
from tests.support.python_client import CLIENT_PATH as PATH
from tests.support.python_client import PACKAGE
from tests.support.python_client import gamed_client as gc

URL = "https://play.example.org/auth/login/AbCdEfGhIjKlMnOpQrStUv"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
HALVES = {" ": (0, 0), "\u2580": (1, 0), "\u2584": (0, 1), "\u2588": (1, 1)}


def modules(text: str) -> list[list[int]]:
    """Return 1 for each dark module, row by row."""
    rows = []
    for line in text.split("\n"):
        pairs = [HALVES[character] for character in line]
        rows += [[above for above, _ in pairs], [below for _, below in pairs]]
    return rows


def framed(url: str) -> list[list[int]]:
    """Return the modules that a scanner needs: the code, four light modules around it, and one more light row."""
    rows = [[int(bool(module)) for module in row] for row in segno.make(url, micro=False).matrix_iter(border=4)]
    return [*rows, [0] * len(rows[0])]


class Drawing(SynchronousTestCase):
    def test_colours(self) -> None:
        """The code is black on white, set and reset on each line, whatever the terminal's own colours are."""
        text = gc.qr_code(URL, colour=True)
        for line in text.split("\n"):
            self.assertRegex(line, r"\A\x1b\[38;5;16;48;5;231m[ \u2580\u2584\u2588]+\x1b\[0m\Z")
        self.assertEqual(modules(ESCAPE.sub("", text)), framed(URL))

    def test_without_colours(self) -> None:
        """Without escapes the light modules are drawn, for a dark background."""
        text = gc.qr_code(URL)
        self.assertNotIn("\x1b", text)
        self.assertEqual([[1 - module for module in row] for row in modules(text)], framed(URL))

    def test_it_fits_a_terminal(self) -> None:
        """The link of a server with a long name needs neither 80 columns nor 30 lines."""
        lines = gc.qr_code(f"https://{'a' * 63}.example.org:8443/auth/login/{'A' * 22}").split("\n")
        self.assertLess(max(map(len, lines)), 80)
        self.assertLess(len(lines), 30)

    def test_optional(self) -> None:
        """segno is the only foreign import; it is inside a function and may be missing."""
        tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
        [drawer] = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "qr_code"]
        tried = [node for node in ast.walk(drawer) if isinstance(node, ast.Try)]
        [imported] = [node for node in ast.walk(tree) if isinstance(node, ast.Import) and node.names[0].name == "segno"]
        self.assertIn(imported, tried[0].body)
        self.assertEqual(tried[0].handlers[0].type.id, "ImportError")


class Asking(ClientCase):
    """`login --qr`, and a terminal without a browser."""

    def setUp(self) -> None:
        super().setUp()
        self.fake.stage = "proof_required"
        self.empty = self.folder.parent / "empty"
        self.empty.mkdir(exist_ok=True)
        self.url = self.fake.login_url.format(base=self.server)

    def environ(self, **more: str) -> dict[str, str]:
        """Return an environment without any program that could open a page."""
        kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
        return {**kept, "PATH": str(self.empty), "BROWSER": "/nowhere/browser %s", "PYTHONUTF8": "1", **more}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(PATH), "--server", self.server, "--folder", str(self.folder), "login", *arguments]

    def piped(self, *arguments: str, **more: str) -> str:
        """Return stderr of a sign-in that succeeds, in a pipe."""
        done = subprocess.run(
            self.command(*arguments),
            input=f"{CODE}\n".encode(),
            capture_output=True,
            timeout=120,
            env=self.environ(**more),
            check=False,
        )
        self.assertEqual((done.returncode, done.stdout), (0, b"Signed in as ply_1.\n"), done.stderr)
        return done.stderr.decode()

    def on_a_terminal(self, *arguments: str, columns: int = 100) -> str:
        """Return stderr of a sign-in that succeeds, on a terminal."""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (50, columns))
        typed = f"{CODE}\n" if arguments else f"\n{CODE}\n"
        with subprocess.Popen(
            self.command(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs, env=self.environ()
        ) as process:
            os.close(theirs)
            process.stdin.write(typed.encode())
            process.stdin.close()
            said = b"".join(iter(lambda: _read(ours), b""))
            out = process.stdout.read()
        os.close(ours)
        self.assertEqual((process.returncode, out), (0, b"Signed in as ply_1.\n"))
        return said.decode().replace("\r\n", "\n")

    def drawn(self, said: str) -> list[str]:
        """Return the lines that are part of a code."""
        return [line for line in ESCAPE.sub("", said).split("\n") if re.fullmatch("[ \u2580\u2584\u2588]{30,}", line)]

    def test_asked_for(self) -> None:
        """With --qr the link is shown as text and as a code; no browser is opened, and the client does not listen."""
        said = self.piped("--qr")
        self.assertIn(f"  {self.url}\n", said)
        self.assertEqual("\n".join(self.drawn(said)), gc.qr_code(self.url))
        self.assertNotIn("\x1b", said)
        self.assertNotIn("loopback_port", self.fake.started)

    def test_not_asked_for(self) -> None:
        """In a pipe the link is text only."""
        said = self.piped("--no-browser")
        self.assertIn(self.url, said)
        self.assertEqual(self.drawn(said), [])

    def test_no_browser_opens(self) -> None:
        """On a terminal the code is shown if no browser could be opened, in colours of its own."""
        said = self.on_a_terminal()
        self.assertIn(f"  {self.url}\n", said)
        self.assertIn(gc.qr_code(self.url, colour=True), said)

    def test_narrow(self) -> None:
        """A code that is wider than the terminal is not shown, with a message if an option asks for it."""
        self.assertEqual(self.drawn(self.on_a_terminal("--no-browser", columns=30)), [])
        self.fake.outcome = None
        said = self.on_a_terminal("--qr", columns=30)
        self.assertEqual(self.drawn(said), [])
        self.assertIn("No QR code: this terminal cannot show one.", said)

    def test_no_blocks(self) -> None:
        """A terminal without these characters shows no code either."""
        said = self.piped("--qr", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
        self.assertIn("No QR code: this terminal cannot show one.", said)
        self.assertNotIn("\\u25", said)

    def test_without_segno(self) -> None:
        """Without segno the sign-in works, and its message names the package."""
        Path(self.empty, "segno.py").write_text("raise ImportError('not here')\n")
        said = self.piped("--qr", PYTHONPATH=str(self.empty))
        self.assertIn(f"  {self.url}\n", said)
        self.assertIn("No QR code: install segno for it.", said)
        self.assertEqual(self.drawn(said), [])


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 1 << 16)
    except OSError:  # the program has ended
        return b""
