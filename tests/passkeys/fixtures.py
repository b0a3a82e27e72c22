"""Browsers whose devices have passkeys, on the pages of a server in memory."""

from typing import Any

from tests.account.page_fixtures import HOME, AccountBrowser, AccountCase
from tests.login.browser_fixtures import Page
from tests.passkeys.authenticator import Authenticator

NEW = f"{HOME}/passkeys/new"


class PasskeyCase(AccountCase):
    """A test with Anna's browser and her device."""

    def setUp(self) -> None:
        super().setUp()
        self.device = Authenticator()

    def add(self, device: Authenticator | None = None, name: str = "Phone", **spoilt: Any) -> Page:
        """Make a passkey in Anna's browser, which is signed in."""
        form = self.browser.get(NEW).form("/add-passkey")
        fields = (device or self.device).create(form["options"], **spoilt)
        return self.browser.post(form, {"passkey_name": name, **fields})

    def use(self, browser: AccountBrowser, device: Authenticator | None = None, **spoilt: Any) -> Page:
        """Sign a browser in to the account with a passkey."""
        form = browser.get(HOME).form("/account/passkey")
        return browser.post(form, (device or self.device).get(form["options"], **spoilt))

    def added(self) -> None:
        """Sign Anna's browser in, and add a passkey of her device."""
        self.browser.sign_in()
        self.assertIn("The passkey is added", self.add().text)

    @property
    def passkeys(self) -> list[tuple[Any, ...]]:
        return self.server.rows("SELECT passkey_id, player_id, sign_count, synced, backed_up FROM passkey")

    def execute(self, statement: str) -> None:
        """Change the database behind the server's back."""
        self.server.write(lambda connection: connection.execute(statement).rowcount)
