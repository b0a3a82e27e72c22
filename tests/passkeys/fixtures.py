"""Browsers whose devices have passkeys, on the pages of a server in memory."""

import json
from io import BytesIO
from typing import Any
from zipfile import ZipFile

from gamed.passkeys import tables
from gamed.passkeys.model import Credential, NewPasskey, new_passkey_id
from gamed.players.tables import create_player
from tests.account.page_fixtures import BERT, HOME, AccountBrowser, AccountCase
from tests.login.browser_fixtures import Page
from tests.passkeys.authenticator import RP_ID, Authenticator

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

    def id_of(self, condition: str = "true") -> str:
        """Return the id of the one passkey that meets a condition in SQL."""
        [(passkey_id,)] = self.server.rows(f"SELECT passkey_id FROM passkey WHERE {condition}")
        return passkey_id

    def remove(self, passkey_id: str, browser: AccountBrowser | None = None) -> Page:
        """Remove a passkey on its page in Anna's browser, or in another."""
        visitor = browser or self.browser
        return visitor.post(visitor.get(f"{HOME}/passkeys/{passkey_id}").form("/remove-passkey"))

    def own_passkeys(self) -> list[str]:
        """Return the names of the passkeys in the player's export."""
        return [each["name"] for each in self.own_data()["passkeys"]]

    def own_data(self) -> dict[str, Any]:
        """Return the account's data in the player's export."""
        archive = ZipFile(BytesIO(self.browser.ask("GET", f"{HOME}/export").body))
        found: dict[str, Any] = json.loads(archive.read("me.json"))
        return found

    def create_bert(self) -> None:
        """Create another player, without a way to sign in."""
        self.server.write(lambda c: create_player(c, BERT, self.server.now_ms()))

    def insert(self, player_id: str, number: int = 0, rp_id: str = RP_ID) -> str:
        """Store a passkey without a device; return its id."""
        server, new = self.server, NewPasskey(Credential(bytes([number]) * 32, b"", bytes(32)), 0, False, False)
        named = {
            "passkey_id": new_passkey_id(server.random),
            "player_id": player_id,
            "rp_id": rp_id,
            "name": str(number),
        }
        server.write(lambda c: tables.insert(c, server.keys, new, **named, now_ms=server.now_ms()))
        return named["passkey_id"]

    def execute(self, statement: str) -> None:
        """Change the database behind the server's back."""
        self.server.write(lambda connection: connection.execute(statement).rowcount)
