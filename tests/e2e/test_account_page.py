"""The player's page in a real browser, beside a game with a session of the same player."""

import threading
import time
import zipfile
from typing import Any, ClassVar

from playwright.sync_api import Page

from gamed.account import sentences
from gamed.outcomes import LoginFailure
from tests.e2e.cases import NAME, PASSWORD, QUICK, ServiceCase
from tests.e2e.chromium import Window
from tests.e2e.other_origin import installed
from tests.e2e.providers import DISCORD, FAKE_GOOGLE, ProviderCase
from tests.e2e.test_pages import AXE, CUT, NARROW, SCHEMES, SMALL, tabbed
from tests.e2e.test_providers import at_development
from tests.e2e.wire import Answer
from tests.support.covers import covers

NEW_PASSWORD = "a battery staple"
WAIT_SECONDS = 20


class PageWalk(ServiceCase):
    """A game that has saved twice, and a second browser on the page, both from begin()."""

    intervals: ClassVar = QUICK

    def begin(self, token: str) -> None:
        """Save twice with the game's access token, and open the second browser."""
        self.token = token
        first = self.save(b"\x01one", "If-None-Match", "*")
        self.save(b"\x02two", "If-Match", first.headers["etag"])
        self.browser = self.window()
        self.home = f"{self.service.base}/auth/account"

    def game(self, method: str, path: str, **how: Any) -> Answer:
        return self.ask(method, path, bearer=self.token, **how)

    def save(self, data: bytes, condition: str, value: str) -> Answer:
        return self.game("PUT", "/game/saves/auto", body=data, headers={condition: value})

    def click(self, name: str) -> None:
        """Press a button or follow a link of exactly this name."""
        self.browser.step(
            lambda page: (
                page.get_by_role("button", name=name, exact=True)
                .or_(page.get_by_role("link", name=name, exact=True))
                .first.click()
            )
        )

    def download(self, name: str) -> tuple[str, bytes]:
        """Follow a link that downloads a file; return its name and its bytes."""

        def step(page: Page) -> tuple[str, bytes]:
            with page.expect_download() as started:
                page.get_by_role("link", name=name, exact=True).click()
            file = self.folder / "download"
            started.value.save_as(file)
            return started.value.suggested_filename, file.read_bytes()

        return self.browser.step(step)

    def restore_first(self) -> None:
        """Restore the first version of the save; the game gets it by its long poll within a second."""
        cursor = self.game("GET", "/game/saves").json["cursor"]
        got: list[tuple[Answer, float]] = []

        def poll() -> None:
            path, wait = f"/game/saves?since={cursor}", {"Prefer": f"wait={WAIT_SECONDS}"}
            got.append((self.game("GET", path, headers=wait), time.monotonic()))

        waiting = threading.Thread(target=poll)
        waiting.start()
        self.click("Versions: auto")
        self.assertEqual(self.download("Download: Version 1"), ("auto-1.sav", b"\x01one"))
        restored = time.monotonic()
        self.click("Restore: Version 1")
        self.browser.wait_for(sentences.NOTICES["restored"].source)
        waiting.join(WAIT_SECONDS)
        [(answer, at)] = got
        self.assertEqual([save["version"] for save in answer.json["saves"]], [3])
        self.assertLess(at - restored, 1)
        self.assertEqual(self.game("GET", "/game/saves/auto").body, b"\x01one")
        self.click("All saves")

    def sign_game_out(self) -> None:
        self.browser.step(lambda page: page.locator("form[action$=sign-out-device] button").click())
        self.browser.wait_for(sentences.NOTICES["signed-out"].source)
        self.assertEqual(self.game("GET", "/game/").status, 401)

    def export(self) -> None:
        name, data = self.download("Download all")
        file = self.folder / name
        file.write_bytes(data)
        self.assertEqual(zipfile.ZipFile(file).read("saves/auto/3"), b"\x01one")

    def delete_everything(self) -> None:
        def delete(page: Page) -> None:
            page.get_by_label("Type the word").fill("delete")
            page.get_by_role("button", name="Delete account").click()

        self.browser.step(delete)
        self.browser.wait_for("Your account is deleted")


