"""Two people with the link of one sign-in return from the provider at the same time.

See docs/protocol.md: Signing in, Collect.
"""

from typing import ClassVar

from tests.e2e.chromium import Window
from tests.e2e.providers import DISCORD, ProviderCase
from tests.e2e.test_handoff import OTHER
from tests.support.covers import covers


class TwoWindows(ProviderCase):
    stands: ClassVar = (DISCORD,)

    def at_provider(self, url: str) -> Window:
        window = self.window()
        window.open(url)
        window.press("Continue with Discord")
        return window

    def go(self, window: Window, person: str) -> None:
        """Press without waiting for the next page."""
        button = {"name": f"Continue as {person}"}
        window.step(lambda page: page.get_by_role("button", **button).click(no_wait_after=True))

    @covers("threats/3")
    def test_one_wins(self) -> None:
        """One is shown a code, the other that another browser has finished; the game gets only the winner's player."""
        login = self.start(provider="discord")
        windows = {person: self.at_provider(login["login_url"]) for person in ("Anna", "Bo")}
        for person, window in windows.items():
            self.go(window, person)
        for window in windows.values():
            window.step(lambda page: page.get_by_text("Type this code").or_(page.get_by_text(OTHER)).first.wait_for())
        [winner] = [window for window in windows.values() if window.has_code()]
        [loser] = [window for window in windows.values() if window is not winner]
        self.assertIn(OTHER, loser.text)
        shown = winner.code()
        for url in (loser.url, login["login_url"], f"{self.service.base}/auth/login/done?login_id={login['login_id']}"):
            loser.open(url)
            self.assertEqual(loser.status, 409)
            self.assertNotIn(shown, loser.html)
            self.assertFalse(loser.has_code())
        tokens = [exchange for exchange in self.recorders["discord"].exchanges if exchange.path == DISCORD.token]
        self.assertEqual(len(tokens), 1)
        self.assertEqual(self.service.rows()["player"], 0)
        self.assertEqual(self.collect(login, finish_code=shown).json["status"], "complete")
        self.assertEqual(self.service.rows()["player"], 1)
        winner.open(login["login_url"])
        self.assertFalse(winner.has_code())
