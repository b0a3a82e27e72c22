"""Two machines whose clocks are 20 seconds apart serve one player (docs/owners/postgresql.md: Several machines)."""

import os
from collections.abc import Callable
from secrets import token_bytes
from typing import Any
from urllib.parse import urlencode, urlsplit

from gamed.cli.context import CommandContext
from gamed.clock import now_ms
from gamed.crypto import Keys, Secret
from gamed.database.connection import Connection
from gamed.players import owner_tables, tables
from gamed.players.model import CodeCheck
from gamed.players.passwords import hash_password
from tests.e2e.providers import KEY
from tests.e2e.service import Service
from tests.e2e.wire import Answer
from tests.login.browser_fixtures import Page
from tests.login.test_browser_routes import code
from tests.processes.cases import MASTER_KEY, collect
from tests.processes.hosts import TwoHosts
from tests.processes.wire import Request, json_request
from tests.support.covers import covers

HOME = "/auth/account"
OLD, NEW, NEWER = "correct horse", "a battery staple", "a third password"
BEHIND_MS = -20_000
"""The clock of the second machine; those of the first one, of PostgreSQL and of the commands are right."""


class DifferentClocks(TwoHosts):
    """A player with a password, who is the owner, and browsers that ask either machine."""

    def make_server(self, number: int) -> Service:
        admin = f"--admin=tcp:{self.admin_ports[number]}:interface=127.0.0.1"
        folder, clock_ms = self.folder / f"host-{number}", (0, BEHIND_MS)[number]
        return Service(folder, None, self.environ, arguments=(admin,), clock_ms=clock_ms)

    def start(self) -> None:
        super().start()
        self.transaction(self._fill)

    def _fill(self, connection: Connection, keys: Keys) -> None:
        player = {"player_id": f"ply_{'A' * 22}", "name": "Anna", "password": hash_password(Secret(OLD.encode()))}
        tables.add_local_player(connection, keys, **player, now_ms=now_ms() - 3_600_000)
        tables.set_owner(connection, player["player_id"])

    def transaction(self, work: Callable[[Connection, Keys], Any]) -> Any:
        os.environ[MASTER_KEY] = KEY  # a command erases it
        databases = CommandContext(str(self.config), str(self.servers[0].data), development=False).open()
        try:
            return databases.write(work)
        finally:
            databases.store.close()

    def ready(self, server: int, password: str) -> Request:
        """Type a password into the page of a new login; return the request that collects it."""
        browser = CookieBrowser(self)
        login = self.ask(server, json_request("POST", "/auth/login", {}), 201).json
        form = Page(browser.get(server, login["login_url"])).form("/local")
        done = browser.post(server, form, name="Anna", password=password)
        return collect(login, finish_code=code(Page(browser.get(server, done.headers["location"]))))

    @covers("threats/89")
    def test_old_password(self) -> None:
        """A sign-in with a password that another machine has changed since opens no session, and the new one does."""
        for typed, old, new in ((0, OLD, NEW), (1, NEW, NEWER)):
            begun = [self.ready(typed, old) for _ in (0, 1)]
            browser = CookieBrowser(self)
            browser.sign_in(1 - typed, old)
            form = Page(browser.get(1 - typed, HOME)).form("/password")
            self.assertEqual(browser.post(1 - typed, form, old=old, new=new).status, 303)
            for server in (0, 1):
                answer = self.ask(server, begun[server], 200).json
                self.assertEqual((answer["status"], answer["problem"]["code"]), ("failed", "session_revoked"))
                answer = self.ask(server, self.ready(server, new), 200).json
                self.assertEqual(answer["status"], "complete", (typed, server, answer))

    def test_account(self) -> None:
        """A browser that signed in at one machine is signed in at the other one at once."""
        for server in (0, 1):
            browser = CookieBrowser(self)
            browser.sign_in(server, OLD)
            self.assertEqual(Page(browser.get(1 - server, HOME)).heading, "Hello, Anna")

    def test_confirmation_code(self) -> None:
        """A code of a command is right at a machine whose clock is behind."""
        made = owner_tables.ConfirmationCode.generate(token_bytes, now_ms())
        self.transaction(lambda c, keys: owner_tables.store_code(c, keys.indexer, made))
        at_ms = now_ms() + BEHIND_MS
        used = self.transaction(lambda c, keys: owner_tables.use_code(c, keys.indexer, made.code, at_ms))
        self.assertIs(used, CodeCheck.RIGHT)


class CookieBrowser:
    """A browser that keeps all its cookies, and follows no redirect by itself."""

    def __init__(self, case: DifferentClocks) -> None:
        self._case = case
        self._cookies: dict[str, str] = {}

    def get(self, server: int, url: str) -> Answer:
        parts = urlsplit(url)
        return self._ask(server, "GET", parts.path + (f"?{parts.query}" if parts.query else ""), b"", {})

    def post(self, server: int, form: dict[str, Any], **typed: str) -> Answer:
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        return self._ask(server, "POST", form["action"], urlencode({**form["fields"], **typed}).encode(), kind)

    def sign_in(self, server: int, password: str) -> None:
        """Sign in to the account at this machine."""
        sent = self.post(server, Page(self.get(server, HOME)).form("/sign-in"), name="Anna", password=password)
        while sent.status == 303:
            sent = self.get(server, sent.headers["location"])

    def _ask(self, server: int, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        headers |= {"Sec-Fetch-Dest": "document", **({"Cookie": cookies} if cookies else {})}
        answer = self._case.ask(server, Request(method, path, headers, body))
        name, _, value = answer.headers.get("set-cookie", "").partition(";")[0].partition("=")
        if value:
            self._cookies[name] = value
        return answer
