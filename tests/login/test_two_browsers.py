"""These tests open one login in two browsers: it belongs to one, and the other never sees a code.

See docs/internals/threats.md: Signing in.
"""

from collections.abc import Callable
from itertools import permutations
from re import search

from gamed.dev.grants import ResponseMode
from gamed.dev.provider import SLOW_SECONDS
from tests.login.browser_fake_provider import ProviderCase
from tests.login.browser_fixtures import BASE, Game, Page
from tests.login.test_browser_routes import OTHER_SENTENCE, code
from tests.login.test_login import lasting

CODE = r"\b[B-DF-HJ-NP-TV-XZ]{3}-[B-DF-HJ-NP-TV-XZ]{3}\b"


class TwoBrowsers(ProviderCase):
    def setUp(self) -> None:
        self.serve_oauth()
        self.player: Game = self.game(provider="discord")
        self.browser, self.other_browser = self.new_browser(), self.new_browser()

    def reopened(self, winner: int, other_browser: int) -> None:
        """Open the link again in both browsers; the other one sees no code and no ticket, and changes nothing."""
        for browser, status in ((self.browser, winner), (self.other_browser, other_browser)):
            before = self.server.rows("SELECT * FROM login")
            page = browser.get(self.player.url)
            self.assertEqual(page.status, status, page.text)
            if browser is self.other_browser:
                self.nothing_shown(page)
                self.nothing_shown(browser.get(f"/auth/login/done?login_id={self.player.login['login_id']}"))
                self.assertEqual(self.server.rows("SELECT * FROM login"), before)

    def nothing_shown(self, page: Page) -> None:
        self.assertIsNone(search(CODE, page.text))
        self.assertNotIn("ticket", page.html + repr(page.headers))

    def test_the_link_in_every_stage(self) -> None:
        """The link shows the page while undecided, then the result or 409 to another browser, 410 at the end."""
        self.reopened(200, 200)
        callback = self.at_provider(self.go_on(self.browser, self.player.url), "anna", ResponseMode.SLOW)
        self.reopened(200, 200)
        back = self.site.send("GET", callback.removeprefix(BASE), self.browser.headers())
        self.reopened(303, 409)
        self.pass_time(SLOW_SECONDS)
        done = back.answer.headers["location"]
        self.reopened(303, 409)
        shown = code(self.browser.get(done))
        self.assertEqual(self.player.collect(finish_code=shown).json["status"], "complete")
        self.reopened(303, 409)
        self.nothing_shown(self.browser.get(done))
        self.server.write(lambda c: c.execute("UPDATE login SET stage = 'collected', sealed_result = NULL").fetchall())
        self.reopened(410, 410)

    def test_the_link_after_each_end(self) -> None:
        """After a cancel, a decline and the deadline the link is 410 for both browsers."""
        ends: tuple[Callable[[Game], object], ...] = (
            lambda game: game.cancel(),
            lambda game: self.browser.post(self.browser.get(game.url).form("/decline")),
            lambda _: self.server.clock.advance(600),
        )
        for end in ends:
            self.player = self.game(provider="discord")
            self.go_on(self.browser, self.player.url)
            end(self.player)
            self.reopened(410, 410)

    def test_two_browsers(self) -> None:
        """The first callback gets the login, in both orders; only its browser sees the code that the game needs."""
        for first, second in permutations((self.browser, self.other_browser)):
            self.player = self.game(provider="discord")
            early = self.at_provider(self.go_on(first, self.player.url), "anna")
            late = self.at_provider(self.go_on(second, self.player.url), "bo")
            before = lasting(self.server)
            shown = code(first.get(first.get(early).headers["location"]))
            lost = second.get(late)
            self.assertEqual((lost.status, OTHER_SENTENCE in lost.text), (409, True))
            for page in (lost, second.get(self.player.url), second.get(early)):
                self.nothing_shown(page)
            self.assertEqual(self.player.collect().json["stage"], "proof_required")
            self.assertEqual(lasting(self.server), before)
            self.assertEqual(self.player.collect(finish_code=shown).json["status"], "complete")
