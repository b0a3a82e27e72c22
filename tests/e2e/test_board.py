"""The game for two in real browsers: a whole game, two who are too fast, a move without a network, a reload."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, Route

from tests.cli.process import GAMED, ROOT, CommandTestCase, free_port
from tests.e2e.chromium import Window
from tests.e2e.other_origin import installed

AXE = "async () => (await axe.run()).violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' '))"
SERVED = ("--static", "examples", "--static", "clients/js")
TOO_LATE = "Your last move came too late: the game went on in another browser. The server keeps a copy."
OFFLINE = "Offline: your move is kept here, and sent later"


class BoardTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.ports = {name: free_port() for name in ("--port", "--provider-port", "--static-port")}
        served = [str(ROOT / word) if "/" in word or word == "examples" else word for word in SERVED]
        ports = [f"{name}={port}" for name, port in self.ports.items()]
        process = self.start(*GAMED, "dev", *ports, *served, f"--folder={self.folder / 'dev'}")
        self.await_answer(self.ports["--port"], process)
        self.errors: list[str] = []

    def browser(self, name: str, side: str = "") -> Window:
        """Open the game in a browser of its own, by the page with both games; sign in as Anna, and take a side."""
        window = Window()
        self.addCleanup(window.close)

        def opens(page: Page) -> None:
            page.on("pageerror", lambda error: self.errors.append(str(error)))
            page.goto(f"http://127.0.0.1:{self.ports['--static-port']}/")
            page.get_by_role("link", name="Four in a row").click()
            page.get_by_role("heading", name="Sign in to play").wait_for()
            page.get_by_role("button", name="Sign in", exact=True).click()
            with page.context.expect_page() as opened:
                page.get_by_role("button", name="Sign in with Discord").click()
            sign_in = opened.value
            sign_in.get_by_role("button", name="Continue with Discord").click()
            sign_in.get_by_role("button", name="Continue as Anna").click()
            page.get_by_role("textbox", name="Type the six letters").fill(sign_in.locator(".code").inner_text())
            page.get_by_role("button", name="Continue").click()
            sign_in.close()
            page.get_by_text("Anna on 127.0.0.1").wait_for()

        window.step(opens)
        if side:
            self.sits(window, name, side)
        return window

    def sits(self, window: Window, name: str, button: str) -> None:
        self.does(window, lambda page: page.get_by_label("Your name").fill(name))
        self.does(window, lambda page: page.get_by_role("button", name=button).click())
        self.says(window, f"{name} (you)")

    def does(self, window: Window, step: Callable[[Page], object]) -> object:
        return window.step(step)

    def says(self, window: Window, text: str) -> None:
        """Wait until a visible element has this text."""
        window.step(lambda page: page.get_by_text(text).locator("visible=true").first.wait_for())

    def press(self, window: Window, column: int) -> None:
        """Press the key on the column: Playwright waits to click until a column may be chosen."""
        window.step(lambda page: page.get_by_role("button", name=re.compile(rf"^Column {column}:")).press("Enter"))

    def has(self, window: Window, column: int, discs: str) -> None:
        window.step(lambda page: page.get_by_role("button", name=f"Column {column}: {discs}", exact=True).wait_for())

    def test_whole_game(self) -> None:
        """Two play to the end and begin again, a third watches; a reload keeps the seat."""
        anna, bo = self.browser("Anna", "Play flowers"), self.browser("Bo", "Play leaves")
        watching = self.browser("Cara")
        self.press(watching, 1)
        self.says(watching, "Choose a side first.")
        self.press(bo, 1)
        self.says(bo, "It is not your turn: Anna to move.")
        for at, column in enumerate((4, 4, 3, 3, 5, 5)):
            player = (anna, bo)[at % 2]
            self.says(player, "Your turn.")
            self.press(player, column)
        self.says(anna, "Bo chose column 5. Your turn.")
        self.does(anna, lambda page: page.reload())
        self.says(anna, "Bo chose column 5. Your turn.")
        self.has(watching, 4, "flower, leaf")
        self.does(anna, lambda page: page.get_by_role("button", name="Column 2:").click())
        self.says(anna, "You win: four in a row.")
        for other in (bo, watching):
            self.says(other, "Anna: four in a row.")
        self.assertEqual(self.does(bo, lambda page: page.locator("[data-four=true]").count()), 4)
        self.does(bo, lambda page: page.get_by_role("button", name="New game").click())
        self.says(anna, "Bo to move.")
        self.has(watching, 4, "empty")
        self.assertEqual(self.errors, [])

    def test_away(self) -> None:
        """A move without a network waits in the browser, also over a reload, and reaches the other one later."""
        anna, bo = self.browser("Anna", "Play flowers"), self.browser("Bo", "Play leaves")
        self.says(anna, "Leaves: Bo")
        self.cut(anna)
        self.press(anna, 6)
        self.says(anna, OFFLINE)
        self.does(anna, lambda page: page.reload())
        self.has(anna, 6, "flower")
        self.says(anna, OFFLINE)
        self.has(bo, 6, "empty")
        self.does(anna, lambda page: page.unroute_all())
        self.has(bo, 6, "flower")
        self.says(bo, "Your turn.")

    def cut(self, window: Window) -> None:
        """Let no request of the page reach the server; the page itself can still be loaded."""

        def abort(route: Route) -> None:
            route.abort()

        window.step(lambda page: page.route(f"http://127.0.0.1:{self.ports['--port']}/**", abort))

    def test_conflict(self) -> None:
        """Two change the game at once: both changes stay if they fit, else the first, and the other player knows."""
        anna = self.browser("Anna", "Play flowers")
        self.cut(anna)
        self.press(anna, 1)
        self.says(anna, OFFLINE)
        bo = self.browser("Bo", "Play leaves")
        self.does(anna, lambda page: page.unroute_all())
        self.has(bo, 1, "flower")
        self.says(anna, "Leaves: Bo")
        self.press(bo, 2)
        self.has(anna, 2, "leaf")
        self.cut(anna)
        self.press(anna, 7)
        self.says(anna, OFFLINE)
        cara = self.browser("Cara")
        self.sits(cara, "Cara", "Play flowers in place of Anna")
        self.press(cara, 3)
        self.has(bo, 3, "flower")
        self.does(anna, lambda page: page.unroute_all())
        self.says(anna, TOO_LATE)
        self.has(anna, 3, "flower")
        self.has(anna, 7, "empty")
        self.says(anna, "Flowers: Cara")
        self.has(bo, 7, "empty")
        self.assertEqual(self.errors, [])

    def test_looks(self) -> None:
        """Nothing overflows at 320 pixels, light or dark, and axe-core reports nothing, before and in a game."""
        axe = (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")

        def look(page: Page) -> list[object]:
            page.set_viewport_size({"width": 320, "height": 740})
            found: list[object] = []
            for scheme in ("dark", "light"):
                page.emulate_media(color_scheme=scheme)
                page.evaluate(axe)
                found += [page.evaluate("document.documentElement.scrollWidth"), page.evaluate(AXE)]
            return found

        anna = self.browser("Anna")
        self.assertEqual(anna.step(look), [320, [], 320, []])
        self.sits(anna, "Anna", "Play flowers")
        self.press(anna, 4)
        self.has(anna, 4, "flower")
        self.assertEqual(anna.step(look), [320, [], 320, []])
