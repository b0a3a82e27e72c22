"""The server's address shows a page to a browser, and to a program that there is nothing."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.account.home_routes import HomeRoutes
from gamed.crypto import Indexer
from gamed.http.background import ShieldedTasks
from gamed.login.browser_routes import PageResponder
from gamed.login.csrf import BrowserGuard
from gamed.pages.languages import Languages
from gamed.pages.render import PageRenderer
from tests.support.http import START_MS, Answer, Browser

CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
HOME = ("/", "/auth/")


class HomeTests(SynchronousTestCase):
    def setUp(self) -> None:
        guard = BrowserGuard(indexer=Indexer(b"k" * 32), random=bytes, secure=True)
        parts = (lambda: START_MS, ShieldedTasks(), PageRenderer(), Languages())
        pages = PageResponder(guard, lambda: "https://game.example", "Anna's <server>", *parts)
        self.browser = Browser([HomeRoutes(pages=pages)])

    def get(self, path: str, accept: str | None) -> Answer:
        return self.browser.request("GET", path, {} if accept is None else {"Accept": accept})

    def test_browser(self) -> None:
        """A browser gets a page with the server's name, its address and a link to the player's account."""
        for path in HOME:
            answer = self.get(path, CHROMIUM)
            self.assertEqual((answer.status, answer.headers["content-type"]), (200, "text/html; charset=utf-8"))
            for part in (b"Anna&#39;s &lt;server&gt;", b"https://game.example</p>", b'href="/auth/account"'):
                self.assertIn(part, answer.body)
            self.assertEqual(answer.headers["vary"], "Accept, Accept-Language, Cookie")
            self.assertEqual(answer.headers["cache-control"], "no-store")
            self.assertIn("default-src 'none'", answer.headers["content-security-policy"])

    def test_program(self) -> None:
        """A program gets the problem that it got before there was a page."""
        for path in HOME:
            for accept in (None, "*/*", "application/json", "text/*", "text/html;q=0, application/json"):
                self.assertEqual((self.get(path, accept).status, self.get(path, accept).code), (404, "route_not_found"))

    def test_other_methods(self) -> None:
        """Other methods are refused with a problem that a program can read."""
        for path in HOME:
            for method in ("POST", "PUT", "DELETE"):
                answer = self.browser.request(method, path, {"Accept": CHROMIUM})
                self.assertEqual((answer.code, answer.headers["allow"]), ("method_not_allowed", "GET"))

    def test_neighbours(self) -> None:
        """Other paths have no page."""
        for path in ("/auth", "/index.html", "//", "/auth//"):
            self.assertEqual(self.get(path, CHROMIUM).code, "route_not_found")
