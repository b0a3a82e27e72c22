"""The browser opens the app that started a sign-in, as Chromium does it (docs/protocol.md: Collect; RFC 8252 7)."""

import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from cryptography.x509 import IPAddress
from playwright.sync_api import Page

from tests.e2e.cases import NAME, PASSWORD, QUICK, Player, ServiceCase
from tests.e2e.chromium import PATIENCE_MS, Window
from tests.e2e.providers import DISCORD, ProviderCase
from tests.e2e.service import free_port
from tests.e2e.test_providers import at_development
from tests.support.certificates import certificate
from tests.support.covers import covers

SCHEME = "com.example.game:/signin?from=gamed"
SITE_PORT = free_port()
SITE = f"https://127.0.0.1:{SITE_PORT}"
BUTTON = "Back to the game"


class Site:
    """An app's own site; `visits` are the requested paths with their Referer."""

    def __init__(self, folder: Path) -> None:
        visits: list[tuple[str, str | None]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/x"):
                    visits.append((self.path, self.headers["Referer"]))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"<title>The app's site</title>")

            def log_message(self, *_: object) -> None:
                pass

        self.visits = visits
        self._server = ThreadingHTTPServer(("127.0.0.1", SITE_PORT), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(folder, IPAddress(IPv4Address("127.0.0.1"))))
        options = {"server_side": True, "do_handshake_on_connect": False}  # one that waits must not delay the next
        self._server.socket = context.wrap_socket(self._server.socket, **options)
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


APP_LINKS = {"app_links": ["com.example.game:", SITE]}


class AppCase(ServiceCase):
    """A test with an app that is opened by the browser."""

    def asked(self, window: Window, start: str) -> list[tuple[str, str]]:
        """Return a list that gets the cause and the address of each navigation to an address beginning with `start`."""
        asked: list[tuple[str, str]] = []

        def add(event: dict[str, str]) -> None:
            if event["url"].startswith(start):
                asked.append((event["reason"], event["url"]))

        def listen(page: Page) -> None:
            session = page.context.new_cdp_session(page)
            session.send("Page.enable")
            session.on("Page.frameRequestedNavigation", add)

        window.step(listen)
        return asked

    def collected(self, login: dict, url: str) -> dict:
        """Collect with the ticket of an address, as an opened app does."""
        query = parse_qs(urlsplit(url).query)
        self.assertEqual(query["login_id"], [login["login_id"]])
        return self.collect(login, ticket=query["ticket"][0]).json

    def signed_in(self, uri: str) -> tuple[Window, dict, list[tuple[str, str]]]:
        """Return a window on the page with the button, the login, and the navigations to the app."""
        window, login = self.window(), self.start(return_uri=uri)
        asked = self.asked(window, uri)
        window.open(login["login_url"])
        window.create_account(NAME, PASSWORD)
        window.wait_for("Go back to the game")
        return window, login, asked


class ProviderTests(ProviderCase, AppCase):
    intervals: ClassVar = None
    stands: ClassVar = (DISCORD,)

    def configuration(self) -> dict[str, object]:
        return {**super().configuration(), "login": APP_LINKS}

    def test_provider(self) -> None:
        """The page is shown before the provider, also on the starter's machine; afterwards the button opens the app."""
        window, login = self.window(), self.start(provider="discord", return_uri=SCHEME)
        asked = self.asked(window, SCHEME)
        window.open(login["login_url"])
        self.assertEqual(window.url, login["login_url"])
        self.assertEqual(self.recorders["discord"].exchanges, [])
        window.press("Continue with Discord")
        at_development(window, "Anna")()
        window.press(BUTTON)
        [url] = {url for _, url in asked}
        self.assertEqual(self.collected(login, url)["provider"], "discord")


class HttpsTests(AppCase):
    """An https address, for a service whose pages would navigate by themselves at once."""

    intervals: ClassVar = QUICK
    config: ClassVar = {"mode": "local", "login": APP_LINKS}

    def test_https(self) -> None:
        """The page does not navigate there by itself; after a tap the app's site gets the ticket and no Referer."""
        site = Site(self.folder)
        self.addCleanup(site.close)
        window, login, asked = self.signed_in(f"{SITE}/x")
        window.step(lambda page: page.wait_for_timeout(1000))
        self.assertEqual((asked, site.visits), ([], []))
        window.press(BUTTON)
        window.step(lambda page: page.wait_for_url(f"{SITE}/x**"))
        [(path, referer)] = site.visits
        self.assertIsNone(referer)
        self.assertEqual(self.collected(login, path)["status"], "complete")


class LocalTests(AppCase):
    """Sign-ins in local mode; the page with the button stays for its real time."""

    config: ClassVar = {"mode": "local", "login": APP_LINKS}

    @covers("threats/66")
    def test_page_first(self) -> None:
        """The link shows the page with the device and "This was not me", on the starter's machine, too."""
        window, login = self.window(), self.start(return_uri=SCHEME, client={"name": "MyGame"})
        window.open(login["login_url"])
        self.assertIn("MyGame", window.text)
        self.assertIn("This was not me", window.text)

    def test_scheme(self) -> None:
        """A tap on the button navigates to the app's scheme, and the page stays; the ticket collects once."""
        window, login, asked = self.signed_in(SCHEME)
        where = window.url
        window.press(BUTTON)
        [(reason, url)] = [each for each in asked if each[0] == "anchorClick"]
        self.assertTrue(url.startswith(f"{SCHEME}&login_id="), url)
        self.assertEqual((reason, window.url), ("anchorClick", where))
        self.assertEqual(self.collected(login, url)["status"], "complete")
        window.step(lambda page: page.reload())
        window.wait_for("You can go back to the game")
        self.assertFalse(window.has_code())

    def test_by_itself(self) -> None:
        """After two seconds the page navigates to the scheme by itself, and stays if the browser opens no app."""
        window, login, asked = self.signed_in(SCHEME)
        ends = monotonic() + PATIENCE_MS / 1000
        while not asked and monotonic() < ends:
            window.step(lambda page: page.wait_for_timeout(100))
        [(reason, url)] = asked
        self.assertEqual(reason, "httpHeaderRefresh")
        self.assertIn(BUTTON, window.text)
        self.assertEqual(self.collected(login, url)["status"], "complete")

    def test_client(self) -> None:
        """The reference client signs in with the address that its app was opened with, and ignores a foreign one."""
        client, window = self.client(), self.window()
        asked = self.asked(window, SCHEME)

        def tap() -> None:
            window.press(BUTTON)
            [url] = {url for _, url in asked}
            self.assertFalse(client.returned(url.replace("login_id=lgn_", "login_id=lgn_x")))
            self.assertFalse(client.returned(url.replace("com.example.game", "com.example.other")))
            self.assertTrue(client.returned(url))

        browser = self.opens(window, lambda: window.create_account(NAME, PASSWORD), tap)
        client.sign_in(Player(), open_browser=browser, return_uri=SCHEME)
        self.assertTrue(client.signed_in)

    def test_code(self) -> None:
        """The page has a link to the code for an app that does not open."""
        window, login, _ = self.signed_in(SCHEME)
        window.press("Show me a code")
        self.assertEqual(self.collect(login, finish_code=window.code()).json["status"], "complete")
