"""Two servers change the passkeys of one player at the same time: ten at most, and the last way in stays."""

import json
import os
from collections.abc import Sequence
from secrets import token_bytes
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import replace

from bench.instance import sign_in_with
from gamed.cli.context import CommandContext
from gamed.clock import now_ms
from gamed.crypto import Keys
from gamed.database.connection import Connection
from gamed.passkeys import tables
from gamed.passkeys.limits import MAX_PASSKEYS
from gamed.passkeys.model import Credential, NewPasskey, new_passkey_id
from gamed.players import tables as player_tables
from gamed.sessions.browser_rules import BrowserName, NewBrowserSession
from gamed.sessions.browser_tables import open_browser
from tests.login.browser_fixtures import Page
from tests.passkeys.authenticator import Authenticator
from tests.processes.cases import SharedCase
from tests.processes.wire import Request, bearer
from tests.support.covers import covers

ACCOUNT = "/auth/account"


class PasskeyRaces(SharedCase):
    """Each round has a player of its own, signed in to the account in a browser that both servers know."""

    def configuration(self) -> dict[str, object]:
        self.origin = f"http://localhost:{self.servers[0].port}"
        return {**super().configuration(), "public_url": self.origin}

    def fill(self, number: int, passkeys: int, *, local: bool) -> list[str]:
        """Make a player with so many passkeys, and a password if `local`; return the passkeys' ids."""
        player_id = f"ply_{number:022d}"
        self.player_id = player_id

        def work(connection: Connection, keys: Keys) -> list[str]:
            at_ms = now_ms()
            player_tables.create_player(connection, player_id, at_ms)
            if local:
                account = {"player_id": player_id, "name": f"p{number}", "password": "-"}
                player_tables.create_account(connection, keys, **account, now_ms=at_ms)
            made = []
            for _ in range(passkeys):
                new = NewPasskey(Credential(token_bytes(32), b"", bytes(32)), 0, False, False)
                named = {"passkey_id": new_passkey_id(token_bytes), "player_id": player_id}
                tables.insert(connection, keys, new, **named, rp_id="localhost", name="Phone", now_ms=at_ms)
                made.append(named["passkey_id"])
            browser = NewBrowserSession.generate(token_bytes, BrowserName())
            signed_in = {"player_id": player_id, "provider": "local", "verified": True}
            open_browser(connection, keys.indexer, browser, **signed_in, now_ms=at_ms)
            self.cookie = browser.token.reveal().decode()
            return made

        return list(self.transaction(work))

    def transaction(self, work: Any) -> Any:
        os.environ.update(self.servers[0].environ)
        databases = CommandContext(str(self.config), str(self.servers[0].data), development=False).open()
        try:
            return databases.write(work)
        finally:
            databases.store.close()

    def request(self, path: str, fields: dict[str, str] | None = None) -> Request:
        headers = {"Host": self.origin.removeprefix("http://"), "Cookie": f"ga={self.cookie}"}
        if fields is None:
            return Request("GET", path, headers)
        headers |= {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        return Request("POST", path, headers, urlencode(fields).encode())

    def form(self, server: int, path: str, action: str, **typed: str) -> tuple[Request, dict[str, Any]]:
        """Return the request that sends a page's form, and the form."""
        answer = self.ask(server, self.request(path), 200)
        form = Page(answer).form(action)
        return self.request(form["action"], {**form["fields"], **typed}), form

    def left(self) -> Sequence[str]:
        return self.transaction(lambda connection, keys: list(tables.hosts_of(connection, self.player_id)))

    def test_two_removals(self) -> None:
        """The last two passkeys are removed at once: one is gone, and the other stays."""

        def each(number: int) -> int:
            made = self.fill(number, 2, local=False)
            forms = [self.form(server, f"{ACCOUNT}/passkeys/{made[server]}", "/remove-passkey")[0] for server in (0, 1)]
            won = self.winner(self.race(*forms), 303, 409)
            self.assertEqual(self.left(), [made[1 - won]])
            return won

        self.rounds(each)

    def test_removal_beside_unlink(self) -> None:
        """A passkey goes, and the password beside it stays although a game unlinks it at the same time.

        In either order: a passkey is no reason to unlink the last other way, so that no order loses both.
        """

        def each(number: int) -> None:
            [only] = self.fill(number, 1, local=True)
            [player] = self.players_of(self.player_id)
            removal, _ = self.form(0, f"{ACCOUNT}/passkeys/{only}", "/remove-passkey")
            host = self.request("/").headers["Host"]
            unlink = Request("DELETE", "/auth/identities/local", {**bearer(player), "Host": host})
            removed, unlinked = self.race(removal, unlink)
            self.assertEqual((removed.status, unlinked.status), (303, 409), unlinked.body)
            self.assertEqual(json.loads(unlinked.body)["code"], "last_identity")
            self.assertEqual(self.left(), [])

        self.rounds(each)

    def players_of(self, player_id: str) -> list[str]:
        """Return an access token of this player, who exists already."""
        signed_in = self.transaction(lambda c, keys: sign_in_with(c, keys, players=[player_id], now_ms=now_ms()))
        return [each.access for each in signed_in]

    @covers("threats/80")
    def test_same_response(self) -> None:
        """One response of a device that both servers get at the same time signs in once."""

        def each(number: int) -> int:
            self.fill(number, 0, local=True)
            device, spoilt = Authenticator(), {"rp_id": "localhost", "client_data": {"origin": self.origin}}
            _, form = self.form(0, f"{ACCOUNT}/passkeys/new", "/add-passkey")
            made = device.create(form["options"], **spoilt)
            self.ask(
                0, self.request(form["action"], {**form["fields"], "passkey_name": "Key", **made}), 200
            )  # and codes
            shown = self.ask(0, Request("GET", ACCOUNT, {"Host": self.request("/").headers["Host"]}), 200)
            form, cookie = Page(shown).form("/account/passkey"), shown.headers["set-cookie"].partition(";")[0]
            posted = self.request(form["action"], {**form["fields"], **device.get(form["options"], **spoilt)})
            posted = replace(posted, headers={**posted.headers, "Cookie": cookie})
            return self.winner(self.race(posted, posted), 303, 200)

        self.rounds(each)

    @covers("threats/82")
    def test_eleventh(self) -> None:
        """Two devices are added to nine: one is the tenth, the other is refused as the eleventh."""

        def each(number: int) -> int:
            self.fill(number, MAX_PASSKEYS - 1, local=True)
            requests = []
            for server in (0, 1):
                _, form = self.form(server, f"{ACCOUNT}/passkeys/new", "/add-passkey")
                device = Authenticator()
                made = device.create(form["options"], rp_id="localhost", client_data={"origin": self.origin})
                requests.append(self.request(form["action"], {**form["fields"], "passkey_name": "Key", **made}))
            won = self.winner(self.race(*requests), 200, (400, 409))  # the page of recovery codes
            self.assertEqual(len(self.left()), MAX_PASSKEYS)
            return won

        self.rounds(each)
