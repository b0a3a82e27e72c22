"""The game of the README, as printed: on a first device, on a second one, after a revoke; and its dialog."""

import json
import re
from contextlib import closing
from http.client import HTTPConnection
from shutil import copy

from playwright.sync_api import Page

from gamed.pages.languages import Languages
from tests.cli.process import GAMED, ROOT, CommandTestCase, free_port
from tests.e2e.chromium import Window
from tests.e2e.other_origin import installed

FILES = ROOT / "clients" / "js"
MOST_LINES = 15
AXE = """async () => (await axe.run({ include: [["body > div"]] })).violations
    .map((one) => one.id + ": " + one.nodes.map((node) => node.html).join(" "))"""


def printed_page() -> str:
    """Return the first page that the README prints."""
    return re.search(r"^```html\n(.*?)^```", (FILES / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)[1]


class GamePageCase(CommandTestCase):
    def setUp(self) -> None:
        """Serve the game with `gamed dev`, whose port replaces the printed one."""
        super().setUp()
        self.port, page_port = free_port(), free_port()
        self.address = f"http://127.0.0.1:{page_port}/"
        game = self.folder / "game"
        game.mkdir()
        (game / "index.html").write_text(printed_page().replace("127.0.0.1:8080", f"127.0.0.1:{self.port}"))
        for name in ("gamed_texts.mjs", *re.findall(r'from "\./(\w+\.mjs)"', printed_page())):
            copy(FILES / name, game / name)
        ports = [f"--port={self.port}", f"--provider-port={free_port()}", f"--static-port={page_port}"]
        process = self.start(*GAMED, "dev", *ports, f"--folder={self.folder / 'dev'}", f"--static={game}")
        self.await_answer(self.port, process)
        self.problems: list[str] = []

    def device(self) -> Window:
        """Return a browser of its own, with the game."""
        window = Window()
        self.addCleanup(window.close)

        def opened(page: Page) -> None:
            page.on("pageerror", lambda error: self.problems.append(str(error)))
            page.goto(self.address)

        window.step(opened)
        return window

    def says(self, device: Window, text: str) -> None:
        device.step(lambda page: page.get_by_text(text, exact=True).wait_for())


class PageTests(GamePageCase):
    def sign_in(self, device: Window) -> None:
        """Sign in as Anna through the dialog."""

        def through(page: Page) -> None:
            page.get_by_role("button", name="Sign in with Discord (development)").wait_for()
            with page.context.expect_page() as opened:
                page.get_by_role("button", name="Sign in with Discord (development)").click()
            browser = opened.value
            browser.get_by_role("button", name="Continue with Discord").click()
            browser.get_by_role("button", name="Continue as Anna").click()
            page.get_by_label("The six letters").fill("nonsense")
            page.get_by_role("button", name="Continue").click()
            page.get_by_text("The code has six letters").wait_for()
            page.get_by_label("The six letters").fill(browser.locator(".code").inner_text())
            page.get_by_role("button", name="Continue").click()
            page.get_by_role("dialog").wait_for(state="detached")
            browser.close()

        device.step(through)

    def end_sessions(self) -> None:
        """End every session of Anna."""
        players = json.loads((self.folder / "dev" / "players.json").read_text("utf-8"))["players"]
        headers = {"Authorization": f"Bearer {players['anna']['access_token']}", "Content-Type": "application/json"}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("POST", "/auth/session/logout", json.dumps({"scope": "all"}), headers)
            self.assertEqual(connection.getresponse().status, 204)

    def test_printed_page(self) -> None:
        """The first device saves; a second one finds the save without a conflict; a revoked one signs in again."""
        first = self.device()
        self.sign_in(first)
        self.says(first, "Level 1")
        first.step(Page.reload)
        self.says(first, "Level 2")
        second = self.device()
        self.sign_in(second)
        self.says(second, "Level 3")
        self.end_sessions()
        second.step(Page.reload)
        self.sign_in(second)
        self.says(second, "Level 4")
        self.assertEqual(self.problems, [])

    def test_short(self) -> None:
        """The page has at most 15 lines."""
        self.assertLessEqual(len([line for line in printed_page().splitlines() if line.strip()]), MOST_LINES)


ENSURE = """async ([server, provider, locale]) => {
    const { GamedClient } = await import("/gamed.mjs")
    const { Dialog } = await import("/gamed_dialog.mjs")
    const client = await GamedClient.open(server, { app: "dialog" })
    window.result = client.ensureSignedIn(new Dialog({ title: "Hello", locale }), { provider, openBrowser: null })
}"""
RESULT = "() => window.result"


class DialogTests(GamePageCase):
    def asked(self, server: str | None = None, provider: str | None = None, locale: str = "en") -> Window:
        """Return a page without a game that calls `ensureSignedIn` with the dialog, and may not open a tab."""
        window = Window()
        self.addCleanup(window.close)
        address = server or f"http://127.0.0.1:{self.port}"

        def opened(page: Page) -> None:
            page.on("pageerror", lambda error: self.problems.append(str(error)))
            page.goto(f"{self.address}gamed-dev.json")
            page.evaluate(ENSURE, [address, provider, locale])

        window.step(opened)
        return window

    def test_cancel(self) -> None:
        """Cancel ends the sign-in, whether the player chooses a provider or is in the browser; no dialog stays."""
        for provider in (None, "discord"):
            window = self.asked(provider=provider)
            window.step(lambda page: page.get_by_role("button", name="Cancel").click())
            self.assertEqual(window.step(lambda page: page.evaluate(RESULT)), False)
            self.assertEqual(window.step(lambda page: page.get_by_role("dialog").count()), 0)
        self.assertEqual(self.problems, [])

    def test_link(self) -> None:
        """The dialog shows the link, and its QR code for a phone."""
        window = self.asked(provider="google")

        def shown(page: Page) -> tuple[str, int]:
            picture = page.get_by_role("img", name="QR code")
            picture.wait_for()
            link = page.get_by_role("link", name="Sign in").get_attribute("href") or ""
            return link, picture.evaluate("async (image) => (await image.decode(), image.naturalWidth)")

        link, width = window.step(shown)
        self.assertTrue(link.startswith(f"http://127.0.0.1:{self.port}/auth/login/"), link)
        self.assertGreater(width, 50)

    def test_language(self) -> None:
        """The dialog is in the game's language, from right to left if that is written so, and accessible in it."""
        axe = (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
        for locale, tag, direction in (("de-AT", "de", "ltr"), ("ar_EG", "ar", "rtl"), ("xx", "en", "ltr")):
            name = Languages().get(tag).gettext("Sign in")

            def shown(page: Page, name: str = name) -> list[object]:
                dialog = page.get_by_role("dialog")
                page.get_by_role("link", name=name, exact=True).wait_for()
                page.evaluate(axe)
                return [dialog.get_attribute("lang"), dialog.get_attribute("dir"), page.evaluate(AXE)]

            self.assertEqual(self.asked(provider="google", locale=locale).step(shown), [tag, direction, []])

    def test_problem(self) -> None:
        """A server that does not respond is reported in a text; the dialog closes when the player has read it."""
        window = self.asked(server=f"http://127.0.0.1:{free_port()}")
        window.step(lambda page: page.get_by_role("alert").filter(has_text="does not answer").wait_for())
        window.step(lambda page: page.get_by_role("button", name="Close").click())
        self.assertEqual(window.step(lambda page: page.evaluate(RESULT)), False)
        self.assertEqual(window.step(lambda page: page.get_by_role("dialog").count()), 0)
        self.assertEqual(self.problems, [])

    def test_accessible(self) -> None:
        """axe-core reports nothing for the dialog, in both colour schemes, and a narrow window is wide enough."""
        axe = (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")

        def found(page: Page) -> list[object]:
            page.set_viewport_size({"width": 320, "height": 640})
            page.get_by_role("button", name="Sign in with Google").wait_for()
            results: list[object] = []
            for scheme in ("dark", "light"):
                page.emulate_media(color_scheme=scheme)
                page.evaluate(axe)
                results += [page.evaluate("document.documentElement.scrollWidth"), page.evaluate(AXE)]
            return results

        self.assertEqual(self.asked().step(found), [320, [], 320, []])
