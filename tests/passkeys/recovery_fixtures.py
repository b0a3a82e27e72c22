"""Browsers of a player with recovery codes, on the pages of a server in memory."""

import re
from collections.abc import Sequence
from secrets import token_bytes
from typing import Any

from msgspec.structs import force_setattr

from tests.account.page_fixtures import HOME, AccountBrowser
from tests.login.browser_fixtures import Page
from tests.passkeys.fixtures import PasskeyCase

CODES = f"{HOME}/codes"
SHOWN = re.compile(r"<li>([B-Z]{5}-[B-Z]{5}-[B-Z]{5}-[B-Z]{5})</li>")
WRONG = "Wrong name or recovery code."
NOT_ENOUGH = "A recovery code only signs you in."


def shown_codes(page: Page) -> Sequence[str]:
    """Return the codes on the page that shows them."""
    return SHOWN.findall(page.html)


class RecoveryCase(PasskeyCase):
    """A test with Anna's browser, which makes codes, and another one, which uses them."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.new_account_browser()

    def serve(self, **terms: Any) -> None:
        """Serve with codes of random letters: those of a counter begin alike, and soon repeat."""
        super().serve(**terms)
        force_setattr(self.server.parts.recovery.codes.get(), "random", token_bytes)

    def made(self, browser: AccountBrowser | None = None) -> Sequence[str]:
        """Sign Anna's browser in, and make codes there."""
        visitor = browser or self.browser
        if visitor.token is None:
            visitor.sign_in()
        return shown_codes(visitor.post(visitor.get(CODES).form("/make-codes")))

    def recover(self, code: str, browser: AccountBrowser | None = None, name: str = "Anna", **more: Any) -> Page:
        """Sign a browser in to the account with a code."""
        visitor = browser or self.other
        form = visitor.get(HOME).form("/account/recovery")
        return visitor.post(form, {"name": name, "recovery_code": code, **more})

    def transactions(self) -> tuple[int, int]:
        """Return how many transactions have read auth.db, and have written to it."""
        return self.server.databases.reads.transactions, self.server.databases.auth.transactions

    @property
    def left(self) -> int:
        [(count,)] = self.server.rows("SELECT count(*) FROM recovery_code")
        return int(count)

    def events(self, name: str) -> list[str]:
        return [line for line in self.server.security if f" {name}" in f" {line}"]
