"""Browsers before the redirect to a provider whose metadata is wrong or missing."""

from typing import Any

from tests.hostile.discoveries import REFUSED, STALE
from tests.hostile.helpers import WORDS, HostileCase, tests_of
from tests.hostile.modes import Mode
from tests.login.browser_fixtures import Page
from tests.support.covers import covers


class DiscoveryCase(HostileCase):
    def prepared(self, mode: Mode) -> None:
        self.serve_hostile(mode.provider)
        if mode.primed is not None:
            self.signs_in()
            self.pass_time(mode.primed)
        self.heard.clear()
        mode.twist(self.fake)
        self.before, self.saved = self.lasting(), self.saves()

    def pressed(self, mode: Mode) -> tuple[Any, Any, Page, Any]:
        """Press the button while a game waits."""
        game, browser = self.game(provider=self.name), self.new_browser()
        form = browser.get(game.url).form("/continue")
        poll = game.wait(wait=25, seen=WORDS[0])
        sent = browser.headers(Sec_Fetch_Site="same-origin", Sec_Fetch_Dest="document")
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        body = "&".join(f"{name}={value}" for name, value in form["fields"].items())
        connection = self.site.send("POST", form["action"], {**sent, **kind}, body.encode())
        if mode.waits:
            self.pass_time(mode.waits - 0.1)
            self.assertEqual(connection.answers, [], "given up too early")
            self.pass_time(0.1)
        self.wire.flush()
        return game, browser, Page(connection.answer), poll

    def clean(self, page: Page) -> None:
        """Assert that no row changed, the page has only texts of gamed, and no code or secret was sent."""
        self.assertEqual((self.lasting(), self.saves()), (self.before, self.saved))
        self.assertNotIn("Xyzzy", page.html + repr(page.headers) + repr(self.heard) + str(self.site.log.lines))
        self.assertEqual({call.body for call in self.fake.seen if call.method == "GET"} - {b""}, set())
        self.sent_once()

    def refused(self, mode: Mode) -> None:
        """Assert that the sign-in ends, with the reason for the game, the player and the owner."""
        self.prepared(mode)
        game, browser, page, poll = self.pressed(mode)
        self.assertEqual(page.status, 303, page.text)
        self.assertTrue(page.headers["location"].startswith("https://game.example/auth/login/done?"))
        sign_in = self.sign_in(game, browser, poll)
        sign_in.pages = [page, browser.get(page.headers["location"])]
        assert mode.outcome is not None
        self.ends(sign_in, sign_in.pages[1], mode.outcome, mode.cause)
        self.clean(sign_in.pages[1])
        self.repair()
        self.pass_time(mode.heals)
        self.signs_in()

    def stale(self, mode: Mode) -> None:
        self.prepared(mode)
        self.signs_in()
        self.assertEqual(self.saves(), self.saved)
        self.nothing_leaks()


@covers("threats/18")
class Refused(DiscoveryCase): ...


class Stale(DiscoveryCase): ...


tests_of(Refused, REFUSED, DiscoveryCase.refused)
tests_of(Stale, STALE, DiscoveryCase.stale)
