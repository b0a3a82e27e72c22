"""The people of `.ci/first-hour`: the owner and a friend in Chromium, a game of the friend, and the owner's commands.

`python -m tests.walk.first_hour INVITE CERTIFICATE COMMAND...`: INVITE is the link that `gamed setup` printed,
CERTIFICATE that of Caddy's own authority, and COMMAND reads commands of gamed from its standard input, one a line.
"""

import json
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.chromium import ARGUMENTS, PATIENCE_MS, PROGRAM

PASSWORD = "correct horse battery"
SAVE = b"level 3, 41 coins"
CODE = re.compile(r'class="code">([A-Z-]+)<')


class Host:
    """The owner's shell on the host."""

    def __init__(self, command: Sequence[str]) -> None:
        self._shell = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def gamed(self, words: str) -> str:
        """Run a command that has to succeed; return what it prints."""
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(f"{words}\n")
        self._shell.stdin.flush()
        printed: list[str] = []
        for line in self._shell.stdout:
            if line.startswith("exit "):
                if line != "exit 0\n":
                    raise SystemExit(f"gamed {words}: {line}{''.join(printed)}")
                return "".join(printed)
            printed.append(line)
        raise SystemExit(f"gamed {words}: the shell has ended\n{''.join(printed)}")


class Game:
    """A game elsewhere, which trusts Caddy's authority and reaches this machine by the server's name."""

    def __init__(self, base: str, certificate: Path) -> None:
        self._host, self._tls = urlsplit(base).hostname or "", ssl.create_default_context(cafile=certificate)
        self.token = ""

    def ask(self, method: str, path: str, body: object = None, token: str = "", **fields: str) -> tuple[int, bytes]:
        connection = HTTPSConnection("127.0.0.1", 443, timeout=30, context=self._tls)
        with closing(connection):
            plain = connection._create_connection(("127.0.0.1", 443), 30)  # type: ignore[attr-defined]
            connection.sock = self._tls.wrap_socket(plain, server_hostname=self._host)
            sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            head = {"Host": self._host, "Content-Type": "application/json", **fields}
            if token or self.token:
                head["Authorization"] = f"Bearer {token or self.token}"
            connection.request(method, path, sent, head)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def json(self, *request: Any, **more: str) -> Any:
        status, body = self.ask(*request, **more)
        if status >= 300:
            raise SystemExit(f"{request[:2]}: {status} {body!r}")
        return json.loads(body)


def create_account(browser: Browser, link: str, name: str) -> None:
    """Open an invite, choose a name and a password, and get to the account's page."""
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(link)
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    page.get_by_role("button", name="Sign out", exact=True).first.wait_for(timeout=PATIENCE_MS)
    context.close()


def sign_in(browser: Browser, link: str, name: str) -> str:
    """Sign in at the link of a game; return the code that the page shows."""
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(link)
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.locator(".code").first.wait_for(timeout=PATIENCE_MS)
    code = page.locator(".code").first.inner_text()
    context.close()
    return code.strip()


def open_owner_page(browser: Browser, base: str) -> Page:
    """Sign in as the owner on the owner's page, and open the friend's."""
    page = browser.new_context(ignore_https_errors=True).new_page()
    page.goto(f"{base}/auth/owner")
    page.get_by_label("Name", exact=True).fill("Anna")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="People").click()
    page.get_by_role("link", name="Open: Bo").click()
    return page


def main(invite: str, certificate: Path, command: Sequence[str]) -> None:
    began, host = time.monotonic(), Host(command)
    base = f"https://{urlsplit(invite).netloc}"

    def done(text: str) -> None:
        nonlocal began
        print(f"       {time.monotonic() - began:6.1f} s  {text}", flush=True)
        began = time.monotonic()

    with sync_playwright() as playwright:
        rules = f"--host-resolver-rules=MAP {urlsplit(base).hostname} 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=[*ARGUMENTS, rules])
        create_account(browser, invite, "Anna")
        host.gamed("owner claim Anna")
        done("the owner opens the invite, creates an account, and becomes the owner")
        link = host.gamed("players invite --name Bo").splitlines()[0]
        create_account(browser, link, "Bo")
        done("the owner invites a friend, who creates an account")
        game = Game(base, certificate)
        login = game.json("POST", "/auth/login", {"client": {"name": "Garden"}})
        code = sign_in(browser, login["login_url"], "Bo")
        session = game.json("POST", "/auth/login/collect", {"finish_code": code}, login["device_secret"])
        game.token = session["access_token"]
        game.json("PUT", "/game/saves/auto", SAVE, **{"If-None-Match": "*", "Content-Type": "text/plain"})
        if game.ask("GET", "/game/saves/auto") != (200, SAVE):
            raise SystemExit("the save is not there")
        done("the friend's game signs in with Chromium, stores a save, and loads it")
        first = game.ask("PUT", "/game/saves/auto", b"level 1", **{"If-Match": "*", "Content-Type": "text/plain"})
        if first[0] != 200:
            raise SystemExit(f"the second save: {first}")
        page = open_owner_page(browser, base)
        page.get_by_role("link", name="Show saves").click()
        page.get_by_role("link", name="Versions").first.click()
        page.get_by_role("button", name="Restore: Version 1").click()
        page.get_by_text("The save is restored.").wait_for(timeout=PATIENCE_MS)
        if game.ask("GET", "/game/saves/auto") != (200, SAVE):
            raise SystemExit("the save is not the restored one")
        done("on the page the owner restores the friend's save")
        page = open_owner_page(browser, base)
        page.get_by_role("button", name="Block", exact=True).click()
        page.get_by_text("Blocked.").wait_for(timeout=PATIENCE_MS)
        if (status := game.ask("GET", "/game/saves/auto")[0]) not in (401, 403):
            raise SystemExit(f"a blocked player gets {status}")
        page.get_by_role("button", name="Unblock", exact=True).click()
        page.get_by_text("Unblocked.").wait_for(timeout=PATIENCE_MS)
        done("on the page the owner blocks the friend, whose game is refused, and unblocks")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