class AccountPageCase(PageWalk):
    """A player with a local account."""

    def setUp(self) -> None:
        super().setUp()
        self.client_ = self.created(self.window())
        self.begin(self.client_.credential.access_token)

    def sign_in(self, password: str = PASSWORD) -> None:
        self.browser.open(self.home)
        self.browser.sign_in(NAME, password)
        self.browser.wait_for("Sign out")


class WalkTests(AccountPageCase):
    def test_walk(self) -> None:
        """A player sees the device, restores a save, signs the game out, changes the password, exports and deletes."""
        self.sign_in()
        self.assertIn(f"Hello, {NAME}", self.browser.text)
        self.assertNotIn("No game is signed in as you.", self.browser.text)
        self.assertIn("4 B · just now", self.browser.text)

        self.restore_first()
        self.sign_game_out()

        def change(page: Page) -> None:
            page.get_by_label("Old password").fill(PASSWORD)
            page.get_by_label("New password").fill(NEW_PASSWORD)
            page.get_by_role("button", name="Change password").click()

        self.browser.step(change)
        self.browser.wait_for(sentences.NOTICES["password"].source)
        self.export()
        self.delete_everything()
        self.browser.open(self.home)
        self.browser.sign_in(NAME, NEW_PASSWORD)
        self.assertNotIn("Sign out", self.browser.text)

    def test_delete_copy(self) -> None:
        """A conflict copy is deleted after a page that asks, from which the player can also go back."""
        self.assertEqual(self.save(b"\x03three", "If-Match", '"1-0000000000000000"').status, 412)
        self.sign_in()
        self.click("Choose: auto")
        for answer, left in (("Keep it", 1), ("Delete this copy", 0)):
            self.click("Delete this copy: Version 3")
            self.browser.wait_for("It is then gone for good")
            self.click(answer)
            self.browser.wait_for("Versions")
            kinds = [each["kind"] for each in self.game("GET", "/game/saves/auto/versions").json["versions"]]
            self.assertEqual(kinds.count("conflict"), left)
        self.assertIn(sentences.NOTICES["dismissed"].source, self.browser.text)

    @covers("threats/67")
    def test_back_after_sign_out(self) -> None:
        """After the sign-out the Back button shows no data of the player."""
        self.sign_in()
        self.click("Versions: auto")
        self.browser.wait_for("Versions")
        self.click("All saves")
        self.click("Sign out")
        self.browser.wait_for("Sign in to see")
        self.assertEqual([name for name in self.browser.cookies if name == "ga"], [])
        for _ in range(3):
            self.browser.step(lambda page: page.go_back())
            self.assertNotIn(NAME, self.browser.text)
            self.assertNotIn("All saves", self.browser.text)

    def test_cookie(self) -> None:
        """Scripts and other sites do not get the cookie; no page's address has it."""
        self.sign_in()
        [cookie] = [each for each in self.browser.step(lambda page: page.context.cookies()) if each["name"] == "ga"]
        self.assertEqual((cookie["httpOnly"], cookie["sameSite"], cookie["expires"]), (True, "Lax", -1))
        self.assertEqual([url for url, _ in self.browser.seen if cookie["value"] in url], [])


