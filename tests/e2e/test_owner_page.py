"""The owner's page of a real service, in a real browser and over a unix socket."""

import json
import socket
import stat
from contextlib import closing
from http.client import HTTPConnection

from playwright.sync_api import Page

from tests.cli.process import CommandTestCase
from tests.e2e.chromium import Window
from tests.e2e.other_origin import installed
from tests.e2e.test_pages import AXE, CUT, NARROW, SCHEMES
from tests.pages.test_texts import words
from tests.support.covers import covers
from tests.support.ports import free_port

LONG = "W" * 32


def ask(port: int, host: str, path: str = "/") -> int:
    """Return the status of a request with this Host."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().status


class BrowserTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.admin = free_port()
        self.process, self.port = self.serve(f"--admin=tcp:{self.admin}:interface=127.0.0.1")
        for name in ("anna", LONG):
            self.assertEqual(self.gamed("players", "add", name, "--password-stdin", stdin="a long password\n")[0], 0)
        self.token = json.loads(self.gamed("players", "token", "anna", "--json")[1])
        self.gamed("players", "block", LONG)

    @covers("threats/34")
    def test_read(self) -> None:
        """The page fits a narrow window in both schemes, axe-core reports nothing, and the style sheet is allowed."""
        axe = (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
        self.assertEqual(self.gamed("backup", str(self.folder / "backups"))[0], 0)
        window = Window()
        self.addCleanup(window.close)

        def look(page: Page) -> list[object]:
            page.goto(f"http://localhost:{self.admin}/")
            page.get_by_role("heading", name="Your server").wait_for()
            page.get_by_role("table").get_by_text("anna", exact=True).wait_for()
            page.get_by_text("blocked", exact=True).wait_for()
            found: list[object] = []
            for size in (NARROW, {"width": 1280, "height": 800}):
                page.set_viewport_size(size)  # type: ignore[arg-type]
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    page.evaluate(axe)
                    found += [*page.evaluate(AXE), *page.evaluate(CUT)]
                if page.evaluate("document.documentElement.scrollWidth") > size["width"]:
                    found.append(f"wider than {size['width']}")
            self.assertEqual(page.locator(".page").evaluate("e => getComputedStyle(e).maxWidth"), "1088px")
            return found

        self.assertEqual(window.step(look), [])
        said = words(window.html.encode())
        self.assertIn("Last backup just now", said)
        self.assertRegex(said, r"A anna name and password just now 1 device 0 B")
        self.assertIn("anna was added by the owner", said)
        for secret in (self.token["access_token"], self.token["refresh_credential"], self.token["session_id"]):
            self.assertNotIn(secret, window.html)
        self.assertNotIn("127.0.0.1", said.replace(f"127.0.0.1:{self.port}", ""))  # the server's address is its name

    @covers("threats/34")
    def test_other_names(self) -> None:
        """The page responds 421 to each name that is not this machine's own, and never on the game's port."""
        for host in (f"localhost:{self.admin}", "127.0.0.1", f"[::1]:{self.admin}", "LOCALHOST"):
            self.assertEqual(ask(self.admin, host), 200, host)
        for host in ("game.example", f"localhost.evil.example:{self.admin}", "127.0.0.1.nip.io", "192.168.0.1"):
            for path in ("/", "/metrics", "/readyz"):
                self.assertEqual(ask(self.admin, host, path), 421, (host, path))
        self.assertEqual(ask(self.port, "127.0.0.1", "/"), 404)


class SocketTests(CommandTestCase):
    def test_unix(self) -> None:
        """The page responds on a unix socket to any name."""
        path = self.folder / "admin.sock"
        self.serve(f"--admin=unix:{path}")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o660)
        with closing(socket.socket(socket.AF_UNIX)) as connection:
            connection.settimeout(60)
            connection.connect(str(path))
            connection.sendall(b"GET / HTTP/1.1\r\nHost: anything\r\nConnection: close\r\n\r\n")
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer[:200])
        self.assertIn(b"Your server", answer)
