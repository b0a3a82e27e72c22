"""The demo in a browser, started as its page describes: a sign-in, saves, two tabs that both play, an asset."""

import json
import re
import zipfile
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection

from playwright.sync_api import Page, Route

from tests.cli.process import GAMED, ROOT, CommandTestCase, free_port
from tests.e2e.chromium import Window
from tests.e2e.other_origin import installed

SIDES = ("mine", "theirs")
AXE = "async () => (await axe.run()).violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' '))"
HOLD = """async () => {
  const found = (await indexedDB.databases()).find(({ name }) => name.includes("/tab-1/"))
  const database = await new Promise((resolve) => {
    const opening = indexedDB.open(found.name)
    opening.onsuccess = () => resolve(opening.result)
  })
  const names = [...database.objectStoreNames]
  window.held = true
  const read = (transaction) => {
    if (!window.held) return database.close()
    transaction.objectStore(names[0]).count().onsuccess = () => read(transaction)
  }
  read(database.transaction(names, "readwrite"))
}"""
"""Keeps the transactions of the tab's saves waiting until RELEASE."""
RELEASE = "() => { window.held = false }"
OTHERS = """async () => {
  const { openDatabase } = await import("/gamed.mjs")
  const own = (await indexedDB.databases()).find(({ name }) => name.includes("/tab-1/")).name
  const [app, tab, server, player] = own.match(/^(.*)\\/(tab-1)\\/(.*)\\/(.*)$/).slice(1)
  const others = [[server, "not.signed.in"], [server, "ply_other"], ["other.example-0", player]]
  const names = others.map((other) => [app, tab, ...other].join("/")).sort()
  for (const name of names) (await openDatabase(name, ["state", "records", "bodies"])).close()
  return names
}"""
"""Makes the databases of saves that do not belong to the player, and returns their names."""
WATCH = """() => {
  const state = document.querySelector("#state")
  window.states = []
  new MutationObserver(() => window.states.push(state.textContent)).observe(state, { childList: true })
}"""
"""Records each text that the page shows as the state of the save from now on."""
WATCHED_MS = 1000
SERVED = ("--static", "examples/garden", "--static", "clients/js", "--assets", "examples/garden/assets")


def load_newer(tab: Page, count: str) -> None:
    """Press *Load it*, unless the page has the newer garden already, because it came before the page first drew."""
    button = tab.get_by_role("button", name="Load it")
    button.or_(tab.get_by_text(count, exact=True)).first.wait_for()
    if button.is_visible():
        button.click()


class DemoTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.ports = {name: free_port() for name in ("--port", "--provider-port", "--static-port")}
        self.base = f"http://127.0.0.1:{self.ports['--port']}"
        self.address = f"http://127.0.0.1:{self.ports['--static-port']}/"
        self.serve()
        self.errors: list[str] = []
        self.window = Window()
        self.addCleanup(self.window.close)

    def serve(self) -> None:
        served = [str(ROOT / word) if "/" in word else word for word in SERVED]
        ports = [f"{name}={port}" for name, port in self.ports.items()]
        self.process = self.start(*GAMED, "dev", *ports, *served, f"--folder={self.folder / 'dev'}")
        self.await_answer(self.ports["--port"], self.process)

    def tab(self) -> Page:
        def opened(first: Page) -> Page:
            page = first.context.new_page()
            page.on("pageerror", lambda error: self.errors.append(str(error)))
            page.goto(self.address)
            return page

        return self.window.step(opened)

    def does(self, step: Callable[[], object]) -> object:
        return self.window.step(lambda page: step())

    def sign_in(self, tab: Page) -> None:
        """Sign in as Anna in the tab that the page opens, and type the code."""

        def through(first: Page) -> None:
            tab.get_by_role("heading", name="Sign in to play").wait_for()
            self.assertEqual(tab.get_by_label("Server").input_value(), self.base)
            start = tab.get_by_role("button", name="Sign in", exact=True)
            start.click()
            above, below = start.bounding_box(), tab.get_by_role("button", name="Sign in with Discord").bounding_box()
            self.assertGreaterEqual(below["y"], above["y"] + above["height"] + 8)  # they do not touch
            self.through_browser(tab)
            tab.get_by_role("heading", name="Your plots").wait_for()

        self.window.step(through)

    def through_browser(self, tab: Page) -> None:
        """Choose Discord, sign in as Anna in the tab that opens, and type its code; a typing error costs no attempt."""
        with tab.context.expect_page() as opened:
            tab.get_by_role("button", name="Sign in with Discord").click()
        browser = opened.value
        browser.get_by_role("button", name="Continue with Discord").click()
        browser.get_by_role("button", name="Continue as Anna").click()
        code = browser.locator(".code").inner_text().strip()
        tab.get_by_label("The six letters").fill("not it")
        tab.get_by_role("button", name="Continue").click()
        tab.get_by_text("The code has six letters").wait_for()
        tab.get_by_label("The six letters").fill(code.lower())
        tab.get_by_role("button", name="Continue").click()
        browser.close()

    def press(self, tab: Page, *plots: int) -> None:
        self.does(lambda: [tab.get_by_role("button", name=re.compile(rf"^Plot {plot}:")).click() for plot in plots])

    def says(self, tab: Page, text: str) -> None:
        """Assert that a visible element has exactly this text."""
        self.does(tab.get_by_text(text, exact=True).locator("visible=true").first.wait_for)

    def keep(self, tab: Page, button: str) -> None:
        self.does(tab.get_by_role("button", name=button).click)
        self.does(lambda: tab.locator("#conflict").wait_for(state="hidden"))

    def fits(self, tab: Page) -> None:
        """Assert that nothing overflows on a phone, light or dark, and that axe-core reports nothing."""
        axe = (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")

        def look(first: Page) -> list[object]:
            tab.set_viewport_size({"width": 360, "height": 740})
            found: list[object] = []
            for scheme in ("dark", "light"):
                tab.emulate_media(color_scheme=scheme)
                tab.evaluate(axe)
                found += [tab.evaluate("document.documentElement.scrollWidth"), tab.evaluate(AXE)]
            return found

        self.assertEqual(self.window.step(look), [360, [], 360, []])

    def test_face(self) -> None:
        """The save has the three members that the player's account shows, in their documented form."""
        tab = self.tab()
        self.sign_in(tab)
        self.does(lambda: tab.wait_for_timeout(1500))
        self.press(tab, 1)
        self.says(tab, "Saved")
        players = json.loads((self.folder / "dev" / "players.json").read_text("utf-8"))["players"]
        headers = {"Authorization": f"Bearer {players['anna']['access_token']}"}
        with closing(HTTPConnection("127.0.0.1", self.ports["--port"], timeout=60)) as connection:
            connection.request("GET", "/game/saves", headers=headers)
            meta = json.load(connection.getresponse())["saves"][0]["meta"]
        self.assertGreaterEqual(meta.pop("playtime_seconds"), 1)
        self.assertEqual(meta, {"title": "0 flowers, 1 growing, 0 picked", "place": "Meadow"})
        self.assertEqual(self.errors, [])

    def test_slow_disk(self) -> None:
        """The page says "Saved" only once the garden on the screen is: not while the browser still writes it."""
        tab = self.tab()
        self.sign_in(tab)
        self.press(tab, 1)
        self.says(tab, "Saved")
        self.does(lambda: tab.evaluate(HOLD))
        self.does(lambda: tab.evaluate(WATCH))
        self.press(tab, 2)
        self.does(lambda: tab.wait_for_timeout(WATCHED_MS))
        self.assertEqual(self.does(lambda: tab.evaluate("() => window.states")), ["Saving"])
        self.does(lambda: tab.evaluate(RELEASE))
        self.says(tab, "Saved")
        self.assertEqual(self.errors, [])

    def test_whole(self) -> None:
        """A player signs in, saves, plays in two tabs, chooses a side and reloads; that side loses nothing."""
        first = self.tab()
        self.fits(first)
        self.sign_in(first)
        self.says(first, "Saved")
        self.says(first, "Anna on 127.0.0.1")
        self.fits(first)
        plot = self.does(lambda: first.get_by_role("button", name="Plot 1: empty").bounding_box())
        self.assertGreaterEqual(min(plot["width"], plot["height"]), 44)
        self.press(first, 1, 2, 2, 3, 3, 3)
        self.says(first, "1 flower, 2 growing, 0 picked")
        self.says(first, "Saved")
        self.does(lambda: first.locator("#scene-image").wait_for())
        self.assertEqual(self.does(lambda: first.locator("#scene-image").evaluate("image => image.naturalWidth")), 640)
        second = self.tab()
        self.says(second, "1 flower, 2 growing, 0 picked")
        self.says(second, "Tab 2: it saves as a device of its own.")
        self.keep_this_one(first, second)
        self.keep_the_other(first, second)
        self.does(first.reload)
        self.says(first, "0 flowers, 4 growing, 1 picked")
        self.does(lambda: first.get_by_role("button", name="Sign out").click())
        self.says(first, "Sign in to play")
        self.assertEqual(self.errors, [])

    def both_go_on(self, first: Page, second: Page, mine: tuple[int, ...], theirs: tuple[int, ...]) -> None:
        """Play in both tabs, the first without a network; then reconnect it."""
        self.does(first.bring_to_front)  # Chromium slows down a page in the background
        self.does(lambda: first.get_by_label("Stay offline").check())
        self.press(first, *mine)
        self.says(first, "Offline: kept in this browser")
        self.does(second.bring_to_front)
        self.press(second, *theirs)
        self.says(second, "Saved")
        self.does(first.bring_to_front)
        self.does(lambda: first.get_by_label("Stay offline").uncheck())
        self.says(first, "Which garden do you want to keep?")

    def keep_this_one(self, first: Page, second: Page) -> None:
        """Choose this side after a while: the game runs until then, and its saves meanwhile are kept, too."""
        self.both_go_on(first, second, (7,), (12, 12))
        self.fits(first)
        for side in SIDES:
            self.assertEqual(self.inside(first, f"#{side}-text"), "1 flower, 3 growing, 0 picked")
            self.assertRegex(self.inside(first, f"#{side}-when"), r"Saved .*\d:\d\d")
        self.does(lambda: first.get_by_role("button", name="Decide later").click())
        self.says(first, "Kept in this browser; waits for your choice")
        self.press(first, 8)
        self.does(lambda: first.get_by_role("button", name="Choose").click())
        self.keep(first, "Keep this tab's")
        self.says(first, "1 flower, 4 growing, 0 picked")
        self.says(first, "Saved")

    def keep_the_other(self, first: Page, second: Page) -> None:
        self.does(second.bring_to_front)
        self.does(lambda: second.get_by_role("button", name="Load it").click())
        self.says(second, "1 flower, 4 growing, 0 picked")
        self.both_go_on(first, second, (20,), (3,))
        self.keep(first, "Keep the other one")
        self.says(first, "0 flowers, 4 growing, 1 picked")

    def inside(self, tab: Page, place: str) -> str:
        return str(self.does(lambda: tab.locator(place).inner_text()))

    def test_account(self) -> None:
        """The account lists the devices and earlier gardens with their devices; one of those can be loaded again."""
        tab = self.tab()
        self.sign_in(tab)
        self.says(tab, "Saved")
        self.press(tab, 1)
        self.says(tab, "Saved")
        self.press(tab, 2, 2)
        self.says(tab, "Saved")
        self.open_account(tab)
        device = self.does(lambda: tab.locator("#devices li").filter(has_text=": this one").inner_text())
        self.assertRegex(str(device), r"^Browser on \S+: this one\nUsed .*\d:\d\d")
        first = tab.locator("#versions li").filter(has_text="0 flowers, 1 growing, 0 picked")
        self.assertRegex(str(self.does(first.inner_text)), r"\nSaved .*\d:\d\d.* on Browser on \S+\n")
        self.fits(tab)
        self.does(first.get_by_role("button", name="Take this one").click)
        self.says(tab, "0 flowers, 1 growing, 0 picked")
        self.says(tab, "Saved")
        self.open_account(tab)
        others = tab.get_by_role("button", name="Sign out all others")
        if self.does(others.is_visible):
            self.does(others.click)
            self.does(lambda: others.wait_for(state="hidden"))
        self.assertEqual(self.does(tab.locator("#devices li").count), 1)
        self.assertEqual(self.errors, [])

    def open_account(self, tab: Page) -> None:
        self.does(lambda: tab.get_by_role("button", name="Account").click())
        self.does(tab.locator("#versions li").first.wait_for)
        self.does(tab.locator("#devices li").first.wait_for)

    def test_export(self) -> None:
        """The player downloads a zip with every version of the garden."""
        tab = self.tab()
        self.sign_in(tab)
        self.press(tab, 1)
        self.says(tab, "Saved")
        self.open_account(tab)

        def exported(first: Page) -> tuple[str, list[str]]:
            with tab.expect_download() as download:
                tab.get_by_role("button", name="Take my saves along").click()
            with zipfile.ZipFile(download.value.path()) as archive:
                return download.value.suggested_filename, archive.namelist()

        name, members = self.window.step(exported)
        self.assertEqual(name, "garden-127.0.0.1.zip")
        self.assertIn("manifest.json", members)
        self.assertTrue(any("garden" in member for member in members), members)

    def test_delete(self) -> None:
        """A player who deletes their account signs in once more if the server asks, and is deleted on both sides.

        The databases of other players, of other servers and from before a sign-in stay.
        """
        tab = self.tab()
        self.sign_in(tab)
        self.press(tab, 1, 1, 1)
        self.says(tab, "Saved")
        others = self.does(lambda: tab.evaluate(OTHERS))
        self.does(lambda: tab.route("**/auth/player", self.ask_for_sign_in, times=1))
        self.open_account(tab)
        self.does(lambda: tab.get_by_role("button", name="Delete me", exact=True).click())
        self.does(lambda: tab.get_by_role("button", name="Delete me for good").click())
        self.does(lambda: self.through_browser(tab))
        self.says(tab, "You and your gardens were deleted.")
        kept = self.does(lambda: tab.evaluate("async () => (await indexedDB.databases()).map(({name}) => name)"))
        self.assertEqual(sorted(name for name in kept if "/tab-" in name), others)
        self.assertNotIn("Anna", str(self.does(lambda: tab.evaluate("() => JSON.stringify(localStorage)"))))
        self.sign_in(tab)
        self.says(tab, "0 flowers, 0 growing, 0 picked")
        self.assertEqual(self.errors, [])

    def ask_for_sign_in(self, route: Route) -> None:
        """Answer as the server does ten minutes after a sign-in."""
        headers = {
            "Access-Control-Allow-Origin": self.address.rstrip("/"),
            "Content-Type": "application/problem+json",
        }
        problem = {"code": "reauthentication_required", "status": 403, "detail": "Sign in once more to confirm."}
        if route.request.method == "DELETE":
            route.fulfill(status=403, headers=headers, body=json.dumps(problem))
        else:
            route.continue_()

    def test_another_port(self) -> None:
        """After `gamed dev` starts on another port the page offers that server, not the one of the last sign-in."""
        self.sign_in(self.tab())
        page_port = self.ports["--static-port"]
        self.process.terminate()
        self.process.wait(60)
        self.ports = {name: free_port() for name in self.ports} | {"--static-port": page_port}
        self.base = f"http://127.0.0.1:{self.ports['--port']}"
        self.serve()
        again = self.tab()
        self.says(again, "Sign in to play")
        self.assertEqual(self.does(lambda: again.get_by_label("Server").input_value()), self.base)

    def test_away(self) -> None:
        """Without a network the game continues; its saves are sent later by themselves, also those of a closed tab."""
        tab = self.tab()
        self.sign_in(tab)
        self.says(tab, "Saved")
        self.does(lambda: tab.context.set_offline(True))
        self.press(tab, 1, 2)
        self.says(tab, "Offline: kept in this browser")
        self.does(lambda: tab.context.set_offline(False))
        self.says(tab, "Saved")
        other = self.tab()
        self.says(other, "0 flowers, 2 growing, 0 picked")
        self.does(lambda: other.get_by_label("Stay offline").check())
        self.press(other, 5)
        self.says(other, "Offline: kept in this browser")
        self.does(other.close)
        self.does(lambda: tab.route(f"{self.base}/game/", lambda route: route.abort()))
        self.does(tab.reload)
        self.does(lambda: load_newer(tab, "0 flowers, 3 growing, 0 picked"))
        self.says(tab, "0 flowers, 3 growing, 0 picked")
        self.says(tab, "Anna on 127.0.0.1")
        self.assertEqual(self.errors, [])