class ProviderWalkTests(ProviderCase, PageWalk):
    """A player who signs in at providers."""

    stands: ClassVar = (DISCORD, FAKE_GOOGLE)

    def setUp(self) -> None:
        super().setUp()
        window = self.window()
        client = self.on_device("desk", DISCORD, window, at_development(window, "Anna"))
        self.begin(client.credential.access_token)

    def sign_in(self, label: str, person: str = "Anna") -> None:
        """Go to the provider from the page, and continue there as a person."""
        self.browser.open(self.home)
        self.click(f"Continue with {label}")
        at_development(self.browser, person)()

    def test_walk(self) -> None:
        """A player signs in at the provider, restores, links another, signs in there, exports and deletes."""
        self.sign_in("Discord")
        self.browser.wait_for("Sign out")
        self.assertEqual(self.browser.url, self.home)  # neither code nor state nor login_id stays in the address
        self.assertNotIn("No game is signed in as you.", self.browser.text)
        self.assertNotIn("Old password", self.browser.text)
        self.restore_first()
        self.sign_game_out()

        self.click("Link: Google")
        at_development(self.browser, "Anna")()
        self.browser.wait_for(sentences.NOTICES["linked"].source)
        self.click("Unlink: Discord")
        self.browser.wait_for("You had signed in with it here")
        self.assertEqual([name for name in self.browser.cookies if name == "ga"], [])
        self.click("Sign in again")
        self.browser.wait_for("Sign in to see")
        self.sign_in("Google")
        self.browser.wait_for("Sign out")
        self.assertEqual(self.service.rows()["player"], 1)
        self.export()
        self.delete_everything()
        self.assertEqual(self.service.rows()["player"], 0)

    def test_nobody(self) -> None:
        """An account without a player creates none, and the page tells the person to begin in a game."""
        self.sign_in("Discord", "Chidi")
        self.browser.wait_for(sentences.ENDED[LoginFailure.REGISTRATION_CLOSED][1].source)
        self.assertEqual(self.service.rows()["player"], 1)
        self.assertNotIn("ga", self.browser.cookies)

    def test_deny(self) -> None:
        """A player who declines at the provider is not signed in, and can try again."""
        self.browser.open(self.home)
        self.click("Continue with Discord")
        self.browser.press("Deny")
        self.browser.wait_for("You are not signed in")
        self.assertNotIn("ga", self.browser.cookies)
        self.click("Try again")
        self.click("Continue with Discord")
        at_development(self.browser, "Anna")()
        self.browser.wait_for("Sign out")


class LookTests(AccountPageCase):
    """Checks of all pages on the running service."""

    maxDiff = None

    def shown(self) -> list[str]:
        """Return the addresses of the pages that are checked."""
        return [self.home, f"{self.home}/saves/auto", f"{self.home}/saves/none"]

    def found(self, window: Window, *scripts: str, before: str = "") -> dict[str, list[str]]:
        """Return the findings of scripts on each page, in both schemes; `before` runs once after each page's load."""
        findings: dict[str, list[str]] = {}

        def check(page: Page) -> None:
            page.set_viewport_size(NARROW)
            for url in self.shown():
                page.goto(url)
                page.evaluate(before)
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    if result := [finding for script in scripts for finding in page.evaluate(script)]:
                        findings[f"{url} {scheme}"] = result

        window.step(check)
        return findings

    def conflict(self) -> None:
        """Let a device save over an older version, so that every kind of version is shown."""
        self.assertEqual(self.save(b"\x03three", "If-Match", '"1-0000000000000000"').status, 412)

    def test_axe(self) -> None:
        """axe-core reports nothing, signed out and signed in, light and dark."""
        source = (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
        self.conflict()
        self.assertEqual(self.found(self.browser, AXE, before=source), {})
        self.sign_in()
        self.assertEqual(self.found(self.browser, AXE, before=source), {})

    def test_narrow(self) -> None:
        """At 320 px nothing is cut off, and every button and link has 44 px."""
        self.conflict()
        self.sign_in()
        self.assertEqual(self.found(self.browser, CUT, SMALL), {})

    def test_keyboard(self) -> None:
        """The tab key reaches every element in the order of the page, with a visible focus."""
        self.sign_in()
        for url in self.shown():
            self.browser.open(url)
            self.assertEqual(self.browser.step(tabbed), [], url)
