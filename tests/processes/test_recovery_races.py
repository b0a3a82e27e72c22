"""Two servers get one recovery code: it opens one session (docs/protocol.md: Accounts)."""

from base64 import b64decode
from collections.abc import Callable
from contextlib import closing
from secrets import token_bytes
from typing import Any

from gamed.cli import keys
from gamed.clock import now_ms
from gamed.crypto import Keys, Secret
from gamed.database.connection import AUTH, Connection
from gamed.passkeys import recovery_tables, ways_tables
from gamed.passkeys.limits import CODES
from gamed.passkeys.recovery_rules import RecoveryCodes, code_index
from gamed.players.tables import add_local_player
from gamed.sessions import browser_tables
from gamed.sessions.browser_rules import BrowserName, NewBrowserSession
from tests.e2e.wire import Answer
from tests.login.browser_fixtures import Page
from tests.login.test_browser_routes import code
from tests.passkeys.recovery_fixtures import shown_codes
from tests.processes.cases import ScriptedBrowser, SharedCase, collect
from tests.processes.wire import Request, json_request
from tests.support.covers import covers
from tests.support.stores import MASTER_KEY, POSTGRESQL, store_of

ANNA = f"ply_{'A' * 22}"
ACCOUNT = "/auth/account"


class RecoveryRaces(SharedCase):
    """A player with ten codes, and two games that sign in with one of them."""

    def start(self) -> None:
        super().start()
        key = Secret(b64decode(MASTER_KEY)) if POSTGRESQL else keys.read(self.servers[0].data)
        assert key is not None
        self.keys = Keys.of(key, token_bytes)
        self.run_transaction(self.add_anna)

    def run_transaction(self, transaction: Callable[[Connection], Any]) -> Any:
        with closing(store_of(self.servers[0].data)) as store:
            return store.run_transaction(AUTH, transaction)

    def add_anna(self, connection: Connection) -> None:
        add_local_player(connection, self.keys, player_id=ANNA, name="Anna", password="x", now_ms=1)

    def new_codes(self) -> RecoveryCodes:
        new = RecoveryCodes.generate(token_bytes)
        self.run_transaction(lambda c: recovery_tables.replace(c, self.keys.indexer, ANNA, new, 1))
        return new

    def left(self) -> int:
        found: int = self.run_transaction(lambda c: ways_tables.count_codes(c, ANNA))
        return found

    def typed(self, server: int, recovery_code: str) -> Request:
        """Type a code into the page of a new login; return the request that collects it."""
        browser = ScriptedBrowser(self)
        login = self.ask(server, json_request("POST", "/auth/login", {}), 201).json
        form = Page(browser.visit(server, login["login_url"])).form("/recovery")
        fields = {**form["fields"], "name": "anna", "recovery_code": recovery_code}
        sent = browser.visit(1 - server, form["action"], fields)
        self.assertEqual(sent.status, 303, sent.body)
        return collect(login, finish_code=code(Page(browser.visit(server, sent.headers["location"]))))

    @covers("threats/83")
    def test_same_code(self) -> None:
        """Two games with one code at two servers: one gets a session, and one code is used up."""

        def each(number: int) -> int:
            typed = self.new_codes().codes[number % CODES]
            answers = self.race(self.typed(0, typed), self.typed(1, typed))
            self.assertEqual(self.left(), CODES - 1)
            return self.won(answers)

        self.rounds(each)

    def test_replaced_meanwhile(self) -> None:
        """A code that was replaced before the game collected, through another server, opens no session."""
        for number in range(CODES):
            request = self.typed(number % 2, self.new_codes().codes[number])
            self.new_codes()
            answer = self.ask(number % 2, request, 200).json
            self.assertEqual((answer["status"], answer["problem"]["code"]), ("failed", "session_revoked"))
            self.assertEqual(self.left(), CODES)

    @covers("threats/83")
    def test_same_code_in_two_browsers(self) -> None:
        """Two browsers with one code at two servers: one is signed in to the account, and one code is used up."""

        def done(server: int, recovery_code: str) -> Request:
            browser = ScriptedBrowser(self)
            form = Page(browser.visit(server, ACCOUNT)).form("/account/recovery")
            fields = {**form["fields"], "name": "anna", "recovery_code": recovery_code}
            sent = browser.visit(1 - server, form["action"], fields)
            self.assertEqual(sent.status, 303, sent.body)
            return browser.request(browser.visit(server, sent.headers["location"]).headers["location"])

        def each(number: int) -> int:
            typed = self.new_codes().codes[number % CODES]
            answers = self.race(done(0, typed), done(1, typed))
            self.assertEqual(self.left(), CODES - 1)
            return self.winner(answers, 303, 200)

        self.rounds(each)

    def test_made_at_two_servers(self) -> None:
        """One form that makes codes, sent to two servers, makes ten: those that a page shows."""

        def each(number: int) -> int:
            browser = ScriptedBrowser(self)
            browser.cookie = self.run_transaction(self.open_browser)
            form = Page(browser.visit(number % 2, f"{ACCOUNT}/codes")).form("/make-codes")
            answers = self.race(*(browser.request(form["action"], form["fields"]) for _ in self.servers))
            won = self.winner(answers, 200, 303)
            indexes = {code_index(self.keys.indexer, ANNA, each) for each in shown_codes(Page(answers[won]))}
            stored = self.run_transaction(lambda c: c.rows("SELECT code_index FROM recovery_code"))
            self.assertEqual((len(indexes), {bytes(index) for (index,) in stored}), (CODES, indexes))
            return won

        self.rounds(each)

    def open_browser(self, connection: Connection) -> str:
        """Sign a browser of the player in, who has no codes and may make some; return its cookie."""
        ways_tables.delete_codes(connection, ANNA)
        connection.execute("DELETE FROM limit_bucket")
        browser = NewBrowserSession.generate(token_bytes, BrowserName())
        named = {"player_id": ANNA, "provider": "local", "verified": True}
        browser_tables.open_browser(connection, self.keys.indexer, browser, **named, now_ms=now_ms())
        return f"ga={browser.token.reveal().decode()}"

    def won(self, answers: list[Answer]) -> int:
        """Return the server whose game got the session; check both answers."""
        self.assertEqual([answer.status for answer in answers], [200, 200], answers)
        [won] = [number for number, answer in enumerate(answers) if answer.json["status"] == "complete"]
        self.assertEqual(answers[won].json["player"]["id"], ANNA)
        self.assertEqual(answers[1 - won].json["problem"]["code"], "session_revoked")
        return won
